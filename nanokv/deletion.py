"""Projected deletion: how far the attention output moves when a key is removed (LORE-KV, arXiv 2610.07643, Eqs. 5-6).

    Δo = a / (1 - a + ε) (v - o),    e = ‖W_O Δo‖

A chunk C of adjacent tokens is deleted at once, exactly, as one key of weight Â = Σ a and value v̂ = Σ a v / Â. With
û = Σ a v the same reads Δo = (û - Â o) / (1 - Â + ε), and through the Gram matrix G = W_Oᵀ W_O of a head

    ‖W_O (û - Â o)‖² = ûᵀGû - 2 Â oᵀGû + Â² oᵀGo

where every term is a product of attention weights with matrices of keys x keys inside a chunk or queries x keys:
no tensor of queries x keys x width exists.
"""

import torch
from einops import rearrange, repeat
from torch.nn.functional import pad

from nanokv.config import Config
from nanokv.model import Layer

EPS = 1e-6


def output_slices(cfg: Config, w: Layer):
    """W_O of each query head, float32 [h g e d]."""
    return rearrange(w.w_o.float(), "e (h g d) -> h g e d", h=cfg.n_kv_head, d=cfg.d_head)


def gram(w_o):
    """G = W_Oᵀ W_O per query head: [h g e d] -> [h g d d]."""
    return torch.einsum("hged,hgec->hgdc", w_o, w_o)


def in_chunks(x, size: int):
    """Cut the last axis into chunks, zeros behind: [... s] -> [... C c]."""
    short = -x.shape[-1] % size
    return rearrange(pad(x, (0, short)), "... (C c) -> ... C c", c=size)


def deletion_effect(a, v, o, G, size: int = 1, inside=None):
    """e of every query and chunk of `size` neighbouring keys: float32 [h g t C].

    a [h g t s] attention of the deletable keys (its rows need not sum to 1: other keys may hold the rest), v [h s d]
    their values, o [h g t d] the full output, G [h g d d]. `inside` is `chunk_gram(v, G, size)`, the same for all
    queries, where the caller has it already.
    """
    a = a.clamp(max=1 - EPS)
    Go = torch.einsum("hgdc,hgtc->hgtd", G, o)
    oGv = torch.einsum("hgtd,hsd->hgts", Go, v)
    oGo = (Go * o).sum(dim=-1)[..., None]  # [h g t 1]
    A = in_chunks(a, size)  # [h g t C c]
    mass = A.sum(dim=-1).clamp(max=1 - EPS)  # Â [h g t C]
    inside = chunk_gram(v, G, size) if inside is None else inside  # [h g C c c]
    uGu = (torch.einsum("hgtCc,hgCck->hgtCk", A, inside) * A).sum(dim=-1)
    oGu = in_chunks(a * oGv, size).sum(dim=-1)
    square = uGu - 2 * mass * oGu + mass.square() * oGo
    return square.clamp(min=0).sqrt() / (1 - mass + EPS)


def chunk_gram(v, G, size: int):
    """v_iᵀ G v_j for the pairs inside each chunk: v [h s d], G [h g d d] -> [h g C c c]."""
    short = -v.shape[1] % size
    V = rearrange(pad(v, (0, 0, 0, short)), "h (C c) d -> h C c d", c=size)
    GV = torch.einsum("hgdk,hCck->hgCcd", G, V)
    return torch.einsum("hCcd,hgCkd->hgCck", V, GV)


def deletion_by_query(a, v, o, w_o, size: int = 1, norm: str = "l2", sum_before_norm: bool = False):
    """The same by the book, one query at a time, also with the L1 norm, or with a group's heads summed before the norm
    (a kv row is deleted for all of them at once): [h g t C], or [h 1 t C]. w_o [h g e d]."""
    p = {"l1": 1, "l2": 2}[norm]
    effects = []
    for t in range(a.shape[2]):
        A = in_chunks(a[:, :, t], size)  # [h g C c]
        V = rearrange(in_chunks(v.mT, size), "h d C c -> h C c d")
        mass = A.sum(dim=-1).clamp(max=1 - EPS)[..., None]  # [h g C 1]
        u = torch.einsum("hgCc,hCcd->hgCd", A, V)
        delta = (u - mass * o[:, :, t, None]) / (1 - mass + EPS)  # Δo [h g C d]
        moved = torch.einsum("hgCd,hged->hgCe", delta, w_o)
        moved = moved.sum(dim=1, keepdim=True) if sum_before_norm else moved
        effects.append(moved.norm(p=p, dim=-1))
    return torch.stack(effects, dim=2)


def back_to_slots(per_chunk, size: int, n: int):
    """A chunk's number for each of its keys: [... C] -> [... s]."""
    return repeat(per_chunk, "... C -> ... (C c)", c=size)[..., :n]
