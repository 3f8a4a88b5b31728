"""How config.json spells the rotation: theta, scaling, both spellings, overrides, and what is refused."""

import copy
import warnings

import pytest
from checkpoints import config

from nanokv import UserError
from nanokv.config import parse_config

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def rope(overrides=None, **keys):
    return parse_config({**config(rope_theta="absent"), **keys}, **(overrides or {})).rope


@pytest.fixture
def quiet():
    """Any warning fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_theta_is_read_at_top_level_and_in_rope_parameters(quiet):
    assert rope(rope_theta=5e5).theta == 5e5
    assert rope(rope_parameters={"rope_type": "default", "rope_theta": 7e5}).theta == 7e5


@pytest.mark.parametrize("block", [None, {}, {"rope_type": "default", "rope_theta": None}])
def test_theta_is_the_top_levels_where_rope_parameters_give_none(quiet, block):
    assert rope(rope_theta=5e5, rope_parameters=block).theta == 5e5


def test_theta_is_10000_when_nothing_gives_it(quiet):
    assert rope().theta == 10000.0


def test_rope_parameters_win_over_the_top_level_theta_with_one_warning(recwarn):
    assert rope(rope_theta=5e5, rope_parameters={"rope_theta": 7e5}).theta == 7e5
    assert len(recwarn) == 1 and "rope_parameters" in str(recwarn[0].message)


def test_rope_parameters_win_over_rope_scaling_with_one_warning(recwarn):
    old = {"rope_theta": 5e5, "rope_scaling": {"type": "yarn", "factor": 2.0, "attention_factor": 9.0}}
    new = rope(**old, rope_parameters={"type": "yarn", "factor": 4.0, "rope_theta": 7e5})
    assert (new.factor, new.theta, round(new.attention_factor, 6)) == (4.0, 7e5, 1.138629)
    assert len(recwarn) == 1


def test_a_scaling_in_the_old_spelling_joins_a_theta_in_the_new(quiet):
    joined = rope(rope_scaling={"type": "linear", "factor": 2.0}, rope_parameters={"rope_theta": 7e5})
    assert (joined.kind, joined.factor, joined.theta) == ("linear", 2.0, 7e5)


@pytest.mark.parametrize(
    "spelling", [{"rope_theta": 5e5}, {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}]
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_theta_stays_when_only_the_scaling_is_overridden(quiet, spelling, key):
    new = rope({key: {"rope_type": "linear", "factor": 4.0}}, **spelling)
    assert (new.kind, new.factor, new.theta) == ("linear", 4.0, 5e5)


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_the_scaling_stays_when_only_the_theta_is_overridden(quiet, key):
    new = rope({"rope_theta": 7e5}, **{key: {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}})
    assert (new.kind, new.factor, new.theta) == ("linear", 4.0, 7e5)


def test_nothing_of_an_old_scaling_is_left_in_one_that_overrides_it(quiet):
    old = {"rope_type": "yarn", "factor": 8.0, "attention_factor": 9.0, "rope_theta": 5e5}
    new = rope({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, rope_parameters=old)
    assert (new.factor, new.theta, round(new.attention_factor, 6)) == (4.0, 5e5, 1.138629)


def test_a_scaling_overridden_by_null_is_switched_off(quiet):
    old = {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5}
    new = rope({"rope_scaling": None}, rope_parameters=old)
    assert (new.kind, new.theta) == ("default", 5e5)


def test_the_callers_config_and_override_are_not_changed():
    keys = config("llama_yarn_mscale", rope_scaling=None)
    outer = {"model_type": "mistral3", "dtype": "float32", "text_config": config("mistral_full")}
    override = {"type": "linear", "factor": 4.0}
    before = copy.deepcopy((keys, outer, override))
    parse_config(keys, rope_scaling=override)
    parse_config(outer, rope_parameters=override)
    assert (keys, outer, override) == before


@pytest.mark.parametrize("key", ["type", "rope_type"])
def test_type_and_rope_type_name_the_kind(quiet, key):
    assert rope(rope_scaling={key: "linear", "factor": 2.0}).kind == "linear"
    assert rope(rope_parameters={key: "linear", "factor": 2.0}).kind == "linear"


def test_null_in_a_scaling_block_is_absent(quiet):
    assert rope(rope_scaling=None).kind == "default"
    assert rope(rope_scaling={"type": None, "rope_type": None}).kind == "default"
    assert rope(rope_scaling={"rope_type": None, "type": "linear", "factor": 2.0}).kind == "linear"
    block = {"rope_type": "yarn", "factor": 4.0, "beta_fast": None, "attention_factor": None, "truncate": None}
    yarn = rope(rope_scaling=block)
    assert (yarn.beta_fast, yarn.truncate, round(yarn.attention_factor, 6)) == (32.0, True, 1.138629)


def test_extra_keys_in_a_llama3_block_change_nothing(quiet):
    extra = {"type": "llama3", "finetuned": True, "beta_fast": None, "max_position_embeddings": 3}
    assert rope(rope_scaling={**LLAMA3, **extra}) == rope(rope_scaling=LLAMA3)


def test_yarns_attention_factor_is_the_given_one(quiet):
    block = {"rope_type": "yarn", "factor": 4.0, "mscale": 2.0, "mscale_all_dim": 1.0}
    assert rope(rope_scaling={**block, "attention_factor": 1.4}).attention_factor == 1.4


@pytest.mark.parametrize(
    "mscales, factor",
    [
        ({}, 1.138629),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
        ({"mscale": 2.0, "mscale_all_dim": 1.0}, 1.277259 / 1.138629),
        ({"mscale": 2.0}, 1.138629),  # one alone is not used
    ],
)
def test_yarns_attention_factor_is_a_ratio_of_mscales_or_grows_with_the_log(quiet, mscales, factor):
    given = rope(rope_scaling={"rope_type": "yarn", "factor": 4.0, **mscales}).attention_factor
    assert given == pytest.approx(factor, abs=1e-6)


def test_yarns_factor_is_the_ratio_of_lengths_when_absent(quiet):
    block = {"rope_type": "yarn", "original_max_position_embeddings": 128}
    assert rope(rope_scaling=block, max_position_embeddings=512).factor == 4.0


@pytest.mark.parametrize("kind", ["linear", "llama3", "yarn"])
def test_a_scaling_without_any_factor_is_refused(kind):
    with pytest.raises(UserError, match=f"'{kind}' in config.json has no factor"):
        rope(rope_scaling={"type": kind})


def test_dynamic_scaling_is_refused_by_name():
    with pytest.raises(UserError, match=r"rope type 'dynamic' is refused.*default, linear, llama3, yarn"):
        rope(rope_scaling={"type": "dynamic", "factor": 2.0})


def test_an_unknown_rope_type_is_refused_with_the_list():
    with pytest.raises(UserError, match=r"'longrope'.*default, linear, llama3, yarn"):
        rope(rope_parameters={"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]})


def test_partly_rotated_heads_are_refused():
    with pytest.raises(UserError, match="partial_rotary_factor"):
        rope(partial_rotary_factor=0.5)


def test_another_rotation_for_each_layer_type_is_refused():
    with pytest.raises(UserError, match="full_attention, sliding_attention"):
        rope(rope_parameters={"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}})


def test_a_ministral3_config_without_its_rotation_is_refused():
    with pytest.raises(UserError, match="rope_parameters"):
        parse_config(config("ministral3", rope_parameters="absent"))


def test_the_longest_text_counts_the_scaling():
    scaled = {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}}
    assert parse_config(config(max_position_embeddings=512)).n_positions == 512
    assert parse_config(config(max_position_embeddings=512, **scaled)).n_positions == 2048
