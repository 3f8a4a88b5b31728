"""LongBench v1 (arXiv 2308.14508; repository THUDM/LongBench): its 16 English tasks, from DATA/longbench/NAME.jsonl.

The benchmark's average is the plain mean of the 16 scores. Samples come in the file's order, whatever the seed.
Five tasks are fed as a raw string, the rest in the chat template, as upstream advises.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from eval.metrics import best, classification, code_line, count, first_line, qa_f1, retrieval
from eval.similarity import edit_similarity, rouge_l
from eval.task import Request, Sample, Task, data_file
from eval.tasks.longbench_prompts import split_prompt
from nanokv import UserError

WHERE = (
    "Download: hf download THUDM/LongBench data.zip --repo-type dataset --local-dir DATA"
    " && unzip DATA/data.zip -d DATA && mv DATA/data DATA/longbench"
)


# What a metric makes of an answer and its sample: (score, whether an answer could be read).


def by_f1(answer: str, sample: Sample) -> tuple:
    return best(qa_f1, answer, sample.gold), bool(answer.strip())


def by_rouge(answer: str, sample: Sample) -> tuple:
    return best(rouge_l, answer, sample.gold), bool(answer.strip())


def by_class(answer: str, sample: Sample) -> tuple:
    classes = sample.meta["all_classes"]
    return best(partial(classification, classes=classes), answer, sample.gold), any(c in answer for c in classes)


def by_count(answer: str, sample: Sample) -> tuple:
    return best(count, answer, sample.gold), bool(re.search(r"\d", answer))


def by_paragraph(answer: str, sample: Sample) -> tuple:
    return best(retrieval, answer, sample.gold), bool(re.search(r"\d", answer))


def by_code(answer: str, sample: Sample) -> tuple:
    line = code_line(answer)
    # not trimmed, as `best` would: half of a short line can be its indentation
    return max(edit_similarity(line, gold) for gold in sample.gold), bool(line)


SCALE = {
    by_f1: "F1 over words, best over the references",
    by_rouge: "ROUGE-L F of rouge 1.0.1 (summary level), best over the references",
    by_class: "1 / classes named where the reference is one of them",
    by_count: "share of the numbers answered that are the reference",
    by_paragraph: "share of the numbers answered that are the reference paragraph's",
    by_code: "edit similarity of the first code line (rapidfuzz's ratio, whole percent), indentation included",
}


@dataclass(frozen=True)
class Row:
    """How one task is asked and scored. `ends`: how each input ends in the published file."""

    metric: Callable
    max_new_tokens: int
    chat: bool = True
    first_line: bool = False
    stop: str | None = None
    ends: str = ""


TABLE = {
    "narrativeqa": Row(by_f1, 128),
    "qasper": Row(by_f1, 128),
    "multifieldqa_en": Row(by_f1, 64),
    "hotpotqa": Row(by_f1, 32),
    "2wikimqa": Row(by_f1, 32),
    "musique": Row(by_f1, 32),
    "gov_report": Row(by_rouge, 512),
    "qmsum": Row(by_rouge, 512),
    "multi_news": Row(by_rouge, 512),
    "trec": Row(by_class, 64, chat=False, first_line=True, ends="Type:"),
    "triviaqa": Row(by_f1, 32, chat=False, first_line=True, ends="Answer:"),
    "samsum": Row(by_rouge, 128, chat=False, first_line=True, stop="newline", ends="Summary:"),
    "passage_count": Row(by_count, 32),
    "passage_retrieval_en": Row(by_paragraph, 32),
    "lcc": Row(by_code, 64, chat=False),
    "repobench-p": Row(by_code, 64, chat=False),
}


def score(answer: str, sample: Sample, row: Row) -> dict:
    value, answered = row.metric(first_line(answer) if row.first_line else answer, sample)
    return {"score": value, "answered": answered}


def load(request: Request, name: str, row: Row) -> list:
    """The file's first n rows. UserError that names file and line where a row lacks what the task needs."""
    path = data_file(request, f"longbench/{name}.jsonl", WHERE)
    samples = []
    with path.open(encoding="utf-8") as lines:
        for i, line in enumerate(lines, 1):
            if len(samples) == request.n:
                break
            if line.strip():
                samples.append(to_sample(checked(line, row, f"{path}, line {i}"), name, row))
    return samples


def to_sample(fields: dict, name: str, row: Row) -> Sample:
    context, question = split_prompt(name, fields["context"], fields["input"])
    return Sample(
        id=fields["_id"],
        context=context,
        question=question,
        gold=tuple(str(answer) for answer in fields["answers"]),
        max_new_tokens=row.max_new_tokens,
        chat=row.chat,
        stop=row.stop,
        meta={"length": fields.get("length"), "all_classes": fields.get("all_classes")},
    )


def checked(line: str, row: Row, where: str) -> dict:
    """The row of one line of the file."""
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: not JSON ({error.msg})") from error
    problem = wrong(fields, row)
    if problem:
        raise UserError(f"{where}: {problem}")
    return fields


def wrong(fields, row: Row) -> str | None:
    """What a row lacks, in words; None where it is whole."""
    if not isinstance(fields, dict):
        return "not a JSON object"
    for field in ("_id", "input", "context"):
        if not isinstance(fields.get(field), str):
            return f'"{field}" should be a string'
    answers = fields.get("answers")
    if not isinstance(answers, list) or not answers or not all(isinstance(a, str | int) for a in answers):
        return '"answers" should be a list of one or more strings'
    if row.metric is by_class and not isinstance(fields.get("all_classes"), list):
        return '"all_classes" should be a list'
    if not fields["input"].rstrip().endswith(row.ends):
        return f'"input" does not end in "{row.ends}": not the published file (some copies have lost these words)'
    return None


def task(name: str, row: Row) -> Task:
    return Task(f"longbench/{name}", partial(load, name=name, row=row), partial(score, row=row), SCALE[row.metric])


TASKS = {f"longbench/{name}": task(name, row) for name, row in TABLE.items()}
