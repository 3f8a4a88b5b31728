"""Paired differences to one method: the same samples and seeds under both, so that hard samples weigh on neither."""

from eval.arrange import Row, Table
from eval.cells import MEASURES, over_seeds
from eval.statistics import Estimate, difference
from nanokv import UserError


def base_row(table: Table, against: str) -> Row | None:
    """The row called `against`, or "LABEL refresh=WHEN" where one label evicts on several schedules."""
    found = [row for row in table.rows if against in (row.label, row.name)]
    if len(found) > 1:
        raise UserError(f"--against {against!r} could be: {', '.join(row.name for row in found)}")
    return found[0] if found else None


def check_against(made: list, against: str):
    """UserError where no table has that method."""
    if not any(base_row(table, against) for table in made):
        there = dict.fromkeys(row.label for table in made for row in table.rows)
        raise UserError(f"--against {against!r} was not run; there are: {', '.join(there)}")


def paired(table: Table, at: tuple, base: Row | None, measure: str) -> Estimate | None:
    """The cell `at` = (row, column) minus the base's cell of that column, over the samples and seeds that both have.

    None for the base itself, and where they share none.
    """
    if at[0] == base or (base, at[1]) not in table.cells:
        return None
    ours, theirs = (table.cells[row, at[1]].figures(MEASURES[measure]) for row in (at[0], base))
    return difference(over_seeds(common(ours, theirs)), over_seeds(common(theirs, ours)))


def common(ours: dict, theirs: dict) -> dict:
    """Our figures, {task: {(sample, seed): figure}}, where they have one too."""
    return {task: {key: of[key] for key in of if key in theirs.get(task, ())} for task, of in ours.items()}
