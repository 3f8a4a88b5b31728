"""LongHealth (arXiv 2401.14490; repository kbressem/LongHealth): 20 made-up patients with 20 questions of five options.

Asked as arXiv 2607.27600 asks it: one patient's records, a raw string, all 400 questions. That is none of the
benchmark's own three tasks, which add other patients' documents and a sixth option. The first sentence is frozen.
`longhealth` shows the options as they lie in the file, as the paper does; `longhealth_shuffled` in an order of each
question's own, so that a preference for one letter gains nothing. Samples come in the file's order, whatever the seed.
"""

import random
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice

from eval.json_file import field, read_json
from eval.task import Request, Sample, Task, data_file
from nanokv import UserError

FILE = "longhealth/benchmark_v5.json"
WHERE = (
    f"Download: curl --create-dirs -Lo DATA/{FILE}"
    " https://raw.githubusercontent.com/kbressem/LongHealth/main/data/benchmark_v5.json"
)
INSTRUCTION = (
    "Read the following patient records and answer the multiple-choice question by responding with only the letter"
    " of the correct answer (A, B, C, D, or E).\n\n"
)
CONTEXT = INSTRUCTION + "Patient Records:\n{records}\n\n"
QUESTION = "Question: {question}\n\n{options}\n\nAnswer:"
LETTERS = "ABCDE"

# A letter that begins the answer, neither part of a word nor an article; and one that is marked: C) C. C: **C**
FIRST = re.compile(r"[\s*(]*([A-E])(?![\w'’-]| [a-z])")
MARKED = re.compile(r"(?<!\S)[*(]*([A-E])[).:*]")


def load(request: Request, shuffled: bool = False) -> list:
    """The file's first n questions. UserError that names the file, patient, question and field where one is amiss."""
    path = data_file(request, FILE, WHERE)
    found = (
        sample
        for patient, record in read_json(path, dict).items()
        for sample in samples_of(patient, record, shuffled, f"{path}, {patient}")
    )
    return list(islice(found, request.n))


def samples_of(patient: str, record, shuffled: bool, where: str) -> Iterator:
    """One patient's: {"texts": {name: text}, "questions": [...]}."""
    texts = field(record, "texts", dict, where)
    context = CONTEXT.format(records="\n\n".join(field(texts, name, str, f"{where}, texts") for name in texts))
    for i, fields in enumerate(field(record, "questions", list, where)):
        yield to_sample(f"{patient}/{i}", context, fields, shuffled, f"{where}, question {i}")


def to_sample(name: str, context: str, fields, shuffled: bool, where: str) -> Sample:
    """`gold` is the letter shown; meta's "order" has the file's letter for each letter shown.

    The right option is the first whose text is "correct": one question has it twice, and the other counts as wrong.
    """
    options = [field(fields, f"answer_{letter.lower()}", str, where) for letter in LETTERS]
    correct = field(fields, "correct", str, where)
    if correct not in options:
        raise UserError(f'{where}: "correct" is none of the five answers')
    order = shown_order(name) if shuffled else LETTERS
    shown = "\n".join(f"{letter}) {options[LETTERS.index(at)]}" for letter, at in zip(LETTERS, order))
    return Sample(
        id=name,
        context=context,
        question=QUESTION.format(question=field(fields, "question", str, where), options=shown),
        gold=(LETTERS[order.index(LETTERS[options.index(correct)])],),
        max_new_tokens=16,
        frozen=len(INSTRUCTION),
        chat=False,
        meta={"order": order, "patient": name.split("/")[0]},
    )


def shown_order(name: str) -> str:
    """The five letters in an order that depends on the question's name alone."""
    return "".join(random.Random(f"longhealth {name}").sample(LETTERS, len(LETTERS)))


def score(answer: str, sample: Sample) -> dict:
    """1 for the right letter. Thinking is not read. Beside it, in the file's own letters, what was chosen and right.

    "read": how the letter was found, where a "fallback" may be chance; "released": the score by the paper's reading,
    to which "Based on" is B, and which is what the fallback does.
    """
    letter, read = read_letter(spoken(answer))
    gold, order = sample.gold[0], sample.meta["order"]
    return {
        "score": float(letter == gold),
        "answered": letter is not None,
        "chosen": letter and order[LETTERS.index(letter)],
        "correct": order[LETTERS.index(gold)],
        "read": read,
        "released": float(any_letter(spoken(answer)) == gold),
        "patient": sample.meta["patient"],
    }


def spoken(answer: str) -> str:
    """The answer without its thinking: what is behind the last </think>, and before a <think> that does not end."""
    return answer.rpartition("</think>")[2].partition("<think>")[0]


def read_letter(text: str) -> tuple:
    """(letter or None, "first", "marked", "fallback" or "none")."""
    if found := FIRST.match(text):
        return found[1], "first"
    if found := MARKED.search(text):
        return found[1], "marked"
    letter = any_letter(text)
    return letter, "fallback" if letter else "none"


def any_letter(text: str) -> str | None:
    """The released code's reading: the first capital A to E, wherever it stands."""
    return next((c for c in text if c in LETTERS), None)


SCALE = "accuracy over five options"
TASKS = {
    "longhealth": Task("longhealth", load, score, f"{SCALE}, in the file's order"),
    "longhealth_shuffled": Task(
        "longhealth_shuffled", partial(load, shuffled=True), score, f"{SCALE}, shuffled for each question"
    ),
}
