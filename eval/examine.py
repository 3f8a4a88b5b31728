"""All jobs of one sample: read the prompt once for those that may share it, answer, compare with the full cache, score.

A job that fails is a line with its error; nothing is dropped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean

from eval.answer import Model, Ready, answer, read, read_for_all
from eval.fidelity import Said, fidelity, follow, tokens_to_feed
from eval.fork import Reading, can_share
from eval.jobs import Job, every_of, plan_of
from eval.prompts import Prompt, build_prompt
from eval.record import key_of
from eval.task import Sample
from nanokv.buffer import KVBuffer, bytes_held, rows_held
from nanokv.chat import decode
from nanokv.evict import Plan


@dataclass(frozen=True)
class Examination:
    """One sample under one protocol. `max_new_tokens` and `max_prompt` None leave the task's own."""

    task: str
    sample: Sample
    score: Callable
    ask: str
    seed: int
    max_new_tokens: int | None = None
    max_prompt: int | None = None
    fidelity: bool = True

    def key(self, job: Job) -> str:
        return key_of(identity(self, job))

    @property
    def n_new(self) -> int:
        return min(self.sample.max_new_tokens, self.max_new_tokens or self.sample.max_new_tokens)


@dataclass
class Reference:
    """What the full cache said: its answer, and its distributions along it."""

    output_ids: list
    fed: list
    said: Said


@dataclass(frozen=True)
class Shared:
    """The prompt, read once for all plans that may start from it; and the full cache's answer, if it is wanted."""

    prompt: Prompt
    reading: Reading | None
    full: Reference | None


def examine(model: Model, exam: Examination, jobs: list) -> Iterator[dict]:
    """A line for each job, in their order."""
    try:
        shared = prepare(model, exam, jobs)
    except Exception as e:
        yield from (failed(exam, job, e) for job in jobs)
        return
    for job in jobs:
        try:
            yield examine_one(model, exam, job, shared)
        except Exception as e:
            yield failed(exam, job, e, shared.prompt)


def prepare(model: Model, exam: Examination, jobs: list) -> Shared:
    prompt = build_prompt(model.chat, exam.sample, exam.max_prompt)
    plans = [plan_of(job, prompt, exam.ask, exam.sample.id, exam.seed)[0] for job in jobs]
    sharing = [plan for plan in plans if can_share(model.weights, model.cfg, plan)]
    fits = len(prompt.ids) + exam.n_new <= model.cfg.n_positions
    wanted = exam.fidelity and fits and any(plan.score for plan in plans)
    reading = read_for_all(model, prompt, exam.ask, sharing, exam.n_new) if sharing or wanted else None
    return Shared(prompt, reading, reference(model, exam, prompt, reading) if wanted else None)


def reference(model: Model, exam: Examination, prompt: Prompt, reading: Reading) -> Reference:
    """The full cache's greedy answer, and what it says of each of its tokens."""
    run = answer(model, read(model, Plan(), prompt, exam.ask, exam.n_new, reading), exam.n_new, exam.sample.stop)
    fed = tokens_to_feed(run.output_ids, run.stop)
    again = read(model, Plan(), prompt, exam.ask, exam.n_new, reading)  # the same state before its first token
    return Reference(run.output_ids, fed, follow(model, again.run, fed))


def examine_one(model: Model, exam: Examination, job: Job, shared: Shared) -> dict:
    plan, options = plan_of(job, shared.prompt, exam.ask, exam.sample.id, exam.seed)
    sharing = shared.reading if can_share(model.weights, model.cfg, plan) else None
    ready = read(model, plan, shared.prompt, exam.ask, exam.n_new, sharing)
    held = {"kept_rows": mean_rows(ready.run.kv), "bytes_held": bytes_held(ready.run.kv)}
    near = compare(model, ready, shared.full) if plan.score else None
    run = answer(model, ready, exam.n_new, exam.sample.stop)
    text = decode(model.chat, run.output_ids)
    return {
        **named(exam, job, shared.prompt),
        "options": options,
        "output_ids": run.output_ids,
        "answer": text,
        **graded(exam, text),
        **held,
        "peak_rows": run.kv.peak_rows,
        "seconds": {name: round(seconds, 4) for name, seconds in run.seconds.items()},
        "stop": run.stop,
        "fidelity": near,
        "error": None,
    }


def compare(model: Model, ready: Ready, full: Reference | None) -> dict | None:
    """The fidelity of the cache as it stands when the answer begins; None where there is nothing to compare with."""
    return full and fidelity(model, full.said, follow(model, ready.run, full.fed), full.output_ids)


def mean_rows(kv: KVBuffer) -> float:
    """Rows a kv head holds, on average over heads and layers."""
    return fmean(n for layer in rows_held(kv) for n in layer)


def graded(exam: Examination, text: str) -> dict:
    details = exam.score(text, exam.sample)
    score, answered = details["score"], details["answered"]
    return {
        "score": score,
        "answered": answered,
        "details": {k: v for k, v in details.items() if k not in ("score", "answered")},
    }


def identity(exam: Examination, job: Job) -> dict:
    """What makes a line one of its kind. `every` in tokens; None evicts once, or never."""
    return {
        "task": exam.task,
        "sample": exam.sample.id,
        "method": job.method.name,
        "label": job.label,
        "budget": job.budget,
        "every": every_of(job),
        "ask": exam.ask,
        "seed": exam.seed,
    }


def named(exam: Examination, job: Job, prompt: Prompt | None) -> dict:
    read = {"prompt_sha": prompt.sha, "n_prompt": len(prompt.ids), "n_cut": prompt.n_cut} if prompt else {}
    unread = {"prompt_sha": None, "n_prompt": None, "n_cut": 0}
    return {"key": exam.key(job), **identity(exam, job), **unread, **read}


def failed(exam: Examination, job: Job, error: Exception, prompt: Prompt | None = None) -> dict:
    """The line of a job that raised: nothing was measured, and it counts as a wrong answer."""
    lacking = dict.fromkeys(
        ("output_ids", "answer", "score", "kept_rows", "bytes_held", "peak_rows", "seconds", "stop", "fidelity")
    )
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return {
        **named(exam, job, prompt),
        "options": job.options,
        **lacking,
        "answered": False,
        "details": {},
        "error": what,
    }
