"""The numbers in config.json: dtype, sliding windows, stop ids, and clear refusals of what this code does not do."""

import json

import pytest
import torch
from checkpoints import config

from nanokv import UserError
from nanokv.config import parse_config, read_config

SLIDING, FULL = "sliding_attention", "full_attention"


@pytest.mark.parametrize("key", ["torch_dtype", "dtype"])
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_both_spellings_of_the_dtype_are_read(key, name):
    keys = config(torch_dtype="absent", dtype="absent")
    assert parse_config({**keys, key: name}).dtype == getattr(torch, name)


@pytest.mark.parametrize("key", ["torch_dtype", "dtype"])
def test_an_unknown_dtype_is_refused_with_the_list(key):
    with pytest.raises(UserError, match=r"'float8_e4m3fn'.*float32, bfloat16, float16"):
        parse_config(config(torch_dtype="absent") | {key: "float8_e4m3fn"})


def test_an_unknown_model_type_is_refused_with_the_list():
    with pytest.raises(UserError, match=r"'gpt2'.*llama, mistral, ministral, ministral3, qwen2, qwen3"):
        parse_config(config(model_type="gpt2"))


def test_quantised_weights_are_refused_by_their_method():
    with pytest.raises(UserError, match="fp8"):
        parse_config(config(quantization_config={"quant_method": "fp8"}))


def test_another_activation_is_refused_by_name():
    with pytest.raises(UserError, match="gelu"):
        parse_config(config(hidden_act="gelu"))


@pytest.mark.parametrize("key", ["hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size"])
@pytest.mark.parametrize("value", ["absent", None])
def test_a_size_that_is_missing_is_named(key, value):
    with pytest.raises(UserError, match=f"config.json has no {key}"):
        parse_config(config(**{key: value}))


def test_query_heads_that_do_not_divide_into_kv_heads_are_refused():
    with pytest.raises(UserError, match=r"num_attention_heads 6 .* num_key_value_heads 4"):
        parse_config(config(num_key_value_heads=4))


def test_a_missing_folder_and_a_missing_config_are_named_with_their_path(tmp_path):
    with pytest.raises(UserError, match=r"no such model folder: .*nowhere"):
        read_config(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"missing file: .*config\.json"):
        read_config(tmp_path)


def test_a_config_that_is_no_json_is_named_with_its_path(tmp_path):
    (tmp_path / "config.json").write_text("{'model_type': 1}", encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.json is not JSON"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    "in_config, in_generation, ids",
    [
        (2, "no file", (2,)),
        ([2, 3], "no file", (2, 3)),
        (0, "no file", (0,)),
        ("absent", "no file", ()),
        (None, "no file", ()),
        (2, 5, (5,)),
        (2, [5, 6], (5, 6)),
        (3, 0, (0,)),
        (2, None, (2,)),
    ],
)
def test_stop_ids_are_generation_configs_else_configs_one_or_a_list(tmp_path, in_config, in_generation, ids):
    (tmp_path / "config.json").write_text(json.dumps(config(eos_token_id=in_config)), encoding="utf-8")
    if in_generation != "no file":
        generation = {"eos_token_id": in_generation}
        (tmp_path / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    assert read_config(tmp_path).eos_ids == ids


@pytest.mark.parametrize("window", [None, "absent"])
@pytest.mark.parametrize("variant", ["mistral_sliding", "ministral", "qwen2_sliding"])
def test_a_sliding_window_null_or_absent_is_full_attention(variant, window):
    assert parse_config(config(variant, sliding_window=window)).windows == (None, None, None)


def test_a_mistral_window_slides_every_layer():
    assert parse_config(config("mistral_sliding", sliding_window=6)).windows == (6, 6, 6)


def test_layer_types_say_which_layers_slide():
    keys = config("ministral", sliding_window=6, layer_types=[FULL, SLIDING, FULL])
    assert parse_config(keys).windows == (None, 6, None)


def test_layer_types_of_another_number_of_layers_are_refused():
    with pytest.raises(UserError, match="layer_types has 2 entries for 3 layers"):
        parse_config(config("ministral", layer_types=[SLIDING, FULL]))


@pytest.mark.parametrize("use", [False, None, "absent"])
@pytest.mark.parametrize("variant", ["qwen2", "qwen3"])
def test_qwen_ignores_a_window_that_is_not_switched_on(variant, use, recwarn):
    keys = config(variant, use_sliding_window=use, sliding_window=8, max_window_layers=0)
    assert parse_config(keys).windows == (None, None, None)
    assert len(recwarn) == 0


@pytest.mark.parametrize("use", [False, "absent"])
@pytest.mark.parametrize("variant", ["qwen2", "qwen3"])
def test_qwen_warns_once_when_layer_types_slide_but_the_window_is_off(variant, use, recwarn):
    keys = config(variant, use_sliding_window=use, sliding_window=8, layer_types=[FULL, SLIDING, SLIDING])
    assert parse_config(keys).windows == (None, None, None)
    assert len(recwarn) == 1 and "use_sliding_window is off" in str(recwarn[0].message)


@pytest.mark.parametrize("variant", ["qwen2", "qwen3"])
@pytest.mark.parametrize("first, windows", [(0, (8, 8, 8)), (1, (None, 8, 8)), (2, (None, None, 8)), (3, (None,) * 3)])
def test_qwen_slides_layers_from_max_window_layers_on_only(variant, first, windows):
    keys = config(variant, use_sliding_window=True, sliding_window=8, max_window_layers=first)
    assert parse_config(keys).windows == windows


def test_max_window_layers_absent_is_28():
    keys = config("qwen2", use_sliding_window=True, sliding_window=8, max_window_layers="absent", num_hidden_layers=30)
    assert parse_config(keys).windows == (None,) * 28 + (8, 8)


def test_layer_types_win_over_max_window_layers():
    keys = config("qwen2", use_sliding_window=True, sliding_window=8, max_window_layers=0)
    assert parse_config(keys | {"layer_types": [SLIDING, FULL, SLIDING]}).windows == (8, None, 8)


def test_a_llama_has_no_window_whatever_its_config_says():
    assert parse_config(config("llama_gqa", sliding_window=8)).windows == (None, None, None)
