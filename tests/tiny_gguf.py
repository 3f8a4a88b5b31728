"""Writes GGUF files of one layer with weights one can name, for the tests of weights/."""

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

E, F, H, KV, D = 32, 64, 4, 2, 8  # model and mlp width, query heads, kv heads, head width
BPE = ["<|end|>", "<tool>", "a", "b", "c", "Ġ", "ab", "Ġab", "1", "Ċ"]  # Ġ is a space, Ċ a newline
MERGES = ["a b", "Ġ ab"]
BPE_TYPES = [3, 4, 1, 1, 1, 1, 1, 1, 1, 1]  # control, user-defined, normal


def weights(n_vocab: int, arch: str) -> dict:
    """Hugging Face names -> float32 arrays, no two rows alike. qwen2 has biases, qwen3 norms of q and k."""
    shapes = {"model.embed_tokens.weight": (n_vocab, E), "model.norm.weight": (E,)}
    layer = {"input_layernorm": (E,), "post_attention_layernorm": (E,), "self_attn.q_proj": (H * D, E)}
    layer |= {"self_attn.k_proj": (KV * D, E), "self_attn.v_proj": (KV * D, E), "self_attn.o_proj": (E, H * D)}
    layer |= {"mlp.gate_proj": (F, E), "mlp.up_proj": (F, E), "mlp.down_proj": (E, F)}
    layer |= {"self_attn.q_norm": (D,), "self_attn.k_norm": (D,)} if arch == "qwen3" else {}
    shapes |= {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
    if arch == "qwen2":
        shapes |= {f"model.layers.0.self_attn.{p}_proj.bias": (n * D,) for p, n in (("q", H), ("k", KV), ("v", KV))}
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "lm_head": "output",
}


def gguf_name(name: str) -> str:
    stem, kind = name.removeprefix("model.layers.0.").rsplit(".", 1)
    return ("blk.0." if "layers" in name else "") + GGUF_NAMES[stem] + "." + kind


def interleave(x: np.ndarray, n_head: int) -> np.ndarray:
    """What llama files do to the rows of q and k: the two halves of each head alternate."""
    y = x.copy()
    for h in range(n_head):
        for i in range(D // 2):
            y[h * D + 2 * i] = x[h * D + i]
            y[h * D + 2 * i + 1] = x[h * D + D // 2 + i]
    return y


def write(path, arch="llama", *, meta=(), tokenizer="bpe", packed=(), extra=(), drop=()) -> dict:
    """Writes the file and gives back its weights under Hugging Face names, in Hugging Face's row order.

    meta: (key, value) pairs over the defaults, None leaves a key out. packed: GGUF name -> (bytes [rows, n], type).
    extra: GGUF name -> float32 array. drop: GGUF names to leave out.
    """
    hf = weights(len(BPE) if tokenizer == "bpe" else 400, arch)
    w = GGUFWriter(path, arch)
    for key, value in {**default_meta(arch), **(bpe_meta() if tokenizer == "bpe" else {}), **dict(meta)}.items():
        add(w, key.replace("ARCH", arch), value)
    tensors = {gguf_name(name): x for name, x in hf.items()}
    if arch in ("llama", "mistral3"):
        for part, n in (("q", H), ("k", KV)):
            tensors[f"blk.0.attn_{part}.weight"] = interleave(tensors[f"blk.0.attn_{part}.weight"], n)
    for name, x in {**tensors, **dict(extra)}.items():
        if name in dict(packed):
            raw, kind = dict(packed)[name]
            w.add_tensor(name, raw, raw_dtype=GGMLQuantizationType[kind])
        elif name not in drop:
            w.add_tensor(name, x)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return hf


def default_meta(arch: str) -> dict:
    return {
        "ARCH.context_length": 128,
        "ARCH.embedding_length": E,
        "ARCH.feed_forward_length": F,
        "ARCH.block_count": 1,
        "ARCH.attention.head_count": H,
        "ARCH.attention.head_count_kv": KV,
        "ARCH.attention.layer_norm_rms_epsilon": 1e-5,
        "ARCH.rope.freq_base": 500000.0,
        "ARCH.rope.dimension_count": D,
    }


def bpe_meta() -> dict:
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": BPE,
        "tokenizer.ggml.token_type": BPE_TYPES,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.chat_template": "{{ messages }}",
    }


def spm_meta(**more) -> dict:
    """A SentencePiece vocabulary: <unk> <s> </s>, 256 bytes, then pieces; higher scores are joined sooner."""
    pieces = {"▁": -5.0, "a": -6.0, "b": -7.0, "c": -8.0, "▁ab": -4.0, "▁a": -3.0, "bc": -2.0, "ab": -1.0}
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *pieces]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * 259 + list(pieces.values()),
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(pieces),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }


def add(w: GGUFWriter, key: str, value):
    if isinstance(value, bool):
        w.add_bool(key, value)
    elif isinstance(value, int):
        w.add_uint32(key, value)
    elif isinstance(value, float):
        w.add_float32(key, value)
    elif isinstance(value, str):
        w.add_string(key, value)
    elif value is not None:
        w.add_array(key, value)
