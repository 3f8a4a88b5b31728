"""What a file of results was made with: two runs that differ here never share one."""

import hashlib
import platform
from importlib import metadata
from pathlib import Path

import torch

from eval.answer import Model
from nanokv.arguments import choose_dtype

MIB = 1 << 20


def settings_of(args, run: dict, cfg) -> dict:
    """The header of a run's file. What makes a line one of its kind (task, method, budget, seed, ...) stands in it."""
    args.dtype = run["dtype"] or "auto"
    return {
        "model": Path(args.model).resolve().name,
        "fingerprint": fingerprint(Path(args.model)),
        "dtype": str(choose_dtype(args, cfg)).removeprefix("torch."),
        "device": args.device,
        "max_new_tokens": run["max_new_tokens"],
        "max_prompt": run["max_prompt"],
        "protect": run["protect"],
        "fidelity": not args.no_fidelity,
        **run["settings"],
    }


def fingerprint(folder: Path) -> str:
    """Of a checkpoint: its small files in full, and size, first and last MiB of each file of weights."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.suffix in (".json", ".jinja", ".safetensors")):
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            digest.update(f"{path.name} {size}".encode() + file.read(MIB))
            if size > MIB:
                file.seek(-MIB, 2)
                digest.update(file.read(MIB))
    return digest.hexdigest()[:16]


def versions(model: Model) -> dict:
    device = model.weights.embed.device
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    libraries = {name: metadata.version(name) for name in ("torch", "tokenizers")}
    return {"python": platform.python_version(), **libraries, "chip": chip, "threads": torch.get_num_threads()}
