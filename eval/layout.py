"""Tables as markdown that is aligned, so that it reads well raw: the scores as the papers lay them out, the paired
differences in the same layout, and a line a cell of what was held and how faithful it was."""

from eval.against import base_row, paired
from eval.arrange import Table
from eval.cells import FIGURES
from eval.merge import Runs
from eval.published import published
from eval.statistics import Estimate

UNITS = {
    "score": "Mean score x 100",
    "kl": "KL(full || evicted), nats a token",
    "top1": "Top-1 agreement with the full cache, %",
    "nll": "-log p of the full cache's tokens, nats a token",
}
HEADINGS = {
    "kept_rows": "kept rows",
    "peak_rows": "peak rows",
    "mib": "MiB",
    "seconds": "s",
    "kl": "KL",
    "top1": "top-1 %",
    "nll": "nll",
    "no_answer": "no answer %",
    "cut": "cut %",
}
DIGITS = {"kept_rows": 0, "peak_rows": 0, "mib": 2, "seconds": 2, "kl": 3, "nll": 3}  # else 1
NOTES = """\
Intervals: 95%, percentile bootstrap over samples (2,000 resamples; seeds of one sample averaged first). A mean over
tasks is the plain mean of theirs, samples drawn within each task. An interval of one point says that all samples
scored alike, not that the mean is certain. A failed sample scores 0 and is counted under errors. `no answer`: no answer
could be read. `cut`: prompts cut in the middle. KL, top-1 and nll are taken on the full cache's own greedy answer."""
MARKED = """\
A difference pairs the same sample under the same seed. `*`: its interval excludes 0. Nothing corrects for many
comparisons: where no method differs, about one difference in twenty is marked all the same."""


def markdown(made: list, measure: str = "score", against: str | None = None) -> str:
    """All tables, given as (Runs, Table), and what their figures are."""
    parts = [part for runs, table in made for part in section(table, runs, measure, against)]
    return "\n\n".join([*parts, NOTES, *([MARKED] if against else [])]) + "\n"


def section(table: Table, runs: Runs, measure: str, against: str | None) -> list:
    estimates = {at: cell.estimate(measure) for at, cell in table.cells.items()}
    sizes = {e.n for e in estimates.values() if e}
    n = f"; n = {min(sizes)} samples a cell" if len(sizes) == 1 else ""
    caption = f"{UNITS[measure]} [95% interval] by {table.by}{n}. {runs.about}."
    shown = figures(table, estimates, measure, runs.settings, show_n=len(sizes) > 1)
    compared = differences(table, measure, against) if against else []
    return [f"## {table.title}", caption, *shown, *compared, beside(table)]


def figures(table: Table, estimates: dict, measure: str, settings: dict, show_n: bool) -> list:
    """The matrix of means, published scores beside them, and a line for each source."""
    sources = {}

    def text(at):
        words = [number(estimates[at], measure), *stands_on(estimates[at], table.n_tasks(at[1]), show_n)]
        found = published(settings, table.cells[at], at[0], table.ask) if measure == "score" else []
        words += [f"published {p.figure} ({sources.setdefault(p.source, len(sources) + 1)})" for p in found]
        return ", ".join(words)

    shown = matrix(table, table.rows, text)
    return [shown, *(f"Published ({i}): {source}." for source, i in sources.items())]


def differences(table: Table, measure: str, against: str) -> list:
    """The paired differences of every other row; a line where the method was not run."""
    base = base_row(table, against)
    if base is None:
        return [f"{against} was not run here: no differences."]
    others = [row for row in table.rows if row != base]
    if not others:
        return [f"{base.name} stands alone here: no differences."]

    def text(at):
        found = paired(table, at, base, measure)
        words = [number(found, measure, "+"), *stands_on(found, table.n_tasks(at[1]))]
        return ", ".join(words) + (" *" if found and found.excludes_zero else "")

    heading = f"Minus {base.name}, over the n samples that both have [95% interval]; `*` where it excludes 0:"
    return [heading, matrix(table, others, text)]


def stands_on(found: Estimate | None, n_tasks: int, show_n: bool = True) -> list:
    """ "n=20", and "3 of 16 tasks" where the mean is over fewer tasks than other rows have there."""
    if found is None:
        return []
    fewer = [f"{found.n_tasks} of {n_tasks} tasks"] if found.n_tasks < n_tasks else []
    return [*([f"n={found.n}"] if show_n else []), *fewer]


def matrix(table: Table, rows: list, text) -> str:
    """Methods down, columns across; `text((row, column))` fills a cell that has samples."""
    columns = table.columns
    lines = [
        [row.label, row.refresh, *(text((row, c)) if (row, c) in table.cells else "-" for c in columns)] for row in rows
    ]
    return grid(["method", "refresh", *map(str, columns)], lines)


def beside(table: Table) -> str:
    """A line a cell: rows and bytes held, seconds, fidelity, and what went wrong."""
    lines = []
    for row in table.rows:
        cells = [(column, table.cells[row, column]) for column in table.columns if (row, column) in table.cells]
        if table.by == "budget" and row.refresh == "-":
            cells = [("any", cells[0][1])]  # no budget: the same samples stand in every column
        for column, cell in cells:
            means = [decimals(cell.mean(f), DIGITS.get(key, 1)) for key, f in FIGURES.items()]
            lines.append([row.label, row.refresh, str(column), *means, str(cell.errors)])
    return grid(["method", "refresh", table.by, *HEADINGS.values(), "errors"], lines)


def number(e: Estimate | None, measure: str, sign: str = "") -> str:
    """ "43.2 [36.1, 50.0]" """
    if e is None:
        return "-"
    mean, *ends = (decimals(x, DIGITS.get(measure, 1), sign) for x in (e.mean, e.low, e.high))
    return mean if e.low is None else f"{mean} [{', '.join(ends)}]"


def decimals(value: float | None, digits: int, sign: str = "") -> str:
    return "-" if value is None else f"{round(value, digits) + 0.0:{sign}.{digits}f}"  # + 0.0: never "-0.0"


def grid(header: list, lines: list) -> str:
    """A markdown table with every column as wide as its widest cell; all but the first set to the right."""
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    pad = [str.ljust, *[str.rjust] * (len(header) - 1)]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(
        f"| {' | '.join(f(cell, width) for f, cell, width in zip(pad, line, widths))} |"
        for line in [header, rule, *lines]
    )
