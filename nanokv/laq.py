"""Lookahead Q-Cache (LAQ): greedy pseudo-queries from an already compressed cache."""

from typing import Literal

import torch

from nanokv.attention import probs_of, scores_of
from nanokv.buffer import view
from nanokv.evict import protected, select
from nanokv.lookahead import lookahead, most_likely
from nanokv.reliability import reliability
from nanokv.scores import over_group, past_of, watch_last_queries, window_probs
from nanokv.window_scores import attention, pooled

FIRST_WINDOW = 32  # of the SnapKV that compresses the cache the pseudo-queries come from


def watch_first_window(weights, cfg, kv, seen):
    """Keeps the queries that the first compression needs."""
    return watch_last_queries(weights, cfg, kv, seen, window=FIRST_WINDOW)


def laq(
    weights,
    cfg,
    kv,
    seen,
    *,
    window=8,
    n_pseudo=8,
    kernel=7,
    pool: Literal["max", "avg"] = "max",
    reduce: Literal["mean", "max"] = "mean",
):
    """Attention of the `window` newest prompt queries and `n_pseudo` greedy pseudo-queries over the full prompt cache.

    The pseudo tokens are decoded from what SnapKV would keep: its other rows are hidden, not dropped. They see one
    another then, but their own keys have no part in the score. A [b h s] per layer.
    """
    evicted = [snapkv_evicts(cfg, kv, seen, layer, kernel, pool, reduce) for layer in range(cfg.n_layer)]

    def hide(layer, scores):  # [b h g t s]
        scores[..., : evicted[layer].shape[-1]].masked_fill_(evicted[layer][:, :, None, None], -torch.inf)

    look = lookahead(
        weights, cfg, kv, seen.logits, 1, n_pseudo, most_likely, seen.stop_ids, hooks={"scores": hide}, mask=seen.mask
    )
    reliability(look, 0, 0, 0, "uniform", seen.report)
    return [
        laq_of(cfg, kv, seen, look.q[layer][0][None], layer, window, kernel, pool, reduce)
        for layer in range(cfg.n_layer)
    ]


def snapkv_evicts(cfg, kv, seen, layer, kernel, pool, reduce):
    """The rows of one layer that SnapKV would drop: [b h s] bool; an empty slot is not one of them."""
    score = attention(cfg, kv, seen, layer, kernel, pool, reduce)
    pos = view(kv, layer)[2].expand(score.shape)
    must = protected(seen.protection, pos, kv.n_seen, seen.budget) | (pos >= kv.n_seen - FIRST_WINDOW)
    keep = select(score, pos, must, torch.full(score.shape[:2], seen.budget, device=score.device))
    return ~keep & (pos >= 0)


def laq_of(cfg, kv, seen, q, layer, window, kernel, pool, reduce):
    """One layer's score from the window's queries and the pseudo-queries q [b h g t d]: [b h s]."""
    k, _, pos = view(kv, layer)
    q_pos = kv.n_seen + torch.arange(q.shape[3], device=pos.device)
    pseudo = probs_of(scores_of(q, k), past_of(cfg, layer, seen)(q_pos[None], pos))
    probs = torch.cat((window_probs(cfg, kv, seen, layer, last=window), pseudo), dim=3)
    older = (pos >= 0) & (pos < kv.n_seen - window)
    return pooled(over_group(probs, reduce).sum(dim=2) * older, kernel, pool) * older
