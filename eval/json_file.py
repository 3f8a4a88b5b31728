"""JSON files of benchmarks: what is not as published is refused by the name of its file, entry and field."""

import json
from pathlib import Path

from nanokv import UserError

IN_WORDS = {str: "a string", int: "a number", bool: "true or false", list: "a list", dict: "an object"}


def read_json(path: Path, kind: type):
    """The parsed file. UserError where it is not JSON in UTF-8, or something else than a `kind`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, kind):
        raise UserError(f"{path} should hold {IN_WORDS[kind]}")
    return content


def field(fields, name: str, kind: type, where: str):
    """fields[name]. UserError that begins with `where` if `fields` has none, or one that is not a `kind`."""
    if not isinstance(fields, dict):
        raise UserError(f"{where}: not a JSON object")
    value = fields.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UserError(f'{where}: "{name}" should be {IN_WORDS[kind]}')
    return value
