"""Budget rules hand out whole rows that add up exactly: PyramidKV over layers, Ada-KV over the heads of a layer."""

from itertools import pairwise

import pytest
import torch

from nanokv import UserError
from nanokv.budgets import ada, pyramid, round_to_sum, uniform
from nanokv.evict import rank
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.methods import METHODS, find
from nanokv.options import build


def flags(*shape, first=0):
    """bool of that shape, True for the first `first` slots."""
    return (torch.arange(shape[-1]) < first).expand(shape)


def pyramid_rows(n_layer, budget, n=8000, must=8, **options):
    """Rows of each layer in a buffer of n rows."""
    held = [flags(1, 2, n, first=n)] * n_layer
    counts = pyramid([None] * n_layer, budget, [flags(1, 2, n, first=must)] * n_layer, held, **options)
    assert all(c.shape == (1, 2) and c[0, 0] == c[0, 1] and c.dtype == torch.int64 for c in counts)
    return [int(c[0, 0]) for c in counts]


def test_pyramid_of_4_layers_gives_234_158_82_6_and_the_window():
    assert pyramid_rows(4, 128) == [234 + 8, 158 + 8, 82 + 8, 6 + 8]


def test_pyramid_of_32_layers_falls_evenly_and_gives_out_exactly_32_budgets():
    rows = pyramid_rows(32, 128)
    assert sum(rows) == 32 * 128 and rows[0] == 242 and rows[-1] == 14
    assert {a - b for a, b in pairwise(rows)} <= {7, 8}  # 228 / 31 = 7.35


def test_pyramid_of_1_layer_gives_it_the_budget():
    assert pyramid_rows(1, 128) == [128]


@pytest.mark.parametrize("n_layer", [1, 2, 3, 5, 30, 32])
@pytest.mark.parametrize("budget", [9, 16, 33, 128, 500])
@pytest.mark.parametrize("n", [501, 700, 8000])
def test_pyramid_layers_add_up_to_layers_times_budget_whatever_they_hold(n_layer, budget, n):
    rows = pyramid_rows(n_layer, budget, n)
    assert sum(rows) == n_layer * budget and rows == sorted(rows, reverse=True)
    assert min(rows) >= 8 and max(rows) <= n


def test_a_layer_that_cannot_hold_its_share_flattens_the_ramp_as_released():
    """k = 120 of 150: the first layer gets all 142 others, the last 2 x 120 - 142, in equal steps."""
    assert pyramid_rows(3, 128, n=150) == [142 + 8, 120 + 8, 98 + 8]


def test_a_larger_beta_makes_a_steeper_pyramid():
    assert pyramid_rows(2, 128, pyramid_beta=2) == [180 + 8, 60 + 8]
    assert pyramid_rows(2, 128, pyramid_beta=20) == [234 + 8, 6 + 8]


def test_pyramid_s_rows_go_to_others_where_one_layer_holds_less_than_the_rest():
    held = [flags(1, 2, 100, first=n) for n in (30, 100, 100)]
    counts = pyramid([None] * 3, 50, [flags(1, 2, 100, first=10)] * 3, held)
    rows = [int(c[0, 0]) for c in counts]
    assert sum(rows) == 150 and rows[0] == 30


def test_uniform_gives_every_layer_and_head_the_budget():
    assert [c.tolist() for c in uniform(None, 7, [flags(1, 2, 9)] * 2, None)] == [[[7, 7]]] * 2


HEADS = torch.tensor([[[0.5, 0.2, 0.1, 0.1, 0.1], [0.9, 0.04, 0.03, 0.02, 0.01]]])


def ada_rows(scores, budget, must=0, held=None, **options):
    n = scores.shape[-1]
    held = torch.ones_like(scores, dtype=torch.bool) if held is None else held
    (count,) = ada([scores], budget, [flags(*scores.shape, first=must)], [held], **options)
    assert count.dtype == torch.int64 and int(count.max()) <= n
    return count[0].tolist()


@pytest.mark.parametrize("floor, rows", [(0.0, [3, 1]), (0.2, [3, 1]), (0.6, [2, 2]), (1.0, [2, 2])])
def test_ada_s_example_keeps_4_rows_with_any_floor(floor, rows):
    """Shares 3 and 1; floor .2: 2.8 and 1.2; floor .6: 2.4 and 1.6. Rounding each alone would lose one at .2."""
    assert ada_rows(HEADS, 2, ada_floor=floor) == rows


def test_ada_gives_tied_rows_to_the_newer_wherever_they_are():
    scores = torch.tensor([[[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]]])
    assert ada_rows(scores, 1, ada_floor=0) == [1, 1, 1]
    tied = torch.tensor([[[9.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]])
    assert ada_rows(tied, 1, ada_floor=0) == [1, 1]
    tied = torch.tensor([[[0.0, 1.0, 0.0, 0.0], [9.0, 0.0, 0.0, 1.0]]])
    assert ada_rows(tied, 1, ada_floor=0) == [0, 2]


@pytest.mark.parametrize("floor", [0.0, 0.2, 0.5, 0.77, 1.0])
@pytest.mark.parametrize("budget", [3, 4, 10, 19, 20])
def test_ada_gives_out_heads_times_budget_and_every_head_its_floor(floor, budget):
    scores = torch.rand(1, 4, 20, generator=torch.Generator().manual_seed(budget)) ** torch.arange(1, 5)[:, None]
    rows = ada_rows(scores, budget, must=3, ada_floor=floor)
    assert sum(rows) == 4 * budget and max(rows) <= 20
    assert all(n >= 3 + int(floor * (budget - 3)) for n in rows)


def test_ada_counts_each_head_s_place_among_the_layer_s_best_unprotected_rows():
    scores = torch.rand(1, 3, 30, generator=torch.Generator().manual_seed(0))
    best = sorted(((float(scores[0, h, s]), h) for h in range(3) for s in range(4, 30)), reverse=True)[: 3 * 6]
    assert ada_rows(scores, 10, must=4, ada_floor=0) == [4 + sum(h == i for _, h in best) for i in range(3)]


def test_ada_never_counts_an_empty_slot_and_hands_on_what_a_short_head_cannot_hold():
    held = torch.stack([flags(10, first=3), flags(10, first=10)])[None]
    scores = torch.stack([torch.full((10,), 5.0), torch.ones(10)])[None]
    assert ada_rows(scores, 5, held=held, ada_floor=0) == [3, 7]
    assert ada_rows(scores, 5, must=2, held=held) == [3, 7]


def test_rounding_goes_by_largest_remainder_and_never_above_the_room():
    share = torch.tensor([2.6, 1.7, 0.7])
    assert round_to_sum(share, 5, torch.tensor([9, 9, 9])).tolist() == [2, 2, 1]
    assert round_to_sum(share, 5, torch.tensor([2, 1, 9])).tolist() == [2, 1, 2]
    assert round_to_sum(share, 5, torch.tensor([1, 1, 1])).tolist() == [1, 1, 1]


CFG = tiny_config()
IDS = torch.randint(97, (60,), generator=torch.Generator().manual_seed(6)).tolist()


def run_of(name, budget, **kwargs):
    plan, _ = build(find(name), budget, once=True, **kwargs)
    return generate(random_weights(CFG), CFG, IDS, plan, 1)


def kept(run):
    return [k.sum(dim=-1)[0].tolist() for k in run.refreshes[0].keep]


HEAD_LEVEL = [m.name for m in METHODS if m.level == "head"]


@pytest.mark.parametrize("name", HEAD_LEVEL)
def test_at_budget_16_sink_4_window_8_each_rule_keeps_what_its_formula_says(name):
    """4 free rows: uniform 16; pyramid 8, 4 and 0 free (4 / 20 rounds to 0); ada 2 x 16 a layer, at least 12 + 0."""
    how = {"protect": "none,sinks:4,recent:8"}
    assert kept(run_of(name, 16, allocate="uniform", **how)) == [[16, 16]] * 3
    assert kept(run_of(name, 16, allocate="pyramid", **how)) == [[20, 20], [16, 16], [12, 12]]
    for heads in kept(run_of(name, 16, allocate="ada", **how)):
        assert sum(heads) == 32 and min(heads) >= 12


@pytest.mark.parametrize("name", ["andpro", "lore_window"])
@pytest.mark.parametrize("budget", [12 + 1, 12 + 6, 12 + 7])
def test_chunks_give_exactly_the_budget_and_the_last_that_fits_its_newest_rows(name, budget):
    """48 free rows are 12 chunks of 4; a budget of 6 has room for one and a half."""
    run = run_of(name, budget, protect="none,sinks:4,recent:8")
    for s, k in zip(run.refreshes[0].scores, run.refreshes[0].keep):
        for score, keep in zip(s[0], k[0]):
            assert int(keep.sum()) == budget
            chunks = keep[4:52].reshape(12, 4).tolist()
            assert sorted(chunks)[: 12 - -(-(budget - 12) // 4)] == [[False] * 4] * (12 - -(-(budget - 12) // 4))
            cut = [c for c in chunks if 0 < sum(c) < 4]
            assert cut == ([[False] * (4 - budget % 4) + [True] * (budget % 4)] if budget % 4 else [])
            assert len(set(score[4:52].reshape(12, 4).flatten().tolist())) == 12


@pytest.mark.parametrize("allocate", ["uniform", "pyramid", "ada"])
def test_protected_rows_on_top_leave_the_whole_budget_to_the_others(allocate):
    how = {"protect": "none,sinks:4,recent:8", "allocate": allocate, "excludes_protected": True}
    rows = kept(run_of("criticalkv", 6, settings={"kernel": 1}, **how))
    assert sum(map(sum, rows)) == 6 * (6 + 12)
    assert allocate != "pyramid" or rows == [[12 + 12] * 2, [6 + 12] * 2, [0 + 12] * 2]


def test_criticalkv_s_first_half_is_half_of_the_budget_when_protected_rows_come_on_top():
    run = run_of("criticalkv", 6, protect="none,sinks:4,recent:8", excludes_protected=True)
    assert [int((s == torch.inf).sum(dim=-1).min()) for s in run.refreshes[0].scores] == [3, 3, 3]


def test_kappa_is_ada_with_a_floor_of_1_minus_kappa():
    by_kappa = run_of("lore_window", 26, protect="none,sinks:4,recent:8", settings={"kappa": 0.75})
    how = {"allocate": "ada", "settings": {"ada_floor": 0.25}}
    assert kept(by_kappa) == kept(run_of("lore_window", 26, protect="none,sinks:4,recent:8", **how))
    assert any(a != b for a, b in kept(by_kappa))
    with pytest.raises(UserError, match="kappa"):
        build(find("lore_e"), 64, settings={"kappa": 1.5})
    with pytest.raises(UserError, match="kappa"):
        build(find("lore_e"), 64, allocate="uniform", settings={"kappa": 0.5})


def test_the_rank_of_tied_rows_puts_the_newer_first():
    assert rank(torch.ones(1, 1, 3), torch.ones(1, 1, 3, dtype=torch.bool))[0, 0].tolist() == [2, 1, 0]
