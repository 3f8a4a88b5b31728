"""Answer one prompt under one plan, with the question before or after the eviction.

`before`: the whole prompt is read and evicted, as `nanokv.generate.generate` does it (question-aware: LORE-KV, SnapKV).
`after`: the context is read under the plan's refreshes, with a last one at its end whatever the schedule; then question
and answer come in and nothing is evicted any more, the same for every method (question-agnostic: kvpress, KVzip).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from eval.boxed import BoxedWatch
from eval.fork import Reading, fork_run, read_once
from eval.prompts import Prompt, parts
from nanokv import UserError
from nanokv.chat import Chat, Stream
from nanokv.config import Config
from nanokv.evict import Plan
from nanokv.generate import CHUNK, Run, begin, check, decode, maybe_refresh, prefill, reader, stopwatch
from nanokv.model import Weights


@dataclass(frozen=True)
class Model:
    """A checkpoint that answers: weights, config, tokenizer, and the ids that end an answer."""

    weights: Weights
    cfg: Config
    chat: Chat
    stop_ids: frozenset


@dataclass
class Ready:
    """A prompt read and evicted, nothing answered yet. `infer` reads on; `plan` is what still evicts from here."""

    run: Run
    infer: Callable
    plan: Plan


def read_for_all(model: Model, prompt: Prompt, ask: str, plans: list, max_new_tokens: int) -> Reading:
    """What the forks of `plans` start from: the prompt (or its context) read once, nothing evicted."""
    context, rest = parts(prompt, ask)
    spare = max([len(rest) + max_new_tokens, *(plan.branch_rows for plan in plans)])
    return read_once(model.weights, model.cfg, context, plans, spare, model.stop_ids, model.chat.n_ids)


def read(
    model: Model, plan: Plan, prompt: Prompt, ask: str, max_new_tokens: int, reading: Reading | None = None
) -> Ready:
    """Read a prompt and evict. From a fork of `reading` where one is given, else under the plan's own schedule."""
    check(model.cfg, prompt.ids, plan, max_new_tokens)
    context, rest = parts(prompt, ask)
    room = len(rest) + max_new_tokens
    ready = read_forked(model, plan, reading, room) if reading else read_alone(model, plan, context, ask, room)
    for start in range(0, len(rest), CHUNK):
        with stopwatch(ready.run, "prefill"):
            ready.infer(rest[start : start + CHUNK])
    return ready


def read_forked(model: Model, plan: Plan, reading: Reading, room: int) -> Ready:
    """The plan's only refresh on a fork. Behind it nothing is scored any more, so nothing is recorded any more."""
    run = fork_run(reading, plan)
    maybe_refresh(model.weights, model.cfg, plan, run, room)
    silent = replace(plan, watch=None, observe=None)
    return Ready(run, reader(model.weights, model.cfg, silent, run, model.chat.n_ids), silent)


def read_alone(model: Model, plan: Plan, context: list, ask: str, room: int) -> Ready:
    """The context in the plan's own chunks, and under --ask after a refresh at its end if none was due there."""
    weights, cfg = model.weights, model.cfg
    run = begin(weights, cfg, context, plan, room, model.stop_ids)
    infer = reader(weights, cfg, plan, run, model.chat.n_ids)
    prefill(weights, cfg, plan, run, infer, room)
    if ask == "before":
        return Ready(run, infer, plan)
    last = replace(plan, every=None)
    if plan.every and len(context) % plan.every and not plan.released_loop:  # that loop has refreshed here already
        maybe_refresh(weights, cfg, last, run, room)
    return Ready(run, infer, last)


def answer(model: Model, ready: Ready, max_new_tokens: int, stop: str | None = None) -> Run:
    """Decode greedily until the end of text, `stop` (see Sample), or max_new_tokens."""
    until = stopper(model.chat, stop) if stop else None
    decode(model.weights, model.cfg, ready.plan, ready.run, ready.infer, max_new_tokens, until=until)
    return ready.run


def stopper(chat: Chat, stop: str):
    """until(output_ids) of Sample.stop; it is asked after every token."""
    if stop not in ("newline", "boxed"):
        raise UserError(f"stop is newline or boxed, not {stop!r}")
    stream, watch = Stream(chat), BoxedWatch() if stop == "boxed" else LineWatch()
    return lambda output_ids: watch.push(stream.push(output_ids[-1]))


class LineWatch:
    """True from the first line break on that has text before it: LongBench's samsum must say something first."""

    def __init__(self):
        self.text = ""

    def push(self, piece: str) -> bool:
        self.text = (self.text + piece).lstrip("\n")
        return "\n" in self.text
