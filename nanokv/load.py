"""A checkpoint's tensors (files.py) -> Weights. Also tiny random weights, for tests and for stepping."""

import warnings
from dataclasses import replace
from pathlib import Path

import torch

from nanokv import UserError
from nanokv.config import Config, Rope
from nanokv.files import find_tensors, read_tensor
from nanokv.model import Layer, Weights
from nanokv.rope import inverse_frequencies

READABLE = ("F64", "F32", "BF16", "F16")  # stored number formats that mean what they say; quantised ones do not


def layer_table(cfg: Config) -> dict:
    """Our field -> (name under model.layers.N, expected shape, the config keys behind that shape)."""
    e, f, d = cfg.d_model, cfg.d_mlp, cfg.d_head
    q, kv = cfg.n_head * d, cfg.n_kv_head * d
    q_keys, kv_keys = "num_attention_heads x head_dim", "num_key_value_heads x head_dim"
    table = {
        "norm_attn": ("input_layernorm.weight", (e,), "hidden_size"),
        "w_q": ("self_attn.q_proj.weight", (q, e), f"{q_keys}, hidden_size"),
        "w_k": ("self_attn.k_proj.weight", (kv, e), f"{kv_keys}, hidden_size"),
        "w_v": ("self_attn.v_proj.weight", (kv, e), f"{kv_keys}, hidden_size"),
        "w_o": ("self_attn.o_proj.weight", (e, q), f"hidden_size, {q_keys}"),
        "norm_mlp": ("post_attention_layernorm.weight", (e,), "hidden_size"),
        "w_gate": ("mlp.gate_proj.weight", (f, e), "intermediate_size, hidden_size"),
        "w_up": ("mlp.up_proj.weight", (f, e), "intermediate_size, hidden_size"),
        "w_down": ("mlp.down_proj.weight", (e, f), "hidden_size, intermediate_size"),
    }
    if cfg.qkv_bias:
        table["b_q"] = ("self_attn.q_proj.bias", (q,), q_keys)
        table["b_k"] = ("self_attn.k_proj.bias", (kv,), kv_keys)
        table["b_v"] = ("self_attn.v_proj.bias", (kv,), kv_keys)
    if cfg.o_bias:
        table["b_o"] = ("self_attn.o_proj.bias", (e,), "hidden_size")
    if cfg.mlp_bias:
        table["b_gate"] = ("mlp.gate_proj.bias", (f,), "intermediate_size")
        table["b_up"] = ("mlp.up_proj.bias", (f,), "intermediate_size")
        table["b_down"] = ("mlp.down_proj.bias", (e,), "hidden_size")
    if cfg.qk_norm:
        table["norm_q"] = ("self_attn.q_norm.weight", (d,), "head_dim")
        table["norm_k"] = ("self_attn.k_norm.weight", (d,), "head_dim")
    return table


def tensor_table(cfg: Config) -> dict:
    """Name in the file -> (expected shape, config keys), for every tensor this config needs."""
    vocabulary = ((cfg.n_vocab, cfg.d_model), "vocab_size, hidden_size")
    table = {"model.embed_tokens.weight": vocabulary, "model.norm.weight": ((cfg.d_model,), "hidden_size")}
    for layer in range(cfg.n_layer):
        for name, shape, config_keys in layer_table(cfg).values():
            table[f"model.layers.{layer}.{name}"] = (shape, config_keys)
    table["lm_head.weight"] = vocabulary
    return table


def read_weights(folder, cfg: Config, dtype=torch.float32, device="cpu", progress=None) -> Weights:
    """Every tensor the config asks for, in one dtype on one device. `progress(i, n)` is called per tensor.

    Raises UserError naming file or tensor: missing files, truncated files, missing or unknown tensors, wrong shapes,
    quantised number formats, all before a tensor is read. Rotary tables stored in old files are recomputed, not read.
    The weights are copies that need the files no more; the memory is that of the weights and of one stored tensor.
    """
    check_device(device)
    found = find_tensors(Path(folder))
    table = tensor_table(cfg)
    if cfg.tied and "lm_head.weight" in found:
        warnings.warn("config.json ties the output head to the embedding, but the file has its own lm_head: used")
    elif cfg.tied:
        del table["lm_head.weight"]
    check_names(folder, found, table)
    check_shapes(found, table)
    tensors = {}
    for i, name in enumerate(table):
        tensors[name] = read_tensor(found[name], dtype, device)
        if progress:
            progress(i + 1, len(table))
    return assemble(cfg, tensors, device)


def check_device(device):
    """UserError with the choices when torch has no such device here."""
    try:
        torch.zeros(1, device=device).item()  # a meta tensor has no value
    except (RuntimeError, AssertionError, NotImplementedError):
        here = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        here += ["mps"] if torch.backends.mps.is_available() else []
        raise UserError(f"no device {str(device)!r} here; there is: {', '.join(here)}") from None


def check_names(folder, found: dict, table: dict):
    missing = [name for name in table if name not in found]
    if missing:
        why = " (and config.json does not tie it to the embedding)" if missing == ["lm_head.weight"] else ""
        raise UserError(f"{folder}: no tensor for {', '.join(missing)}{why}")
    vision = ("vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector.")
    unknown = [name for name in found if name not in table and ".rotary_emb." not in name]
    if any(name.startswith(vision) for name in unknown):
        warnings.warn("the checkpoint's vision part is left out: only its text model runs here")
    unknown = [name for name in unknown if not name.startswith(vision)]
    if unknown:
        raise UserError(f"{folder}: tensors that config.json does not account for: {', '.join(sorted(unknown))}")


def check_shapes(found: dict, table: dict):
    for name, (shape, config_keys) in table.items():
        stored = found[name]
        if stored.number not in READABLE:
            raise UserError(f"tensor {stored.name} is stored as {stored.number}; readable: {', '.join(READABLE)}")
        if stored.shape != shape:
            raise UserError(
                f"tensor {stored.name}: expected {list(shape)} (from {config_keys} in config.json), "
                f"found {list(stored.shape)}"
            )


def assemble(cfg: Config, tensors: dict, device="cpu") -> Weights:
    """Weights from tensors by their names in the file."""
    table = layer_table(cfg)
    layers = []
    for layer in range(cfg.n_layer):
        layers.append(
            Layer(**{field: tensors[f"model.layers.{layer}.{name}"] for field, (name, _, _) in table.items()})
        )
    embed = tensors["model.embed_tokens.weight"]
    unembed = tensors.get("lm_head.weight", embed)
    inv_freq = inverse_frequencies(cfg.rope, cfg.d_head).to(device)
    return Weights(embed, layers, tensors["model.norm.weight"], unembed, inv_freq)


def tiny_config(**changes) -> Config:
    """A config with all sizes distinct, so that a swapped axis cannot pass unseen."""
    tiny = Config(
        family="llama",
        n_layer=3,
        n_head=6,
        n_kv_head=2,
        d_head=8,
        d_model=40,
        d_mlp=56,
        n_vocab=97,
        n_positions=512,
        norm_eps=1e-6,
        rope=Rope(),
        windows=(None, None, None),
        tied=False,
        qkv_bias=False,
        o_bias=False,
        mlp_bias=False,
        qk_norm=False,
        dtype=torch.float32,
        eos_ids=(),
        bos_id=None,
    )
    tiny = replace(tiny, **changes)
    return replace(tiny, windows=(tiny.windows * tiny.n_layer)[: tiny.n_layer])


def random_weights(cfg: Config, seed: int = 0, dtype=torch.float32) -> Weights:
    """Seeded random weights of that shape: norms near one, the rest of a size that keeps attention uneven."""
    rng = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, (shape, _) in tensor_table(cfg).items():
        x = torch.randn(shape, generator=rng)
        x = 1 + 0.1 * x if "norm" in name else x * (1.5 / shape[-1] ** 0.5 if len(shape) > 1 else 0.3)
        tensors[name] = x.to(dtype)
    if cfg.tied:
        del tensors["lm_head.weight"]
    return assemble(cfg, tensors)
