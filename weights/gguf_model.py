"""A GGUF's weights as float32 safetensors under Hugging Face names, one slab of rows in memory at a time."""

import json
import re
import struct
from pathlib import Path

import numpy as np
from gguf.quants import dequantize
from tqdm import tqdm

from nanokv import UserError
from weights.gguf_config import ROTARY
from weights.gguf_file import Gguf

TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
SLAB = 1 << 24  # values dequantised at once, 64 MiB


def write_safetensors(g: Gguf, config: dict, path: Path):
    """Writes every weight as float32, progress on stderr. UserError names a tensor that is unknown or absent, or whose
    packing the gguf library does not know."""
    names = {name: hf_name(g, name) for name in g.tensors if name != ROTARY}
    check_complete(g, config, set(names.values()))
    with path.open("wb") as f, tqdm(total=len(names), desc="convert", unit="tensor") as bar:
        f.write(header(g, names))
        for name in names:
            order = row_order(g, name, config["head_dim"])
            for slab in slabs(g, name, order):
                f.write(slab.tobytes())
            bar.update()


def hf_name(g: Gguf, name: str) -> str:
    m = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
    part = m and (TOP if m[1] is None else PARTS).get(m[2])
    if not part:
        raise UserError(f"{g.path} holds the tensor {name}, which no supported model has")
    return f"{part}.{m[3]}" if m[1] is None else f"model.layers.{m[1]}.{part}.{m[3]}"


def check_complete(g: Gguf, config: dict, have: set):
    """Every weight that a model of this config needs is there; a bias, where it has some, in each projection."""
    need = {"model.embed_tokens.weight", "model.norm.weight"}
    for i in range(config["num_hidden_layers"]):
        need |= {f"model.layers.{i}.{name}" for name in layer_names(g.arch, config)}
    missing = sorted(need - have)
    if missing:
        raise UserError(f"{g.path} lacks {len(missing)} tensors, the first one {missing[0]}")


def layer_names(arch: str, config: dict) -> set:
    per_head = ("attn_q_norm", "attn_k_norm")
    names = {f"{part}.weight" for key, part in PARTS.items() if arch == "qwen3" or key not in per_head}
    if arch == "qwen2" or config["attention_bias"]:
        names |= {f"self_attn.{p}_proj.bias" for p in ("qkv" if arch == "qwen2" else "qkvo")}
    if config["mlp_bias"]:
        names |= {f"mlp.{p}_proj.bias" for p in ("gate", "up", "down")}
    return names


def header(g: Gguf, names: dict) -> bytes:
    """The safetensors header: its length (u64), then JSON name -> dtype, shape, [start, end) in bytes; data follow."""
    table, start = {"__metadata__": {"format": "pt"}}, 0
    for name, new in names.items():
        t = g.tensors[name]
        end = start + 4 * t.n_elements
        shape = [int(n) for n in reversed(t.shape)]  # GGUF lists the fastest axis first
        table[new] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def row_order(g: Gguf, name: str, d_head: int) -> np.ndarray | None:
    """Which row of the file is row 0, 1, ... of the Hugging Face weight; None where they agree.

    llama files interleave the two halves of each head for their rotation: row 2i + half there is half * d/2 + i here.
    """
    if g.arch not in ("llama", "mistral3") or not re.fullmatch(r"blk\.\d+\.attn_[qk]\.(weight|bias)", name):
        return None
    rows = np.arange(len(g.tensors[name].data))
    return rows.reshape(-1, d_head // 2, 2).swapaxes(1, 2).reshape(-1)


def slabs(g: Gguf, name: str, order: np.ndarray | None):
    """Yields float32 [rows, columns] pieces. Rows are packed one by one, so they can be reordered before unpacking."""
    t = g.tensors[name]
    n_rows = len(t.data)
    step = max(1, SLAB * n_rows // t.n_elements)
    for start in range(0, n_rows, step):
        stop = min(start + step, n_rows)
        rows = t.data[start:stop] if order is None else t.data[order[start:stop]]
        try:
            yield np.ascontiguousarray(dequantize(rows, t.tensor_type), dtype="<f4")
        except NotImplementedError:
            raise UserError(f"{g.path}: {name} is packed as {t.tensor_type.name}, which gguf cannot unpack") from None
