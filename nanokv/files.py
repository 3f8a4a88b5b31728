"""The tensors in a folder's safetensors files: listed by our names without reading them, then read one by one."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from nanokv import UserError
from nanokv.config import read_json


@dataclass(frozen=True)
class Stored:
    """Where a tensor lies, and what the file's header says of it."""

    path: Path
    name: str  # in the file
    number: str  # its number format, "BF16"
    shape: tuple


def find_tensors(folder: Path) -> dict:
    """{our name: Stored} of every tensor in model.safetensors, or in the files that its index names.

    Raises UserError naming what is missing, truncated or unreadable, before any tensor is read.
    """
    found = {}
    for path in weight_files(folder):
        with open_file(path) as file:
            for name in file.keys():  # noqa: SIM118, not a dict
                header = file.get_slice(name)
                found[our_name(name)] = Stored(path, name, header.get_dtype(), tuple(header.get_shape()))
    return found


def weight_files(folder: Path) -> list:
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.exists():
        return [single]
    if not index.exists():
        raise UserError(f"missing file: {single} (or {index.name})")
    weight_map = read_json(index).get("weight_map")
    if not weight_map:
        raise UserError(f"{index} has no weight_map")
    names = sorted(set(weight_map.values()))
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise UserError(f"{index} names files that are not there: {', '.join(missing)}")
    return [folder / name for name in names]


def open_file(path: Path):
    try:
        return safe_open(path, framework="pt", device="cpu")
    except SafetensorError as e:
        raise UserError(f"{path} is truncated or incomplete: {e}") from None
    except OSError as e:
        raise UserError(f"cannot read {path}: {e}") from None


def our_name(name: str) -> str:
    """The text model's tensors inside a vision wrapper carry a prefix more."""
    for prefix, ours in (("language_model.", ""), ("model.language_model.", "model.")):
        if name.startswith(prefix):
            return ours + name.removeprefix(prefix)
    return name


def read_tensor(stored: Stored, dtype: torch.dtype, device) -> torch.Tensor:
    """A copy in its own memory, so that the file may be overwritten or deleted while the model runs.

    Opened anew for each tensor: a mapped file holds the pages that were read until it is closed, and a whole file
    left open would count a second time beside its copies.
    """
    with open_file(stored.path) as file:
        return file.get_tensor(stored.name).to(device=device, dtype=dtype, copy=True)
