"""Head-level scores from the attention of the newest prompt queries (the observation window), one function a method.

All per kv head: the query heads of a group are combined by the mean after softmax (`reduce="max"` as the option), and
a [b h s] per layer comes back. Window and sinks are protected by the preset; pooling runs over the slots in between.
"""

from typing import Literal

import torch
import torch.nn.functional as F

from nanokv import UserError
from nanokv.buffer import view
from nanokv.deletion import back_to_slots, in_chunks, output_slices
from nanokv.evict import protected, rank
from nanokv.products import linear
from nanokv.scores import over_group, window_probs


def snapkv(
    weights,
    cfg,
    kv,
    seen,
    *,
    window=32,
    kernel=7,
    pool: Literal["max", "avg"] = "max",
    reduce: Literal["mean", "max"] = "mean",
):
    """SnapKV (arXiv 2404.14469, Sec. 4): window attention, summed over its queries, pooled over neighbours."""
    return [attention(cfg, kv, seen, layer, kernel, pool, reduce) for layer in range(cfg.n_layer)]


def attention(cfg, kv, seen, layer, kernel, pool, reduce):
    """Pooled attention of the window on everything older than it; what is in the window gets 0. [b h s]"""
    probs = window_probs(cfg, kv, seen, layer)  # [b h g w s]
    received = over_group(probs, reduce).sum(dim=2)  # [b h s]
    pos = view(kv, layer)[2].expand(received.shape)
    older = (pos >= 0) & (pos < kv.n_seen - probs.shape[3])
    return pooled(received * older, kernel, pool) * older


def pooled(x, kernel: int, pool: str):
    """1-D pooling over the last axis, stride 1, same length; an average counts the zeros beyond the ends. [... s]"""
    if kernel % 2 == 0 or pool not in ("max", "avg"):
        raise UserError(f"pool is max or avg over an odd kernel, not {pool!r} over {kernel}")
    if kernel == 1:
        return x
    f = F.max_pool1d if pool == "max" else F.avg_pool1d
    return f(x.flatten(0, -2), kernel, stride=1, padding=kernel // 2).reshape(x.shape)


def criticalkv(
    weights,
    cfg,
    kv,
    seen,
    *,
    window=32,
    kernel=7,
    pool: Literal["max", "avg"] = "max",
    reduce: Literal["mean", "max"] = "mean",
    first_stage=0.5,
    stage_of: Literal["free", "budget"] = "free",
):
    """CriticalKV (arXiv 2502.03805) over SnapKV's score, here a mean over the window: `finish_criticalkv` adds 1e-4."""
    if stage_of not in ("free", "budget") or not 0 <= first_stage <= 1:
        raise UserError(f"stage_of is free or budget, first_stage a share; not {stage_of!r}, {first_stage}")
    sums = snapkv(weights, cfg, kv, seen, window=window, kernel=kernel, pool=pool, reduce=reduce)
    return [s / seen.record["q"][layer].shape[3] for layer, s in enumerate(sums)]


def finish_criticalkv(
    weights, cfg, kv, seen, scores, counts, must, *, first_stage=0.5, stage_of: Literal["free", "budget"] = "free"
):
    """Each head's first rows by the base score, the rest by (score + 1e-4) x mean over the group of ‖W_O v‖₁.

    The first stage is the share `first_stage` of a head's unprotected rows ("free"), or of all its rows, protected
    ones counted ("budget", as the authors' code in kvpress does).
    """
    finished = []
    for layer, s in enumerate(scores):
        value_norm = projected_value_norm(weights, cfg, kv, layer)
        second = (s + 1e-4) * value_norm
        n_must = must[layer].sum(dim=-1)  # [b h]
        free = counts[layer] - n_must
        n_first = (first_stage * counts[layer]).long() - n_must if stage_of == "budget" else (first_stage * free).long()
        first = rank(s, ~must[layer]) < n_first[..., None]
        finished.append(torch.where(first, torch.inf, second))
    return finished


def projected_value_norm(weights, cfg, kv, layer: int, rows=512):
    """Mean over the group of ‖W_O v‖₁ for each row: [b h s]; `rows` rows of one query head at a time."""
    v = view(kv, layer)[1][0].float()  # [h s d]
    w_o = output_slices(cfg, weights.layers[layer]).contiguous()  # [h g e d]
    norms = v.new_zeros(v.shape[:2])
    for h in range(cfg.n_kv_head):
        for g in range(cfg.n_group):
            blocks = [linear(some, w_o[h, g]) for some in v[h].split(rows)]
            norms[h] += torch.cat([torch.linalg.vector_norm(x, ord=1, dim=-1) for x in blocks])
    return norms[None] / cfg.n_group


def andpro(
    weights, cfg, kv, seen, *, window=32, chunk=4, kernel=7, anchor: Literal["droppable", "output"] = "droppable"
):
    """AnDPro (NeurIPS 2025): a chunk's value read by the window, projected on the direction of the whole.

    u_qC = Σ_{i∈C} ã_qi v_i and score_C = Σ_q <u_qC, y_q>. `kernel` max-pools every attention row first, as released;
    `anchor` y is the "droppable" rows' part of the pooled output (released) or the true "output" (the paper's prose).
    """
    if anchor not in ("droppable", "output"):
        raise UserError(f"anchor is droppable or output, not {anchor!r}")
    return [
        andpro_of(cfg, kv, seen, layer, window_probs(cfg, kv, seen, layer), chunk, kernel, anchor)
        for layer in range(cfg.n_layer)
    ]


def andpro_of(cfg, kv, seen, layer, probs, chunk, kernel, anchor):
    """AnDPro's score of one layer under any queries' attention probs [b h g t s] -> [b h s]."""
    v, pos = view(kv, layer)[1].float(), view(kv, layer)[2]
    droppable = ~protected(seen.protection, pos, kv.n_seen, seen.budget) & (pos >= 0)  # [b h s]
    a = pooled(probs, kernel, "max")
    read = a * droppable[:, :, None, None] if anchor == "droppable" else probs
    y = torch.einsum("bhgts,bhsd->bhgtd", read, v)
    per_row = (a * torch.einsum("bhgtd,bhsd->bhgts", y, v)).sum(dim=3).mean(dim=2)  # [b h s]
    per_chunk = in_chunks(per_row * droppable, chunk).sum(dim=-1)
    return back_to_slots(per_chunk, chunk, per_row.shape[-1])


def obcache(weights, cfg, kv, seen, *, window=32, drop: Literal["V", "K", "VK"] = "VK", kernel=1):
    """OBCache (optimal brain damage on the cache), summed over the window's queries and averaged over the group.

    `drop`: what is set to zero. "V": Σ a²‖v‖²; "K": Σ (a z)²‖v - o‖² to first order; "VK": Σ ‖a v + a z (v - o)‖².
    With z = q k / sqrt(d), K and VK change when a constant is added to a query's logits, though attention does not.
    """
    if drop not in ("V", "K", "VK"):
        raise UserError(f"drop is V, K or VK, not {drop!r}")
    return [pooled(obcache_of(cfg, kv, seen, layer, drop), kernel, "max") for layer in range(cfg.n_layer)]


def obcache_of(cfg, kv, seen, layer, drop):
    a, z = window_probs(cfg, kv, seen, layer, with_scores=True)  # [b h g w s]
    v = view(kv, layer)[1].float()
    return obd(a, z, v, drop).sum(dim=3).mean(dim=2)


def obd(a, z, v, drop: str):
    """OBCache's squared output change of every query and key: a, z [b h g t s], v [b h s d] -> [b h g t s]."""
    o = torch.einsum("bhgts,bhsd->bhgtd", a, v)
    vv = v.square().sum(dim=-1)[:, :, None, None]  # ‖v‖² [b h 1 1 s]
    vo = torch.einsum("bhgtd,bhsd->bhgts", o, v)
    oo = o.square().sum(dim=-1, keepdim=True)
    value = a.square() * vv
    key = (a * z).square() * (vv - 2 * vo + oo)
    cross = 2 * a.square() * z * (vv - vo)
    return {"V": value, "K": key, "VK": value + key + cross}[drop]


def caote(weights, cfg, kv, seen, *, window=32, base: Literal["snapkv", "tova"] = "snapkv", fast=False):
    """CAOTE: a/(1-a)·‖o - v‖₂, the exact output change of deleting one key, for a base score normalised to sum 1.

    `base`: "snapkv" (window attention) or "tova" (the newest query's); per query head, mean over the group. `fast`
    takes the mean held value for o (FastCAOTE).
    """
    scores = []
    for layer in range(cfg.n_layer):
        probs = window_probs(cfg, kv, seen, layer)
        a = {"snapkv": probs.mean(dim=3), "tova": probs[:, :, :, -1]}.get(base)
        if a is None:
            raise UserError(f"base is snapkv or tova, not {base!r}")
        v, pos = view(kv, layer)[1].float(), view(kv, layer)[2]
        scores.append(output_change(a, v, (pos >= 0).expand(v.shape[:3]), fast).mean(dim=2))
    return scores


def output_change(a, v, held, fast: bool = False):
    """a/(1-a)·‖o - v‖ with a [b h g s] normalised over s, v [b h s d], held [b h s] -> [b h g s]."""
    a = a / a.sum(dim=-1, keepdim=True)
    o = torch.einsum("bhgs,bhsd->bhgd", a, v)
    if fast:
        o = ((v * held[..., None]).sum(dim=2) / held.sum(dim=-1, keepdim=True))[:, :, None].expand_as(o)
    square = (o.square().sum(dim=-1, keepdim=True) - 2 * torch.einsum("bhgd,bhsd->bhgs", o, v)) + v.square().sum(-1)[
        :, :, None
    ]
    return a / (1 - a).clamp(min=1e-6) * square.clamp(min=0).sqrt()
