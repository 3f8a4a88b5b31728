"""A GGUF file opened: metadata as plain values, tensors by name, and an error in one line when it is not whole."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGUFReader

from nanokv import UserError

FAMILIES = ("llama", "qwen2", "qwen3", "mistral3")  # general.architecture; Mistral's older files call themselves llama


@dataclass(frozen=True)
class Gguf:
    """`meta`: key -> int, float, bool, str or a list of them. `tensors`: name -> gguf.ReaderTensor, data on disk."""

    path: Path
    arch: str
    meta: dict
    tensors: dict

    def need(self, key: str):
        """The value of a metadata key; `{arch}` in the key stands for the architecture. UserError when it is absent."""
        value = self.get(key)
        if value is None:
            raise UserError(f"{self.path} has no metadata key {key.format(arch=self.arch)}")
        return value

    def get(self, key: str, default=None):
        return self.meta.get(key.format(arch=self.arch), default)


def open_gguf(path) -> Gguf:
    """Metadata and tensor table, no weight. UserError: no such file, not a GGUF, truncated, split, another family."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"no such file: {path}")
    with path.open("rb") as f:
        if f.read(4) != b"GGUF":
            raise UserError(f"{path} is not a GGUF file")
    try:
        reader = GGUFReader(path)
        meta = {key: plain(field) for key, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as e:  # what the reader trips over
        raise UserError(f"{path} is truncated or damaged ({' '.join(str(e).split())})") from None
    arch = meta.get("general.architecture")
    if arch not in FAMILIES:
        raise UserError(f"{path} holds the architecture {arch!r}; supported: {', '.join(FAMILIES)}")
    if meta.get("split.count", 1) > 1:
        raise UserError(f"{path} is one part of a split GGUF; join the parts first (llama-gguf-split --merge)")
    return Gguf(path, arch, meta, {t.name: t for t in reader.tensors})


def plain(field):
    """A Python value. GGUF stores most floats in 32 bits: the shortest decimal of those (1e-05, not 9.99999974e-06)."""
    value = field.contents()
    if isinstance(value, float) and field.types[0].name == "FLOAT32":
        return float(str(np.float32(value)))
    return value
