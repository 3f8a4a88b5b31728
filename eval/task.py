"""What a benchmark is to the runner: samples to load, and a score for an answer. Eviction never sees `gold`."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nanokv import UserError


@dataclass(frozen=True)
class Sample:
    """One question. The user's text is `context + question`; the model continues behind `prefix`."""

    id: str
    context: str  # all that stands before the question, instructions included
    question: str  # from here on the text is fed after the eviction under --ask after; "" where a task has no such part
    gold: tuple  # reference answers, strings
    max_new_tokens: int
    prefix: str = ""  # how the answer begins: behind the assistant's header
    frozen: int = 0  # leading characters of `context` that every method keeps (the first paper's "frozen" prefix)
    chat: bool = True  # in the checkpoint's chat template; False feeds the raw string
    stop: str | None = None  # "newline": ends at the first line break; "boxed": at the first complete \\boxed{...}
    meta: dict = field(default_factory=dict)  # what a score or a table needs: category, depth, options, ...


@dataclass(frozen=True)
class Request:
    """What to load. `count(sample) -> int` is the tokens of its prompt as the runner builds it, without a BOS."""

    n: int  # samples asked for; a file that has fewer gives all it has
    seed: int = 0
    length: int | None = None  # tokens in all, prompt + max_new_tokens: for generated tasks
    data: Path | None = None  # the folder of --data
    count: Callable | None = None


@dataclass(frozen=True)
class Task:
    """`load(request) -> list[Sample]`; the first n samples do not depend on how many are asked for.

    `score(answer, sample) -> dict` has "score" in [0, 1], "answered" (False where no answer could be read, which
    scores 0), and whatever else is worth a column. `scale` says in words what a score of 1 means.
    """

    name: str
    load: Callable
    score: Callable
    scale: str
    needs_length: bool = False  # `name@4096`


def data_file(request: Request, name: str, where: str) -> Path:
    """The file DATA/name. UserError that names it, and `where` it comes from, when it is absent."""
    if request.data is None:
        raise UserError(f"this task reads {name}: give --data FOLDER. {where}")
    path = Path(request.data) / name
    if not path.is_file():
        raise UserError(f"missing file: {path}. {where}")
    return path


def sha256(path: Path) -> str:
    """Of a data file: printed in every result, since benchmark files come in many versions."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
