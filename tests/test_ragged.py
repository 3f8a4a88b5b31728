"""Layers and heads that hold other numbers of rows: bytes to the last row, room for what comes, nothing moved twice."""

import pytest
import torch

from nanokv import buffer as module
from nanokv.buffer import bytes_held, n_kept, rows_held
from nanokv.evict import Refresh
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.methods import METHODS, find
from nanokv.options import build, options_of
from nanokv.trace import trace_refresh

CFG = tiny_config()
IDS = torch.randint(97, (70,), generator=torch.Generator().manual_seed(12)).tolist()
HEAD_LEVEL = [m.name for m in METHODS if m.level == "head"]
LOOKAHEADS = ["lore_e", "lore_oracle", "andpro_lookahead", "laq"]
SMALL = {"window": 8, "T": 5, "n_pseudo": 5}


def run_of(name, allocate, every=None, new=12, dtype=torch.float32):
    """(run, plan) at a budget of 24; every=None: once after the prompt."""
    settings = {key: x for key, x in SMALL.items() if key in options_of(find(name))}
    how = {"once": every is None, "protect": "none,sinks:4,recent:8", "allocate": allocate, "settings": settings}
    plan, _ = build(find(name), 24, every, **how)
    return generate(random_weights(CFG, dtype=dtype), CFG, IDS, plan, new), plan


@pytest.mark.parametrize("dtype, size", [(torch.float32, 4), (torch.bfloat16, 2)])
@pytest.mark.parametrize("allocate", ["ada", "pyramid"])
@pytest.mark.parametrize("every", [None, 8])
def test_bytes_held_are_the_rows_of_all_layers_and_heads_times_2_d_size(allocate, every, dtype, size):
    run, _ = run_of("snapkv", allocate, every, dtype=dtype)
    rows = rows_held(run.kv)
    assert len({n for heads in rows for n in heads}) > 1
    assert bytes_held(run.kv) == sum(map(sum, rows)) * 2 * 8 * size
    since = run.kv.n_seen - run.refreshes[-1].n_seen
    assert sum(map(sum, rows)) == 6 * (24 + since)


@pytest.mark.parametrize("allocate", ["uniform", "ada", "pyramid"])
@pytest.mark.parametrize("every", [None, 8])
@pytest.mark.parametrize("name", HEAD_LEVEL)
def test_after_an_eviction_no_block_is_larger_than_what_is_kept_and_the_room_asked_for(name, allocate, every):
    run, plan = run_of(name, allocate, every)
    room = 8 + plan.branch_rows if every else 12
    for layer, keep in enumerate(run.refreshes[-1].keep):
        counts = keep.sum(dim=-1)[0].tolist()
        assert len(run.kv.layers[layer]) == (1 if len({*counts}) == 1 else 2)
        for part, count in zip(run.kv.layers[layer], counts):
            for column in part.values():
                one_row = column.block[:, :, :1].nbytes
                assert column.block.untyped_storage().nbytes() == (count + room) * one_row


@pytest.mark.parametrize("allocate", ["uniform", "ada", "pyramid"])
@pytest.mark.parametrize("every", [None, 8])
@pytest.mark.parametrize("name", ["snapkv", "h2o", *LOOKAHEADS])
def test_no_block_ever_has_to_grow(monkeypatch, name, allocate, every):
    write, grew = module.write, []

    def watched(column, new):
        grew.append(new.dim() == 4 and column.n + new.shape[2] > column.block.shape[2])  # keys and values, not ids
        write(column, new)

    monkeypatch.setattr(module, "write", watched)
    run_of(name, allocate, every)
    assert len(grew) > 100 and not any(grew)


@pytest.mark.parametrize(
    "name, rows", [("lore_e", 32), ("lore_d", 32), ("lore_oracle", 64), ("laq", 8), ("lore_window", 0)]
)
def test_a_lookahead_at_its_defaults_adds_its_tokens_to_the_prompt_s_peak(name, rows):
    plan, _ = build(find(name), 48)
    run = generate(random_weights(CFG), CFG, IDS, plan, 4)
    assert plan.branch_rows == rows and run.kv.peak_rows == 70 + rows and n_kept(run.kv) == 48 + 3


@pytest.mark.parametrize("allocate", ["ada", "pyramid"])
def test_peak_rows_is_the_fullest_head_s(allocate):
    run, _ = run_of("snapkv", allocate, every=8)
    until = [r.n_seen for r in run.refreshes[1:]] + [run.kv.n_seen]
    fullest = [int(max(k.sum(dim=-1).max() for k in r.keep)) + n - r.n_seen for r, n in zip(run.refreshes, until)]
    assert run.kv.peak_rows == max(fullest) > 24 + 8


def test_the_trace_of_a_ragged_refresh_lists_only_rows_that_a_head_held():
    done = Refresh(
        9,
        False,
        [torch.tensor([[[0, 3, 8], [8, -1, -1]]])],
        [torch.tensor([[[0.5, torch.inf, 0.25], [1.0, 7.0, 7.0]]])],
        [torch.tensor([[[False, True, True], [True, False, False]]])],
    )
    assert trace_refresh(done) == {
        "n_seen": 9,
        "shared": False,
        "positions": [[[0, 3, 8], [8]]],
        "scores": [[[0.5, None, 0.25], [1.0]]],
        "kept": [[[3, 8], [8]]],
    }
