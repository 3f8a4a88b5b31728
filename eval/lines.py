"""One file of results, read and checked line by line: what eval.record has written, for eval.merge."""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from nanokv import UserError

NONE = type(None)
FIELDS = {
    **dict.fromkeys(("key", "task", "sample", "method", "label", "ask"), str),
    **{"budget": int | NONE, "every": int | str | NONE, "seed": int, "n_cut": int | NONE},
    **{"score": int | float | NONE, "answered": bool, "details": dict | NONE, "error": str | NONE},
    **dict.fromkeys(("kept_rows", "bytes_held", "peak_rows"), int | float | NONE),
    **dict.fromkeys(("seconds", "fidelity"), dict | NONE),
}
FIDELITY = ("kl", "top1", "nll")


@dataclass(frozen=True)
class File:
    """`settings` is None where a run was killed before its first line. `samples`: (line number, sample), ..."""

    path: Path
    settings: dict | None
    samples: list


def read_file(path: Path) -> File:
    """UserError names file and line. A last line that a run has not finished is left out, and said so."""
    lines = path.read_bytes().split(b"\n")
    if lines.pop():
        print(f"{path}: the last line is unfinished, so it is left out", file=sys.stderr)
    if not lines:
        return File(path, None, [])
    settings, *samples = (parse(line, f"{path}:{number}") for number, line in enumerate(lines, 1))
    if not isinstance(settings.get("settings"), dict):
        raise UserError(f"{path} does not begin with a line of settings")
    for number, sample in enumerate(samples, 2):
        check(sample, f"{path}:{number}")
    return File(path, settings["settings"], list(enumerate(samples, 2)))


def parse(line: bytes, where: str) -> dict:
    try:
        value = json.loads(line)
    except ValueError:  # also bytes that are no UTF-8
        value = None
    if not isinstance(value, dict):
        raise UserError(f"{where} is not a JSON object")
    return value


def check(sample: dict, where: str):
    """UserError where a field that the tables need is absent or makes no sense."""
    lacking = [name for name in FIELDS if name not in sample]
    if lacking:
        raise UserError(f"{where} lacks {', '.join(lacking)}")
    wrong = [name for name, fits in FIELDS.items() if not isinstance(sample[name], fits)]
    if sample["ask"] not in ("before", "after"):
        wrong.append("ask")
    if sample["error"] is None and not (number(sample["score"]) and math.isfinite(sample["score"])):
        wrong.append("score")
    for name, parts in (("fidelity", FIDELITY), ("seconds", sample["seconds"] or ())):
        if sample[name] and name not in wrong and not all(number(sample[name].get(part)) for part in parts):
            wrong.append(name)
    if wrong:
        raise UserError(f"{where}: {wrong[0]} cannot be {sample[wrong[0]]!r}")


def number(value) -> bool:
    return isinstance(value, int | float)
