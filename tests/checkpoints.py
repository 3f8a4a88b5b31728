"""Small checkpoint folders in the shapes of tests/golden, to be spoilt by one test at a time."""

import json
from pathlib import Path

from golden import tiny
from safetensors.torch import save_file

TINY = json.loads((Path(__file__).resolve().parent / "golden" / "tiny_configs.json").read_text(encoding="utf-8"))


def config(variant: str = "llama_gqa", **changes) -> dict:
    """config.json of one stored variant; a change to "absent" takes the key away."""
    keys = {**TINY[variant]["config"], **changes}
    return {key: value for key, value in keys.items() if value != "absent"}


def tensors(variant: str = "llama_gqa") -> dict:
    """{name in the file: tensor} as that variant's folder on a hub would hold them."""
    return tiny.weights(TINY[variant]["shapes"])


def write(folder: Path, keys: dict, tensors: dict, shards: int = 1) -> Path:
    """A folder with config.json and one weight file, or several and their index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(keys), encoding="utf-8")
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return folder
    names, weight_map = sorted(tensors), {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        save_file({name: tensors[name] for name in names[i::shards]}, folder / file)
        weight_map |= {name: file for name in names[i::shards]}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")
    return folder
