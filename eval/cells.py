"""The figures of a cell: what can be measured of a sample, and the means over those that stand together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean

from eval.statistics import Estimate, estimate


def score(sample: dict) -> float:
    """0..100. A sample that failed scores 0: it was asked and not answered, and dropping it would flatter."""
    return 0.0 if sample["error"] is not None else 100.0 * sample["score"]


def of_fidelity(name: str, times: float = 1.0) -> Callable:
    return lambda sample: times * sample["fidelity"][name] if sample["fidelity"] else None


def measured(name: str, times: float = 1.0) -> Callable:
    return lambda sample: None if sample[name] is None else times * sample[name]


MEASURES = {"score": score, "kl": of_fidelity("kl"), "top1": of_fidelity("top1", 100), "nll": of_fidelity("nll")}
FIGURES = {
    "kept_rows": measured("kept_rows"),
    "peak_rows": measured("peak_rows"),
    "mib": measured("bytes_held", 2**-20),
    "seconds": lambda sample: sum(sample["seconds"].values()) if sample["seconds"] else None,
    "kl": MEASURES["kl"],
    "top1": MEASURES["top1"],
    "nll": MEASURES["nll"],
    "no_answer": lambda sample: 100.0 * (sample["error"] is None and not sample["answered"]),
    "cut": lambda sample: 100.0 * bool(sample["n_cut"]),
}


@dataclass
class Cell:
    """`what` is measured: a task, "ruler@4096" for the mean of a family's tasks, "locomo category=1" for a part."""

    what: str
    samples: list = field(default_factory=list)

    @property
    def tasks(self) -> set:
        return {sample["task"] for sample in self.samples}

    @property
    def errors(self) -> int:
        return sum(sample["error"] is not None for sample in self.samples)

    def figures(self, figure: Callable) -> dict:
        """{task: {(sample, seed): figure}}, without the samples that do not have it."""
        found = {}
        for sample in self.samples:
            value = figure(sample)
            if value is not None:
                found.setdefault(sample["task"], {})[sample["sample"], sample["seed"]] = value
        return found

    def groups(self, figure: Callable) -> dict:
        return over_seeds(self.figures(figure))

    def mean(self, figure: Callable) -> float | None:
        """Over seeds, then samples, then tasks."""
        groups = self.groups(figure)
        return fmean(fmean(of.values()) for of in groups.values()) if groups else None

    def estimate(self, measure: str) -> Estimate | None:
        return estimate(self.groups(MEASURES[measure]))


def over_seeds(figures: dict) -> dict:
    """{task: {sample: figure}}, the mean over its seeds, from {task: {(sample, seed): figure}}."""
    groups = {}
    for task, of in figures.items():
        seeds = groups.setdefault(task, {})
        for (sample, _), value in of.items():
            seeds.setdefault(sample, []).append(value)
    return {task: {name: fmean(values) for name, values in of.items()} for task, of in groups.items()}
