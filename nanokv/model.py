"""Weights as plain data, and the parts of one layer as plain functions. The passes (passes.py) put them together."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange

from nanokv.config import Config
from nanokv.products import linear
from nanokv.rope import angles, query_scale, rotate


@dataclass
class Layer:
    """One layer's tensors, [out, in] as stored; None where the family has no such bias or norm."""

    norm_attn: torch.Tensor  # [e]
    w_q: torch.Tensor  # [(h g d) e]
    w_k: torch.Tensor  # [(h d) e]
    w_v: torch.Tensor  # [(h d) e]
    w_o: torch.Tensor  # [e (h g d)]
    norm_mlp: torch.Tensor  # [e]
    w_gate: torch.Tensor  # [f e]
    w_up: torch.Tensor  # [f e]
    w_down: torch.Tensor  # [e f]
    b_q: torch.Tensor | None = None
    b_k: torch.Tensor | None = None
    b_v: torch.Tensor | None = None
    b_o: torch.Tensor | None = None
    b_gate: torch.Tensor | None = None
    b_up: torch.Tensor | None = None
    b_down: torch.Tensor | None = None
    norm_q: torch.Tensor | None = None  # [d], Qwen3
    norm_k: torch.Tensor | None = None  # [d], Qwen3


@dataclass
class Weights:
    """`embed` [v e], `layers`, the final `norm` [e], `unembed` [v e] (the same tensor as embed when tied)."""

    embed: torch.Tensor
    layers: list
    norm: torch.Tensor
    unembed: torch.Tensor
    inv_freq: torch.Tensor  # [d/2], float32 whatever the rest is


def norm(x, weight, eps: float):
    """Root-mean-square norm over the last axis: float32, cast back, then the weight."""
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(dim=-1, keepdim=True) + eps)
    return y.to(x.dtype) * weight


def turns(weights: Weights, cfg: Config, pos):
    """((cos, sin) for queries, (cos, sin) for keys) at positions pos [t]; float32 [t d/2] each."""
    cos, sin = angles(weights.inv_freq, pos, cfg.rope.attention_factor)
    if not cfg.rope.q_scale_beta:
        return (cos, sin), (cos, sin)
    scale = query_scale(cfg.rope, pos)[:, None]
    return (cos * scale, sin * scale), (cos, sin)


def queries(cfg: Config, w: Layer, a, turn):
    """a [b t e], already normed -> q [b h g t d], rotated."""
    q = linear(a, w.w_q, w.b_q)
    q = rearrange(q, "b t (h g d) -> b h g t d", h=cfg.n_kv_head, d=cfg.d_head)
    if cfg.qk_norm:
        q = norm(q, w.norm_q, cfg.norm_eps)
    return rotate(q, *turn)


def keys(cfg: Config, w: Layer, a, turn):
    """a [b t e], already normed -> k [b h t d], rotated."""
    k = linear(a, w.w_k, w.b_k)
    k = rearrange(k, "b t (h d) -> b h t d", d=cfg.d_head)
    if cfg.qk_norm:
        k = norm(k, w.norm_k, cfg.norm_eps)
    return rotate(k, *turn)


def values(cfg: Config, w: Layer, a):
    """a [b t e], already normed -> v [b h t d]."""
    v = linear(a, w.w_v, w.b_v)
    return rearrange(v, "b t (h d) -> b h t d", d=cfg.d_head)


def project(w: Layer, z):
    """z [b h g t d] -> what attention adds to the residual stream, [b t e]."""
    return linear(rearrange(z, "b h g t d -> b t (h g d)"), w.w_o, w.b_o)


def mlp(w: Layer, m):
    """m [b t e], already normed -> what the mlp adds to the residual stream, [b t e]."""
    gate = F.silu(linear(m, w.w_gate, w.b_gate), inplace=True)
    up = linear(m, w.w_up, w.b_up)
    return linear(up.mul_(gate), w.w_down, w.b_down)  # in place: [b t f] is the largest thing a layer makes


def unembed(weights: Weights, x):
    """x [b t e], after the final norm -> logits [b t v] float32."""
    rows = x.flatten(0, 1)  # as a slice of a longer [b t e] torch would copy the whole matrix
    return linear(rows, weights.unembed).float().unflatten(0, x.shape[:2])
