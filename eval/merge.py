"""The runner's files: every rank of a run writes one; here they are read, checked and merged.

The first line of a file is {"settings": {...}}, every other line one sample. A task is named `family/name@length`;
family and length may be absent. Files with the same settings are merged. Others stay apart, since the runs of one
recipe may differ in them; but the ranks of one run may not.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from eval.lines import File, read_file
from nanokv import UserError

NAMED = ("model", "dtype", "device")
UNSAID = ("fingerprint", "fidelity")  # named only where runs differ in them
VARY = ("seconds", "versions", "fidelity")  # from machine to machine; the fidelity in its last digits


@dataclass(frozen=True)
class Runs:
    """What files with the same settings hold together: one dict a sample, in the files' order. `further`: the
    settings beside model, dtype and device, in words."""

    settings: dict
    further: str
    samples: list

    @property
    def about(self) -> str:
        named = [str(self.settings[key]) for key in NAMED if key in self.settings]
        return ", ".join([*named, *([self.further] if self.further else [])])


def read_runs(paths: list) -> list:
    """A Runs for each of the settings. UserError for ranks that differ in theirs, or lines that contradict each
    other."""
    files = [file for file in map(read_file, files_of(paths)) if file.settings is not None]
    check_ranks(files)
    groups = []
    for file in (file for file in files if file.samples):
        alike = next((group for group in groups if not differing(group[0].settings, file.settings)), None)
        groups.append([file]) if alike is None else alike.append(file)
    if not groups:
        raise UserError(f"no sample yet in {', '.join(map(str, paths))}")
    settings = [group[0].settings for group in groups]
    apart = {key for some in settings for key in differing(some, settings[0])}
    return [Runs(some, in_words(some, apart), merged(group)) for some, group in zip(settings, groups)]


def files_of(paths: list) -> list:
    """Every *.jsonl of the folders, and the files themselves."""
    found = []
    for path in map(Path, paths):
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside or not inside[0].is_file():
            raise UserError(f"no .jsonl file in {path}" if path.is_dir() else f"missing file: {path}")
        found += inside
    return found


def check_ranks(files: list):
    """UserError where the ranks of one run, NAME.rank0of2.jsonl, ..., were run with different settings."""
    first = {}
    for file in files:
        name = re.sub(r"\.rank\d+of\d+\.jsonl$", "", str(file.path))
        theirs = first.setdefault(name, file)
        keys = differing(file.settings, theirs.settings)
        if keys:
            ours = ", ".join(f"{k} {file.settings.get(k)!r} and not {theirs.settings.get(k)!r}" for k in keys)
            raise UserError(f"{file.path} was run with other settings than {theirs.path}: {ours}")


def differing(ours: dict, theirs: dict) -> list:
    """The settings in which they differ; one that is absent is None."""
    return [key for key in {**theirs, **ours} if ours.get(key) != theirs.get(key)]


def in_words(settings: dict, apart: set) -> str:
    """ "max_prompt 1024, raw True": what was set beside NAMED, and what tells these runs from the others."""
    told = {key: settings.get(key) for key in dict.fromkeys([*settings, *sorted(apart)]) if key not in NAMED}
    said = [key for key, value in told.items() if key in apart or (key not in UNSAID and value not in (None, False))]
    return ", ".join(f"{key} {told[key]}" for key in said)


def merged(files: list[File]) -> list:
    """All samples, each once. UserError for two lines of one key with other results, or of one sample with other
    prompts: then the data files were others."""
    found, prompts = {}, {}
    for file in files:
        for number, sample in file.samples:
            there = found.setdefault(sample["key"], sample)
            if there is not sample and not agree(there, sample):
                raise UserError(f"{file.path}:{number} differs from an earlier line with the same key {sample['key']}")
            asked = tuple(sample[name] for name in ("task", "sample", "ask", "seed"))
            sha = sample.get("prompt_sha")
            if sha and prompts.setdefault(asked, sha) != sha:
                raise UserError(f"{file.path}:{number} has another prompt than an earlier line of the same sample")
    return list(found.values())


def agree(one: dict, other: dict) -> bool:
    """Whether two lines say the same. Machines may differ in their seconds, and in the last digits of the fidelity."""
    ours, theirs = ({key: value for key, value in line.items() if key not in VARY} for line in (one, other))
    return ours == theirs and close(one["fidelity"], other["fidelity"])


def close(one: dict | None, other: dict | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(math.isclose(one[k], other[k], rel_tol=0.01, abs_tol=1e-4) for k in one)


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
