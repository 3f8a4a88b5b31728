"""The numbers in config.json. Only this file and config_rope.py know Hugging Face's config keys."""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

from nanokv import UserError
from nanokv.config_rope import Rope, override_rope, parse_rope, rope_block

FAMILIES = ("llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Config:
    """Sizes by the axis letters of nanokv/__init__.py, and what differs between the families."""

    family: str
    n_layer: int
    n_head: int  # query heads, = n_kv_head * n_group
    n_kv_head: int  # h
    d_head: int  # d
    d_model: int  # e
    d_mlp: int  # f
    n_vocab: int  # v
    n_positions: int  # longest text the model was made for
    norm_eps: float
    rope: Rope
    windows: tuple  # per layer: int, or None for full attention
    tied: bool  # the output head is the embedding
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    dtype: torch.dtype  # the checkpoint's own
    eos_ids: tuple
    bos_id: int | None

    @property
    def n_group(self) -> int:
        """g: query heads per kv head."""
        return self.n_head // self.n_kv_head


def read_config(folder, **overrides) -> Config:
    """Config of a Hugging Face folder. `overrides` replace keys of config.json, e.g. rope_scaling={...}.

    Raises UserError naming the file when it is missing, not JSON, or asks for what this code does not do.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"no such model folder: {folder}")
    raw = read_json(folder / "config.json")
    generation = folder / "generation_config.json"
    return parse_config(raw, read_json(generation) if generation.exists() else {}, **overrides)


def read_json(path: Path) -> dict:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"missing file: {path}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as e:
        raise UserError(f"{path} is not JSON: {e}") from None


def parse_config(raw: dict, generation: dict | None = None, **overrides) -> Config:
    """Config from the parsed config.json and generation_config.json; neither is changed."""
    text = text_part(raw)
    block, raw = override_rope(rope_block(text), overrides), {**text, **overrides}
    family = raw.get("model_type")
    refuse_unknown(raw, family)
    n_head, d_model = need(raw, "num_attention_heads"), need(raw, "hidden_size")
    n_kv_head = given(raw, "num_key_value_heads", n_head)
    if n_head % n_kv_head:
        raise UserError(f"num_attention_heads {n_head} is not a multiple of num_key_value_heads {n_kv_head}")
    n_positions = given(raw, "max_position_embeddings", 2048)
    rope = parse_rope(block, n_positions)
    return Config(
        family=family,
        n_layer=need(raw, "num_hidden_layers"),
        n_head=n_head,
        n_kv_head=n_kv_head,
        d_head=given(raw, "head_dim", d_model // n_head),
        d_model=d_model,
        d_mlp=need(raw, "intermediate_size"),
        n_vocab=need(raw, "vocab_size"),
        n_positions=max(n_positions, int(rope.factor * rope.n_original)),
        norm_eps=given(raw, "rms_norm_eps", 1e-6),
        rope=rope,
        windows=parse_windows(raw, family),
        tied=given(raw, "tie_word_embeddings", False),
        qkv_bias=family == "qwen2" or given(raw, "attention_bias", False),
        o_bias=family != "qwen2" and given(raw, "attention_bias", False),
        mlp_bias=given(raw, "mlp_bias", False),
        qk_norm=family == "qwen3",
        dtype=parse_dtype(raw),
        eos_ids=as_ids(given(generation or {}, "eos_token_id", raw.get("eos_token_id"))),
        bos_id=raw.get("bos_token_id"),
    )


def text_part(raw: dict) -> dict:
    """The text model's config inside a vision wrapper, which is what runs here; any other config as it is."""
    if raw.get("model_type") != "mistral3":
        return raw
    outer = {k: raw[k] for k in ("torch_dtype", "dtype", "tie_word_embeddings", "quantization_config") if k in raw}
    return {**outer, **need(raw, "text_config")}


def given(raw: dict, key: str, default):
    """raw[key], with null read as absent."""
    value = raw.get(key)
    return default if value is None else value


def need(raw: dict, key: str):
    if raw.get(key) is None:
        raise UserError(f"config.json has no {key}")
    return raw[key]


def as_ids(value) -> tuple:
    return () if value is None else tuple(value) if isinstance(value, list | tuple) else (value,)


def refuse_unknown(raw: dict, family):
    if family not in FAMILIES:
        raise UserError(f"unknown model_type {family!r} in config.json; supported: {', '.join(FAMILIES)}")
    if raw.get("quantization_config"):
        method = raw["quantization_config"].get("quant_method", "?")
        raise UserError(f"config.json asks for quantised weights ({method}); bring an unquantised checkpoint")
    if given(raw, "hidden_act", "silu") != "silu":
        raise UserError(f"hidden_act {raw['hidden_act']!r} in config.json; supported: silu")
    if family == "ministral3" and not raw.get("rope_scaling"):
        need(raw, "rope_parameters")  # left out, they are not the plain rotation of the other families


def parse_dtype(raw: dict) -> torch.dtype:
    name = str(given(raw, "dtype", given(raw, "torch_dtype", "float32"))).removeprefix("torch.")
    if name not in DTYPES:
        raise UserError(f"unknown dtype {name!r} in config.json; supported: {', '.join(DTYPES)}")
    return DTYPES[name]


def parse_windows(raw: dict, family: str) -> tuple:
    """Per layer the sliding window, or None. Absent and null both mean full attention."""
    n_layer, window = need(raw, "num_hidden_layers"), raw.get("sliding_window")
    slides = [kind == "sliding_attention" for kind in raw.get("layer_types") or []]
    if slides and len(slides) != n_layer:
        raise UserError(f"config.json: layer_types has {len(slides)} entries for {n_layer} layers")
    if family == "llama":
        return (None,) * n_layer
    if family in ("qwen2", "qwen3"):
        if not raw.get("use_sliding_window"):
            if any(slides):
                warnings.warn("layer_types asks for sliding layers but use_sliding_window is off: full attention")
            return (None,) * n_layer
        slides = slides or [i >= given(raw, "max_window_layers", 28) for i in range(n_layer)]
    slides = slides or [True] * n_layer
    return tuple(window if slide else None for slide in slides)
