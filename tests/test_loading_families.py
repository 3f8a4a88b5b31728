"""What each family's layers are loaded with, and in which numbers: head width, biases, norms, dtype, wrappers."""

import math
from dataclasses import replace

import pytest
import torch
from checkpoints import config, tensors, write

from nanokv import UserError
from nanokv.config import parse_config, read_config
from nanokv.load import random_weights, read_weights, tiny_config
from nanokv.model import keys, norm, queries, values


def load(folder, **options):
    return read_weights(folder, read_config(folder), **options)


def all_tensors(weights) -> list:
    layers = [x for layer in weights.layers for x in vars(layer).values() if x is not None]
    return [weights.embed, weights.norm, weights.unembed, *layers]


def test_head_dim_comes_from_the_config_in_q_rows_and_o_columns(tmp_path):
    layer = load(write(tmp_path, config(head_dim=12), tensors())).layers[0]  # hidden / heads would be 8
    assert layer.w_q.shape == (72, 48) and layer.w_k.shape == (24, 48) and layer.w_o.shape == (48, 72)


@pytest.mark.parametrize("head_dim", [None, "absent"])
def test_head_dim_null_or_absent_is_hidden_over_heads(tmp_path, head_dim):
    cfg = read_config(write(tmp_path, config("llama_gqa", head_dim=head_dim), {}))
    assert cfg.d_head == 48 // 6


@pytest.mark.parametrize("n_kv_head", [None, "absent"])
def test_kv_heads_default_to_the_query_heads(n_kv_head):
    cfg = parse_config(config(num_key_value_heads=n_kv_head))
    assert (cfg.n_kv_head, cfg.n_group) == (6, 1)


def test_qwen2_loads_q_k_and_v_biases_and_no_other(tmp_path):
    stored = tensors("qwen2")
    for i, layer in enumerate(load(write(tmp_path, config("qwen2"), stored)).layers):
        for name in "qkv":
            assert torch.equal(getattr(layer, f"b_{name}"), stored[f"model.layers.{i}.self_attn.{name}_proj.bias"])
        assert layer.b_o is None and layer.b_gate is None


def test_biases_are_added_to_queries_keys_and_values():
    cfg = tiny_config(qkv_bias=True)
    layer = random_weights(cfg).layers[0]
    nothing, still = torch.zeros(1, 1, 40), (torch.ones(1, 4), torch.zeros(1, 4))
    assert torch.equal(queries(cfg, layer, nothing, still).flatten(), layer.b_q)
    assert torch.equal(keys(cfg, layer, nothing, still).flatten(), layer.b_k)
    assert torch.equal(values(cfg, layer, nothing).flatten(), layer.b_v)


def test_llama_honours_attention_bias_on_all_four_projections(tmp_path):
    stored = tensors("llama_bias")
    layer = load(write(tmp_path, config("llama_bias"), stored)).layers[2]
    for name in "qkvo":
        assert torch.equal(getattr(layer, f"b_{name}"), stored[f"model.layers.2.self_attn.{name}_proj.bias"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_all_parameters_end_in_one_dtype_whatever_the_file_mixes(tmp_path, dtype):
    mixed = (torch.float16, torch.float32, torch.bfloat16, torch.float64)
    stored = {name: x.to(mixed[i % 4]) for i, (name, x) in enumerate(sorted(tensors().items()))}
    weights = load(write(tmp_path, config(), stored), dtype=dtype)
    assert {x.dtype for x in all_tensors(weights)} == {dtype}


def test_inverse_frequencies_stay_float32_under_any_model_dtype(tmp_path):
    folder = write(tmp_path, config(), tensors())
    expected = torch.tensor([10000.0 ** (-2 * i / 12) for i in range(6)])
    for dtype in (torch.bfloat16, torch.float16):
        inv_freq = load(folder, dtype=dtype).inv_freq
        assert inv_freq.dtype == torch.float32
        torch.testing.assert_close(inv_freq, expected, rtol=1e-6, atol=0)


def test_qwen3_norms_a_head_before_it_is_rotated():
    cfg = replace(tiny_config(), n_head=1, n_kv_head=1, d_head=4, d_model=4, qk_norm=True, norm_eps=0.0)
    layer = random_weights(cfg).layers[0]
    layer.w_q = layer.w_k = torch.eye(4)
    layer.norm_q = layer.norm_k = torch.tensor([3.0, 5.0, 7.0, 11.0])
    turn = torch.tensor([[math.cos(1), 1.0]]), torch.tensor([[math.sin(1), 0.0]])
    # [2 0 0 0] has mean square 1, its norm is [6 0 0 0]; turned first, the second half would be multiplied by 7
    expected = torch.tensor([6 * math.cos(1), 0, 6 * math.sin(1), 0])
    a = torch.tensor([[[2.0, 0, 0, 0]]])
    torch.testing.assert_close(queries(cfg, layer, a, turn).flatten(), expected)
    torch.testing.assert_close(keys(cfg, layer, a, turn).flatten(), expected)


def test_the_norm_is_cast_before_it_is_multiplied_by_its_weight():
    # 1 and 2 over sqrt(2.5) are 0.63246 and 1.26491, in bfloat16 0.6328125 and 1.265625; times 1.015625 they round
    # to the numbers below, while the uncast ones would round to 0.640625 and 1.28125
    y = norm(torch.tensor([1.0, 2.0]).bfloat16(), torch.tensor([1.015625]).bfloat16(), eps=0.0)
    assert y.dtype == torch.bfloat16
    assert y.tolist() == [0.64453125, 1.2890625]


def test_the_norm_squares_in_float32():
    y = norm(torch.tensor([300.0, -300.0]).half(), torch.ones(2).half(), eps=1e-6)  # 90,000 is no float16
    assert y.tolist() == [1.0, -1.0]


def test_the_norm_adds_eps_to_the_mean_square():
    assert norm(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 2.0]), eps=3.0).tolist() == [0.5, 1.0]


def test_rms_norm_eps_is_read_and_is_1e_6_when_absent():
    assert parse_config(config(rms_norm_eps=0.01)).norm_eps == 0.01
    assert parse_config(config(rms_norm_eps="absent")).norm_eps == 1e-6


WRAPPERS = {
    "old": lambda name: "language_model." + name,
    "new": lambda name: name.replace("model.", "model.language_model."),
}
VISION = {
    "old": ("vision_tower.norm.weight", "multi_modal_projector.linear_1.weight"),
    "new": ("model.vision_tower.norm.weight", "model.multi_modal_projector.linear_1.weight"),
}


@pytest.mark.parametrize("spelling", WRAPPERS)
def test_a_mistral3_wrapper_gives_its_text_model_and_one_warning_about_vision(tmp_path, recwarn, spelling):
    text = config("mistral_full", head_dim=12, torch_dtype="absent")
    outer = {"model_type": "mistral3", "torch_dtype": "bfloat16", "text_config": text, "vision_config": {"depth": 7}}
    stored = {WRAPPERS[spelling](name): x for name, x in tensors().items()}
    stored |= {name: torch.ones(3) for name in VISION[spelling]}
    folder = write(tmp_path, outer, stored)
    cfg, weights = read_config(folder), load(folder)
    assert (cfg.family, cfg.d_head, cfg.dtype, cfg.rope.theta) == ("mistral", 12, torch.bfloat16, 1e6)
    assert torch.equal(weights.layers[1].w_v, tensors()["model.layers.1.self_attn.v_proj.weight"])
    assert torch.equal(weights.unembed, tensors()["lm_head.weight"])
    assert len(recwarn) == 1 and "vision" in str(recwarn[0].message)


def test_a_mistral3_wrapper_without_a_text_config_is_refused_naming_the_key():
    with pytest.raises(UserError, match="text_config"):
        parse_config({"model_type": "mistral3"})


def test_an_override_reaches_the_text_model_inside_a_wrapper():
    outer = {"model_type": "mistral3", "text_config": config("mistral_sliding")}
    assert parse_config(outer, sliding_window=5).windows == (5, 5, 5)
