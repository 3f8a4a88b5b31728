"""RULER's variable tracking: one chain of assignments hidden in noise, behind one solved example."""

import random
import string
from functools import partial
from itertools import pairwise

from eval.task import Request, Sample
from eval.tasks import ruler
from eval.tasks.ruler_words import unused

CONTEXT = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n{context}\n"
QUESTION = "Question: Find all variables that are assigned the value {value} in the text above."
PREFIX = (
    " Answer: According to the chain(s) of variable assignment in the text above, {n} variables are assigned the value"
    " {value}, they are: "
)
HOPS = 4
EXAMPLE_LENGTH = 500  # tokens of the example as a prompt of its own, chat wrapper included, without its answer


def load(request: Request, task: str, row: ruler.Row) -> list:
    """Samples of variable tracking. UserError for a length too short for the example and a chain (some 800 tokens)."""
    example = solved_example(request, task)
    write = partial(sample, request, task, row.max_new_tokens, example)
    return [ruler.fit_or_refuse(request, task, partial(write, index), HOPS + 1) for index in range(request.n)]


def sample(request: Request, task: str, max_new_tokens: int, example: str, index: int, size: int) -> Sample:
    """One sample with `size` lines of noise. The example's names and value are drawn anew for each."""
    rng = ruler.stream(request, task, index)
    (value, example_value), names, example_names = values(rng), variables(rng, 5), variables(rng, 3)
    context, question, prefix = parts(rng, names, value, size)
    return Sample(
        id=str(index),
        context=example.format(*example_names, value=example_value) + context,
        question=question,
        gold=tuple(names),
        max_new_tokens=max_new_tokens,
        prefix=prefix,
        meta={"haystack": "noise"},
    )


def solved_example(request: Request, task: str) -> str:
    """The example, its five names open as {0} ... {4} and its value as {value}. Its length is measured with drawn
    three-letter names and the value 12345."""
    names = variables(ruler.stream(request, task, "example names"), 3)

    def filled(size: int) -> Sample:
        context, question, prefix = parts(ruler.stream(request, task, "example"), names, "12345", size)
        return Sample("example", context, question, tuple(names), 0, prefix, meta={"size": size})

    built = ruler.fit(request, filled, HOPS + 1, room=EXAMPLE_LENGTH)
    if built is None:
        raise ruler.too_short(request, task, ruler.needed(request, filled(HOPS + 1)))
    open_names = [f"{{{i}}}" for i in range(HOPS + 1)]
    text = parts(ruler.stream(request, task, "example"), open_names, "{value}", built.meta["size"])
    return "".join(text) + " " + " ".join(open_names) + "\n\n"


def parts(rng: random.Random, names: list, value: str, size: int) -> tuple:
    """(context, question, prefix): the chain in its order at random places of `size` lines of noise."""
    chain = [f"VAR {names[0]} = {value}", *(f"VAR {new} = VAR {old} " for old, new in pairwise(names))]
    lines = [ruler.NOISE] * size
    for n, place in enumerate(sorted(rng.sample(range(size), len(chain)))):
        lines.insert(place + n, chain[n])
    context = CONTEXT.format(context="\n".join(lines))
    return context, QUESTION.format(value=value), PREFIX.format(n=len(names), value=value)


def variables(rng: random.Random, n_letters: int) -> list:
    """Distinct names of capital letters; none is VAR."""
    taken = {"VAR"}
    return [unused(lambda: "".join(rng.choices(string.ascii_uppercase, k=n_letters)), taken) for _ in range(HOPS + 1)]


def values(rng: random.Random) -> list:
    """The value of the sample, and another one for the example."""
    return [str(value) for value in rng.sample(range(10_000, 99_999), 2)]


TASKS = ruler.tasks("vt", load)
