"""From words to a Plan: a preset, its options, what is protected."""

import inspect
import json
import math
from functools import partial
from typing import Literal, get_args, get_origin

from nanokv import UserError
from nanokv.budgets import ada, pyramid, uniform
from nanokv.evict import Plan, Protection
from nanokv.lookahead import read_trajectories
from nanokv.methods import Method
from nanokv.own import own_mask

ALLOCATIONS = {"uniform": uniform, "pyramid": pyramid, "ada": ada}


def options_of(method: Method, allocate: str | None = None) -> dict:
    """The options of a method and its budget rule: their functions' keyword-only arguments, as the preset sets them."""
    functions = [
        f for f in (method.score, method.finish, ALLOCATIONS[allocate or method.allocate]) if method.score and f
    ]
    own = {name: default for f in functions for name, default in keyword_only(f).items()}
    return {**own, **method.options}


def keyword_only(f) -> dict:
    named = inspect.signature(f).parameters.values()
    return {p.name: p.default for p in named if p.kind is p.KEYWORD_ONLY}


def settle(method: Method, settings: dict, allocate: str | None = None) -> dict:
    """The method's options after `--set`. UserError when it has no such option, or a value of another kind."""
    options = options_of(method, allocate)
    for key, text in settings.items():
        if key not in options:
            there = ", ".join([*options, "partial"])
            raise UserError(f"method {method.name} has no option {key!r}; there are: {there}")
        options[key] = parse_value(key, text, options[key])
        check_choice(method.score, key, options[key])
    return options


def check_choice(f, key: str, value):
    """UserError with the choices when f's argument `key` is a Literal and `value` none of them."""
    argument = inspect.signature(f).parameters.get(key)
    literals = [kind for kind in (argument and argument.annotation, *get_args(argument and argument.annotation))]
    choices = [c for kind in literals if get_origin(kind) is Literal for c in get_args(kind)]
    if choices and value is not None and value not in choices:
        raise UserError(f"option {key} is {' or '.join(choices)}, not {value!r}")


def parse_value(key: str, text, default):
    """A value from the command line: JSON where it is JSON, FILE.py:FN for a function, else the word itself."""
    if not isinstance(text, str):
        return text
    if key == "mask":
        return own_mask(text)
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    kind = type(default)
    if kind is bool and value in (0, 1):
        return bool(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    number = kind is float and type(value) in (int, float) and math.isfinite(value)
    if default is None or (type(value) is kind and kind is not float) or number:
        return value
    raise UserError(f"option {key} cannot be {text!r}; its default is {default!r}")


def parse_protection(spec: str, default: str = "", n_system: int = 0, window: int | None = None) -> Protection:
    """Protection from `sinks:4,recent:32,system`; words not given keep the method's default, `none` drops those.

    `recent:50%` is half of what the leading rows leave of the budget; `system` is the `n_system` ids that the chat
    template puts before the user's text, `recent:window` the method's own observation window.
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
        elif name == "recent" and value == "window" and window:
            fields["recent"] = window
        elif name == "recent" and value.endswith("%") and value[:-1].isdigit():
            fields["recent_share"] = int(value[:-1]) / 100
        elif name in ("sinks", "recent", "system") and value.isdigit():
            fields[name] = int(value)
        else:
            raise UserError(
                f"--protect does not know {name}:{value}; it takes sinks:N, recent:N, recent:N%, system, none"
            )
    return Protection(**fields)


def build(
    method: Method,
    budget: int | None,
    every: int | None = None,
    once: bool | None = None,
    protect: str = "",
    allocate: str | None = None,
    settings: dict | None = None,
    n_system: int = 0,
    excludes_protected: bool = False,
) -> tuple[Plan, dict]:
    """(Plan, the options in effect) of a preset. `settings` maps option names to values or command-line words."""
    check_allocation(method, allocate)
    settings = dict(settings or {})
    released_loop = parse_value("partial", settings.pop("partial", False), False)
    options = settle(method, settings, allocate)
    protection = parse_protection(protect, method.protect, n_system, options.get("window"))
    if method.score is None:
        return Plan(), options
    if budget is None:
        raise UserError(f"method {method.name} needs --budget")
    if every is None and not (method.once if once is None else once):
        every = max(1, budget // 4)
    plan = Plan(
        score=bind(method.score, options),
        budget=budget,
        every=every,
        protection=protection,
        allocate=budget_rule(method, allocate, options),
        watch=bind(method.watch, options),
        observe=bind(method.observe, options),
        finish=bind(method.finish, options),
        adjust=bind(method.adjust, options),
        branch_rows=branch_rows(options),
        released_loop=released_loop,
        score_when_idle=method.score_when_idle,
        budget_excludes_protected=excludes_protected,
    )
    return plan, {**options, "allocate": allocate or method.allocate, "partial": released_loop}


def check_allocation(method: Method, allocate: str | None):
    """UserError where a budget rule has nothing to divide: heads (or layers) that share one set of rows."""
    if allocate is not None and allocate not in ALLOCATIONS:
        raise UserError(f"unknown --allocate {allocate!r}; there are: {', '.join(ALLOCATIONS)}")
    if method.level == "token" and (allocate or "uniform") != "uniform":
        raise UserError(f"--allocate {allocate}: {method.name} keeps one set of rows for all layers and heads")
    if method.level == "layer" and allocate == "ada":
        raise UserError(f"--allocate ada: {method.name} keeps one set of rows for all heads of a layer")


def budget_rule(method: Method, allocate: str | None, options: dict):
    """The budget rule by name; LORE-KV's kappa is Ada-KV's with a floor of 1 - kappa."""
    if not options.get("kappa"):
        return bind(ALLOCATIONS[allocate or method.allocate], options)
    if allocate is not None or not 0 < options["kappa"] <= 1:
        raise UserError(f"kappa={options['kappa']} (between 0 and 1) is a budget rule itself: drop --allocate")
    return partial(ada, ada_floor=1 - options["kappa"])


def branch_rows(options: dict) -> int:
    """Rows that a method's lookahead appends for a moment."""
    if options.get("lambda_L") == 0:
        return 0
    if options.get("lookahead"):
        return sum(len(trajectory) for trajectory in read_trajectories(options["lookahead"]))
    n_branches = 1 if options.get("queries") == "greedy" else options.get("M", 0)
    return options.get("n_pseudo", 0) or n_branches * options.get("T", 0)


def bind(f, options: dict):
    """f with those of the options that it takes."""
    return f and partial(f, **{name: value for name, value in options.items() if name in keyword_only(f)})
