"""From words to a Plan: a preset, its options, what is protected, a user's own function."""

import importlib.util
import inspect
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

from nanokv import UserError, scores
from nanokv.evict import Plan, Protection, uniform
from nanokv.methods import Method

ALLOCATIONS = {"uniform": uniform}


def options_of(method: Method) -> dict:
    """The method's own options and their values: the score's keyword-only arguments, as the preset sets them."""
    if method.score is None:
        return {}
    named = inspect.signature(method.score).parameters.values()
    own = {p.name: p.default for p in named if p.kind is p.KEYWORD_ONLY}
    return {**own, **method.options}


def settle(method: Method, settings: dict) -> dict:
    """The method's options after `--set`. UserError when it has no such option, or a value of another kind."""
    options = options_of(method)
    for key, text in settings.items():
        if key not in options:
            there = ", ".join(options) or "none"
            raise UserError(f"method {method.name} has no option {key!r}; there are: {there}, partial")
        options[key] = parse_value(key, text, options[key])
    return options


def parse_value(key: str, text, default):
    """A value from the command line: JSON where it is JSON, FILE.py:FN for a function, else the word itself."""
    if not isinstance(text, str):
        return text
    if key == "mask" and ":" in text:
        return read_function(text)
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    if isinstance(default, bool) and value in (0, 1):
        return bool(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    wrong = isinstance(default, str) and not isinstance(value, str)
    wrong |= isinstance(default, int | float) and not isinstance(default, bool) and not number
    wrong |= isinstance(default, int) and not isinstance(default, bool) and number and value != int(value)
    if wrong or (isinstance(default, bool) and not isinstance(value, bool)):
        raise UserError(f"option {key} cannot be {text!r}; its default is {default!r}")
    return value


def parse_protection(spec: str, default: str = "", n_system: int = 0) -> Protection:
    """Protection from `sinks:4,recent:32,system`; words not given keep the method's default, `none` drops those.

    `recent:50%` is half of what the leading rows leave of the budget; `system` is the `n_system` ids that the chat
    template puts before the user's text.
    """
    words = {}
    for word in [*default.split(","), *spec.split(",")]:
        name, _, value = word.strip().partition(":")
        if name == "none":
            words = {}
        elif name:
            words[name] = value
    fields = {}
    for name, value in words.items():
        if name == "system" and not value:
            fields["system"] = n_system
        elif name == "recent" and value.endswith("%") and value[:-1].isdigit():
            fields["recent_share"] = int(value[:-1]) / 100
        elif name in ("sinks", "recent", "system") and value.isdigit():
            fields[name] = int(value)
        else:
            raise UserError(
                f"--protect does not know {name}:{value}; it takes sinks:N, recent:N, recent:N%, system, none"
            )
    return Protection(**fields)


def read_function(path: str):
    """The function named by FILE.py:FN."""
    file, _, name = path.rpartition(":")
    if not file or not Path(file).is_file():
        raise UserError(f"{path!r} is not FILE.py:FUNCTION (no file {file!r})")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise UserError(f"{file} has no function {name!r}")
    return getattr(module, name)


def own_method(path: str, base: Method | None) -> Method:
    """A method around a user's score FILE.py:FN: `base`'s schedule and protection, the newest 32 queries recorded."""
    score = read_function(path)
    watch = partial(scores.watch_last_queries, window=32)
    plain = Method(path, "yours", "what your function says", protect="")
    return replace(base or plain, name=path, score=score, watch=watch, observe=None, adjust=None, options={})


def build(
    method: Method,
    budget: int | None,
    every: int | None = None,
    once: bool | None = None,
    protect: str = "",
    allocate: str = "uniform",
    settings: dict | None = None,
    n_system: int = 0,
    excludes_protected: bool = False,
) -> tuple[Plan, dict]:
    """(Plan, the options in effect) of a preset. `settings` maps option names to values or command-line words."""
    settings = dict(settings or {})
    released_loop = parse_value("partial", settings.pop("partial", False), False)
    options = settle(method, settings)
    if method.score is None:
        return Plan(), options
    if budget is None:
        raise UserError(f"method {method.name} needs --budget")
    if allocate not in ALLOCATIONS:
        raise UserError(f"unknown --allocate {allocate!r}; there are: {', '.join(ALLOCATIONS)}")
    if every is None and not (method.once if once is None else once):
        every = max(1, budget // 4)
    plan = Plan(
        score=bind(method.score, options),
        budget=budget,
        every=every,
        protection=parse_protection(protect, method.protect, n_system),
        allocate=ALLOCATIONS[allocate],
        watch=bind(method.watch, options),
        observe=bind(method.observe, options),
        adjust=bind(method.adjust, options),
        released_loop=released_loop,
        score_when_idle=method.score_when_idle,
        budget_excludes_protected=excludes_protected,
    )
    return plan, {**options, "partial": released_loop}


def bind(f, options: dict):
    """f with those of the options that it takes."""
    if f is None:
        return None
    named = inspect.signature(f).parameters.values()
    takes = {p.name for p in named if p.kind is p.KEYWORD_ONLY}
    return partial(f, **{name: value for name, value in options.items() if name in takes})
