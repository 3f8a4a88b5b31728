"""config.json and generation_config.json from a GGUF's metadata."""

import math

import numpy as np
from gguf.quants import dequantize

from nanokv import UserError
from weights.gguf_file import Gguf

CLASSES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "ministral3": "Ministral3"}
ROTARY = "rope_freqs.weight"  # [d/2] what each angle is divided by, in the files of Llama 3.1 and 3.2
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def config_json(g: Gguf) -> dict:
    """The Hugging Face config of the model. UserError when the file asks for what cannot be said there."""
    sizes = read_sizes(g)
    config = {
        **sizes,
        "vocab_size": int(g.tensors["token_embd.weight"].shape[1]),
        "max_position_embeddings": g.need("{arch}.context_length"),
        "rms_norm_eps": g.need("{arch}.attention.layer_norm_rms_epsilon"),
        "rope_theta": g.get("{arch}.rope.freq_base", 10000.0),
        "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in g.tensors,
        "attention_bias": has_bias(g, ("attn_q", "attn_k", "attn_v")),
        "mlp_bias": has_bias(g, ("ffn_gate", "ffn_up", "ffn_down")),
        "bos_token_id": g.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": g.get("tokenizer.ggml.eos_token_id"),
        "torch_dtype": "float32",
    }
    scaling = rope_scaling(g, config["rope_theta"], sizes["head_dim"])
    if scaling:
        config["rope_parameters"] = scaling
    return {**name_model(g), **config}


def name_model(g: Gguf) -> dict:
    """The family. mistral3 files are Ministral 3 or plain Mistral; a llama file with a window can only be Mistral."""
    kind, window = g.arch, g.get("{arch}.attention.sliding_window")
    if kind == "mistral3":
        kind = "ministral3" if g.get("{arch}.attention.temperature_scale") else "mistral"
    elif kind == "llama" and window:
        kind = "mistral"
    extra = {"sliding_window": window} if kind in ("mistral", "ministral3") else {}  # else Mistral's own default, 4096
    return {"architectures": [CLASSES[kind] + "ForCausalLM"], "model_type": kind, **extra}


def read_sizes(g: Gguf) -> dict:
    n_head, d_model = g.need("{arch}.attention.head_count"), g.need("{arch}.embedding_length")
    n_kv_head = g.get("{arch}.attention.head_count_kv", n_head)
    if isinstance(n_head, list) or isinstance(n_kv_head, list):
        raise UserError(f"{g.path} has other head counts in each layer; only one count for all is supported")
    d_head = g.get("{arch}.attention.key_length", d_model // n_head)
    if g.get("{arch}.attention.value_length", d_head) != d_head:
        raise UserError(f"{g.path}: keys and values of unequal width are not supported")
    if g.get("{arch}.rope.dimension_count", d_head) != d_head:
        raise UserError(f"{g.path} rotates a part of each head; only whole heads are supported")
    return {
        "hidden_size": d_model,
        "intermediate_size": g.need("{arch}.feed_forward_length"),
        "num_hidden_layers": g.need("{arch}.block_count"),
        "num_attention_heads": n_head,
        "num_key_value_heads": n_kv_head,
        "head_dim": d_head,
    }


def has_bias(g: Gguf, parts: tuple) -> bool:
    return any(f"blk.0.{part}.bias" in g.tensors for part in parts)


def rope_scaling(g: Gguf, theta: float, d_head: int) -> dict | None:
    """rope_parameters, or None for plain angles. The scaling is in metadata, or (Llama 3.1) in a tensor of divisors."""
    kind = g.get("{arch}.rope.scaling.type", "none")
    if ROTARY in g.tensors:
        if kind != "none":
            raise UserError(f"{g.path} has both {ROTARY} and rope scaling {kind!r}; only one is supported")
        t = g.tensors[ROTARY]
        return llama3_scaling(g, dequantize(t.data, t.tensor_type), theta, d_head)
    if kind == "none":
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": g.need("{arch}.rope.scaling.factor")}
    if kind == "yarn":
        return yarn_scaling(g)
    raise UserError(f"{g.path} has rope scaling {kind!r}; supported: linear, yarn and the factors of Llama 3.1")


def yarn_scaling(g: Gguf) -> dict:
    for key in ("attn_factor", "yarn_attn_factor", "yarn_ext_factor"):
        if g.get("{arch}.rope.scaling." + key, 1.0) != 1.0:
            raise UserError(f"{g.path}: {g.arch}.rope.scaling.{key} other than 1 is not supported")
    scaling = {
        "rope_type": "yarn",
        "factor": g.need("{arch}.rope.scaling.factor"),
        "original_max_position_embeddings": g.need("{arch}.rope.scaling.original_context_length"),
        "beta_fast": g.get("{arch}.rope.scaling.yarn_beta_fast", 32.0),
        "beta_slow": g.get("{arch}.rope.scaling.yarn_beta_slow", 1.0),
    }
    if g.get("{arch}.rope.scaling.yarn_log_multiplier"):
        scaling |= {"mscale": 1.0, "mscale_all_dim": g.get("{arch}.rope.scaling.yarn_log_multiplier")}
    if g.get("{arch}.attention.temperature_scale"):
        scaling["llama_4_scaling_beta"] = g.get("{arch}.attention.temperature_scale")
    return scaling


def llama3_scaling(g: Gguf, divisors: np.ndarray, theta: float, d_head: int) -> dict | None:
    """The llama3 scaling whose divisors [d/2] are the file's. UserError when neither Llama 3.1's nor 3.2's fits."""
    if np.all(divisors == 1.0):
        return None
    for factor in (8.0, 32.0):
        if np.allclose(divisors, llama3_divisors(theta, d_head, factor), rtol=1e-3):
            return {"rope_type": "llama3", "factor": factor, **LLAMA3}
    raise UserError(f"{g.path}: {ROTARY} holds neither the factors of Llama 3.1 (8) nor those of Llama 3.2 (32)")


def llama3_divisors(theta: float, d_head: int, factor: float) -> np.ndarray:
    """[d/2]: 1 for wavelengths that fit 4 times into the original length, `factor` for those longer than that length,
    between them 1 / ((1 - s) / factor + s) where s rises from 0 to 1 with the number of turns (Llama 3.1's recipe)."""
    wavelength = 2 * math.pi * theta ** (np.arange(0, d_head, 2) / d_head)
    turns = LLAMA3["original_max_position_embeddings"] / wavelength
    low, high = LLAMA3["low_freq_factor"], LLAMA3["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return 1.0 / ((1.0 - smooth) / factor + smooth)


def generation_json(g: Gguf) -> dict:
    """bos and eos ids; eos is a list with the end-of-turn id where the file names one of its own."""
    ids = [g.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot")]
    return {
        "bos_token_id": g.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": list(dict.fromkeys(i for i in ids if i is not None)),
    }
