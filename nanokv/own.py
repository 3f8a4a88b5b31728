"""A user's own score or mask, FILE.py:FN on the command line. Its errors name it."""

import importlib.util
import sys
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path

import torch

from nanokv import UserError
from nanokv.methods import Method
from nanokv.scores import watch_last_queries


def read_function(path: str):
    """The function named by FILE.py:FN. What it raises comes out as a UserError that names it."""
    file, _, name = path.rpartition(":")
    if not file.endswith(".py") or not Path(file).is_file():
        raise UserError(f"{path!r} is not FILE.py:FUNCTION (no Python file {file!r})")
    spec = importlib.util.spec_from_file_location(f"own_{Path(file).stem}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    blamed(spec.loader.exec_module, file)(module)
    if not callable(getattr(module, name, None)):
        raise UserError(f"{file} has no function {name!r}")
    return blamed(getattr(module, name), path)


def blamed(f, name: str):
    """f, whose errors name it."""

    @wraps(f)
    def run(*args, **kwargs):
        try:
            return f(*args, **kwargs)
        except UserError:
            raise
        except Exception as e:
            raise UserError(f"{name} raised {type(e).__name__}: {e} (--debug shows where)") from e

    run.__qualname__ = name
    return run


def own_mask(path: str):
    """A user's mask(q_pos [b t], k_pos [b h s]) -> bool [b h t s], True = may look. h may be 1."""
    f = read_function(path)

    def mask(q_pos, k_pos):
        visible = f(q_pos, k_pos)
        is_mask = isinstance(visible, torch.Tensor) and visible.dtype == torch.bool and visible.dim() == 4
        if not is_mask or visible.shape[-2:] != (q_pos.shape[-1], k_pos.shape[-1]):
            kind = f"{visible.dtype} {list(visible.shape)}" if hasattr(visible, "dtype") else type(visible).__name__
            raise UserError(f"{path} returned {kind}, not a bool mask [b, h, {q_pos.shape[-1]}, {k_pos.shape[-1]}]")
        return visible

    mask.__qualname__ = path
    return mask


def own_method(path: str, base: Method | None) -> Method:
    """A method around a user's score FILE.py:FN: `base`'s schedule and protection, the newest 32 queries recorded."""
    score = read_function(path)
    watch = partial(watch_last_queries, window=32)
    base = base or Method(path, "yours", "what your function says", protect="")
    own = {"level": "head", "score": score, "watch": watch, "observe": None, "finish": None, "adjust": None}
    return replace(base, name=path, **own, options={})
