"""The benchmarks, by name. One small file each; every file has TASKS, a dict from name to Task.

A task's file is found by its name: the letters and digits before any "_" of the file's name begin the task's. So
`ruler/vt` lies in ruler.py or one of ruler_*.py, `longhealth_shuffled` in longhealth.py, `aime2024` in aime.py.
"""

import importlib
import pkgutil

from eval.task import Task
from nanokv import UserError


def find_task(spec: str) -> tuple[Task, int | None]:
    """(task, length) of `name` or `name@tokens`. UserError that lists the names where there is no such task."""
    name, at, tokens = spec.partition("@")
    files = [module.name for module in pkgutil.iter_modules(__path__)]
    found = tasks_of(file for file in files if name.startswith(file.split("_")[0]))
    if name not in found:
        raise UserError(f"unknown task {name!r}; there are: {', '.join(sorted(tasks_of(files)))}")
    task = found[name]
    if task.needs_length and not (tokens.isdecimal() and int(tokens) > 0):
        raise UserError(f"task {name} is made at any length: say how many tokens, as in {name}@4096")
    if at and not task.needs_length:
        raise UserError(f"task {name} comes from a file and has no length: drop @{tokens}")
    return task, int(tokens) if at else None


def tasks_of(files) -> dict:
    """The TASKS of these files together; a file that only helps others has none."""
    found = {}
    for file in files:
        found |= getattr(importlib.import_module(f"{__name__}.{file}"), "TASKS", {})
    return found
