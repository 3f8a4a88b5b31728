"""From samples to tables: which samples stand together in a cell.

Protocols are never mixed: every table has one `ask`. A table has methods as rows, and as columns budgets, lengths,
tasks, or what the samples' details call `category`, `depth`, ...; where budgets are not the columns, each budget has a
table of its own. `full` has no budget and stands beside every one.
"""

from dataclasses import dataclass, field

from eval.cells import Cell
from eval.merge import refresh_of, split_task

ASKS = {"before": "question-aware", "after": "question-agnostic"}


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
    details, inside = known_details(samples), {}
    for sample in sorted(samples, key=lambda sample: list(ASKS).index(sample["ask"])):
        for place in placed(sample, by, details.get(question(sample), {})):
            inside.setdefault((sample["ask"], place.subject), []).append((place, sample))
    made = [table for key, there in inside.items() for table in split(*key, by, there)]
    return [table for table in made if table.columns != ["all"]]


def question(sample: dict) -> tuple:
    return sample["task"], sample["sample"], sample["seed"]


def known_details(samples: list) -> dict:
    """{question: details}: what one method's line says of a question holds where another method failed at it."""
    found = {}
    for sample in samples:
        if sample["details"]:
            found.setdefault(question(sample), sample["details"])
    return found


def placed(sample: dict, by: str, details: dict) -> list:
    """The places of a sample: its task's, and those of the mean that it takes part in."""
    task, (family, short, length) = sample["task"], split_task(sample["task"])
    at = f"@{length}" if length else ""
    mean = f"{family}{at}"
    if by == "task":
        own = Place(mean, short, task) if family else Place("tasks without a family", f"{short}{at}", task)
        return [own, Place(mean, "mean", mean, mean=True)] if family else [own]
    if by == "length":
        own, subject = Place(task.removesuffix(at), length or "-", task), family
    elif by == "budget":
        own, subject = Place(task, sample["budget"], task), mean
    else:
        return [*part(task, by, (sample["details"] or details).get(by)), Place(task, "all", task)]
    return [Place(f"{subject}, mean of its tasks", own.column, mean, mean=True), own] if family else [own]


def part(task: str, by: str, value) -> list:
    """The place among the samples with the same detail. Where every method failed, none: it counts in "all" alone."""
    return [Place(task, value, f"{task} {by}={value}")] if isinstance(value, str | int | float) else []


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
