"""Scores that need no window: KeyDiff and key norms by hand, Expected Attention by loops over the prompt's queries."""

import math

import pytest
import torch
from naive import Reader, head_slices, rms_norm, turn

from nanokv.buffer import append, new_buffer, see, view
from nanokv.compact import compact
from nanokv.evict import Plan, Protection, Seen, refresh
from nanokv.key_scores import expected_attention, future_queries, key_norm, keydiff, watch_query_moments
from nanokv.load import random_weights, tiny_config
from nanokv.methods import find
from nanokv.options import build
from nanokv.passes import causal_pass

CFG = tiny_config()
WEIGHTS = random_weights(CFG)
IDS = torch.randint(97, (1, 20), generator=torch.Generator().manual_seed(2))


def small(*keys, values=None, n_seen=None):
    """One layer, one head, d = 2: a buffer with these keys."""
    cfg = tiny_config(n_layer=1, n_head=1, n_kv_head=1, d_head=2, d_model=2)
    kv, k = new_buffer(cfg, 8), torch.tensor(keys)[None, None]
    append(kv, 0, k, torch.tensor(values)[None, None] if values else k, torch.arange(len(keys))[None])
    see(kv, torch.zeros(1, len(keys), dtype=torch.int64))
    return cfg, kv


def test_keydiff_s_example_keeps_the_key_unlike_the_others():
    cfg, kv = small([1.0, 0.0], [1.0, 0.0], [0.0, 1.0])
    (score,) = keydiff(None, cfg, kv, None)
    assert (-score[0, 0]).tolist() == pytest.approx([0.894, 0.894, 0.447], abs=1e-3)
    refresh(None, cfg, kv, Plan(score=keydiff, budget=1), Seen(1, Protection(), 3))
    assert view(kv, 0)[2].tolist() == [[[2]]]


def test_keydiff_looks_at_directions_only_and_not_at_empty_slots():
    cfg, kv = small([5.0, 0.0], [0.1, 0.0], [0.0, 30.0])
    assert (-keydiff(None, cfg, kv, None)[0][0, 0]).tolist() == pytest.approx([0.894, 0.894, 0.447], abs=1e-3)
    kv = new_buffer(CFG, 20)
    causal_pass(WEIGHTS, CFG, kv, IDS)
    for layer in range(3):
        compact(kv, layer, torch.stack((torch.arange(20) < 12, torch.arange(20) % 4 == 0))[None])
    for layer, s in enumerate(keydiff(WEIGHTS, CFG, kv, None)):
        k = view(kv, layer)[0][0, 1, :5].double()
        mean = (k / k.norm(dim=-1, keepdim=True)).sum(dim=0)
        expected = [-float(x @ mean) / float(x.norm() * mean.norm()) for x in k]
        assert s[0, 1, :5].tolist() == pytest.approx(expected, abs=1e-5)


def test_key_norm_keeps_small_keys():
    cfg, kv = small([3.0, 4.0], [0.0, 1.0], [6.0, 8.0])
    assert key_norm(None, cfg, kv, None)[0][0, 0].tolist() == pytest.approx([-5, -1, -10])


def test_expected_attention_of_mean_1_variance_4_and_key_half_has_logit_1():
    """The one-dimensional example under d = 2: mu / sqrt 2 and sigma^2 / 2 are what a query of d = 1 would have."""
    cfg, kv = small([0.5, 0.0], [0.0, 0.0], values=[[1.0, 0.0], [0.0, 1.0]])
    kv.n_seen = 0  # the one future position is then 0, where nothing is rotated
    mu, second = torch.tensor([[[2**0.5, 0.0]]]).double(), torch.zeros(1, 1, 2, 2).double()
    second[0, 0, 0, 0] = 2.0 + 8.0  # mean squared and variance
    seen = Seen(1, Protection(), 2, record={"moments": {0: (1, mu, second)}})
    weights = random_weights(cfg)
    (score,) = expected_attention(weights, cfg, kv, seen, n_future=1, n_sink=0)
    assert score[0, 0].tolist() == pytest.approx([math.e / (math.e + 1), 1 / (math.e + 1)])
    (score,) = expected_attention(weights, cfg, kv, seen, n_future=1, n_sink=0, covariance=False)
    assert float(score[0, 0, 0] / score[0, 0, 1]) == pytest.approx(math.exp(0.5))
    (score,) = expected_attention(weights, cfg, kv, seen, n_future=1, n_sink=0, epsilon=0.1, use_vnorm=True)
    assert score[0, 0].tolist() == pytest.approx([math.e / (math.e + 1) + 0.1, 1 / (math.e + 1) + 0.1])


@pytest.mark.parametrize("chunks", [(20,), (3, 1, 16)])
@pytest.mark.parametrize("options", [{}, {"use_vnorm": False}, {"epsilon": 0.02, "covariance": False}], ids=str)
def test_expected_attention_equals_loops_over_the_prompt_s_queries_and_the_next_positions(chunks, options):
    kv, seen, reader = new_buffer(CFG, 20), Seen(8, Protection(sinks=4), 20), Reader(WEIGHTS, CFG)
    hooks = watch_query_moments(WEIGHTS, CFG, kv, seen)
    for tokens in IDS.split(chunks, dim=1):
        causal_pass(WEIGHTS, CFG, kv, tokens, hooks=hooks)
    for token in IDS[0].tolist():
        reader.feed(token)
    found = expected_attention(WEIGHTS, CFG, kv, seen, n_future=6, **options)
    for layer in range(3):
        for head in range(2):
            per_query_head = [naive_logits(reader, layer, q, options) for q in range(3 * head, 3 * head + 3)]
            attention = torch.stack([x.softmax(dim=0) for x in per_query_head]).mean(dim=0)
            if options.get("use_vnorm", True):
                norms = torch.stack([v[head].norm() for _, _, v in reader.rows[layer][4:]])
                attention = (attention + options.get("epsilon", 0.0)) * norms
            torch.testing.assert_close(found[layer][0, head, 4:], attention.float(), rtol=1e-3, atol=1e-6)


def naive_logits(reader, layer, query_head, options):
    """mu R k / sqrt d + k R Sigma R k / 2d of the keys behind the sinks; R is the mean rotation of positions 20..25."""
    w, theta = WEIGHTS.layers[layer], CFG.rope.theta
    q = [head_slices(CFG, w, rms_norm(x, w.norm_attn, CFG.norm_eps))[0][query_head] for x in reader.inputs[layer][4:]]
    mu = sum(q) / len(q)
    sigma = sum(torch.outer(x - mu, x - mu) for x in q) / len(q)
    axes = torch.eye(8, dtype=torch.float64)
    R = torch.stack([sum(turn(axis, pos, theta) for pos in range(20, 26)) / 6 for axis in axes], dim=1)
    keys = [turn(k[query_head // 3], pos, theta) for pos, k, _ in reader.rows[layer][4:]]
    logits = [k @ R @ mu / 8**0.5 for k in keys]
    if options.get("covariance", True):
        logits = [z + k @ R @ sigma @ R.T @ k / 16 for z, k in zip(logits, keys)]
    return torch.stack(logits)


def test_expected_attention_s_defaults_are_512_positions_4_sinks_and_no_window():
    plan, options = build(find("expected_attention"), 64)
    assert [options[name] for name in ("n_future", "n_sink", "epsilon")] == [512, 4, 0.0]
    assert (plan.protection.leading, plan.protection.newest(64), plan.every) == (4, 0, None)


def test_the_first_queries_are_left_out_of_the_moments():
    kv, seen = new_buffer(CFG, 20), Seen(8, Protection(), 20)
    causal_pass(WEIGHTS, CFG, kv, IDS, hooks=watch_query_moments(WEIGHTS, CFG, kv, seen, n_sink=7))
    assert {count for count, _, _ in seen.record["moments"].values()} == {13}


def test_a_longer_horizon_averages_more_rotations():
    kv, seen = new_buffer(CFG, 20), Seen(8, Protection(), 20)
    causal_pass(WEIGHTS, CFG, kv, IDS, hooks=watch_query_moments(WEIGHTS, CFG, kv, seen))
    near, far = (future_queries(WEIGHTS, CFG, kv, seen, 0, n)[0] for n in (1, 512))
    count, first, _ = seen.record["moments"][0]
    one = torch.stack([turn((first / count)[h, g], 20, CFG.rope.theta) for h in range(2) for g in range(3)])
    torch.testing.assert_close(near.flatten(0, 1), one, rtol=1e-5, atol=1e-6)
    assert float(far[..., 0].abs().max()) < float(near[..., 0].abs().max())  # the fastest pair averages out
