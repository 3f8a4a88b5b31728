r"""AIME 2024 and 2025 in thinking mode (arXiv 2607.27600, Table 3), from DATA/aime/aime2024.jsonl and aime2025.jsonl.

The paper prints no prompt and its code has no such task: here the question is asked in the chat template, as the cards
of Qwen's models advise, and decoding ends where the model ends it. Answers are whole numbers from 0 to 999. Samples
come in the file's order, whatever the seed.
"""

import re
from functools import partial

from eval.boxed import last_boxed
from eval.task import Request, Sample, Task, data_file
from eval.tasks.math500 import rows
from nanokv import UserError

DOWNLOAD = "Download: hf download {} --repo-type dataset --local-dir DATA/aime"
WHERE = {
    "aime2024": DOWNLOAD.format("Maxwell-Jia/AIME_2024 aime_2024_problems.parquet")
    + " && python -c \"import pandas; pandas.read_parquet('DATA/aime/aime_2024_problems.parquet')"
    ".to_json('DATA/aime/aime2024.jsonl', orient='records', lines=True)\"",
    "aime2025": DOWNLOAD.format("math-ai/aime25 test.jsonl") + " && mv DATA/aime/test.jsonl DATA/aime/aime2025.jsonl",
}
PROMPT = "{}\nPlease reason step by step, and put your final answer within \\boxed{{}}."
NAMES = {  # of fields in the copies that go round, whatever their case
    "id": ("id", "unique_id", "problem_idx"),
    "problem": ("problem", "question"),
    "answer": ("answer",),
}
UNSEEN = re.compile(r"\\[!,;: ]|[\s,$]|\^\{?\\circ\}?")  # in 1,024 and 336^\circ
SCALE = "1 where the last \\boxed{...} is the reference, a whole number"


def load(request: Request, name: str) -> list:
    """The file's first n problems. UserError that names file, line and field, or two lines that are the same."""
    path = data_file(request, f"aime/{name}.jsonl", WHERE[name])
    samples, seen = [], {}
    with path.open(encoding="utf-8") as lines:
        for where, fields in rows(lines, path):
            sample = to_sample(fields, len(samples), where)
            for what in (f"id {sample.id}", f"problem {sample.context}"):
                if what in seen:
                    raise UserError(f"{where}: repeats the {what.split()[0]} of {seen[what]}; each should stand once")
                seen[what] = where
            samples.append(sample)
    return samples[: request.n]


def to_sample(fields, index: int, where: str) -> Sample:
    """One problem; where the file has no id, its index is one."""
    gold, problem = whole_number(named(fields, "answer", where)), named(fields, "problem", where)
    if gold is None or len(gold) > 3:
        raise UserError(f'{where}: "answer" should be a whole number from 0 to 999')
    if not problem:
        raise UserError(f'{where}: "problem" should be a string')
    return Sample(
        id=named(fields, "id", where) or str(index),
        context=PROMPT.format(problem),
        question="",
        gold=(gold,),
        max_new_tokens=16384,
    )


def named(fields, what: str, where: str) -> str:
    """The field of that meaning as text; "" where there is none."""
    if not isinstance(fields, dict):
        raise UserError(f"{where}: not a JSON object")
    known = {name.lower(): value for name, value in fields.items()}
    return next((str(known[name]) for name in NAMES[what] if known.get(name) is not None), "")


def whole_number(text: str) -> str | None:
    """Its digits without leading zeros, spaces, commas and a degree sign; None where anything else is in it."""
    text = UNSEEN.sub("", text)
    return (text.lstrip("0") or "0") if re.fullmatch("[0-9]+", text) else None


def score(answer: str, sample: Sample) -> dict:
    """`answered`: whether there is a box with something in it (the table's pred=None). `thought`: whether the
    thinking block ended."""
    pred = last_boxed(answer)
    right = bool(pred) and whole_number(pred) == sample.gold[0]
    return {"score": float(right), "answered": bool(pred), "thought": "</think>" in answer}


TASKS = {name: Task(name, partial(load, name=name), score, SCALE) for name in WHERE}
