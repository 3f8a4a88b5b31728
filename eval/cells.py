"""From samples to tables: which samples stand together in a cell, and the figures of a cell.

Protocols are never mixed: every table has one `ask`. A table has methods as rows, and as columns budgets, lengths,
tasks, or what the samples' details call `category`, `depth`, ...; where budgets are not the columns, each budget has a
table of its own. `full` has no budget and stands beside every one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean

from eval.merge import refresh_of, split_task
from eval.statistics import Estimate, estimate

ASKS = {"before": "question-aware", "after": "question-agnostic"}


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

    def groups(self, figure: Callable) -> dict:
        """{task: {sample: figure}}, seeds averaged; without the samples that do not have it."""
        seeds = {}
        for sample in self.samples:
            value = figure(sample)
            if value is not None:
                seeds.setdefault(sample["task"], {}).setdefault(sample["sample"], []).append(value)
        return {task: {name: fmean(values) for name, values in of.items()} for task, of in seeds.items()}

    def mean(self, figure: Callable) -> float | None:
        """Over seeds, then samples, then tasks."""
        groups = self.groups(figure)
        return fmean(fmean(of.values()) for of in groups.values()) if groups else None

    def estimate(self, measure: str) -> Estimate | None:
        return estimate(self.groups(MEASURES[measure]))


@dataclass(frozen=True)
class Row:
    """A method with its options, and when it evicts."""

    label: str
    refresh: str

    @property
    def name(self) -> str:
        return self.label if self.refresh == "-" else f"{self.label} refresh={self.refresh}"


@dataclass
class Table:
    """`budget` is what all cells share where budgets are not the columns. `cells`: by (Row, column)."""

    ask: str
    subject: str
    by: str
    budget: int | None = None
    cells: dict = field(default_factory=dict)

    @property
    def title(self) -> str:
        pinned = f", budget {self.budget}" if self.budget is not None else ""
        return f"{self.subject}, {ASKS[self.ask]}{pinned}"

    @property
    def rows(self) -> list:
        """In the files' order, `full` first."""
        return sorted(dict.fromkeys(row for row, _ in self.cells), key=lambda row: row.refresh != "-")

    @property
    def columns(self) -> list:
        """Numbers ascending, then names in the files' order, what sums them up last."""
        names = dict.fromkeys(column for _, column in self.cells)
        summing = [name for name in names if name in ("mean", "all")]
        numbers = sorted(name for name in names if isinstance(name, int | float))
        return numbers + [name for name in names if name not in numbers + summing] + summing

    def n_tasks(self, column) -> int:
        """Tasks that any method has there: a mean over fewer of them is marked."""
        return len(set().union(*(cell.tasks for (_, at), cell in self.cells.items() if at == column)))

    def add(self, column, what: str, sample: dict):
        row = Row(sample["label"], refresh_of(sample))
        self.cells.setdefault((row, column), Cell(what)).samples.append(sample)


@dataclass(frozen=True)
class Place:
    """Where a sample stands. `mean`: as one of a family's tasks, whose mean needs two of them."""

    subject: str
    column: object
    what: str
    mean: bool = False


def tables(samples: list, by: str) -> list:
    """A Table for each protocol and subject, and each budget where those are not the columns."""
    inside = {}
    for sample in sorted(samples, key=lambda sample: list(ASKS).index(sample["ask"])):
        for place in placed(sample, by):
            inside.setdefault((sample["ask"], place.subject), []).append((place, sample))
    made = [table for key, there in inside.items() for table in split(*key, by, there)]
    return [table for table in made if table.columns != ["all"]]


def placed(sample: dict, by: str) -> list:
    """The places of a sample: its task's, and those of the mean that it takes part in."""
    task, (family, short, length) = sample["task"], split_task(sample["task"])
    at = f"@{length}" if length else ""
    mean = f"{family}{at}"
    if by == "task":
        own = Place(mean if family else "tasks without a family", short, task)
        return [own, Place(mean, "mean", mean, mean=True)] if family else [own]
    if by == "length":
        own, subject = Place(task.removesuffix(at), length or "-", task), family
    elif by == "budget":
        own, subject = Place(task, sample["budget"], task), mean
    else:
        return [*part(sample, by), Place(task, "all", task)]
    return [own, Place(f"{subject}, mean of its tasks", own.column, mean, mean=True)] if family else [own]


def part(sample: dict, by: str) -> list:
    """The place among the samples with the same detail. A failed sample may have none: it counts in "all" alone."""
    value = (sample["details"] or {}).get(by)
    known = isinstance(value, str | int | float)
    return [Place(sample["task"], value, f"{sample['task']} {by}={value}")] if known else []


def split(ask: str, subject: str, by: str, inside: list) -> list:
    """The tables of one subject. What has no budget stands beside every budget."""
    budgets = sorted({sample["budget"] for _, sample in inside} - {None}) or [None]
    single = len({split_task(sample["task"])[1] for _, sample in inside}) == 1
    made = {budget: Table(ask, subject, by, budget) for budget in budgets if by != "budget"}
    one = Table(ask, subject, by)
    for place, sample in inside:
        if place.mean and single:
            continue
        for budget in budgets if sample["budget"] is None else [sample["budget"]]:
            column = (budget or "full") if by == "budget" else place.column
            made.get(budget, one).add(column, place.what, sample)
    return [table for table in [one, *made.values()] if table.cells]
