"""The buffer: append, note, compact and rewind move whole rows, in position order, head by head."""

import pytest
import torch

from nanokv.buffer import (
    add_to_notes,
    append,
    held_ids,
    mark,
    n_kept,
    new_buffer,
    note,
    notes,
    parts,
    rewind,
    rows_held,
    see,
    view,
)
from nanokv.compact import compact
from nanokv.load import tiny_config

CFG = tiny_config(n_layer=2, n_kv_head=2)


def filled(n: int, rows: int = 10, cfg=CFG):
    """A buffer whose keys say 100 head + position, and values minus that, in every one of the d numbers."""
    kv = new_buffer(cfg, rows)
    k = torch.arange(n).float()[None, None, :, None] + 100 * torch.arange(cfg.n_kv_head)[None, :, None, None]
    k = k.expand(1, cfg.n_kv_head, n, cfg.d_head)
    for layer in range(cfg.n_layer):
        append(kv, layer, k, -k, torch.arange(n)[None])
    see(kv, torch.arange(50, 50 + n)[None])
    return kv


def keep_of(*heads: str):
    """ "#.#" a head -> keep [1 h s]."""
    return torch.tensor([[[c == "#" for c in head] for head in heads]])


def test_the_docstring_s_example_reads_as_drawn():
    kv = filled(5)
    for layer in range(2):
        compact(kv, layer, keep_of("#..##"), room=3)
        append(kv, layer, torch.full((1, 2, 1, 8), 5.0), torch.full((1, 2, 1, 8), 5.0), torch.tensor([[5]]))
    see(kv, torch.tensor([[55]]))
    k, _, pos = view(kv, 1)
    assert pos.tolist() == [[[0, 3, 4, 5]]] and k[0, 0, :, 0].tolist() == [0, 3, 4, 5]
    assert (kv.n_seen, n_kept(kv)) == (6, 4)


def test_every_head_keeps_its_own_rows_in_position_order_and_ends_in_holes():
    kv = filled(5)
    compact(kv, 0, keep_of("##.##", ".#..."))
    k, v, pos = view(kv, 0)
    assert pos.tolist() == [[[0, 1, 3, 4], [1, -1, -1, -1]]]
    assert k[0, :, :, 7].tolist() == [[0, 1, 3, 4], [101, 0, 0, 0]]
    assert torch.equal(v, -k)
    assert rows_held(kv) == [[4, 1], [5, 5]]


def test_a_second_eviction_keeps_rows_appended_behind_uneven_heads():
    kv = filled(5)
    compact(kv, 0, keep_of("##.##", ".#..."), room=2)
    new = torch.full((1, 2, 2, 8), 7.0)
    append(kv, 0, new, new, torch.tensor([[5, 6]]))
    assert view(kv, 0)[2].tolist() == [[[0, 1, 3, 4, 5, 6], [1, 5, 6, -1, -1, -1]]]
    compact(kv, 0, keep_of("#...##", "###..."))
    k, v, pos = view(kv, 0)
    assert pos.tolist() == [[[0, 5, 6], [1, 5, 6]]]
    assert k[0, :, :, 0].tolist() == [[0, 7, 7], [101, 7, 7]] and v[0, :, :, 0].tolist() == [[0, 7, 7], [-101, 7, 7]]


def test_heads_with_other_numbers_of_rows_become_parts_without_any_empty_slot_and_even_ones_join_again():
    kv = filled(5)
    compact(kv, 0, keep_of("##.##", ".#..."))
    assert [(heads, k.shape[2], pos.tolist()) for heads, k, _, pos in parts(kv, 0)] == [
        (slice(0, 1), 4, [[[0, 1, 3, 4]]]),
        (slice(1, 2), 1, [[[1]]]),
    ]
    compact(kv, 0, keep_of("..#.", "#..."))
    assert [(k[0, :, 0, 0].tolist(), pos.tolist()) for _, k, _, pos in parts(kv, 0)] == [([3, 101], [[[3], [1]]])]


def test_notes_of_uneven_heads_are_added_to_and_moved_head_by_head():
    kv = filled(5)
    note(kv, 0, "mass", torch.arange(10.0).reshape(1, 2, 5))
    compact(kv, 0, keep_of("##.##", ".#..."), room=1)
    append(kv, 0, torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 8), torch.tensor([[5]]))
    note(kv, 0, "mass", torch.zeros(1, 2, 1))
    add_to_notes(kv, 0, "mass", torch.tensor([[[10.0, 20, 30, 40, 50], [60, 70, 0, 0, 0]]]))
    assert notes(kv, 0, "mass").tolist() == [[[10, 21, 33, 44, 50], [66, 70, 0, 0, 0]]]


def test_keys_values_positions_and_notes_move_together():
    kv = filled(5)
    note(kv, 0, "luck", torch.arange(5.0)[None, None])
    note(kv, 0, "resid", torch.arange(5.0)[None, None, :, None].expand(1, 1, 5, 40))
    compact(kv, 0, keep_of(".#.##"))
    k, v, pos = view(kv, 0)
    assert k[0, 0, :, 0].tolist() == (-v[0, 0, :, 0]).tolist() == pos[0, 0].tolist() == [1, 3, 4]
    assert notes(kv, 0, "luck")[0, 0].tolist() == notes(kv, 0, "resid")[0, 0, :, 39].tolist() == [1, 3, 4]


def test_a_note_behind_the_keys_fails_with_its_name_and_counts():
    kv = filled(5)
    note(kv, 0, "luck", torch.zeros(1, 1, 3))
    with pytest.raises(AssertionError, match=r"'luck' of layer 0 has 3 rows, its keys 5"):
        compact(kv, 0, keep_of("#####"))


def test_a_note_shared_by_heads_refuses_heads_that_keep_different_rows():
    kv = filled(3)
    note(kv, 0, "luck", torch.zeros(1, 1, 3))
    with pytest.raises(AssertionError, match="luck"):
        compact(kv, 0, keep_of("#..", ".#."))


def test_token_ids_follow_their_positions_through_an_eviction():
    kv = filled(5)
    compact(kv, 0, keep_of("..#.#", "#..#."))
    assert held_ids(kv, 0).tolist() == [[[52, 54], [50, 53]]]


def test_rewinding_to_a_mark_leaves_the_rows_before_it_bit_for_bit():
    kv = filled(5)
    compact(kv, 0, keep_of("##.##", ".#..."), room=2)
    before, marked = [[x.clone() for x in view(kv, layer)] for layer in range(2)], mark(kv)
    for layer in range(2):
        append(kv, layer, torch.ones(1, 2, 2, 8), torch.ones(1, 2, 2, 8), torch.tensor([[5, 6]]))
    assert rows_held(kv) == [[6, 3], [7, 7]]
    rewind(kv, marked)
    assert rows_held(kv) == [[4, 1], [5, 5]]
    assert all(torch.equal(a, b) for layer in range(2) for a, b in zip(before[layer], view(kv, layer)))
