"""From words to a Plan: what is refused before anything runs, and two numbers of the trace."""

import inspect

import pytest
import torch

from nanokv import UserError
from nanokv.buffer import new_buffer
from nanokv.evict import Plan, Protection, Seen, refresh
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.methods import METHODS, find
from nanokv.options import build, keyword_only
from nanokv.passes import causal_pass
from nanokv.scores import recency
from nanokv.trace import compression

WRONG = [
    ("counter_causal", "value", "foo", "logit or logprob"),
    ("counter_causal", "ids", "own", "paper or released"),
    ("streaming_llm", "positions", "slot", "original or cache"),
    ("h2o", "reduce", "sum", "mean or max"),
    ("snapkv", "pool", "min", "max or avg"),
    ("obcache", "drop", "Q", "V or K or VK"),
    ("lore_e", "psi", "softmax", "sum or maxpool or identity or rank"),
]


@pytest.mark.parametrize("name, key, word, choices", WRONG)
def test_a_word_that_is_no_choice_is_refused_with_the_choices_before_anything_runs(name, key, word, choices):
    with pytest.raises(UserError, match=f"option {key} is {choices}, not '{word}'"):
        build(find(name), 16, settings={key: word})


@pytest.mark.parametrize("method", [m for m in METHODS if m.score], ids=lambda m: m.name)
def test_every_string_default_of_a_score_names_its_choices(method):
    parameters = inspect.signature(method.score).parameters
    plain = [name for name, default in keyword_only(method.score).items() if isinstance(default, str)]
    assert [name for name in plain if "Literal" not in str(parameters[name].annotation)] == []


def test_compression_is_one_minus_the_product_of_the_kept_shares():
    cfg = tiny_config()
    ids = torch.randint(97, (24,), generator=torch.Generator().manual_seed(0)).tolist()
    plan, _ = build(find("sliding_window"), 12, every=8)  # held 8, 16 -> 12, 20 -> 12
    with torch.inference_mode():
        run = generate(random_weights(cfg), cfg, ids, plan, max_new_tokens=1)
    assert [int(done.keep[0].sum()) for done in run.refreshes] == [12, 12]
    assert compression(run) == pytest.approx(1 - (12 / 16) * (12 / 20))


def test_a_refresh_that_would_drop_nothing_is_none_and_leaves_the_buffer_alone():
    cfg = tiny_config()
    weights, kv = random_weights(cfg), new_buffer(cfg, 12)
    causal_pass(weights, cfg, kv, torch.arange(12)[None])
    plan = Plan(recency, budget=8, protection=Protection(sinks=4), budget_excludes_protected=True)
    blocks = [part["k"].block for layer in kv.layers for part in layer]
    assert refresh(weights, cfg, kv, plan, Seen(8, plan.protection, 12)) is None
    assert all(a is part["k"].block for a, (part,) in zip(blocks, kv.layers))


def test_expected_attention_before_any_query_says_so():
    cfg = tiny_config()
    plan, _ = build(find("expected_attention"), 4, every=1)
    with pytest.raises(UserError, match="no query behind the first n_sink"):
        plan.score(random_weights(cfg), cfg, *empty_run(cfg, plan))


def empty_run(cfg, plan):
    """A buffer with the four sinks only, and what was recorded of them."""
    weights, kv, seen = random_weights(cfg), new_buffer(cfg, 4), Seen(4, plan.protection, 4)
    causal_pass(weights, cfg, kv, torch.arange(4)[None], hooks=plan.watch(weights, cfg, kv, seen))
    return kv, seen
