"""Which rows stay: counts, protection, ties; one refresh on a small buffer with a score made by hand."""

import gc
import weakref

import pytest
import torch

from nanokv import UserError
from nanokv.budgets import uniform
from nanokv.buffer import append, n_kept, new_buffer, rows_held, see, view
from nanokv.evict import Plan, Protection, Seen, protected, refresh, select
from nanokv.load import random_weights, tiny_config

CFG = tiny_config(n_layer=2)
WEIGHTS = random_weights(CFG)


def held(n: int):
    """A buffer that holds tokens 0..n-1."""
    kv = new_buffer(CFG, n)
    x = torch.arange(n).float()[None, None, :, None].expand(1, 2, n, 8)
    for layer in range(CFG.n_layer):
        append(kv, layer, x, x, torch.arange(n)[None])
    see(kv, torch.arange(n)[None])
    return kv


def refresh_with(kv, score, budget, protection=None, room=0, **plan):
    """One refresh under that score tensor, list, or function of the buffer."""
    protection = protection or Protection()
    plan = Plan(score=lambda *_: score, budget=budget, protection=protection, **plan)
    return refresh(WEIGHTS, CFG, kv, plan, Seen(budget, protection, 0), room)


def kept(kv, layer=0):
    return [[i for i in head if i >= 0] for head in view(kv, layer)[2][0].tolist()]


def keep(score: list, count: int, must=(), pos=None) -> list:
    """Positions that `select` keeps of one head."""
    pos = torch.tensor([[pos or [*range(len(score))]]])
    must = torch.tensor([[[i in must for i in pos[0, 0].tolist()]]])
    return pos[select(torch.tensor([[score]]), pos, must, torch.tensor([[count]]))].tolist()


def test_the_best_rows_stay_in_position_order():
    assert keep([0.1, 0.9, 0.3, 0.8, 0.2], 3) == [1, 2, 3]


def test_ties_go_to_the_newer_token():
    assert keep([1.0, 1.0, 1.0, 1.0, 1.0], 2) == [3, 4]
    assert keep([2.0, 1.0, 1.0, 0.0, 1.0], 3) == [0, 2, 4]


def test_infinite_scores_are_ordered_like_any_other():
    assert keep([-torch.inf, torch.inf, -torch.inf, 0.0, torch.inf], 3) == [1, 3, 4]
    assert keep([-torch.inf] * 4, 2) == [2, 3]
    assert keep([torch.inf] * 4, 2) == [2, 3]


def test_protected_rows_stay_whatever_they_score_and_are_counted():
    assert keep([-torch.inf, 5.0, 4.0, 3.0, -torch.inf], 3, must=(0, 4)) == [0, 1, 4]
    assert keep([torch.inf] * 5, 3, must=(0, 1)) == [0, 1, 4]


def test_an_empty_slot_is_never_kept():
    assert keep([0.0, 1.0, torch.inf, torch.inf], 3, pos=[0, 1, -1, -1]) == [0, 1]


def test_each_head_gets_its_own_count():
    score = torch.tensor([[[3.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0]]])
    pos, must = torch.arange(4)[None, None], torch.zeros(1, 2, 4, dtype=torch.bool)
    assert select(score, pos, must, torch.tensor([[1, 3]])).int().tolist() == [[[1, 0, 0, 0], [0, 1, 1, 1]]]


def test_the_larger_of_sinks_and_system_leads_and_recent_counts_from_the_last_seen():
    pos = torch.tensor([[[0, 1, 2, 3, 7, 8, 9, -1]]])
    must = protected(Protection(sinks=1, system=3, recent=2), pos, n_seen=10, budget=6)
    assert must.int().tolist() == [[[1, 1, 1, 0, 0, 1, 1, 0]]]


def test_a_recent_share_is_that_part_of_what_the_leading_rows_leave():
    assert Protection(sinks=4, recent_share=0.5).newest(budget=17) == 6  # (17 - 4) / 2, whole rows


@pytest.mark.parametrize("score", [0.0, -torch.inf, torch.inf, -3e38])
def test_protected_rows_never_leave_under_equal_scores_of_any_size(score):
    kv = held(20)
    refresh_with(kv, torch.full((1, 1, 20), score), 6, Protection(sinks=2, recent=3))
    assert kept(kv) == [[0, 1, 16, 17, 18, 19]]


@pytest.mark.parametrize("budget", [1, 2, 19, 20, 21, 100])
def test_exactly_the_smaller_of_budget_and_held_survives_in_every_layer_and_head(budget):
    kv = held(20)
    score = [torch.rand(1, 2, 20, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    done = refresh_with(kv, score, budget)
    assert rows_held(kv) == [[min(budget, 20)] * 2] * 2
    assert (done is None) == (budget >= 20)


def test_counts_are_whole_numbers():
    kv, counts = held(20), []

    def allocate(scores, budget, must, held):
        counts.extend(uniform(scores, budget, must, held))
        return counts

    refresh_with(kv, torch.rand(1, 1, 20), 7, allocate=allocate)
    assert [c.dtype for c in counts] == [torch.int64] and [c.tolist() for c in counts] == [[[7]]]


def test_a_score_list_gives_every_layer_and_head_its_own_rows():
    kv = held(4)
    up, down = torch.arange(4.0), -torch.arange(4.0)
    done = refresh_with(kv, [torch.stack([up, down])[None], torch.stack([down, down])[None]], 2)
    assert (kept(kv, 0), kept(kv, 1)) == ([[2, 3], [0, 1]], [[0, 1], [0, 1]])
    assert not done.shared and not kv.shared


def test_a_layer_level_score_keeps_one_set_for_the_heads_of_a_layer():
    kv = held(4)
    refresh_with(kv, [torch.arange(4.0)[None, None], -torch.arange(4.0)[None, None]], 2)
    assert [kept(kv, 0), kept(kv, 1)] == [[[2, 3]], [[0, 1]]] and rows_held(kv) == [[2, 2], [2, 2]]


def test_the_budget_counts_protected_rows_unless_asked_otherwise():
    score = torch.arange(20.0).flip(0)[None, None]
    kv = held(20)
    refresh_with(kv, score, 5, Protection(sinks=1, recent=2))
    assert kept(kv) == [[0, 1, 2, 18, 19]]
    kv = held(20)
    refresh_with(kv, score, 5, Protection(sinks=1, recent=2), budget_excludes_protected=True)
    assert kept(kv) == [[0, 1, 2, 3, 4, 5, 18, 19]]


@pytest.mark.parametrize(
    "score, words",
    [
        (torch.zeros(1, 1, 19), r"\[1, 1, 19\], not \[1, 1, 20\]"),
        (torch.zeros(20), r"not \[1, 1, 20\]"),
        ([torch.zeros(1, 2, 20)], "1 tensors for 2 layers"),
        ([torch.zeros(1, 6, 20)] * 2, r"layer 0 is \[1, 6, 20\], not \[1, 2, 20\]"),
        (torch.full((1, 1, 20), torch.nan), "NaN"),
    ],
    ids=["slots", "axes", "layers", "query_heads", "nan"],
)
def test_a_score_of_the_wrong_shape_is_refused_with_the_shapes(score, words):
    with pytest.raises(UserError, match=words):
        refresh_with(held(20), score, 5)


def test_a_token_level_score_is_refused_once_heads_differ():
    kv = held(4)
    refresh_with(kv, [torch.rand(1, 2, 4), torch.rand(1, 2, 4)], 3)
    with pytest.raises(UserError, match="differ already"):
        refresh_with(kv, torch.zeros(1, 1, 3), 2)


def test_the_log_of_a_refresh_does_not_keep_evicted_keys_and_values_alive():
    kv = held(50)
    old = [weakref.ref(part[name].block) for (part,) in kv.layers for name in ("k", "v")]
    done = refresh_with(kv, torch.rand(1, 1, 50), 5)
    gc.collect()
    assert [r() for r in old] == [None] * 4
    tensors = [x for x in (*done.positions, *done.scores, *done.keep)]
    assert sum(x.untyped_storage().nbytes() for x in tensors) <= 50 * (8 + 4 + 1)  # no [h s d] tensor among them


def test_what_two_refreshes_in_a_row_leave_is_the_product_of_their_shares():
    kv, shares = held(40), []
    for budget in (20, 5):
        done = refresh_with(kv, torch.rand(1, 1, n_kept(kv)), budget)
        shares.append(done.keep[0].float().mean().item())
    assert shares == [20 / 40, 5 / 20]
    assert 1 - n_kept(kv) / kv.n_seen == 1 - shares[0] * shares[1] == 0.875
