"""The runner's files: every rank of a run writes one; here they are read, checked and merged.

The first line of a file is {"settings": {...}}, every other line one sample. A task is named `family/name@length`;
family and length may be absent.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from nanokv import UserError

FIELDS = ("key", "task", "sample", "method", "label", "budget", "every", "ask", "seed", "n_cut", "score", "answered")
FIELDS += ("details", "kept_rows", "bytes_held", "peak_rows", "seconds", "fidelity", "error")


@dataclass(frozen=True)
class Runs:
    """What the files hold together: the settings that they share, and one dict a sample, in the files' order."""

    settings: dict
    samples: list


def read_runs(paths: list) -> Runs:
    """Merge the files. UserError for settings that differ, or two different lines with one key."""
    settings, samples, first = None, {}, None
    for path in files_of(paths):
        header, lines = read_file(path)
        if settings is None and header:
            settings, first = header, path
        elif header and header != settings:
            raise UserError(f"{path} was run with other settings than {first}: {what_differs(header, settings)}")
        for number, sample in lines:
            there = samples.setdefault(sample["key"], sample)
            if result_of(there) != result_of(sample):
                raise UserError(f"{path}:{number} differs from an earlier line with the same key {sample['key']!r}")
    if not samples:
        raise UserError(f"no sample yet in {', '.join(map(str, paths))}")
    return Runs(settings, list(samples.values()))


def files_of(paths: list) -> list:
    """Every *.jsonl of the folders, and the files themselves."""
    found = []
    for path in map(Path, paths):
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside or not inside[0].is_file():
            raise UserError(f"no .jsonl file in {path}" if path.is_dir() else f"missing file: {path}")
        found += inside
    return found


def read_file(path: Path) -> tuple[dict, list]:
    """(settings, [(line number, sample), ...]). A last line that a run has not finished is left out, and said so."""
    lines = path.read_text(encoding="utf-8").split("\n")
    if lines.pop():
        print(f"{path}: the last line is unfinished, so it is left out", file=sys.stderr)
    if not lines:
        return {}, []  # a process that was killed before its first line
    parsed = [(number, parse(path, number, line)) for number, line in enumerate(lines, 1)]
    if "settings" not in parsed[0][1]:
        raise UserError(f"{path} does not begin with a line of settings")
    for number, sample in parsed[1:]:
        lacking = [name for name in FIELDS if name not in sample]
        if lacking:
            raise UserError(f"{path}:{number} lacks {', '.join(lacking)}")
    return parsed[0][1]["settings"], parsed[1:]


def parse(path: Path, number: int, line: str) -> dict:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UserError(f"{path}:{number} is not a JSON object")
    return value


def what_differs(ours: dict, theirs: dict) -> str:
    """ "dtype 'bfloat16' and not 'float32', ..." """
    keys = [key for key in {**theirs, **ours} if ours.get(key) != theirs.get(key)]
    return ", ".join(f"{key} {ours.get(key)!r} and not {theirs.get(key)!r}" for key in keys)


def result_of(sample: dict) -> dict:
    """A sample without its seconds: two machines may take other times over one result."""
    return {key: value for key, value in sample.items() if key != "seconds"}


def split_task(task: str) -> tuple[str | None, str, int | None]:
    """(family, name, length) of "ruler/vt@4096"; family and length None where the name has none."""
    name, _, length = task.partition("@")
    family, slash, short = name.rpartition("/")
    return (family if slash else None), short, int(length) if length.isdigit() else None


def refresh_of(sample: dict) -> str:
    """When it evicted: "-" (never), "once" (after the prompt), "J/4", "J/2" or the number of tokens."""
    budget, every = sample["budget"], sample["every"]
    if budget is None:
        return "-"
    shares = {None: "once", budget // 2: "J/2", max(1, budget // 4): "J/4"}
    return shares.get(every, str(every))
