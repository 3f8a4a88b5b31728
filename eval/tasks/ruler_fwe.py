"""RULER's frequent words: made-up words whose counts fall as rank^-2; the first rank is dots, the next three count."""

import math
import string
from functools import partial

from eval.task import Request, Sample
from eval.tasks import ruler
from eval.tasks.ruler_words import unused

CONTEXT = (
    "Read the following coded text and track the frequency of each coded word."
    " Find the three most frequently appeared coded words. {context}\n"
)
QUESTION = (
    "Question: Do not provide any explanation. Please ignore the dots '....'."
    " What are the three most frequently appeared words in the above coded text?"
)
PREFIX = " Answer: According to the coded text above, the three most frequently appeared words are:"
N_LETTERS = 6
PER_WORD = 50  # tokens of text for each word of the vocabulary
LEAST = 53  # words of text; from here on rank 4 stands there more often than rank 5
ZETA_2 = math.pi**2 / 6  # the counts' sum over all ranks: floor(N * rank^-2 / zeta(2)) is rank's share of N words


def load(request: Request, task: str, row: ruler.Row) -> list:
    """Samples of frequent words. The text grows in steps of 1/32 of the length, so a sample is up to that many words
    short of it. UserError for a length under some 400 tokens."""
    one_token = Sample("one token", "a", "", (), row.max_new_tokens)
    free = request.length - ruler.needed(request, one_token) + 1  # without the answer and the chat wrapper
    if free < LEAST * N_LETTERS:
        raise ruler.too_short(request, task, request.length - free + LEAST * N_LETTERS)
    write = partial(sample, request, task, row.max_new_tokens, free)
    most = 32  # steps: more words than tokens
    return [ruler.fit_or_refuse(request, task, partial(write, index), 0, most) for index in range(request.n)]


def sample(request: Request, task: str, max_new_tokens: int, free: int, index: int, size: int) -> Sample:
    """One sample with `size` steps more words than it starts with."""
    rng, taken = ruler.stream(request, task, index), set()
    n_words = free // N_LETTERS + size * (free // 32)
    new_word = partial(unused, lambda: "".join(rng.choices(string.ascii_lowercase, k=N_LETTERS)), taken)
    words = ruler.fixed_order(request, sorted(new_word() for _ in range(free // PER_WORD)))
    coded = coded_text(["...", *words[1:]], n_words)
    return Sample(
        id=str(index),
        context=CONTEXT.format(context=" ".join(ruler.fixed_order(request, coded))),
        question=QUESTION,
        gold=tuple(words[1:4]),
        max_new_tokens=max_new_tokens,
        prefix=PREFIX,
    )


def coded_text(words: list, n_words: int) -> list:
    """Each word as often as its rank says, most frequent first."""
    return [word for rank, word in enumerate(words, start=1) for _ in range(int(n_words / rank**2 / ZETA_2))]


TASKS = ruler.tasks("fwe", load)
