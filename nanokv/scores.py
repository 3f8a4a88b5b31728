"""The simpler scores, one function a method. Each takes (weights, cfg, kv, seen) and its own options by keyword.

A token-level method returns one float32 tensor [b 1 s]; a layer- or head-level one a list with a [b h s] per layer.
Higher = keep. What a score needs recorded during the causal passes stands right above it as its `watch_` or
`observe_` function; the rows it must never lose are its preset's protection (methods.py), not a large score.
"""

from typing import Literal

import torch

from nanokv import UserError
from nanokv.attention import probs_of, scores_of
from nanokv.buffer import add_to_notes, held_ids, note, notes, view
from nanokv.hooks import Record
from nanokv.masks import both, sliding_window
from nanokv.model import unembed
from nanokv.rope import angles, rotate


def recency(weights, cfg, kv, seen):
    """Sliding window: the newest rows. [b 1 s]"""
    return view(kv, 0)[2].float()


def streaming_llm(weights, cfg, kv, seen, *, positions: Literal["original", "cache"] = "original"):
    """StreamingLLM (arXiv 2309.17453): sinks and the newest rows. [b 1 s]

    `positions`: "original", or "cache": as the paper, a row's position is its place in the cache (see `renumber`).
    """
    if positions not in ("original", "cache"):
        raise UserError(f"positions is original or cache, not {positions!r}")
    return recency(weights, cfg, kv, seen)


def renumber(weights, cfg, kv, keep, *, positions: Literal["original", "cache"] = "original"):
    """Turn surviving keys so that distances are counted in cache rows, without moving the newest row (StreamingLLM).

    Rotations only ever meet as differences, so the paper's 0..len-1 may as well end at n_seen - 1: rows behind the
    last gap stay as they are, those before it turn forward by the rows that left between. In half precision each turn
    rounds the sinks once more.
    """
    if positions == "original":
        return
    gone_after = (~keep).flip(-1).cumsum(dim=-1).flip(-1)  # [b 1 s] rows that leave behind each slot
    cos, sin = angles(weights.inv_freq, gone_after[0, 0])
    for layer in range(cfg.n_layer):
        k = view(kv, layer)[0]
        k.copy_(rotate(k, cos, sin))


def watch_mass(weights, cfg, kv, seen, *, reduce: Literal["mean", "max"] = "mean"):
    """Adds to each row the attention that every new query pays it, layer by layer, in a note [b h s]."""

    def add(layer, probs):  # [b h g t s]
        note(kv, layer, "mass", probs.new_zeros(probs[:, :, 0, :, 0].shape))
        received = probs.sum(dim=3).mean(dim=2) if reduce == "mean" else over_group(probs, reduce).sum(dim=2)
        add_to_notes(kv, layer, "mass", received)  # of the mean, the same in the other order: one pass over probs

    return {"probs": add}


def h2o(weights, cfg, kv, seen, *, reduce: Literal["mean", "max"] = "mean"):
    """H2O (arXiv 2306.14048): attention received from all queries so far, per layer and kv head. [b h s] a layer.

    The sum moves with its row through every eviction. Its preset keeps the recent half.
    """
    return [notes(kv, layer, "mass") for layer in range(cfg.n_layer)]


def over_group(x, reduce: str):
    """The query heads of one kv head become one: [b h g ...] -> [b h ...] by mean or max."""
    if reduce not in ("mean", "max"):
        raise UserError(f"reduce is mean or max, not {reduce!r}")
    return x.mean(dim=2) if reduce == "mean" else x.amax(dim=2)


def watch_last_queries(weights, cfg, kv, seen, *, window=1):
    """Keeps the rotated queries of the newest `window` tokens: seen.record["q"][layer] is [b h g w d]."""
    record = Record("q", last=window)
    seen.record.update(record.seen)
    return record.hooks


def window_probs(cfg, kv, seen, layer: int, with_scores: bool = False, last: int | None = None):
    """Attention of the recorded newest queries (or the `last` of them) over every held key, float32: [b h g w s].

    `with_scores` gives (attention, q k / sqrt(d)).
    """
    q = seen.record["q"][layer][:, :, :, -(last or 0) :]
    k, _, k_pos = view(kv, layer)
    q_pos = kv.n_seen - torch.arange(q.shape[3], 0, -1, device=k_pos.device)
    scores = scores_of(q, k)
    probs = probs_of(scores, past_of(cfg, layer, seen)(q_pos[None], k_pos))
    return (probs, scores) if with_scores else probs


def past_of(cfg, layer: int, seen):
    """Whom that layer's tokens look at in the run's causal pass: the run's mask, within the model's own window."""
    return both(seen.mask, sliding_window(cfg.windows[layer])) if cfg.windows[layer] else seen.mask


def tova(weights, cfg, kv, seen):
    """TOVA (arXiv 2401.06104): the newest query's attention, mean over all query heads, per layer. [b 1 s] a layer."""
    return [window_probs(cfg, kv, seen, layer)[:, :, :, -1].mean(dim=(1, 2))[:, None] for layer in range(cfg.n_layer)]


def watch_luck(weights, cfg, kv, seen, *, seed=0):
    """Gives every token one random number as it comes in, so that old and new ones have the same chances for ever."""
    rng = torch.Generator().manual_seed(seed)

    def draw(layer, x):
        if layer == 0:
            note(kv, 0, "luck", torch.rand(1, 1, x.shape[1], generator=rng).to(x.device))

    return {"resid_in": draw}


def random(weights, cfg, kv, seen, *, seed=0):
    """The control without any signal: a uniform sample of everything seen. [b 1 s]"""
    return notes(kv, 0, "luck")


def unigram(weights, cfg, kv, seen):
    """The control that knows only words: tokens rare among those held stay. [b 1 s]"""
    ids = held_ids(kv, 0)
    _, which, counts = ids.unique(return_inverse=True, return_counts=True)
    return -counts[which].float()


def observe_causal_surprise(weights, cfg, kv, seen, x, *, rows=256):
    """Notes -log p(x_i | x_<i) of the tokens just read, in nats, from x [b t e]; `rows` logits rows at a time.

    The first token has no past: it gets log v, the surprise of a uniform guess.
    """
    t = x.shape[1]
    ids = kv.ids.block[0, 0, kv.n_seen - t : kv.n_seen]
    before = seen.record.get("x")
    predictors = x[:, :-1] if before is None else torch.cat((before, x[:, :-1]), dim=1)
    surprise = [torch.full((1,), float(cfg.n_vocab), device=x.device).log()] if before is None else []
    targets = ids[1:] if before is None else ids
    for start in range(0, predictors.shape[1], rows):
        logits = unembed(weights, predictors[:, start : start + rows])[0]  # [rows v]
        target = targets[start : start + rows, None]
        surprise.append(logits.logsumexp(dim=-1) - logits.gather(-1, target)[:, 0])
    seen.record["x"] = x[:, -1:]
    note(kv, 0, "surprise", torch.cat(surprise)[None, None])


def causal_surprise(weights, cfg, kv, seen, *, span=17):
    """Plain surprisal -log p(x_i | x_<i) of the first pass, mean over `span` neighbouring positions. [b 1 s]"""
    return mean_over_span(notes(kv, 0, "surprise"), view(kv, 0)[2], span)


def mean_over_span(score, pos, span: int):
    """Mean over the held rows among the `span` positions around each row. score, pos [b 1 s] -> [b 1 s]

    Rows with an infinite score neither give nor take. An even span reaches one position further ahead.
    """
    if span < 1:
        raise UserError(f"span must be at least 1, not {span}")
    finite = score.isfinite()
    total = torch.where(finite, score, 0).double().cumsum(dim=-1)
    count = finite.cumsum(dim=-1)
    first = torch.searchsorted(pos, pos - (span - 1) // 2)
    last = torch.searchsorted(pos, pos + span // 2, right=True) - 1

    def between(running):
        before = torch.where(first > 0, running.gather(-1, (first - 1).clamp(min=0)), 0)
        return running.gather(-1, last) - before

    mean = between(total) / between(count).clamp(min=1)
    return torch.where(finite, mean.float(), score)
