"""Tables from the runner's files: `python -m eval.table runs/ [--by budget|length|task] [--against METHOD]`.

Every rank of a run writes its own file; give the folder and they are merged. Ranks run with different settings, and
lines that contradict each other, are refused; runs with different settings get tables of their own.
"""

import argparse
import sys

from eval.against import check_against
from eval.arrange import tables
from eval.cells import MEASURES
from eval.layout import markdown
from eval.layout_csv import as_csv
from eval.merge import read_runs
from nanokv import UserError


def arguments(argv=None):
    p = argparse.ArgumentParser(prog="python -m eval.table")
    p.add_argument("runs", nargs="+", help="folders or .jsonl files")
    p.add_argument("--by", default="budget", help="columns: budget, length, task, or a detail: category, depth, ...")
    p.add_argument("--measure", default="score", choices=list(MEASURES), help="what the cells show (default: score)")
    p.add_argument("--against", metavar="METHOD", help="adds paired differences to this row")
    form = p.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="the default")
    form.add_argument("--csv", action="store_true", help="one cell a row")
    return p.parse_args(argv)


def make(args) -> str:
    """The text of all tables. UserError where the files, --by or --against do not fit."""
    read = read_runs(args.runs)
    made = [(runs, table) for runs in read for table in tables(runs.samples, args.by)]
    if not made:
        details = dict.fromkeys(key for runs in read for sample in runs.samples for key in sample["details"] or {})
        choices = ", ".join(["budget", "length", "task", *details])
        raise UserError(f"--by {args.by}: no sample has that; there are: {choices}")
    if args.against:
        check_against([table for _, table in made], args.against)
    write = as_csv if args.csv else markdown
    return write(made, args.measure, args.against)


def main(argv=None) -> int:
    args = arguments(argv)
    try:
        print(make(args), end="")
    except UserError as e:
        print(f"eval.table: error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
