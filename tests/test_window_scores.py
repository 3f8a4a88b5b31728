"""Scores of the observation window against naive loops over every query's attention, on tiny weights with GQA."""

import math

import pytest
import torch
from naive import Reader

from nanokv import UserError
from nanokv.buffer import new_buffer
from nanokv.evict import Seen, rank
from nanokv.load import random_weights, tiny_config
from nanokv.methods import find
from nanokv.options import build
from nanokv.passes import causal_pass
from nanokv.window_scores import pooled

CFG = tiny_config()  # 6 query heads on 2 kv heads
WEIGHTS = random_weights(CFG)
N, W = 22, 5
IDS = torch.randint(97, (N,), generator=torch.Generator().manual_seed(8)).tolist()
LAYERS, HEADS, GROUP = range(3), range(2), range(3)


@pytest.fixture(scope="module")
def reader():
    """All tokens read one by one; `a_of` and `v_of` below read its numbers."""
    reader = Reader(WEIGHTS, CFG)
    for token in IDS:
        reader.feed(token)
    return reader


def a_of(reader, layer, head, g, t, s):
    """Attention of token t's query head on row s; 0 for the future."""
    row = reader.given[layer][t][3 * head + g]
    return row[s] if s < len(row) else 0.0


def v_of(reader, layer, head, s):
    return reader.rows[layer][s][2][head]


def scores_of(name: str, budget: int = 12, protect: str = "none,recent:5", **settings):
    """The score of a preset for the prompt, [layer][1 h s], before anything is evicted."""
    settings = {"window": W, **settings}
    plan, _ = build(find(name), budget, once=True, protect=protect, settings=settings)
    kv, seen = new_buffer(CFG, N + 8), Seen(budget, plan.protection, N)
    causal_pass(WEIGHTS, CFG, kv, torch.tensor([IDS]), hooks=plan.watch(WEIGHTS, CFG, kv, seen))
    return plan.score(WEIGHTS, CFG, kv, seen), (kv, plan, seen)


def compare(found, number, slots=range(N), rtol=1e-4):
    """found [layer][1 h s] against number(layer, head, s)."""
    for layer in LAYERS:
        expected = torch.tensor([[number(layer, head, s) for s in slots] for head in HEADS])
        torch.testing.assert_close(found[layer][0][:, list(slots)], expected, rtol=rtol, atol=1e-6)


def window_attention(reader, layer, head, s, reduce="mean"):
    """Sum over the window's queries of the group's mean (or largest) attention on one older row."""
    combine = max if reduce == "max" else lambda x: sum(x) / 3
    return sum(combine([a_of(reader, layer, head, g, t, s) for g in GROUP]) for t in range(N - W, N))


def neighbours(s, kernel, end=N - W):
    return range(max(0, s - kernel // 2), min(end, s + kernel // 2 + 1))


@pytest.mark.parametrize("reduce", ["mean", "max"])
@pytest.mark.parametrize("kernel, pool", [(7, "max"), (5, "avg"), (1, "max"), (3, "max")])
def test_snapkv_sums_the_window_s_attention_over_the_group_and_pools_over_neighbours(reader, reduce, kernel, pool):
    found, _ = scores_of("snapkv", kernel=kernel, pool=pool, reduce=reduce)

    def number(layer, head, s):
        near = [window_attention(reader, layer, head, i, reduce) for i in neighbours(s, kernel)]
        return max(near) if pool == "max" else sum(near) / kernel

    compare(found, number, range(N - W))
    assert all(float(s[..., N - W :].abs().max()) == 0 for s in found)  # the window itself is protected, not scored


def test_snapkv_s_defaults_are_a_window_of_32_and_max_over_7():
    plan, options = build(find("snapkv"), 128)
    assert (options["window"], options["kernel"], options["pool"]) == (32, 7, "max")
    assert (plan.protection.recent, plan.protection.leading, plan.every) == (32, 0, None)


def test_pooling_over_5_spreads_9_to_its_neighbours_and_the_average_ranks_an_unattended_row_first():
    a = torch.tensor([[[0, 0.9, 0, 0, 0, 0.1]]])
    avg, largest = pooled(a, 5, "avg"), pooled(a, 5, "max")
    assert avg[0, 0].tolist() == pytest.approx([0.18, 0.18, 0.18, 0.20, 0.02, 0.02])
    assert largest[0, 0].tolist() == pytest.approx([0.9, 0.9, 0.9, 0.9, 0.1, 0.1])
    everyone = torch.ones_like(a, dtype=torch.bool)
    assert rank(avg, everyone)[0, 0].argmin() == 3
    assert rank(largest, everyone)[0, 0].tolist() == [3, 2, 1, 0, 5, 4]  # ties go to the newer token


@pytest.mark.parametrize("stage_of, n_first", [("free", 3), ("budget", 1)])
def test_criticalkv_takes_half_by_attention_and_the_rest_by_attention_times_the_l1_norm(reader, stage_of, n_first):
    """12 rows, 5 of them the window: 3 of 7 by attention; or 6 less the 5 protected."""
    found, (kv, plan, seen) = scores_of("criticalkv", kernel=3, stage_of=stage_of)
    must = [torch.arange(N)[None, None].expand(1, 2, N) >= N - W for _ in LAYERS]
    finished = plan.finish(WEIGHTS, CFG, kv, seen, found, [torch.full((1, 2), 12)] * 3, must)

    def base(layer, head, s):
        return max(window_attention(reader, layer, head, i) / W for i in neighbours(s, 3))

    def number(layer, head, s):
        order = sorted(range(N - W), key=lambda i: (base(layer, head, i), i), reverse=True)
        if s in order[:n_first]:
            return math.inf
        w_o, value = WEIGHTS.layers[layer].w_o.double(), v_of(reader, layer, head, s)
        norms = [(w_o[:, 8 * q : 8 * q + 8] @ value).abs().sum() for q in range(3 * head, 3 * head + 3)]
        return (base(layer, head, s) + 1e-4) * float(sum(norms)) / 3

    compare(found, base, range(N - W))
    compare(finished, number, range(N - W))


@pytest.mark.parametrize("anchor", ["droppable", "output"])
@pytest.mark.parametrize("chunk", [1, 4])
def test_andpro_projects_each_chunk_s_read_value_on_the_anchor(reader, anchor, chunk):
    found, _ = scores_of("andpro", protect="none,sinks:4,recent:5", kernel=3, chunk=chunk, anchor=anchor)
    droppable = range(4, N - W)

    def number(layer, head, s):
        rows = [i for i in range(s // chunk * chunk, s // chunk * chunk + chunk) if i in droppable]
        total = 0.0
        for g in GROUP:
            for t in range(N - W, N):
                pool = [max(a_of(reader, layer, head, g, t, j) for j in neighbours(i, 3, N)) for i in range(N)]
                plain = [a_of(reader, layer, head, g, t, i) for i in range(N)]
                read = {i: pool[i] for i in droppable} if anchor == "droppable" else dict(enumerate(plain))
                y = sum(x * v_of(reader, layer, head, i) for i, x in read.items())
                total += sum(float(pool[i] * v_of(reader, layer, head, i) @ y) for i in rows)
        return total / 3

    compare(found, number, droppable, rtol=1e-3)


@pytest.mark.parametrize("drop", ["V", "K", "VK"])
def test_obcache_sums_the_squared_change_over_the_window_and_averages_the_group(reader, drop):
    found, (kv, _, seen) = scores_of("obcache", drop=drop)
    k = kv.layers

    def number(layer, head, s):
        total = 0.0
        for g in GROUP:
            for w, t in enumerate(range(N - W, N)):
                a, v = a_of(reader, layer, head, g, t, s), v_of(reader, layer, head, s)
                o = sum(a_of(reader, layer, head, g, t, i) * v_of(reader, layer, head, i) for i in range(t + 1))
                q, key = seen.record["q"][layer][0, head, g, w], k[layer][0]["k"].block[0, head, s]
                z = float(q.double() @ key.double()) / 8**0.5
                change = {"V": a * v, "K": a * z * (v - o), "VK": a * v + a * z * (v - o)}[drop]
                total += float(change @ change)
        return total / 3

    compare(found, number, range(0, N - W, 3), rtol=2e-3)


@pytest.mark.parametrize("base, queries", [("snapkv", range(N - W, N)), ("tova", [N - 1])])
@pytest.mark.parametrize("fast", [False, True])
def test_caote_is_the_output_change_of_deleting_the_key_and_renormalising(reader, base, queries, fast):
    found, _ = scores_of("caote_fast" if fast else "caote", base=base)

    def number(layer, head, s):
        total = 0.0
        for g in GROUP:
            a = [sum(a_of(reader, layer, head, g, t, i) for t in queries) / len(queries) for i in range(N)]
            values = [v_of(reader, layer, head, i) for i in range(N)]
            o = sum(values) / N if fast else sum(x * v for x, v in zip(a, values))
            without = (o - a[s] * values[s]) / (1 - a[s])  # deletes s from an o that weighs its values by a
            total += float((without - o).norm()) if not fast else a[s] / (1 - a[s]) * float((o - values[s]).norm())
        return total / 3

    compare(found, number, range(0, N - W, 2), rtol=1e-3)


@pytest.mark.parametrize(
    "name, settings",
    [
        *[("snapkv", {"kernel": 4}), ("snapkv", {"pool": "sum"}), ("obcache", {"drop": "Q"})],
        *[("caote", {"base": "h2o"}), ("andpro", {"anchor": "mean"})],
        *[("criticalkv", {"first_stage": 2.0}), ("criticalkv", {"stage_of": "x"})],
    ],
    ids=str,
)
def test_an_option_that_cannot_be_is_refused_with_the_choices(name, settings):
    with pytest.raises(UserError, match=r"\bor\b"):
        scores_of(name, **settings)
