"""LoCoMo (arXiv 2402.17753; repository snap-research/locomo): 10 long conversations, 1,986 questions in 5 categories.

Asked as arXiv 2607.27600 asks it: a raw string whose instruction is frozen, which is not the benchmark's own set-up.
Categories: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial (some code mislabels them). Scored as
upstream's task_eval/evaluation.py does. Category 5 is won by refusing, so by a cache that lost everything: read
`eval.table --by category`, or `--by categories` for the mean over 1-4. Samples come in the file's order, any seed.

The released code counts the frozen tokens with both names left empty, a few fewer; here all of the instruction is.
"""

import re
import string
from collections.abc import Iterator
from itertools import islice
from statistics import fmean

from eval.json_file import field, read_json
from eval.metrics import token_f1
from eval.task import Request, Sample, Task, data_file
from nanokv import UserError

try:
    from nltk.stem import PorterStemmer
except ImportError as error:
    raise UserError("nltk is missing: pip install -r eval/requirements.txt") from error

FILE = "locomo/locomo10.json"
WHERE = (
    f"Download: curl --create-dirs -Lo DATA/{FILE}"
    " https://raw.githubusercontent.com/snap-research/locomo/main/data/locomo10.json"
)
INSTRUCTION = (
    "You are an AI assistant tasked with analyzing a conversation between {} and {}. Based on the provided"
    " conversation sessions, answer the question accurately. Focus on recalling past facts, user preferences, and"
    " temporal relationships. Answer the question using exact words from the conversation when possible.\n\n"
)
MAY_REFUSE = (
    'If the answer cannot be found in the conversation, respond with "no information available".\n'  # category 5 only
)
QUESTION = "Question: {}\nAnswer:"
REFUSALS = ("no information available", "not mentioned")
STEMMER = PorterStemmer()


def load(request: Request) -> list:
    """The file's first n questions. UserError that names the file, conversation and field where one is amiss."""
    path = data_file(request, FILE, WHERE)
    found = (sample for i, entry in enumerate(read_json(path, list)) for sample in samples_of(entry, f"{path}, [{i}]"))
    return list(islice(found, request.n))


def samples_of(entry, where: str) -> Iterator:
    """One conversation's: {"sample_id": name, "conversation": {...}, "qa": [...]}."""
    name = field(entry, "sample_id", str, where)
    where = f"{where} {name}"
    lines, speakers = render(field(entry, "conversation", dict, where), where)
    instruction = INSTRUCTION.format(*speakers)
    context = instruction + "Input: " + "\n".join(lines) + "\n\n"
    for i, fields in enumerate(field(entry, "qa", list, where)):
        yield to_sample(f"{name}/{i}", context, len(instruction), fields, f"{where}, qa {i}")


def to_sample(name: str, context: str, frozen: int, fields, where: str) -> Sample:
    """`gold`: what scores 1. meta's "answer" is the file's, or its adversarial one where there is no other."""
    category = field(fields, "category", int, where)
    if category not in range(1, 6):
        raise UserError(f'{where}: "category" should be 1 to 5')
    answer = fields.get("answer", fields.get("adversarial_answer"))
    if isinstance(answer, bool) or not isinstance(answer, str | int):
        raise UserError(f'{where}: "answer" or "adversarial_answer" should be a string')
    question = QUESTION.format(field(fields, "question", str, where))
    return Sample(
        id=name,
        context=context,
        question=MAY_REFUSE + question if category == 5 else question,
        gold=references(str(answer), category),
        max_new_tokens=32,
        frozen=frozen,
        chat=False,
        meta={"category": category, "answer": str(answer)},
    )


def references(answer: str, category: int) -> tuple:
    """Upstream: in category 3 the answer ends at its first ";", reasons follow; in 5 only a refusal is right."""
    if category == 5:
        return REFUSALS
    return (answer.split(";")[0].strip() if category == 3 else answer,)


def render(conversation: dict, where: str) -> tuple:
    """(lines, the first two speakers): each session headed by its date, a turn a line, pictures by their caption."""
    numbers = sorted(int(key[8:]) for key in conversation if re.fullmatch(r"session_\d+", key))
    lines, speakers = [], {}
    for session in (f"session_{number}" for number in numbers):
        date = conversation.get(f"{session}_date_time")
        lines += [f"[{date}]"] if date else []
        for turn in field(conversation, session, list, where):
            speaker = field(turn, "speaker", str, f"{where}, {session}")
            caption = turn.get("blip_caption")
            picture = f" [shared image: {caption}]" if caption else ""
            lines.append(f"{speaker}: {field(turn, 'text', str, f'{where}, {session}')}{picture}")
            speakers[speaker] = True
    if len(speakers) < 2:
        raise UserError(f"{where}: a conversation needs two speakers, this one has {len(speakers)}")
    return lines, list(speakers)[:2]


def score(answer: str, sample: Sample) -> dict:
    """Upstream's; "released" is the counter-causal paper's, which takes a category 3 answer whole.

    "categories": "1-4" or "5", so that a table can have the mean without the adversarial ones.
    """
    category = sample.meta["category"]
    return {
        "score": value(answer, sample.gold[0], category),
        "answered": bool(answer.strip()),
        "category": category,
        "categories": "5" if category == 5 else "1-4",
        "released": value(answer, sample.meta["answer"], category),
    }


def value(answer: str, gold: str, category: int) -> float:
    if category == 5:
        return float(any(refusal in answer.lower() for refusal in REFUSALS))
    return f1_of_parts(answer, gold) if category == 1 else f1(answer, gold)


def f1_of_parts(answer: str, gold: str) -> float:
    """Mean over the comma-separated parts of the gold of the best F1 with any part of the answer."""
    return fmean(max(f1(part, wanted) for part in answer.split(",")) for wanted in gold.split(","))


def f1(answer: str, gold: str) -> float:
    return token_f1(stems(answer), stems(gold))


def stems(text: str) -> list:
    """Lower case, without ASCII punctuation, without the words a, an, the, and; each word's Porter stem."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return [STEMMER.stem(word) for word in re.sub(r"\b(a|an|the|and)\b", " ", text).split()]


SCALE = "F1 over stemmed words (category 1: over comma-separated parts; category 5: 1 for a refusal)"
TASKS = {"locomo": Task("locomo", load, score, SCALE)}
