"""What eviction promises over a whole run: counts, bounds, clean starts, positions, long prompts, refusals."""

import pytest
import torch

from nanokv import UserError
from nanokv import generate as module
from nanokv.buffer import bytes_held, n_kept, rows_held, view
from nanokv.evict import Plan, Protection
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.methods import METHODS, find
from nanokv.options import build
from nanokv.trace import trace

CFG = tiny_config()
WEIGHTS = random_weights(CFG)
EVERY_METHOD = [m.name for m in METHODS if m.score is not None]
SIMPLE = ["counter_causal", "counter_causal_fast", "sliding_window", "streaming_llm", "h2o", "tova"]
SIMPLE += ["h2o_released", "importance_released", "causal_surprise", "random", "unigram"]


def prompt(n: int, seed: int = 1) -> list:
    return torch.randint(97, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def run_of(name, n=60, budget=16, every=8, new=12, seed=1, **kwargs):
    plan, _ = build(find(name), budget, every, **kwargs)
    return generate(WEIGHTS, CFG, prompt(n, seed), plan, new)


def sets(run) -> list:
    """Kept positions of every refresh, layer and head."""
    done = []
    for r in run.refreshes:
        layers = [(p.expand(k.shape)[0], k[0]) for p, k in zip(r.positions, r.keep)]
        done.append([[p[h][k[h]].tolist() for h in range(len(k))] for p, k in layers])
    return done


@pytest.mark.parametrize("name", SIMPLE)
def test_every_refresh_at_budget_16_with_sink_4_and_window_8_keeps_16_rows_with_those_among_them(name):
    run = run_of(name, protect="none,sinks:4,recent:8")
    assert [r.n_seen for r in run.refreshes] == [24, 32, 40, 48, 56, 64]
    for r, layers in zip(run.refreshes, sets(run)):
        for head in [head for heads in layers for head in heads]:
            assert len(head) == 16 and head == sorted(head)
            assert {0, 1, 2, 3, *range(r.n_seen - 8, r.n_seen)} <= set(head)


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_one_refresh_at_budget_16_with_sink_4_and_window_8_keeps_16_rows_a_head_on_average(name):
    """Exactly 16 in each, but for the two rules that hand rows between layers (PyramidKV) or heads (Ada-KV)."""
    run = run_of(name, every=None, once=True, new=1, protect="none,sinks:4,recent:8")
    heads = [head for layers in sets(run) for heads in layers for head in heads]
    heads = heads * (6 // len(heads))  # one list for all, for a layer's heads, or a head
    assert sum(len(head) for head in heads) == 6 * 16
    assert name in ("pyramidkv", "adakv") or {len(head) for head in heads} == {16}
    assert all({0, 1, 2, 3, *range(52, 60)} <= set(head) and head == sorted(head) for head in heads)


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_the_same_prompt_gives_the_same_run_whatever_ran_before(name):
    a, again = (run_of(name, n=36, new=4, protect="sinks:2,recent:8") for _ in range(2))
    run_of(name, n=29, new=4, protect="sinks:2,recent:8", seed=2)
    after = run_of(name, n=36, new=4, protect="sinks:2,recent:8")
    assert a.output_ids == again.output_ids == after.output_ids
    assert sets(a) == sets(again) == sets(after) and len(sets(a)) > 0


@pytest.mark.parametrize("name", ["sliding_window", "counter_causal", "counter_causal_fast", "h2o", "tova"])
@pytest.mark.parametrize("every", [1, 5, 8, 40])
def test_a_buffer_never_holds_more_than_budget_and_h_rows(name, every):
    run = run_of(name, n=70, budget=16, every=every, new=30, protect="none")
    assert run.kv.peak_rows == 16 + every
    assert {len(head) for layers in sets(run) for heads in layers for head in heads} == {16}
    assert n_kept(run.kv) <= 16 + every
    assert max(part["k"].block.shape[2] for layer in run.kv.layers for part in layer) <= 16 + every


@pytest.mark.parametrize("chunk", [3, 7, 60, 512])
@pytest.mark.parametrize("name", ["h2o", "tova", "counter_causal_fast", "causal_surprise", "random"])
def test_a_chunked_prompt_is_evicted_like_one_read_at_once(monkeypatch, name, chunk):
    whole = run_of(name, every=None, once=True, protect="none")
    monkeypatch.setattr(module, "CHUNK", chunk)
    chunked = run_of(name, every=None, once=True, protect="none")
    assert rows_held(chunked.kv) == rows_held(whole.kv) == [[16 + 11] * 2] * 3
    assert sets(chunked) == sets(whole)
    assert chunked.output_ids == whole.output_ids


def test_a_prompt_is_read_whole_before_anything_is_evicted(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 7)
    full = generate(WEIGHTS, CFG, prompt(60), None, 1)
    once = run_of("sliding_window", every=None, once=True, new=1)
    torch.testing.assert_close(once.seen.logits, full.seen.logits)
    assert len(once.refreshes) == 1 and once.kv.peak_rows == 60 and n_kept(once.kv) == 16


@pytest.mark.parametrize("name", SIMPLE)
def test_a_prompt_of_three_times_the_model_s_length_ends_finite_with_sinks_and_last_token_held(name):
    cfg = tiny_config(n_positions=64)
    plan, _ = build(find(name), 16, 16, protect="none,sinks:2,recent:1")
    run = generate(WEIGHTS, cfg, prompt(192), plan, 4)
    assert run.seen.logits.isfinite().all() and len(run.output_ids) == 4
    after_prompt = sets(run)[-1]
    assert all({0, 1, 191} <= set(head) for heads in after_prompt for head in heads)


def test_a_prompt_longer_than_the_model_is_refused_without_eviction_naming_length_limit_and_option():
    cfg = tiny_config(n_positions=64)
    with pytest.raises(UserError, match=r"65 tokens, the model takes 64.*--method"):
        generate(WEIGHTS, cfg, prompt(65), None, 4)


def test_40_seen_and_8_kept_gives_the_next_token_position_40():
    run = run_of("random", n=40, budget=8, every=10, new=2, protect="none")
    assert run.refreshes[-1].n_seen == 40 and len(sets(run)[-1][0][0]) == 8
    assert view(run.kv, 0)[2][0, 0].tolist() == [*sets(run)[-1][0][0], 40]
    assert (run.kv.n_seen, n_kept(run.kv)) == (41, 9)


def test_ids_positions_keys_and_values_stay_equal_in_number_and_in_increasing_position():
    run = run_of("h2o", n=55, new=20)
    for (part,) in run.kv.layers:
        assert {column.n for column in part.values()} == {n_kept(run.kv)} == {16 + 2}
        for held in part["pos"].block[0, :, : part["pos"].n].tolist():
            assert held == sorted(set(held)) and held[0] >= 0
    assert run.kv.ids.block[0, 0, : run.kv.n_seen].tolist() == (run.prompt_ids + run.output_ids)[:-1]


def test_bytes_held_are_2_layers_kv_heads_rows_width_size():
    run = run_of("tova", every=None, once=True, new=1)
    assert bytes_held(run.kv) == 2 * 3 * 2 * 16 * 8 * 4


def test_after_a_run_no_key_or_value_tensor_has_storage_for_more_than_kept_and_h_rows():
    run = run_of("h2o", n=70, budget=16, every=8, new=30)
    for (part,) in run.kv.layers:
        for column in part.values():
            assert column.block.untyped_storage().nbytes() <= (16 + 8) * column.block[:, :, :1].nbytes


def test_seen_kept_refreshes_and_peak_are_counted_in_every_run():
    plan, options = build(find("sliding_window"), 16, 8, protect="none")
    done = trace(generate(WEIGHTS, CFG, prompt(60), plan, 12), plan, "m", "sliding_window", options, torch.float32, "")
    assert (done["n_seen"], done["kept_rows"], done["peak_rows"]) == (71, 23, 24)
    assert [r["n_seen"] for r in done["refreshes"]] == [24, 32, 40, 48, 56, 64]
    assert [len(r["kept"]) for r in done["refreshes"]] == [16] * 6


@pytest.mark.parametrize(
    "plan, words",
    [
        (Plan(lambda *_: None, budget=0), "at least 1, not 0"),
        (Plan(lambda *_: None, budget=None), "at least 1, not None"),
        (Plan(lambda *_: None, budget=8, every=0), "--every must be at least 1, not 0"),
        (
            Plan(lambda *_: None, budget=8, protection=Protection(sinks=4, recent=5)),
            "9 rows are protected.*budget of 8",
        ),
    ],
    ids=["budget_0", "no_budget", "every_0", "protected"],
)
def test_a_plan_that_cannot_be_is_refused_by_name(plan, words):
    with pytest.raises(UserError, match=words):
        generate(WEIGHTS, CFG, prompt(20), plan, 4)


def test_a_run_whose_budget_holds_everything_equals_the_full_cache():
    full = generate(WEIGHTS, CFG, prompt(30), None, 12)
    roomy = run_of("counter_causal", n=30, budget=42, every=4)
    assert roomy.output_ids == full.output_ids and roomy.refreshes == []
