r"""MATH500 (arXiv 2305.20050's test split), from DATA/math500/test.jsonl, asked as arXiv 2607.27600's code asks it.

A raw string, no chat template; decoding ends at the first complete \boxed{...}. Samples come in the file's order,
whatever the seed.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from eval.boxed import last_boxed
from eval.json_file import field
from eval.math_check import equal, prepare
from eval.task import Request, Sample, Task, data_file
from nanokv import UserError

WHERE = "Download: hf download HuggingFaceH4/MATH-500 test.jsonl --repo-type dataset --local-dir DATA/math500"
BEFORE = (
    "Solve the following math problem. Show your reasoning step by step, then put your final answer in \\boxed{}.\n\n"
    "Problem: "
)
AFTER = "\n\nSolution:"
SCALE = "1 where the last \\boxed{...} equals the reference, by math-verify"


def load(request: Request) -> list:
    """The file's first n problems. UserError where math-verify is missing, or naming file, line and field."""
    prepare()
    path = data_file(request, "math500/test.jsonl", WHERE)
    with path.open(encoding="utf-8") as lines:
        return [to_sample(fields, where) for where, fields in islice(rows(lines, path), request.n)]


def rows(lines: Iterable[str], path: Path) -> Iterator:
    """(file and line in words, what is on it) of every line that is not empty. UserError where it is not JSON."""
    number = 0
    try:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{path}, line {number}", json.loads(line)
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8, behind line {number}") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {number}: not JSON ({error.msg})") from None


def to_sample(fields, where: str) -> Sample:
    return Sample(
        id=field(fields, "unique_id", str, where),
        context=BEFORE + field(fields, "problem", str, where) + AFTER,
        question="",
        gold=(field(fields, "answer", str, where),),
        max_new_tokens=2048,
        chat=False,
        stop="boxed",
        meta={"subject": fields.get("subject"), "level": fields.get("level")},
    )


def score(answer: str, sample: Sample) -> dict:
    """`answered`: whether there is a box with something in it."""
    pred = last_boxed(answer)
    right = bool(pred) and equal(pred, sample.gold[0])
    return {"score": float(right), "answered": bool(pred), **sample.meta}


TASKS = {"math500": Task("math500", load, score, SCALE)}
