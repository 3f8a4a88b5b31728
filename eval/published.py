"""Figures that the papers print, for setting beside ours where model, method, budget and task are the same.

Percent, each with its source. Left out: figures given without their method (LORE-KV's "45.20 -> 51.05" on RULER 16K),
figures read off a picture, hybrid-attention models, which nanokv refuses, and AIME (Table 3 of the counter-causal
paper), whose 90 problems are not named.

What the counter-causal paper calls H2O and Importance are its released code's proxies, `h2o_released` and
`importance_released` here. Its LongHealth and LoCoMo figures are printed as curves only: the figures here are those of
an independent re-run of its code (repository au-han17/counter_causal, f88995f), whose ledger also quotes Table 2.
"""

from dataclasses import dataclass
from pathlib import Path

CC = "arXiv 2607.27600"
RERUN = "re-run by au-han17/counter_causal, fp16"
LORE = "arXiv 2610.07643"
ALTER = ("max_new_tokens", "raw", "protect", "allocate")  # settings that no paper has


@dataclass(frozen=True)
class Published:
    """`refresh` as eval.merge names it. `n_tasks`: the mean is one of so many."""

    model: str
    task: str
    method: str
    budget: int | None
    figure: float
    source: str
    refresh: str
    n_tasks: int = 1


def row(model, task, budget, source, figures: dict, refresh, n_tasks=1) -> list:
    """One line of a printed table: {method: figure}; `full` has no budget."""
    return [
        Published(model, task, m, None if m == "full" else budget, figure, source, refresh, n_tasks)
        for m, figure in figures.items()
    ]


def math500(model: str, source: str, **figures) -> list:
    return row(model, "math500", 512, f"{source}, n = 500", figures, "J/2")


def longbench(model: str, full, criticalkv, andpro, lore_e, lore_d) -> list:
    figures = {"full": full, "criticalkv": criticalkv, "andpro": andpro, "lore_e": lore_e, "lore_d": lore_d}
    return row(model, "longbench", 128, f"{LORE}, LongBench average at B = 128", figures, "once", 16)


def ruler(length: int, criticalkv, andpro, lore_e, lore_d) -> list:
    figures = {"criticalkv": criticalkv, "andpro": andpro, "lore_e": lore_e, "lore_d": lore_d}
    source = f"{LORE}, RULER at 64K and 128K, B = 128"
    return row("Llama-3.1-8B-Instruct", f"ruler@{length}", 128, source, figures, "once", 13)


def released(full, counter_causal, counter_causal_fast, sliding_window, h2o) -> dict:
    """The counter-causal paper's columns, under the names used here."""
    figures = {"full": full, "counter_causal": counter_causal, "counter_causal_fast": counter_causal_fast}
    figures |= {"sliding_window": sliding_window, "h2o_released": h2o}
    return {method: figure for method, figure in figures.items() if figure is not None}


QWEN7, LLAMA = "Qwen2.5-7B-Instruct", "Llama-3.1-8B-Instruct"
FIGURES = [
    *math500(QWEN7, f"{CC}, Table 2", **released(76.6, 74.4, 73.6, 69.2, 76.2)),
    *math500(QWEN7, RERUN, **released(76.0, 74.0, 73.8, 69.2, 75.8)),
    *math500(LLAMA, f"{CC}, Table 2", **released(48.8, 48.2, 48.0, 45.8, 46.4)),
    *math500(LLAMA, RERUN, **released(49.2, 48.2, 49.6, 46.2, 46.4)),
    *math500("Qwen2.5-3B-Instruct", f"{CC}, Table 2", counter_causal=60.2),
    *math500("Qwen2.5-14B-Instruct", f"{CC}, Table 2", counter_causal=75.8),
    *row(LLAMA, "longhealth", 8000, f"{RERUN}, LongHealth", released(81.0, 79.0, 80.5, None, 77.5), "J/4"),
    *row(LLAMA, "locomo category=1", 15000, f"{RERUN}, LoCoMo", released(23.2, 23.3, 22.5, 20.4, 18.9), "J/4"),
    *longbench("Mistral-7B-Instruct-v0.2", 42.51, 38.42, 38.96, 40.28, 40.21),
    *longbench(LLAMA, 49.29, 44.62, 46.06, 46.11, 46.27),
    *longbench("Qwen2.5-14B-Instruct", 49.37, 43.47, 45.49, 48.16, 48.24),
    *longbench("Ministral-3-8B-Instruct-2512", 49.67, 44.79, 46.74, 47.30, 47.24),
    *ruler(65536, 34.82, 49.62, 57.75, 57.29),
    *ruler(131072, 30.28, 39.40, 51.05, 51.04),
]


def published(settings: dict, cell, row, ask: str) -> list:
    """The figures that stand for this cell. Both papers show the question to what evicts: none under --ask after.

    `partial=1` (the released loop) is the same method, and the one that their figures come from. None where the
    settings have made another task or another method of it.
    """
    if ask != "before" or any(settings.get(name) not in (None, False) for name in ALTER):
        return []
    method = row.label.replace(" partial=1", "")
    budget = cell.samples[0]["budget"]
    return [
        p
        for p in FIGURES
        if (bare(p.model), p.task, p.method, p.budget) == (bare(settings.get("model", "")), cell.what, method, budget)
        and p.n_tasks == len(cell.tasks)
        and (p.budget is None or p.refresh == row.refresh)
    ]


def bare(model: str) -> str:
    """A checkpoint's name from its path or hub name: "meta-llama/Meta-Llama-3.1-8B-Instruct" is the same model."""
    return Path(model).name.lower().removeprefix("meta-")
