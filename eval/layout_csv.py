"""Tables as CSV: one cell a row, figures unrounded, empty where there is none."""

import csv
import io

from eval.against import base_row, paired
from eval.arrange import Table
from eval.cells import FIGURES
from eval.merge import NAMED, Runs
from eval.published import published

FIELDS = ["model", "dtype", "device", "settings", "ask", "subject", "by", "column", "method", "refresh", "budget"]
FIELDS += ["measure", "mean", "low", "high", "n", "runs", "tasks", *FIGURES, "errors"]
DIFFERENCE = ["difference", "difference_low", "difference_high", "difference_n", "difference_tasks"]
FIELDS += ["against", *DIFFERENCE, "published", "source"]


def as_csv(made: list, measure: str = "score", against: str | None = None) -> str:
    text = io.StringIO()
    out = csv.DictWriter(text, FIELDS, restval="", lineterminator="\n")
    out.writeheader()
    for runs, table in made:
        for row in table.rows:
            for column in table.columns:
                if (row, column) in table.cells:
                    out.writerow(line(table, (row, column), runs, measure, against))
    return text.getvalue()


def line(table: Table, at: tuple, runs: Runs, measure: str, against: str | None) -> dict:
    """`runs` counts lines of the files, seeds too; `n` the samples. Several published figures are joined by " | "."""
    (row, column), cell, e = at, table.cells[at], table.cells[at].estimate(measure)
    found = published(runs.settings, cell, row, table.ask) if measure == "score" else []
    return {
        **{key: runs.settings.get(key) for key in NAMED},
        "settings": runs.further,
        **{"ask": table.ask, "subject": table.subject, "by": table.by, "column": column},
        **{"method": row.label, "refresh": row.refresh, "budget": cell.samples[0]["budget"], "measure": measure},
        **({"mean": e.mean, "low": e.low, "high": e.high, "n": e.n} if e else {}),
        **{"runs": len(cell.samples), "tasks": len(cell.tasks), "errors": cell.errors},
        **{key: cell.mean(figure) for key, figure in FIGURES.items()},
        **(compared(table, at, measure, against) if against else {}),
        **{"published": " | ".join(str(p.figure) for p in found), "source": " | ".join(p.source for p in found)},
    }


def compared(table: Table, at: tuple, measure: str, against: str) -> dict:
    base = base_row(table, against)
    found = paired(table, at, base, measure)
    if found is None:
        return {}
    figures = (found.mean, found.low, found.high, found.n, found.n_tasks)
    return {"against": base.name, **dict(zip(DIFFERENCE, figures))}
