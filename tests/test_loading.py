"""What loading owes on bad or odd checkpoints: every missing, extra, broken or misshapen tensor is named."""

import json
import warnings

import pytest
import torch
from checkpoints import config, tensors, write

from nanokv import UserError
from nanokv.config import read_config
from nanokv.load import read_weights


def load(folder, **options):
    return read_weights(folder, read_config(folder), **options)


def fail(folder) -> str:
    """The error that loading this folder ends with; one line."""
    with pytest.raises(UserError) as error:
        load(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def quiet():
    """Any warning fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_tied_config_without_a_head_uses_the_embedding(tmp_path, quiet):
    weights = load(write(tmp_path, config("llama_tied"), tensors("llama_tied")))
    assert weights.unembed is weights.embed


def test_an_untied_config_without_a_head_fails_naming_the_key(tmp_path):
    message = fail(write(tmp_path, config(tie_word_embeddings=False), tensors("llama_tied")))
    assert "lm_head.weight" in message and "tie" in message


def test_a_config_that_does_not_speak_of_tying_is_untied(tmp_path):
    assert "lm_head.weight" in fail(write(tmp_path, config(tie_word_embeddings="absent"), tensors("llama_tied")))


def test_a_head_in_the_file_is_used_even_when_the_config_ties_with_one_warning(tmp_path, recwarn):
    stored = tensors()
    weights = load(write(tmp_path, config(tie_word_embeddings=True), stored))
    assert torch.equal(weights.unembed, stored["lm_head.weight"])
    assert not torch.equal(weights.unembed, weights.embed)
    assert len(recwarn) == 1 and "lm_head" in str(recwarn[0].message)


def test_every_parameter_without_a_tensor_is_listed(tmp_path):
    stored = tensors()
    gone = ["model.norm.weight", "model.layers.0.self_attn.k_proj.weight", "model.layers.2.mlp.up_proj.weight"]
    message = fail(write(tmp_path, config(), {name: x for name, x in stored.items() if name not in gone}))
    assert all(name in message for name in gone)
    assert "model.layers.1.self_attn.k_proj.weight" not in message


def test_an_index_is_followed_over_all_its_files(tmp_path, quiet):
    stored = tensors()
    weights = load(write(tmp_path, config(), stored, shards=3))
    assert torch.equal(weights.embed, stored["model.embed_tokens.weight"])
    assert torch.equal(weights.layers[1].w_down, stored["model.layers.1.mlp.down_proj.weight"])
    assert torch.equal(weights.unembed, stored["lm_head.weight"])


def test_all_files_that_an_index_names_in_vain_are_listed(tmp_path):
    folder = write(tmp_path, config(), tensors(), shards=4)
    for i in (2, 4):
        (folder / f"model-0000{i}-of-00004.safetensors").unlink()
    message = fail(folder)
    assert "model-00002-of-00004.safetensors, model-00004-of-00004.safetensors" in message
    assert "00001-of" not in message


def test_an_index_without_a_weight_map_is_named(tmp_path):
    folder = write(tmp_path, config(), tensors(), shards=2)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}}), encoding="utf-8")
    assert "model.safetensors.index.json has no weight_map" in fail(folder)


def test_a_folder_without_weights_names_the_missing_file(tmp_path):
    folder = write(tmp_path, config(), tensors())
    (folder / "model.safetensors").unlink()
    assert str(folder / "model.safetensors") in fail(folder)


@pytest.mark.parametrize("share", [0, 0.0001, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_named_with_its_path(tmp_path, share):
    folder = write(tmp_path, config(), tensors())
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: int(share * len(whole))])
    message = fail(folder)
    assert str(folder / "model.safetensors") in message and "truncated or incomplete" in message


def test_a_truncated_shard_is_named_and_not_another(tmp_path):
    folder = write(tmp_path, config(), tensors(), shards=2)
    shard = folder / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    message = fail(folder)
    assert str(shard) in message and "truncated or incomplete" in message


def test_stored_rotary_tables_are_ignored_silently(tmp_path, quiet):
    tables = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.full((6,), 99.0) for i in range(3)}
    tables["model.layers.0.self_attn.rotary_emb.cos_cached"] = torch.zeros(4, 12)
    weights = load(write(tmp_path, config(), tensors() | tables))
    expected = torch.tensor([10000.0 ** (-2 * i / 12) for i in range(6)])
    torch.testing.assert_close(weights.inv_freq, expected)


def test_any_other_unknown_tensor_is_named(tmp_path):
    extra = {"model.layers.1.self_attn.k_scale": torch.ones(1), "model.layers.3.mlp.up_proj.weight": torch.ones(80, 48)}
    message = fail(write(tmp_path, config(), tensors() | extra))
    assert all(name in message for name in extra)


def test_a_bias_that_the_config_does_not_speak_of_is_named(tmp_path):
    message = fail(write(tmp_path, config("llama_bias", attention_bias="absent"), tensors("llama_bias")))
    assert "model.layers.0.self_attn.q_proj.bias" in message


@pytest.mark.parametrize(
    "name, found, expected, key",
    [
        ("model.layers.1.self_attn.k_proj.weight", (12, 48), [24, 48], "num_key_value_heads"),
        ("model.layers.0.self_attn.o_proj.weight", (48, 48), [48, 72], "num_attention_heads x head_dim"),
        ("model.layers.2.mlp.down_proj.weight", (80, 48), [48, 80], "intermediate_size"),  # transposed
        ("model.layers.0.input_layernorm.weight", (1,), [48], "hidden_size"),  # would broadcast
        ("model.norm.weight", (1, 48), [48], "hidden_size"),
        ("lm_head.weight", (96, 48), [97, 48], "vocab_size"),
    ],
)
def test_a_shape_mismatch_names_tensor_expected_found_and_config_key(tmp_path, name, found, expected, key):
    message = fail(write(tmp_path, config(), tensors() | {name: torch.ones(found)}))
    assert name in message and f"expected {expected}" in message and f"found {list(found)}" in message
    assert key in message


def test_quantised_number_formats_are_named_and_not_read_as_numbers(tmp_path):
    name = "model.layers.0.mlp.up_proj.weight"
    message = fail(write(tmp_path, config(), tensors() | {name: torch.zeros(80, 48, dtype=torch.int8)}))
    assert name in message and "I8" in message and "BF16" in message
