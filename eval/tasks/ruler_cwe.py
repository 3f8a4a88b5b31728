"""RULER's common words: ten words stand more often than the others in a numbered list, behind one solved example."""

from functools import partial

from eval.task import Request, Sample
from eval.tasks import ruler
from eval.tasks.ruler_words import all_words, pair, unused

CONTEXT = (
    "Below is a numbered list of words. In these words, some appear more often than others."
    " Memorize the ones that appear most often.\n{context}\n"
)
QUESTION = "Question: What are the 10 most common words in the above list?"
PREFIX = " Answer: The top 10 words that appear most often in the list are:"
N_COMMON = 10


def load(request: Request, task: str, row: ruler.Row) -> list:
    """Samples of common words. meta: "words" says where they are from, "n_words" how many the list holds.

    UserError for a length too short for the example and one uncommon word (some 900 tokens).
    """
    write = partial(sample, request, task, row.max_new_tokens)
    return [ruler.fit_or_refuse(request, task, partial(write, i), N_COMMON + 1) for i in range(request.n)]


def sample(request: Request, task: str, max_new_tokens: int, index: int, size: int) -> Sample:
    """One sample of `size` distinct words."""
    rng, long = ruler.stream(request, task, index), request.length >= 4096
    example = solved(request, rng.sample(all_words(), 40 if long else 20), *((10, 3) if long else (3, 1)))
    if size <= len(all_words()):
        source, words = "wonderwords", rng.sample(all_words(), min(len(all_words()), request.length))[:size]
    else:  # upstream draws these from a file of English words that is not shipped here
        source, taken = "adjective-noun pairs", set()
        words = [unused(lambda: pair(rng), taken) for _ in range(size)]
    return Sample(
        id=str(index),
        context=example + CONTEXT.format(context=listed(request, words, *((30, 3) if long else (6, 1)))),
        question=QUESTION,
        gold=tuple(words[:N_COMMON]),
        max_new_tokens=max_new_tokens,
        prefix=PREFIX,
        meta={"words": source, "n_words": size},
    )


def solved(request: Request, words: list, n_common: int, n_other: int) -> str:
    context = CONTEXT.format(context=listed(request, words, n_common, n_other))
    return context + QUESTION + PREFIX + " " + numbered(words[:N_COMMON]) + "\n"


def listed(request: Request, words: list, n_common: int, n_other: int) -> str:
    """The first ten words n_common times each, the others n_other times, in upstream's fixed order."""
    return numbered(ruler.fixed_order(request, words[:N_COMMON] * n_common + words[N_COMMON:] * n_other))


def numbered(words: list) -> str:
    return " ".join(f"{i}. {word}" for i, word in enumerate(words, start=1))


TASKS = ruler.tasks("cwe", load)
