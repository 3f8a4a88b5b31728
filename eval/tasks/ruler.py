"""RULER (arXiv 2404.06654; repository NVIDIA/RULER): the table of its 13 tasks, and what their generators share.

A length counts everything: chat wrapper, text, answer prefix and the tokens to generate, in the model's own tokens.
Each sample holds the largest haystack that fits. Upstream searches that size once, on one sample, and takes a step off
where another turns out too long; here it is searched for every sample, so none is more than one step short.

Every sample draws from a stream of its own, named by seed, task and index. Upstream's second, fixed stream is kept
where upstream has it (order of needles, of words, of documents): one permutation for all samples of a task.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from eval.metrics import readable, string_match_all, string_match_part
from eval.task import Request, Sample, Task
from nanokv import UserError

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."


@dataclass(frozen=True)
class Row:
    """One of the 13: which generator makes it, how many tokens it may answer with, and the generator's options."""

    generator: str
    max_new_tokens: int
    options: dict = field(default_factory=dict)


def niah(haystack: str, **options) -> Row:
    return Row("niah", 128, {"haystack": haystack, **options})


TABLE = {
    "niah_single_1": niah("noise"),
    "niah_single_2": niah("essay"),
    "niah_single_3": niah("essay", value_type="uuids"),
    "niah_multikey_1": niah("essay", n_keys=4),
    "niah_multikey_2": niah("needle"),
    "niah_multikey_3": niah("needle", key_type="uuids", value_type="uuids"),
    "niah_multivalue": niah("essay", n_values=4),
    "niah_multiquery": niah("essay", n_keys=4, n_queries=4),
    "vt": Row("vt", 30),
    "cwe": Row("cwe", 120),
    "fwe": Row("fwe", 50),
    "qa_1": Row("qa", 32, {"dataset": "squad"}),
    "qa_2": Row("qa", 32, {"dataset": "hotpotqa"}),
}


def score_all(answer: str, sample: Sample) -> dict:
    return {"score": string_match_all(answer, sample.gold), "answered": bool(readable(answer))}


def score_any(answer: str, sample: Sample) -> dict:
    return {"score": string_match_part(answer, sample.gold), "answered": bool(readable(answer))}


ALL = "share of the reference strings that stand in the answer (string_match_all, case ignored)"
ANY = "1 where any reference string stands in the answer (string_match_part, case ignored)"


def tasks(generator: str, load: Callable, score: Callable = score_all, scale: str = ALL) -> dict:
    """TASKS of one generator's file. `load(request, task, row) -> list[Sample]`."""
    mine = {f"ruler/{name}": row for name, row in TABLE.items() if row.generator == generator}
    return {t: Task(t, partial(load, task=t, row=row), score, scale, needs_length=True) for t, row in mine.items()}


def stream(request: Request, task: str, index: int) -> random.Random:
    """A sample's own draws: the same however many samples are asked for."""
    return random.Random(f"{request.seed}/{task}/{index}")


def fixed_order(request: Request, items: list) -> list:
    """The items in upstream's fixed permutation, the same for every list of that many items."""
    items = list(items)
    random.Random(request.seed).shuffle(items)
    return items


def fit(
    request: Request, build: Callable, least: int = 1, most: int | None = None, room: int | None = None
) -> Sample | None:
    """build(size) -> Sample at the largest size that leaves room for the answer; None where `least` is too long.

    `room` in tokens, request.length unless given. Every unit of size takes at least one token, hence the default of
    `most`.
    """
    room = room or request.length

    def tokens(size: int) -> int:
        return needed(request, build(size))

    size = largest_fit(tokens, room, least, max(least, most or room))
    return None if size is None else build(size)


def needed(request: Request, sample: Sample) -> int:
    """Tokens of the prompt and the answer."""
    return request.count(sample) + sample.max_new_tokens


def fit_or_refuse(request: Request, task: str, build: Callable, least: int = 1, most: int | None = None) -> Sample:
    """UserError that names the task, its length and what the smallest haystack takes, where that does not fit."""
    sample = fit(request, build, least, most)
    if sample is None:
        raise too_short(request, task, needed(request, build(least)))
    return sample


def too_short(request: Request, task: str, tokens: int) -> UserError:
    return UserError(f"{task}@{request.length}: too short, its smallest sample takes {tokens} tokens here")


def largest_fit(tokens: Callable, room: int, least: int, most: int) -> int | None:
    """The largest size in least..most with tokens(size) <= room; None where not even `least` fits.

    Counting a long prompt is what costs, and tokens(size) is nearly a straight line: the line through the two counts
    nearest to `room` names the next size to try, five counts or so. Halving ends what the line has not.
    """
    counted = {least: tokens(least)}
    if counted[least] > room:
        return None
    below, above = least, most + 1
    while above - below > 1:
        if len(counted) == 1:
            size = 2 * least + 10
        elif len(counted) > 12:
            size = (below + above) // 2
        else:
            size = on_the_line(counted, room)
        size = min(max(size, below + 1), above - 1)
        counted[size] = tokens(size)
        below, above = (size, above) if counted[size] <= room else (below, size)
    return below


def on_the_line(counted: dict, room: int) -> int:
    """Where the line through the two counts nearest to `room` meets it; twice as far where the line does not rise."""
    a, b = sorted(counted, key=lambda size: abs(counted[size] - room))[:2]
    rate = (counted[a] - counted[b]) / (a - b)
    return a + int((room - counted[a]) // rate) if rate > 0 else 2 * max(a, b)
