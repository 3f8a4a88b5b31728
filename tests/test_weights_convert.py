"""A GGUF becomes the Hugging Face folder it was made from: weights, config, rotation, tokenizer."""

import json
import math

import numpy as np
import pytest
import tiny_gguf as tiny
from safetensors.numpy import load_file

from nanokv import UserError
from weights.get import convert


def converted(tmp_path, arch="llama", **options):
    """(weights of the new folder, config.json, the original weights, the folder)."""
    original = tiny.write(tmp_path / "m.gguf", arch, **options)
    convert(tmp_path / "m.gguf", tmp_path)
    return load_file(tmp_path / "model.safetensors"), read(tmp_path, "config.json"), original, tmp_path


def read(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3", "mistral3"])
def test_every_weight_comes_back_under_its_name_in_its_row_order(tmp_path, arch):
    new, _, original, _ = converted(tmp_path, arch)
    assert new.keys() == original.keys()
    for name, x in original.items():
        np.testing.assert_array_equal(new[name], x, err_msg=name)


def test_llama_biases_of_q_are_reordered_like_its_rows(tmp_path):
    bias = np.arange(tiny.H * tiny.D, dtype=np.float32)
    extra = {f"blk.0.attn_{p}.bias": np.zeros(n, np.float32) for p, n in (("k", 16), ("v", 16), ("output", 32))}
    extra["blk.0.attn_q.bias"] = tiny.interleave(bias, tiny.H)
    new, config, _, _ = converted(tmp_path, extra=extra)
    np.testing.assert_array_equal(new["model.layers.0.self_attn.q_proj.bias"], bias)
    assert config["attention_bias"] is True


def test_q4_1_is_scale_times_nibble_plus_minimum_low_nibbles_first(tmp_path):
    nibbles = bytes(((15 - i) << 4) | i for i in range(16))
    block = np.float16(0.5).tobytes() + np.float16(-1.0).tobytes() + nibbles
    raw = np.frombuffer(block * 16, np.uint8).reshape(16, 20)
    new, _, _, _ = converted(tmp_path, packed={"blk.0.attn_v.weight": (raw, "Q4_1")})
    row = [0.5 * i - 1.0 for i in range(16)] + [0.5 * (15 - i) - 1.0 for i in range(16)]
    np.testing.assert_array_equal(new["model.layers.0.self_attn.v_proj.weight"], [row] * 16)


def test_q8_0_rows_of_q_are_unpacked_and_put_back_in_order(tmp_path):
    hf = np.arange(32)[:, None] + np.zeros((32, 32), int)  # row r holds r
    file_order = tiny.interleave(hf, tiny.H)
    rows = [np.float16(0.25).tobytes() + bytes(int(v) for v in row) for row in file_order]
    raw = np.frombuffer(b"".join(rows), np.uint8).reshape(32, 34)
    new, _, _, _ = converted(tmp_path, packed={"blk.0.attn_q.weight": (raw, "Q8_0")})
    np.testing.assert_array_equal(new["model.layers.0.self_attn.q_proj.weight"], hf * 0.25)


def test_slabs_of_a_few_rows_give_the_same_file(tmp_path, monkeypatch):
    monkeypatch.setattr("weights.gguf_model.SLAB", 100)  # three rows of 32 at a time
    new, _, original, _ = converted(tmp_path)
    for name, x in original.items():
        np.testing.assert_array_equal(new[name], x, err_msg=name)


def test_config_says_what_the_metadata_say(tmp_path):
    _, config, _, folder = converted(tmp_path)
    expected = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 32, "head_dim": 8}
    expected |= {"intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2}
    expected |= {"vocab_size": 10, "max_position_embeddings": 128, "rope_theta": 500000.0, "torch_dtype": "float32"}
    expected |= {"hidden_act": "silu", "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False}
    expected |= {"bos_token_id": 0, "eos_token_id": 0, "rms_norm_eps": 1e-5}  # exactly: not the float32 neighbour
    assert config == expected
    assert read(folder, "generation_config.json") == {"bos_token_id": 0, "eos_token_id": [0]}


def test_a_head_of_its_own_unties_the_embedding(tmp_path):
    head = np.ones((10, 32), np.float32)
    new, config, _, _ = converted(tmp_path, extra={"output.weight": head})
    assert config["tie_word_embeddings"] is False
    np.testing.assert_array_equal(new["lm_head.weight"], head)


def test_a_window_in_a_llama_file_means_mistral(tmp_path):
    _, config, _, _ = converted(tmp_path, meta={"ARCH.attention.sliding_window": 64})
    assert (config["model_type"], config["sliding_window"]) == ("mistral", 64)


def divisors(factor):
    """The Llama 3.1 recipe, one frequency at a time."""
    out = []
    for i in range(tiny.D // 2):
        wavelength = 2 * math.pi * 500000.0 ** (2 * i / tiny.D)
        if wavelength < 8192 / 4:
            out.append(1.0)
        elif wavelength > 8192:
            out.append(factor)
        else:
            s = (8192 / wavelength - 1) / (4 - 1)
            out.append(1 / ((1 - s) / factor + s))
    assert 1.0 < out[2] < factor  # one of the four lies in between
    return np.array(out, np.float32)


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_the_llama3_factor_is_recovered_from_rope_freqs(tmp_path, factor):
    new, config, _, _ = converted(tmp_path, extra={"rope_freqs.weight": divisors(factor)})
    wanted = {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    assert config["rope_parameters"] == {**wanted, "original_max_position_embeddings": 8192}
    assert not any("rope" in name for name in new)


def test_other_rope_freqs_are_refused_by_name(tmp_path):
    with pytest.raises(UserError, match=r"rope_freqs\.weight"):
        converted(tmp_path, extra={"rope_freqs.weight": divisors(16.0)})


def test_yarn_keys_become_rope_parameters(tmp_path):
    scaling = {"type": "yarn", "factor": 4.0, "original_context_length": 32}
    _, config, _, _ = converted(tmp_path, "qwen2", meta={f"ARCH.rope.scaling.{k}": v for k, v in scaling.items()})
    wanted = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    assert config["rope_parameters"] == {**wanted, "beta_fast": 32.0, "beta_slow": 1.0}


def test_mistral3_files_with_a_query_scale_are_ministral_and_without_one_mistral(tmp_path):
    scaling = {"type": "yarn", "factor": 16.0, "original_context_length": 16384, "yarn_log_multiplier": 1.0}
    meta = {f"ARCH.rope.scaling.{k}": v for k, v in scaling.items()} | {"ARCH.attention.temperature_scale": 0.1}
    _, config, _, _ = converted(tmp_path, "mistral3", meta=meta)
    assert config["model_type"] == "ministral3"
    wanted = {"llama_4_scaling_beta": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0, "factor": 16.0}
    assert wanted.items() <= config["rope_parameters"].items()
    _, config, _, _ = converted(tmp_path, "mistral3")
    assert (config["model_type"], config["sliding_window"]) == ("mistral", None)


def test_longrope_is_refused_by_name(tmp_path):
    with pytest.raises(UserError, match="longrope"):
        converted(tmp_path, meta={"ARCH.rope.scaling.type": "longrope"})


def test_an_absent_tensor_is_named(tmp_path):
    with pytest.raises(UserError, match=r"lacks 1 tensors.*layers\.0\.mlp\.up_proj\.weight"):
        converted(tmp_path, drop=["blk.0.ffn_up.weight"])


def test_a_tensor_no_supported_model_has_is_named(tmp_path):
    with pytest.raises(UserError, match=r"blk\.0\.ffn_gate_inp\.weight"):
        converted(tmp_path, extra={"blk.0.ffn_gate_inp.weight": np.ones((4, 32), np.float32)})


@pytest.mark.parametrize("part", [0.001, 0.02, 0.05, 0.1, 0.2, 0.5, 0.9, 0.99])
def test_a_truncated_file_is_said_to_be_truncated(tmp_path, part):
    tiny.write(tmp_path / "m.gguf")
    data = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(data[: int(4 + part * (len(data) - 4))])
    with pytest.raises(UserError, match=r"m\.gguf is truncated or damaged"):
        convert(tmp_path / "m.gguf", tmp_path)
