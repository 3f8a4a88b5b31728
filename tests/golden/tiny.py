"""Deterministic tiny weights and checkpoint folders, the same in any process that has torch.

The numbers come from integer arithmetic on a tensor's name and index, not from a random generator whose stream may
change between versions. So the reference library and the tests fill the same weights, and none need be stored.
"""

import json
import math
import zlib
from pathlib import Path

import torch
from safetensors.torch import save_file

MASK = 0xFFFFFFFF


def fill(name: str, shape, scale: float) -> torch.Tensor:
    """float32 values, evenly spread over [-scale, scale), fixed by name and index; around 1 for a norm."""
    i = torch.arange(math.prod(shape), dtype=torch.int64)
    x = (scramble(i ^ zlib.crc32(name.encode())).double() / 2**31 - 1) * scale
    return (x + 1 if "norm" in name else x).float().reshape(tuple(shape))


def scramble(x: torch.Tensor) -> torch.Tensor:
    """Mix the lower 32 bits of int64 (multiply and xor-shift); every product stays under 2**63, so it is exact."""
    for multiplier in (0x45D9F3B, 0x119DE1F3):
        x = (x ^ (x >> 16)) * multiplier & MASK
    return x ^ (x >> 16)


def scale_of(name: str, shape) -> float:
    """Matrices keep the size of what they multiply and a little more, so that attention is uneven; embeddings stay
    small, or a tied model would only repeat its last token."""
    if "norm" in name or name.endswith("bias"):
        return 0.5
    return 0.4 if "embed" in name else 2.2 / math.sqrt(shape[-1])


def weights(shapes: dict) -> dict:
    """{tensor name: shape} -> {tensor name: float32 tensor}."""
    return {name: fill(name, shape, scale_of(name, shape)) for name, shape in shapes.items()}


def write_checkpoint(folder, config: dict, shapes: dict, dtype=torch.float32) -> Path:
    """config.json and model.safetensors with these tensors, under their Hugging Face names. Returns the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tensors = {name: x.to(dtype) for name, x in weights(shapes).items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
