"""Qasper v0.3 (arXiv 2105.03011; allenai/qasper-led-baseline): all questions of the dev file, over whole papers.

Asked and scored as arXiv 2607.27600 does, which is not LongBench's qasper: a raw string whose instruction is frozen,
references in the paper's order of kinds, and an F1 that keeps only a leading yes, no or unanswerable. Upstream's own
Answer F1, without that rule, is among the details as "official". Samples come in the file's order, whatever the seed.
"""

import string
from collections.abc import Iterator
from itertools import islice

from eval.json_file import field, read_json
from eval.metrics import best, qa_f1, token_f1
from eval.task import Request, Sample, Task, data_file
from nanokv import UserError

FILE = "qasper/qasper-dev-v0.3.json"
WHERE = (
    "Download: mkdir -p DATA/qasper"
    " && curl -L https://qasper-dataset.s3.us-west-2.amazonaws.com/qasper-train-dev-v0.3.tgz"
    " | tar xz -C DATA/qasper qasper-dev-v0.3.json"
)
INSTRUCTION = (
    "You are an expert researcher. Read the following scientific paper carefully. Answer the user's question based"
    " only on the provided text. Responses can be extractive, abstractive or yes/no.\n\n"
    "1. Identify the relevant paragraphs, tables, or figures (Evidence).\n"
    "2. Formulate an answer based on the evidence.\n"
    '3. If the answer cannot be found in the text, respond with "Unanswerable".\n\n'
)
CONTEXT = INSTRUCTION + "Title: {title}\n\nAbstract:\n{abstract}\n\n{sections}"
QUESTION = "Question: {}\n\nAnswer:"
UNANSWERABLE = "unanswerable"


def load(request: Request) -> list:
    """The file's first n questions. UserError that names the file, paper, question and field where one is amiss."""
    path = data_file(request, FILE, WHERE)
    found = (
        sample for name, paper in read_json(path, dict).items() for sample in samples_of(name, paper, f"{path}, {name}")
    )
    return list(islice(found, request.n))


def samples_of(name: str, paper, where: str) -> Iterator:
    """One paper's: {"title": ..., "abstract": ..., "full_text": [...], "qas": [...]}."""
    context = CONTEXT.format(
        title=field(paper, "title", str, where),
        abstract=field(paper, "abstract", str, where),
        sections="".join(section(entry, where) for entry in field(paper, "full_text", list, where)),
    )
    for i, fields in enumerate(field(paper, "qas", list, where)):
        yield to_sample(f"{name}/{i}", context, fields, f"{where}, question {i}")


def section(entry, where: str) -> str:
    """Its name, if it has one, and its paragraphs, empty ones too."""
    paragraphs = field(entry, "paragraphs", list, where)
    if not all(isinstance(paragraph, str) for paragraph in paragraphs):
        raise UserError(f'{where}: "paragraphs" should be strings')
    name = entry.get("section_name")
    return (f"{name}:\n" if name else "") + "\n".join(paragraphs) + "\n\n"


def to_sample(name: str, context: str, fields, where: str) -> Sample:
    """One question, a reference for each annotator; meta's "official" has those that upstream's evaluator reads."""
    answers = [field(a, "answer", dict, where) for a in field(fields, "answers", list, where)]
    if not answers:
        raise UserError(f'{where}: "answers" is empty')
    return Sample(
        id=name,
        context=context,
        question=QUESTION.format(field(fields, "question", str, where)),
        gold=tuple(reference(answer, where) for answer in answers),
        max_new_tokens=128,
        frozen=len(INSTRUCTION),
        chat=False,
        meta={"official": tuple(official(answer) for answer in answers), "question_id": fields.get("question_id")},
    )


def reference(answer: dict, where: str) -> str:
    """The paper's order: unanswerable, yes or no, passages joined by spaces, free text. An empty one: unanswerable."""
    unanswerable = field(answer, "unanswerable", bool, where)
    passages = field(answer, "extractive_spans", list, where)
    if not all(isinstance(passage, str) for passage in passages):
        raise UserError(f'{where}: "extractive_spans" should be strings')
    free = field(answer, "free_form_answer", str, where)
    if not unanswerable and answer.get("yes_no") is not None:
        return "yes" if field(answer, "yes_no", bool, where) else "no"
    return UNANSWERABLE if unanswerable else " ".join(passages) or free or UNANSWERABLE


def official(answer: dict) -> str:
    """Upstream's order: unanswerable, passages joined by commas, free text, yes or no. (It refuses an empty one.)"""
    if answer["unanswerable"]:
        return UNANSWERABLE
    yes_no = {True: "yes", False: "no"}.get(answer.get("yes_no"), UNANSWERABLE)
    return ", ".join(answer["extractive_spans"]) or answer["free_form_answer"] or yes_no


def score(answer: str, sample: Sample) -> dict:
    return {
        "score": best(f1, answer, sample.gold),
        "answered": bool(answer.strip()),
        "official": best(qa_f1, answer, sample.meta["official"]),
    }


def f1(pred: str, gold: str) -> float:
    return token_f1(words(pred), words(gold))


def words(text: str) -> list:
    """Lower case, without ASCII punctuation; a leading yes, no or unanswerable alone, else all but a, an, the."""
    found = "".join(c for c in text.lower() if c not in string.punctuation).split()
    if found and found[0] in ("yes", "no", UNANSWERABLE):
        return found[:1]
    return [word for word in found if word not in ("a", "an", "the")]


TASKS = {"qasper": Task("qasper", load, score, "F1 over words, best over the annotators")}
