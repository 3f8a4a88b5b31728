"""The tiny models whose logits are stored: config.json as a hub folder holds it, and what each is there to catch.

VARIANTS: name -> (config, the sliding window of each layer or None, config changes that must move the logits).
All sizes of one model are distinct where its family allows, so that a swapped axis cannot pass unseen. Old
(`rope_theta`, `rope_scaling`, `type`, `torch_dtype`) and new (`rope_parameters`, `rope_type`, `dtype`) spellings mix.
"""

FULL = [None, None, None]


def config(model_type: str, **keys) -> dict:
    sizes = {"vocab_size": 97, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 12}
    rest = {"hidden_act": "silu", "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
    return {"model_type": model_type, **sizes, **heads, **rest, **keys}


def absent(full: dict, *names) -> dict:
    return {key: value for key, value in full.items() if key not in names}


LLAMA2 = config("llama", num_attention_heads=4, torch_dtype="float32", rope_scaling=None)
LINEAR = {"type": "linear", "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 48,
}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
YARN_FACTOR = {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.4, "beta_fast": 4.0, "beta_slow": 0.5}
YARN_MSCALE = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 8.0,
    "beta_slow": 1.0,
    "mscale": 1.5,
    "mscale_all_dim": 0.5,
    "truncate": False,
}
MINISTRAL3 = {
    "type": "yarn",
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 32.0,
    "beta_slow": 0.25,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.3,
}
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
HEADS = {"num_attention_heads": 4, "head_dim": 16}
NEW = {"dtype": "float32"}
OLD = {"torch_dtype": "float32", "rope_theta": 10000.0}


def theta(value: float) -> dict:
    return {"rope_type": "default", "rope_theta": value}


VARIANTS = {
    # no grouped queries: the kv heads, the head width and the eps are left to their defaults
    "llama2": (absent(LLAMA2, "num_key_value_heads", "head_dim", "rms_norm_eps"), FULL, [{"rope_theta": 500.0}]),
    "llama_gqa": (config("llama", **{**OLD, "rms_norm_eps": 0.01}), FULL, [{"rms_norm_eps": 1e-5}]),
    "llama_linear": (config("llama", rope_scaling=LINEAR, **OLD), FULL, [{"rope_scaling": None}]),
    "llama_llama3": (
        config("llama", rope_scaling=LLAMA3, **{**OLD, "rope_theta": 500000.0, "head_dim": 20}),
        FULL,
        [{"rope_scaling": None}, {"rope_scaling": {**LLAMA3, "high_freq_factor": 2.0}}],
    ),
    "llama_yarn": (
        config("llama", rope_scaling=YARN, **OLD),
        FULL,
        [{"rope_scaling": None}, {"rope_scaling": {**YARN, "attention_factor": 1.0}}],
    ),
    # the original length is left to max_position_embeddings
    "llama_yarn_attention_factor": (
        config("llama", rope_scaling=YARN_FACTOR, **{**OLD, "max_position_embeddings": 64}),
        FULL,
        [{"rope_scaling": absent(YARN_FACTOR, "attention_factor")}, {"max_position_embeddings": 512}],
    ),
    "llama_yarn_mscale": (
        config("llama", rope_parameters=YARN_MSCALE, **NEW),
        FULL,
        [{"rope_parameters": absent(YARN_MSCALE, key)} for key in ("mscale", "beta_fast", "truncate", "rope_theta")],
    ),
    "llama_bias": (
        config("llama", attention_bias=True, mlp_bias=True, rope_parameters=theta(10000.0), **NEW),
        FULL,
        [{"attention_bias": False}, {"mlp_bias": False}],
    ),
    "llama_tied": (config("llama", **{**OLD, "tie_word_embeddings": True}), FULL, [{"tie_word_embeddings": False}]),
    "qwen2": (
        absent(
            config("qwen2", **{**OLD, "rope_theta": 1000000.0, "tie_word_embeddings": True}, use_sliding_window=False)
            | {"sliding_window": 8, "max_window_layers": 1},
            "head_dim",
        ),
        FULL,
        [{"model_type": "llama"}, {"use_sliding_window": True}],
    ),
    "qwen2_sliding": (
        absent(
            config("qwen2", use_sliding_window=True, sliding_window=8, max_window_layers=1, **OLD),
            "head_dim",
        ),
        [None, 8, 8],
        [{"use_sliding_window": False}, {"max_window_layers": 0}, {"sliding_window": 9}],
    ),
    "qwen3": (
        config("qwen3", rope_parameters=theta(1000000.0), attention_bias=False, **HEADS, **NEW),
        FULL,
        [{"model_type": "llama"}, {"rope_parameters": theta(10000.0)}],
    ),
    "mistral_sliding": (
        config("mistral", sliding_window=8, **OLD),
        [8, 8, 8],
        [{"sliding_window": None}, {"sliding_window": 7}, {"sliding_window": 9}],
    ),
    "mistral_full": (
        config("mistral", sliding_window=None, **{**OLD, "head_dim": None, "rope_theta": 1000000.0}),
        FULL,
        [{"sliding_window": 8}, {"rope_theta": 10000.0}],
    ),
    "ministral": (
        config("ministral", sliding_window=8, layer_types=MIXED, rope_parameters=theta(100000.0), **HEADS, **NEW),
        [8, None, 8],
        [{"layer_types": MIXED[::-1][:2] + MIXED[1:2]}, {"sliding_window": 9}],
    ),
    "ministral3": (
        config("ministral3", sliding_window=None, rope_parameters=MINISTRAL3, **HEADS, **NEW),
        FULL,
        [
            {"rope_parameters": {**MINISTRAL3, "llama_4_scaling_beta": 0.0}},
            {"rope_parameters": absent(MINISTRAL3, "mscale")},
        ],
    ),
}
