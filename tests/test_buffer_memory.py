"""The buffer's memory: bytes by the formula, blocks written in place, and rows that are really given back."""

from weakref import ref

import pytest
import torch
from test_buffer import filled, keep_of

from nanokv.buffer import (
    append,
    bytes_held,
    bytes_of_notes,
    n_kept,
    new_buffer,
    note,
    rows_held,
    view,
)
from nanokv.compact import compact
from nanokv.load import tiny_config


@pytest.mark.parametrize("dtype, size", [(torch.float32, 4), (torch.bfloat16, 2)])
def test_bytes_are_2_layers_kv_heads_rows_width_size(dtype, size):
    cfg = tiny_config(n_layer=3, n_head=6, n_kv_head=2, d_head=8)
    kv = new_buffer(cfg, 64, dtype)
    x = torch.zeros(1, 2, 11, 8, dtype=dtype)
    for layer in range(3):
        append(kv, layer, x, x, torch.arange(11)[None])
    assert bytes_held(kv) == 2 * 3 * 2 * 11 * 8 * size  # kv heads, not the 6 query heads


def test_bytes_of_a_method_s_own_notes_are_counted_apart():
    kv = filled(5)
    note(kv, 1, "resid", torch.zeros(1, 1, 5, 40))
    assert (bytes_of_notes(kv), bytes_held(kv)) == (5 * 40 * 4, 2 * 2 * 2 * 5 * 8 * 4)


def test_uneven_heads_cost_the_bytes_of_the_rows_they_hold_and_no_more():
    kv = filled(5, cfg=tiny_config(n_layer=1))
    compact(kv, 0, keep_of("##.##", ".#..."))
    assert (n_kept(kv), bytes_held(kv), rows_held(kv)) == (4, 2 * (4 + 1) * 8 * 4, [[4, 1]])
    stored = [part[name].block.untyped_storage().nbytes() for part in kv.layers[0] for name in ("k", "v")]
    assert sum(stored) == bytes_held(kv)


def test_after_an_eviction_no_tensor_of_the_layer_has_storage_for_more_than_kept_and_room():
    kv = filled(100, rows=100)
    note(kv, 0, "resid", torch.zeros(1, 1, 100, 40))
    keep = torch.arange(100)[None, None] % 10 == 0
    for layer in range(2):
        compact(kv, layer, keep, room=3)
    for (part,) in kv.layers:
        for column in part.values():
            one_row = column.block[:, :, :1].nbytes
            assert column.block.untyped_storage().nbytes() == 13 * one_row


def test_an_eviction_lets_go_of_the_old_blocks():
    kv = filled(100, rows=100)
    old = [ref(part[name].block) for layer in kv.layers for part in layer for name in ("k", "v", "pos")]
    for layer in range(2):
        compact(kv, layer, torch.arange(100)[None, None] < 5)
    assert [r() for r in old] == [None] * 6


def test_new_rows_are_written_in_place_while_there_is_room():
    kv = filled(5, rows=7)
    block = kv.layers[0][0]["k"].block
    append(kv, 0, torch.ones(1, 2, 2, 8), torch.ones(1, 2, 2, 8), torch.tensor([[5, 6]]))
    assert kv.layers[0][0]["k"].block is block
    append(kv, 0, torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 8), torch.tensor([[7]]))
    assert kv.layers[0][0]["k"].block is not block
    assert view(kv, 0)[0][0, 0, :, 0].tolist() == [0, 1, 2, 3, 4, 1, 1, 1]


def test_peak_rows_is_the_most_a_layer_ever_held():
    kv = filled(7)
    compact(kv, 0, torch.arange(7)[None, None] < 2)
    compact(kv, 1, torch.arange(7)[None, None] < 2)
    assert (kv.peak_rows, n_kept(kv)) == (7, 2)
