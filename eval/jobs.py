"""From a recipe's run to single jobs: one method at one budget, and the plan that does it on one prompt."""

import hashlib
import itertools
from dataclasses import dataclass

from eval.prompts import Prompt, protected_rows
from eval.recipe import read_method
from nanokv import UserError
from nanokv.evict import Plan
from nanokv.methods import Method
from nanokv.options import build, options_of

SETTINGS = ("allocate", "budget_excludes_protected", "raw")  # what a recipe's `settings` may hold


@dataclass(frozen=True)
class Job:
    """One row and column of a table. `label` is the method with its options as they were written."""

    method: Method
    label: str
    options: dict
    budget: int | None
    every: int | str | None  # as in a recipe: a number, "J/2", "J/4", "once", or None for the method's own
    protect: str
    allocate: str | None
    excludes_protected: bool


def jobs_of(run: dict) -> list:
    """The method x budget of a run; `full` stands once, without a budget."""
    unknown = [name for name in run["settings"] if name not in SETTINGS]
    if unknown:
        raise UserError(f"settings has no {unknown[0]!r}; there are: {', '.join(SETTINGS)}")
    jobs = {}
    for label, budget in itertools.product(run["method"], run["budget"] or [None]):
        method, options = read_method(label)
        budget = budget if method.score else None
        allocate, excludes = run["settings"].get("allocate"), run["settings"].get("budget_excludes_protected", False)
        jobs[label, budget] = Job(
            method, label, options, budget, run["every"], run["protect"] or "", allocate, excludes
        )
    return list(jobs.values())


def plan_of(job: Job, prompt: Prompt, ask: str, sample: str, seed: int) -> tuple[Plan, dict]:
    """(the plan on this prompt, the options in effect). What a method draws depends on the sample and the seed."""
    n_leading, always = protected_rows(prompt, ask)
    protect = f"{job.protect},system" if always else job.protect
    options = dict(job.options)
    if "seed" in options_of(job.method) and "seed" not in options:
        options["seed"] = seed_of(sample, seed)
    every = every_of(job)
    return build(
        job.method, job.budget, every, every is None, protect, job.allocate, options, n_leading, job.excludes_protected
    )


def every_of(job: Job) -> int | None:
    """h in tokens; None evicts once, after the prompt (or never)."""
    if job.method.score is None or job.every == "once" or (job.every is None and job.method.once):
        return None
    if isinstance(job.every, int):
        return job.every
    return max(1, job.budget // (2 if job.every == "J/2" else 4))


def seed_of(sample: str, seed: int) -> int:
    """32 bits of the sample's id and the run's seed: samples draw independently, and the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{sample}".encode()).digest()[:4])
