"""Our reading and checking of MATH500 answers beside those of published runs, sample by sample.

    python -m eval.check_math500 RUNS.jsonl... --data DATA

A run has a JSON object a line (.jsonl or .jsonl.gz): "id", "pred_raw", its answer "pred" (null without one), and its
verdict "correct". The references are those of DATA/math500/test.jsonl.
"""

import argparse
import gzip
import sys
from pathlib import Path

from eval.boxed import last_boxed
from eval.json_file import field
from eval.task import Request
from eval.tasks.math500 import load, rows, score
from nanokv import UserError


def arguments(argv=None):
    p = argparse.ArgumentParser(prog="python -m eval.check_math500")
    p.add_argument("runs", nargs="+", type=Path, help="files of runs, .jsonl or .jsonl.gz")
    p.add_argument("--data", type=Path, required=True, help="the folder that has math500/test.jsonl")
    return p.parse_args(argv)


def compared(path: Path, samples: dict) -> tuple[list, list]:
    """(our verdict on every answer of one run, a line in words for every one on which the run differs)."""
    verdicts, differing = [], []
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        for where, fields in rows(lines, path):
            name, text = field(fields, "id", str, where), field(fields, "pred_raw", str, where)
            if name not in samples:
                raise UserError(f"{where}: no problem {name} in the references")
            verdicts.append(bool(score(text, samples[name])["score"]))
            pred, (gold,) = last_boxed(text), samples[name].gold
            if pred != fields.get("pred"):
                differing.append(f"{name}: we read {pred!r}, the run {fields.get('pred')!r}")
            if verdicts[-1] != field(fields, "correct", bool, where):
                differing.append(
                    f"{name}: {pred!r} for {gold!r} is {verdicts[-1]} to us, {not verdicts[-1]} to the run"
                )
    return verdicts, differing


def main(argv=None) -> int:
    """1 where a run differs from us anywhere."""
    args, differences = arguments(argv), 0
    try:
        samples = {sample.id: sample for sample in load(Request(n=sys.maxsize, data=args.data))}
        for path in args.runs:
            verdicts, differing = compared(path, samples)
            if not verdicts:
                raise UserError(f"{path} has no answers")
            accuracy = sum(verdicts) / len(verdicts)
            print(
                f"{path.name}: accuracy {accuracy:.3f} of {len(verdicts)}, {len(differing)} differences",
                *differing,
                sep="\n  ",
            )
            differences += len(differing)
    except (UserError, OSError) as e:
        print("eval.check_math500: error: " + " ".join(str(e).split()), file=sys.stderr)
        return 1
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
