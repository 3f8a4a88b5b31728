"""Masks drawn as grids: a row is a query, a column a held row, # = may look."""

import pytest
import torch

from nanokv import masks
from nanokv.buffer import new_buffer
from nanokv.load import random_weights, tiny_config
from nanokv.masks import both, causal, counter_causal, either, nearest_future, sinks, sliding_window, within
from nanokv.passes import causal_pass

HELD = [0, 1, 5, 6, 9]
GRIDS = {
    "causal": (causal, "#.... ##... ###.. ####. #####"),
    "counter_causal": (counter_causal, ".#### ..### ...## ....# ....."),
    "sliding_window": (sliding_window(5), "#.... ##... .##.. ..##. ..###"),
    "sinks_or_window": (either(sinks(2), sliding_window(3)), "#.... ##... ###.. ####. ##..#"),
    "sinks": (sinks(2), "#.... ##... ##... ##... ##..."),
    "both": (both(causal, within(5)), "#.... ##... .##.. ..##. ..###"),
    "within_5": (within(5), "##... ###.. .#### ..### ..###"),
    "future_gap_1": (nearest_future(min_gap=1), "..### ..### ....# ....# ....."),
    "future_window_5": (nearest_future(window=5), ".##.. ..##. ...## ....# ....."),
    "future_gap_1_window_5": (nearest_future(1, 5), "..#.. ..##. ....# ....# ....."),
}


def drawn(mask, q_pos: list, k_pos: list) -> list:
    """One string a query, for the first head."""
    grid = mask(torch.tensor([q_pos]), torch.tensor([[k_pos]]))
    assert grid.dtype == torch.bool and grid.shape == (1, 1, len(q_pos), len(k_pos))
    return ["".join(".#"[x] for x in row) for row in grid[0, 0].tolist()]


@pytest.mark.parametrize("name", GRIDS)
def test_a_mask_over_a_buffer_with_gaps_equals_its_drawn_grid(name):
    mask, grid = GRIDS[name]
    assert drawn(mask, HELD, HELD) == grid.split()


def test_the_grids_in_the_file_s_docstring_are_the_drawn_ones():
    lines = [line.split() for line in masks.__doc__.splitlines() if set(line.strip()) <= set("#. ") and line.strip()]
    columns = [" ".join(column) for column in zip(*lines)]
    names = ("causal", "counter_causal", "sliding_window", "sinks_or_window")
    assert columns == [GRIDS[name][1] for name in names]


@pytest.mark.parametrize("name", GRIDS)
def test_nobody_may_look_at_an_empty_slot(name):
    mask, grid = GRIDS[name]
    with_holes = [row + ".." for row in grid.split()]
    assert drawn(mask, HELD, [*HELD, -1, -1]) == with_holes


def test_each_head_is_masked_by_its_own_positions():
    ragged = torch.tensor([[[0, 2, 4], [1, 3, -1]]])
    grid = causal(torch.tensor([[2, 4]]), ragged)
    assert grid[0].int().tolist() == [[[1, 1, 0], [1, 1, 1]], [[1, 0, 0], [1, 1, 0]]]


def test_two_queries_behind_three_held_rows_see_4_and_5_keys():
    grid = causal(torch.tensor([[3, 4]]), torch.arange(5)[None, None])
    assert grid.sum(dim=-1).tolist() == [[[4, 5]]]


def test_the_pass_lines_new_queries_up_with_the_last_key():
    cfg, seen = tiny_config(n_layer=1), []
    weights, kv = random_weights(cfg), new_buffer(cfg, 8)
    causal_pass(weights, cfg, kv, torch.tensor([[1, 2, 3]]))
    causal_pass(weights, cfg, kv, torch.tensor([[4, 5]]), hooks={"probs": lambda layer, p: seen.append(p)})
    assert (seen[0][0, 0, 0] > 0).sum(dim=-1).tolist() == [4, 5]


@pytest.mark.parametrize("w", [1, 2, 5])
def test_a_window_of_w_is_exactly_w_keys_with_the_query_s_own(w):
    k_pos = torch.arange(20)[None, None]
    assert sliding_window(w)(torch.tensor([[12]]), k_pos)[0, 0, 0].nonzero()[:, 0].tolist() == [*range(13 - w, 13)]


def test_the_two_sided_window_shows_w_minus_1_keys_on_either_side():
    visible = within(3)(torch.tensor([[10]]), torch.arange(20)[None, None])
    assert visible[0, 0, 0].nonzero()[:, 0].tolist() == [8, 9, 10, 11, 12]


def test_a_model_s_window_of_w_gives_attention_to_exactly_w_keys():
    cfg, seen = tiny_config(n_layer=1, windows=(4,)), []
    kv = new_buffer(cfg, 16)
    causal_pass(random_weights(cfg), cfg, kv, torch.arange(10)[None], hooks={"probs": lambda layer, p: seen.append(p)})
    assert (seen[0][0, 0, 0] > 0).sum(dim=-1).tolist() == [1, 2, 3, 4, 4, 4, 4, 4, 4, 4]


def test_masks_are_built_from_stored_positions_and_not_from_slots():
    k_pos = torch.tensor([[[3, 7, 11]]])
    assert causal(torch.tensor([[5, 7, 10]]), k_pos)[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
