"""RULER's eight needle tasks: sentences that give a key a magic value, hidden in noise, essays or other needles."""

import random
import re
from dataclasses import dataclass
from functools import partial

from eval.essay import essays
from eval.task import Request, Sample
from eval.tasks import ruler
from eval.tasks.ruler_words import number, pair, random_uuid, unused

DRAW = {"words": pair, "numbers": number, "uuids": random_uuid}
NEEDLE = "One of the special magic {type_v} for {key} is: {value}."
CONTEXT = (
    "Some special magic {type_v} are hidden within the following text. Make sure to memorize it."
    " I will quiz you about the {type_v} afterwards.\n{context}\n"
)
QUESTION = "What are all the special magic {type_v} for {query} mentioned in the provided text?"
PREFIX = " The special magic {type_v} for {query} mentioned in the provided text are"
DEPTHS = [round(100 * i / 39) for i in range(40)]  # percent
ESSAY_STEP = 10  # words; fewer tokens than a needle has


@dataclass(frozen=True)
class Kind:
    """What sets the eight apart. `n_keys` keys with `n_values` values each, of which `n_queries` keys are asked for."""

    haystack: str  # "noise", "essay" or "needle"
    key_type: str = "words"
    value_type: str = "numbers"
    n_keys: int = 1
    n_values: int = 1
    n_queries: int = 1


def load(request: Request, task: str, row: ruler.Row) -> list:
    """Samples of one needle task. meta: "haystack" (the essays' name, "noise" or "needle"), "depths" in percent of
    the haystack's sentences or lines, one for each needle in the order of the text."""
    kind = Kind(**row.options)
    words, name = [], kind.haystack
    if kind.haystack == "essay":
        text, name = essays(request.data, request.seed, request.length)  # no word takes less than a token
        words = text.split()
    write = partial(sample, request, task, kind, words, name, row.max_new_tokens)
    return [ruler.fit_or_refuse(request, task, partial(write, index)) for index in range(request.n)]


def sample(
    request: Request, task: str, kind: Kind, words: list, name: str, max_new_tokens: int, index: int, size: int
) -> Sample:
    """One sample. `size` is lines of noise or of needles, or steps of ESSAY_STEP words."""
    rng, taken = ruler.stream(request, task, index), set()
    new_key, new_value = (partial(unused, partial(DRAW[t], rng), taken) for t in (kind.key_type, kind.value_type))
    values = {new_key(): [new_value() for _ in range(kind.n_values)] for _ in range(kind.n_keys)}
    asked = rng.sample(list(values), kind.n_queries)

    needles = [needle(kind, key, value) for key in values for value in values[key]]
    needles = ruler.fixed_order(request, needles)
    if kind.haystack == "essay":
        context, depths = into_essay(rng, words[: size * ESSAY_STEP], needles)
    elif kind.haystack == "noise":
        context, depths = into_lines(rng, [ruler.NOISE] * size, needles)
    else:
        context, depths = into_lines(rng, [needle(kind, new_key(), new_value()) for _ in range(size)], needles)

    template, question, prefix = texts(kind, asked)
    return Sample(
        id=str(index),
        context=template.format(context=context),
        question=question,
        gold=tuple(value for key in asked for value in values[key]),
        max_new_tokens=max_new_tokens,
        prefix=prefix,
        meta={"haystack": name, "depths": depths},
    )


def needle(kind: Kind, key: str, value: str) -> str:
    return NEEDLE.format(type_v=kind.value_type, key=key, value=value)


def into_essay(rng: random.Random, words: list, needles: list) -> tuple:
    """(text, depths) with each needle before the sentence that many percent down.

    Upstream splits sentences with NLTK's punkt model, which is a download; this split moves a needle by a sentence at
    most, so the text is not byte-identical.
    """
    sentences = re.split(r"(?<=[.!?]) ", " ".join(words))
    depths = sorted(rng.sample(DEPTHS, len(needles)))
    places = [int(len(sentences) * depth / 100) for depth in depths]
    for place, text in reversed(list(zip(places, needles))):
        sentences.insert(place, text)
    return " ".join(sentences), depths


def into_lines(rng: random.Random, lines: list, needles: list) -> tuple:
    """(text, depths) with the needles before lines drawn without repeat, the first needle at the last of them."""
    places = sorted(rng.sample(range(len(lines)), len(needles)))
    depths = [100 * place / len(lines) for place in places]
    for place, text in zip(reversed(places), needles):
        lines.insert(place, text)
    return "\n".join(lines), depths


def texts(kind: Kind, asked: list) -> tuple:
    """(what stands before the question, {context} still open, question, prefix). One value of one key is put in the
    singular by upstream's replacements: "Some ... are" becomes "A ... is"."""
    templates, type_v = (CONTEXT, QUESTION, PREFIX), kind.value_type
    if kind.n_queries * kind.n_values == 1:
        templates = (t.replace("Some", "A").replace("are all", "is").replace("are", "is") for t in templates)
        type_v = type_v.removesuffix("s")
    return tuple(t.format(type_v=type_v, query=listed(asked), context="{context}") for t in templates)


def listed(keys: list) -> str:
    """a; a, and b; a, b, and c."""
    return keys[0] if len(keys) == 1 else ", ".join(keys[:-1]) + ", and " + keys[-1]


TASKS = ruler.tasks("niah", load)
