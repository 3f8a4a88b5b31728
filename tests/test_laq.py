"""Lookahead Q-Cache: which pseudo tokens it decodes, whose queries it reads with, and what those may see."""

import copy
import math

import pytest
import torch

from nanokv.buffer import new_buffer
from nanokv.compact import compact
from nanokv.evict import Protection, Seen
from nanokv.generate import generate
from nanokv.laq import laq, watch_first_window
from nanokv.load import random_weights, tiny_config
from nanokv.methods import find
from nanokv.model import unembed
from nanokv.options import build
from nanokv.passes import causal_pass

CFG = tiny_config()
WEIGHTS = random_weights(CFG)
LAYERS = range(3)


@pytest.mark.parametrize("windows", [(None,), (9, None, 9)], ids=["full", "sliding"])
def test_laq_reads_the_full_cache_with_greedy_queries_from_what_snapkv_would_keep(windows):
    cfg = tiny_config(windows=windows)
    ids = torch.randint(97, (60,), generator=torch.Generator().manual_seed(9)).tolist()
    run = generate(WEIGHTS, cfg, ids, build(find("laq"), 40, settings={"kernel": 3})[0], 1)
    first = generate(WEIGHTS, cfg, ids, build(find("snapkv"), 40, settings={"kernel": 3})[0], 9)
    assert run.seen.report["lookahead"]["trajectories"] == [first.output_ids[:8]]
    assert run.kv.peak_rows == 68
    q, full = {layer: [] for layer in LAYERS}, new_buffer(cfg, 70)
    plan = build(find("snapkv"), 40, settings={"kernel": 3})[0]
    generate(WEIGHTS, cfg, ids, plan, 9, hooks={"q": lambda layer, x: q[layer].append(x)})
    causal_pass(WEIGHTS, cfg, full, torch.tensor([ids]))
    for layer in LAYERS:
        queries = torch.cat((q[layer][0][:, :, :, -8:], *q[layer][1:]), dim=3)[0].double()  # 8 of the window, 8 pseudo
        assert queries.shape[2] == 16
        z = torch.einsum("hgtd,hsd->hgts", queries, full.layers[layer][0]["k"].block[0, :, :60].double()) / 8**0.5
        for i, pos in enumerate(range(52, 68)):
            hidden = torch.arange(60) > pos if not cfg.windows[layer] else (torch.arange(60) - pos + 4).abs() > 4
            z[:, :, i] = z[:, :, i].masked_fill(hidden, -math.inf)
        received = z.softmax(dim=-1).nan_to_num(0).mean(dim=1).sum(dim=1)[:, :52]
        expected = torch.stack([received[:, max(0, s - 1) : min(52, s + 2)].amax(dim=1) for s in range(52)], dim=1)
        torch.testing.assert_close(run.refreshes[0].scores[layer][0, :, :52], expected.float(), rtol=1e-3, atol=1e-5)


def test_laq_s_defaults_are_8_window_and_8_pseudo_queries_and_the_newest_8_rows_stay():
    plan, options = build(find("laq"), 64)
    assert [options[name] for name in ("window", "n_pseudo", "kernel", "pool")] == [8, 8, 7, "max"]
    assert (plan.protection.recent, plan.protection.leading, plan.every, plan.branch_rows) == (8, 0, None, 8)


def test_laq_stops_at_an_end_of_text_token():
    ids = torch.randint(97, (60,), generator=torch.Generator().manual_seed(9)).tolist()
    plan = build(find("laq"), 40)[0]
    free = generate(WEIGHTS, CFG, ids, plan, 1).seen.report["lookahead"]["trajectories"][0]
    stop = free[3]
    cut = generate(WEIGHTS, CFG, ids, plan, 1, stop_ids={stop}).seen.report["lookahead"]["trajectories"][0]
    assert cut == free[: free.index(stop) + 1]


def test_pseudo_tokens_see_each_other_where_heads_hold_other_numbers_of_rows():
    """A short head's pseudo rows lie where a long head has its last rows: what hides those must not hide these.

    The budget holds every row, so nothing is hidden and the pseudo tokens are the greedy ones of the cache as it is."""
    ids = torch.randint(97, (1, 40), generator=torch.Generator().manual_seed(9))
    kv, seen = new_buffer(CFG, 40), Seen(40, Protection(recent=8), 40)
    x = causal_pass(WEIGHTS, CFG, kv, ids, hooks=watch_first_window(WEIGHTS, CFG, kv, seen))
    seen.logits = unembed(WEIGHTS, x[:, -1:])[0, 0]
    for layer in LAYERS:
        compact(kv, layer, torch.stack((torch.arange(40) >= 30, torch.arange(40) >= 4))[None], room=8)
    kv.shared = False
    alone, logits, logp = copy.deepcopy(kv), seen.logits, []
    laq(WEIGHTS, CFG, kv, seen)
    for _ in range(8):
        token = int(logits.argmax())
        logp.append(float(logits.log_softmax(dim=-1)[token]))
        logits = unembed(WEIGHTS, causal_pass(WEIGHTS, CFG, alone, torch.tensor([[token]])))[0, 0]
    assert seen.report["lookahead"]["logp"][0] == pytest.approx(logp, abs=1e-5)
