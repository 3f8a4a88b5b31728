"""Protect, allocate, select, refresh: Algorithm 3 of arXiv 2607.27600 with the score as an argument.

A score is `score(weights, cfg, kv, seen) -> [b 1 s]` (one for all layers and heads) or a list with a [b h s] per
layer, float32, higher = keep, aligned with the buffer's slots. Any function of that shape will do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from nanokv import UserError
from nanokv.budgets import ada, pyramid, uniform
from nanokv.buffer import KVBuffer, n_kept, view
from nanokv.compact import compact
from nanokv.config import Config
from nanokv.masks import causal


@dataclass(frozen=True)
class Protection:
    """Rows that always stay. `sinks` and `system` are leading positions (the larger counts), `recent` the newest ones;
    `recent_share` protects that part of what the leading rows leave of the budget (H2O's half)."""

    sinks: int = 0
    recent: int = 0
    system: int = 0
    recent_share: float = 0.0

    @property
    def leading(self) -> int:
        return max(self.sinks, self.system)

    def newest(self, budget: int) -> int:
        return self.recent + int(self.recent_share * max(0, budget - self.leading))


def protected(protection: Protection, pos, n_seen: int, budget: int):
    """Which slots may not go: pos [b h s] -> bool [b h s]."""
    oldest_recent = n_seen - protection.newest(budget)
    return (pos >= 0) & ((pos < protection.leading) | (pos >= oldest_recent))


@dataclass
class Plan:
    """What to evict, and when. `score` None evicts nothing.

    `every` is h, the tokens between two refreshes; None refreshes once, after the prompt. `watch(weights, cfg, kv,
    seen) -> hooks` and `observe(weights, cfg, kv, seen, x)` record during causal passes what the score wants later;
    `finish(weights, cfg, kv, seen, scores, counts, must) -> scores` rescores once each head's count is known;
    `adjust(weights, cfg, kv, keep)` runs just before rows leave.
    """

    score: Callable | None = None
    budget: int | None = None
    every: int | None = None
    protection: Protection = field(default_factory=Protection)
    allocate: Callable = uniform
    watch: Callable | None = None
    observe: Callable | None = None
    finish: Callable | None = None
    adjust: Callable | None = None
    branch_rows: int = 0  # rows that a lookahead appends for a moment
    released_loop: bool = False  # as the released code: refresh after the last partial prompt chunk too (surprise.py)
    score_when_idle: bool = False  # score at every refresh point, also while nothing is over budget
    budget_excludes_protected: bool = False  # keep the protected rows and `budget` others (LORE-KV's Eq. 8, literally)


@dataclass
class Seen:
    """What a score may want beside the buffer. `record`: tensors kept by `watch`; `report`: goes into the trace."""

    budget: int
    protection: Protection
    n_prompt: int
    released_loop: bool = False
    stop_ids: frozenset = frozenset()
    rng: torch.Generator | None = None
    mask: Callable = causal  # of the run's causal pass
    logits: torch.Tensor | None = None  # [v], of the newest token
    record: dict = field(default_factory=dict)
    report: dict = field(default_factory=dict)


@dataclass
class Refresh:
    """One refresh: per layer (one entry when `shared`) positions [b h s], scores [b h s] and keep [b h s]."""

    n_seen: int
    shared: bool
    positions: list
    scores: list
    keep: list


def refresh(weights, cfg: Config, kv: KVBuffer, plan: Plan, seen: Seen, room: int = 0) -> Refresh | None:
    """Score what is held, keep `plan.budget` rows of each layer and head, drop the rest (Algorithm 3).

    Does nothing (and returns None) while no more than the budget is held. `room` rows stay free for what comes next.
    """
    over = n_kept(kv) > plan.budget
    if not over and not plan.score_when_idle:
        return None
    scores = plan.score(weights, cfg, kv, seen)  # s_t, lines 2-4
    if not over:
        return None
    scores, shared = per_layer(scores, cfg, kv)
    if shared and getattr(plan.allocate, "func", plan.allocate) in (ada, pyramid):
        raise UserError("this score is one for all layers and heads: a budget rule has nothing to divide (--allocate)")
    positions = [view(kv, layer)[2] for layer in range(len(scores))]
    must = [
        protected(plan.protection, pos, kv.n_seen, plan.budget).expand(s.shape) for pos, s in zip(positions, scores)
    ]
    held = [(pos >= 0).expand(s.shape) for pos, s in zip(positions, scores)]
    on_top = int(must[0].sum(dim=-1).max()) if plan.budget_excludes_protected else 0
    counts = plan.allocate(scores, plan.budget + on_top, must, held)
    if plan.finish:
        scores = plan.finish(weights, cfg, kv, seen, scores, counts, must)
    keep = [select(s, pos, m, count) for s, pos, m, count in zip(scores, positions, must, counts)]  # line 5
    if all(k.equal(in_use) for k, in_use in zip(keep, held)):
        return None
    done = Refresh(kv.n_seen, shared, positions, scores, keep)
    if plan.adjust:
        plan.adjust(weights, cfg, kv, keep[0])
    for layer in range(cfg.n_layer):  # lines 6-9
        compact(kv, layer, keep[0] if shared else keep[layer], room)
    kv.shared = kv.shared and shared
    return done


def per_layer(scores, cfg: Config, kv: KVBuffer):
    """Check what a score returned. A tensor [b 1 s] -> ([it], True); a list of [b h s] per layer -> (list, False)."""
    shared = isinstance(scores, torch.Tensor)
    if not shared and not isinstance(scores, list | tuple):
        raise UserError(f"the score returned a {type(scores).__name__}, not a tensor or a list of tensors")
    scores = [scores] if shared else list(scores)
    if len(scores) != (1 if shared else cfg.n_layer):
        raise UserError(f"the score returned {len(scores)} tensors for {cfg.n_layer} layers")
    if shared and not kv.shared:
        raise UserError("a token-level score needs the same tokens in every layer and head; these heads differ already")
    for layer, s in enumerate(scores):
        n_slots = view(kv, layer)[2].shape[-1]
        heads = (1,) if shared else (1, cfg.n_kv_head)
        if s.dim() != 3 or s.shape[0] != 1 or s.shape[1] not in heads or s.shape[2] != n_slots:
            raise UserError(f"the score of layer {layer} is {list(s.shape)}, not [1, {heads[-1]}, {n_slots}]")
        if torch.isnan(s).any():
            raise UserError(f"the score of layer {layer} has NaN")
    n_head = 1 if shared else max(s.shape[1] for s in scores)
    return [s.float().expand(-1, n_head, -1) for s in scores], shared


def select(score, pos, must, count):
    """Which rows stay. score [b h s], pos [b h s] (h may be 1), must [b h s] bool, count [b h] -> keep [b h s] bool.

    `must` stays whatever it scores; the best of the others fill up to `count` in all. Ties go to the newer token.
    """
    free = count - must.sum(dim=-1)
    candidate = ~must & (pos >= 0)
    return must | (candidate & (rank(score, candidate) < free[..., None]))


def rank(score, candidate):
    """0 for each head's best candidate, then 1, ...; ties to the newer. score, candidate [b h s] -> int [b h s]."""
    score = score.clamp(min=torch.finfo(torch.float32).min).masked_fill(~candidate, -torch.inf)
    newest_first = score.flip(-1).argsort(dim=-1, descending=True, stable=True)
    return newest_first.argsort(dim=-1).flip(-1)
