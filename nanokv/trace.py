"""A run as one JSON object: what was held, scored and kept at each refresh, by original position."""

import torch

from nanokv.buffer import bytes_held, bytes_of_notes, n_kept
from nanokv.evict import Plan, Refresh
from nanokv.generate import Run


def trace(run: Run, plan: Plan, model: str, method: str, options: dict, dtype: torch.dtype, text: str) -> dict:
    """The object that `--trace` writes. Positions are original positions; an infinite score is null."""
    return {
        "model": model,
        "method": method,
        "options": {name: json_like(value) for name, value in options.items()},
        "budget": plan.budget or 0,
        "every": plan.every,
        "dtype": str(dtype).removeprefix("torch."),
        "prompt_ids": run.prompt_ids,
        "output_ids": run.output_ids,
        "text": text,
        "stop": run.stop,
        "n_seen": run.kv.n_seen,
        "kept_rows": n_kept(run.kv),
        "bytes_held": bytes_held(run.kv),
        "bytes_of_notes": bytes_of_notes(run.kv),
        "peak_rows": run.kv.peak_rows,
        "compression": round(compression(run), 6),
        "refreshes": [trace_refresh(done) for done in run.refreshes],
        "seconds": {name: round(s, 4) for name, s in run.seconds.items()},
        **run.seen.report,
    }


def compression(run: Run) -> float:
    """The share of rows that eviction after eviction took: 1 - Π (rows kept / rows held) over the refreshes."""
    kept = 1.0
    for done in run.refreshes:
        held = sum(int((pos >= 0).expand(keep.shape).sum()) for pos, keep in zip(done.positions, done.keep))
        kept *= sum(int(keep.sum()) for keep in done.keep) / held
    return 1 - kept


def json_like(value):
    """The value as JSON has it; a function as it was named, FILE.py:FN."""
    return value if value is None or isinstance(value, bool | int | float | str) else value.__qualname__


def trace_refresh(done: Refresh) -> dict:
    """One refresh: flat lists when all layers and heads share one set, else [layer][kv head]."""
    layers = []
    for pos, scores, keep in zip(done.positions, done.scores, done.keep):
        pos = pos.expand(keep.shape)
        layers.append([trace_head(pos[0, h], scores[0, h], keep[0, h]) for h in range(keep.shape[1])])

    def every(i: int):
        return layers[0][0][i] if done.shared else [[head[i] for head in heads] for heads in layers]

    return {"n_seen": done.n_seen, "shared": done.shared, "positions": every(0), "scores": every(1), "kept": every(2)}


def trace_head(pos, scores, keep):
    """(positions, scores, kept positions) of one head: pos, scores, keep [s]."""
    held = pos >= 0
    numbers = [float(f"{s:.9g}") if abs(s) != torch.inf else None for s in scores[held].tolist()]
    return pos[held].tolist(), numbers, pos[held & keep].tolist()
