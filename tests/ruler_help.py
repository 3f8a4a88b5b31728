"""What the RULER tests share: a cheap count, all 13 tasks, and requests on the committed miniature data."""

import re
from pathlib import Path

from eval.task import Request
from eval.tasks import ruler_cwe, ruler_fwe, ruler_niah, ruler_qa, ruler_vt

DATA = Path(__file__).resolve().parent / "eval_samples"
TASKS = ruler_niah.TASKS | ruler_vt.TASKS | ruler_cwe.TASKS | ruler_fwe.TASKS | ruler_qa.TASKS
WRAPPER = 30


def words(sample) -> int:
    """A stand-in for the runner's count: a token a word, and 30 for the chat wrapper."""
    return len(f"{sample.context}{sample.question}{sample.prefix}".split()) + WRAPPER


def load(task: str, length: int = 512, n: int = 5, seed: int = 0, data: Path = DATA, count=words) -> list:
    return TASKS[task].load(Request(n, seed, length, data, count))


def gap(sample, length: int, count=words) -> int:
    """Tokens that the sample leaves unused."""
    return length - count(sample) - sample.max_new_tokens


def mean_score(task: str, answers: list, samples: list) -> float:
    return sum(TASKS[task].score(a, s)["score"] for a, s in zip(answers, samples)) / len(samples)


def perfect_and_shuffled(task: str, samples: list) -> tuple:
    """(mean score of every sample's own references as the answer, of its neighbour's)."""
    own = [f"They are {', '.join(s.gold)}.".upper() for s in samples]
    return mean_score(task, own, samples), mean_score(task, own[1:] + own[:1], samples)


def split_at(template: str, text: str) -> dict:
    """{field: what stands there}; the whole text must be the template filled in."""
    pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.*)", re.escape(template))
    return re.fullmatch(pattern, text, re.DOTALL).groupdict()
