"""One append-only JSONL file: a header line with the settings, then a line for each answer.

A line is written, flushed and synced before the next answer begins, so a killed run loses at most the answer it was
at. What a kill leaves half-written is cut off on the next start; lines that are there are not made again.
"""

import fcntl
import json
import os
from pathlib import Path

from nanokv import UserError


def key_of(record: dict) -> str:
    """What makes a line one of its kind, as JSON."""
    parts = ("task", "sample", "label", "budget", "every", "ask", "seed")
    return json.dumps([record[name] for name in parts], ensure_ascii=False)


class Record:
    """The file of one process. `done`: key -> line, of this file and of its siblings from other ranks."""

    def __init__(self, folder, name: str, settings: dict, rank: int = 0, world: int = 1):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}.rank{rank}of{world}.jsonl"
        self.file = open(self.path, "a+b")  # noqa: SIM115, it stays open
        lock(self.file, self.path)
        os.truncate(self.path, whole_lines(self.path))
        self.done = {}
        for path in sorted(folder.glob(f"{name}.rank*of*.jsonl")):
            self.done |= read_done(path, settings)
        if self.path.stat().st_size == 0:
            self.append({"settings": settings})

    def write(self, record: dict):
        self.append(record)
        self.done[record["key"]] = record

    def append(self, line: dict):
        self.file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self):
        self.file.close()


def lock(file, path: Path):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # gone with the process, however it ends
    except OSError:
        raise UserError(f"{path} is being written by another process") from None


def whole_lines(path: Path) -> int:
    """Bytes up to the last line break: a line without one was not finished."""
    return path.read_bytes().rfind(b"\n") + 1


def read_done(path: Path, settings: dict) -> dict:
    """The finished lines of one file by key. UserError that names the first setting in which its header differs."""
    lines = path.read_bytes()[: whole_lines(path)].splitlines()
    if not lines:
        return {}
    there = parse(lines[0], path, 1).get("settings")
    if there is None:
        raise UserError(f"{path} is not a file of eval.run: its first line has no settings")
    for name in {**there, **settings}:
        if there.get(name) != settings.get(name):
            how = f"{name} {there.get(name)!r}, not {settings.get(name)!r}"
            raise UserError(f"{path} was made with {how}: another --out or --name keeps them apart")
    records = (parse(line, path, i) for i, line in enumerate(lines[1:], 2))
    return {record["key"]: record for record in records}


def parse(line: bytes, path: Path, number: int) -> dict:
    try:
        return json.loads(line)
    except ValueError:
        raise UserError(f"{path}, line {number} is not JSON") from None
