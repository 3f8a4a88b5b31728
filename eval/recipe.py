"""Reads a recipe and checks it before anything runs. The form is described in eval/recipes/__init__.py."""

import runpy
from dataclasses import dataclass
from pathlib import Path

from nanokv import UserError
from nanokv.config import DTYPES
from nanokv.methods import Method, find
from nanokv.options import parse_protection, settle

FOLDER = Path(__file__).parent / "recipes"
NEEDED = object()
DEFAULTS = {
    "task": NEEDED,
    "method": NEEDED,
    "budget": [],
    "every": None,
    "ask": ["before"],
    "samples": None,
    "seeds": [0],
    "dtype": None,
    "max_new_tokens": None,
    "max_prompt": None,
    "protect": None,
    "settings": {},
    "optional": False,
}


@dataclass(frozen=True)
class Recipe:
    """`runs`: a dict each, with every field of DEFAULTS filled in."""

    name: str
    title: str
    source: str
    reading: str
    runs: tuple


def names() -> list:
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def read_recipe(name: str) -> Recipe:
    """The recipe called `name`, or the file `name` where that ends in .py. UserError, one line, where it is wrong.

    Task names are the runner's to check. A recipe is Python and is executed.
    """
    path = Path(name) if name.endswith(".py") else FOLDER / f"{name}.py"
    if not path.is_file() or path.stem == "__init__":
        raise UserError(f"unknown recipe {name!r}; there are: {', '.join(names())}, or FILE.py")
    try:
        found = runpy.run_path(str(path))
    except Exception as e:
        raise UserError(f"recipe {name}: {type(e).__name__}: {e}") from e
    words = ("TITLE", "SOURCE", "READING")
    for word in (*words, "RUNS"):
        if not isinstance(found.get(word), list if word == "RUNS" else str) or not found[word]:
            raise UserError(f"recipe {name} needs {word}, {'a list of dicts' if word == 'RUNS' else 'a string'}")
    runs = tuple(checked(run, f"recipe {name}, run {i}") for i, run in enumerate(found["RUNS"], 1))
    return Recipe(path.stem, *(found[word] for word in words), runs)


def checked(run: dict, where: str) -> dict:
    """The run with its defaults. UserError names `where`, the field, and what it takes."""
    if not isinstance(run, dict):
        raise UserError(f"{where} is not a dict")
    unknown = [field for field in run if field not in DEFAULTS]
    if unknown:
        raise UserError(f"{where} has no field {unknown[0]!r}; there are: {', '.join(DEFAULTS)}")
    run = {**DEFAULTS, **run}
    for field, (fits, takes) in FIELDS.items():
        if not fits(run[field]):
            shown = "is missing" if run[field] is NEEDED else f"cannot be {run[field]!r}"
            raise UserError(f"{where}: {field} {shown}; it takes {takes}")
    try:
        methods = [read_method(text)[0] for text in run["method"]]
        parse_protection(run["protect"] or "", window=1)
    except UserError as e:
        raise UserError(f"{where}: {e}") from None
    if not run["budget"] and any(method.score for method in methods):
        raise UserError(f"{where}: budget is missing; only full runs without one")
    return run


def read_method(text: str) -> tuple[Method, dict]:
    """(preset, its options as words) of "causal_surprise span=17". UserError for names or values it does not take."""
    name, *settings = text.split()
    method = find(name)
    options = dict(word.split("=", 1) for word in settings if "=" in word)
    if len(options) != len(settings):
        raise UserError(f"method {text!r}: options are KEY=VALUE, each once")
    settle(method, {key: value for key, value in options.items() if key != "partial"})  # the loop's, not the score's
    return method, options


def whole(value, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def words(value) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) and v.strip() for v in value)


FIELDS = {
    "task": (words, "a list of names"),
    "method": (words, "a list of names, each with its options: 'causal_surprise span=17'"),
    "budget": (lambda v: isinstance(v, list) and all(map(whole, v)), "a list of whole numbers"),
    "every": (lambda v: v in (None, "once", "J/2", "J/4") or whole(v), "a whole number, 'J/4', 'J/2', 'once' or None"),
    "ask": (lambda v: words(v) and set(v) <= {"before", "after"}, "['before'], ['after'] or both"),
    "samples": (lambda v: v is None or whole(v), "a whole number or None"),
    "seeds": (lambda v: isinstance(v, list) and v and all(whole(s, 0) for s in v), "a list of whole numbers"),
    "dtype": (lambda v: v in (None, "auto", *DTYPES), f"None, auto, {', '.join(DTYPES)}"),
    "max_new_tokens": (lambda v: v is None or whole(v), "a whole number or None"),
    "max_prompt": (lambda v: v is None or whole(v), "a whole number or None"),
    "protect": (lambda v: v is None or isinstance(v, str), "words of --protect, or None"),
    "settings": (lambda v: isinstance(v, dict) and all(isinstance(k, str) for k in v), "a dict of eval.run's options"),
    "optional": (lambda v: isinstance(v, bool), "True or False"),
}
