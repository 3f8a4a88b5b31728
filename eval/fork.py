"""One prefill for many methods: a prompt is read once, and every plan that evicts after it starts from a fork.

A fork copies the buffer's structure, not its keys and values: its columns have lengths of their own and the same
blocks behind them. That is enough because a buffer is written in three ways only:

    rows leave     `compact` gathers survivors into blocks of its own
    rows come      behind the fork's own, in spare rows that no other fork counts in and the next one overwrites
    in place       notes (H2O's sums), ids, and keys turned by a plan's `adjust`: these blocks are copied at once

So one fork is used at a time; what it appended is lost when the next one appends.
"""

from dataclasses import dataclass, replace

from nanokv.buffer import Column, KVBuffer, new_buffer
from nanokv.evict import Plan, Protection, Seen
from nanokv.generate import Run, prefill, reader
from nanokv.hooks import chain, looks_inside

SHARED = ("k", "v", "pos")


def fork(kv: KVBuffer, own_rows: bool = False) -> KVBuffer:
    """A second buffer with the same rows. `own_rows` copies keys and values too: a plan may turn them in place."""

    def copied(name: str, column: Column) -> Column:
        share = name in SHARED and not own_rows
        return Column(column.block if share else column.block.clone(), column.n)

    layers = [[{name: copied(name, c) for name, c in part.items()} for part in layer] for layer in kv.layers]
    return KVBuffer(layers, copied("ids", kv.ids), kv.n_seen, kv.peak_rows, kv.shared)


@dataclass
class Watched:
    """What the plans with one `watch` and `observe` recorded: in `seen.record`, and in columns of a buffer `kv` that
    has the reading's own k, v and pos beside them."""

    plan: Plan
    hooks: dict
    kv: KVBuffer
    seen: Seen


@dataclass
class Reading:
    """A prompt read to its end with nothing evicted. `watched`: one entry for all plans that record the same."""

    run: Run
    watched: list


def can_share(weights, cfg, plan: Plan) -> bool:
    """Whether a plan may start from a fork: it evicts once, after the prompt, and reads that as everybody does.

    A plan on a schedule drops rows earlier. One that looks at scores or probs takes the explicit attention, which
    rounds otherwise than the fast one.
    """
    if plan.every or not plan.watch:
        return not plan.every
    return not looks_inside(plan.watch(weights, cfg, new_buffer(cfg, 0), unread(0)))


def unread(n_prompt: int, stop_ids=()) -> Seen:
    return Seen(0, Protection(), n_prompt, stop_ids=frozenset(stop_ids))


def read_once(weights, cfg, ids: list, plans: list, spare: int, stop_ids=(), n_ids: int | None = None) -> Reading:
    """Read `ids` for all `plans` together. `spare` rows are left free for what a fork appends without evicting."""
    kv = new_buffer(cfg, len(ids) + spare, weights.embed.dtype, weights.embed.device)
    run = Run(kv, list(ids), unread(len(ids), stop_ids))
    watched = []
    for plan in [Plan(), *plans]:
        if entry_of(plan, watched) is None:
            watched.append(watch(weights, cfg, run, plan, stop_ids))
    together = Plan(watch=lambda *_: chain(*(w.hooks for w in watched)), observe=observe_all(watched))
    prefill(weights, cfg, together, run, reader(weights, cfg, together, run, n_ids), max_new_tokens=0)
    for w in watched:
        w.seen.logits = run.seen.logits
    return Reading(run, watched)


def watch(weights, cfg, run: Run, plan: Plan, stop_ids) -> Watched:
    """Dicts of its own around the reading's columns, so that two plans may give their notes the same name."""
    own = KVBuffer([[dict(part) for part in layer] for layer in run.kv.layers], run.kv.ids)
    seen = unread(len(run.prompt_ids), stop_ids)
    hooks = plan.watch(weights, cfg, own, seen) if plan.watch else {}
    return Watched(plan, hooks, own, seen)


def observe_all(watched: list):
    """After each chunk: every entry's buffer counts what the reading's does, and its plan observes."""

    def observe(weights, cfg, kv, seen, x):
        for w in watched:
            w.kv.n_seen, w.kv.peak_rows = kv.n_seen, kv.peak_rows
            if w.plan.observe:
                w.plan.observe(weights, cfg, w.kv, w.seen, x)

    return observe


def entry_of(plan: Plan, watched: list) -> Watched | None:
    """The entry that records what this plan records: the same functions with the same arguments."""
    same = (w for w in watched if records(w.plan) == records(plan))
    return next(same, None)


def records(plan: Plan) -> list:
    """`watch` and `observe` as something that can be compared: the function of a partial and its arguments."""
    return [(getattr(f, "func", f), getattr(f, "keywords", {})) for f in (plan.watch, plan.observe)]


def fork_run(reading: Reading, plan: Plan) -> Run:
    """The state in which `plan` has read the prompt and evicted nothing: what its own prefill would have left."""
    w = entry_of(plan, reading.watched)
    seen = replace(
        w.seen, budget=plan.budget or 0, protection=plan.protection, released_loop=plan.released_loop, report={}
    )
    kv = fork(w.kv, own_rows=plan.adjust is not None)
    return Run(kv, list(reading.run.prompt_ids), seen, seconds=dict(reading.run.seconds))
