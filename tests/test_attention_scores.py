"""H2O and TOVA against naive loops through two evictions, and their examples by hand."""

import pytest
import torch
from naive import Reader

from nanokv import UserError
from nanokv.buffer import append, new_buffer, notes, view
from nanokv.compact import compact
from nanokv.evict import Plan, Protection, Seen, refresh
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.methods import find
from nanokv.options import build
from nanokv.passes import causal_pass
from nanokv.scores import h2o, over_group, tova, watch_last_queries, watch_mass

CFG = tiny_config()
WEIGHTS = random_weights(CFG)
IDS = torch.randint(97, (1, 24), generator=torch.Generator().manual_seed(10))
EVICTIONS = {10: (1, 4, 5), 17: (0, 7, 12)}  # after so many tokens these positions go


def group_of(reader, layer, i, kv_head):
    """Rows [query head][row] of token i's attention that belong to one kv head."""
    return reader.given[layer][i][3 * kv_head : 3 * kv_head + 3]


def drop(kv, gone):
    keep = torch.tensor([[[p not in gone for p in view(kv, 0)[2][0, 0].tolist()]]])
    for layer in range(CFG.n_layer):
        compact(kv, layer, keep, room=8)


@pytest.mark.parametrize("reduce", ["mean", "max"])
def test_h2o_sums_what_every_query_paid_each_row_through_two_evictions(reduce):
    kv, reader = new_buffer(CFG, 24), Reader(WEIGHTS, CFG)
    hooks = watch_mass(WEIGHTS, CFG, kv, None, reduce=reduce)
    mass = {}  # (layer, kv head, position) -> sum
    combine = max if reduce == "max" else lambda xs: sum(xs) / len(xs)
    held = []
    for i, token in enumerate(IDS[0].tolist()):
        reader.feed(token)
        held.append(i)
        for layer in range(3):
            for head in range(2):
                for n, p in enumerate(held):
                    paid = combine([row[n] for row in group_of(reader, layer, i, head)])
                    mass[layer, head, p] = mass.get((layer, head, p), 0.0) + paid
        if i + 1 in EVICTIONS:
            held = [p for p in held if p not in EVICTIONS[i + 1]]
            reader.keep(held)
    for start, end in ((0, 6), (6, 10), (10, 17), (17, 24)):
        causal_pass(WEIGHTS, CFG, kv, IDS[:, start:end], hooks=hooks)
        drop(kv, EVICTIONS.get(end, ()))
    expected = torch.tensor([[[[mass[layer, h, p] for p in held] for h in range(2)]] for layer in range(3)])
    torch.testing.assert_close(torch.stack(h2o(WEIGHTS, CFG, kv, None)), expected, rtol=0, atol=1e-4)


def test_tova_is_the_newest_query_s_attention_mean_over_all_heads_through_two_evictions():
    kv, reader, seen = new_buffer(CFG, 24), Reader(WEIGHTS, CFG), Seen(8, Protection(), 24)
    hooks = watch_last_queries(WEIGHTS, CFG, kv, seen)
    for start, end in ((0, 10), (10, 17), (17, 24)):
        for token in IDS[0, start:end].tolist():
            reader.feed(token)
        causal_pass(WEIGHTS, CFG, kv, IDS[:, start:end], hooks=hooks)
        for layer, found in enumerate(tova(WEIGHTS, CFG, kv, seen)):
            rows = torch.tensor(reader.given[layer][-1])  # [query head][row]
            torch.testing.assert_close(found, rows.mean(dim=0)[None, None], rtol=0, atol=1e-4)
        gone = EVICTIONS.get(end, ())
        drop(kv, gone)
        reader.keep({p for p in range(24) if p not in gone})


def small(n_head: int):
    """A config of one layer and one kv head, and a buffer with n rows of zeros, for scores fed by hand."""
    return tiny_config(n_layer=1, n_head=n_head, n_kv_head=1)


def feed(cfg, kv, probs):
    """Append as many rows as `probs` [g t s] has queries and show them to the H2O hook."""
    t = probs.shape[1]
    x = torch.zeros(1, 1, t, cfg.d_head)
    append(kv, 0, x, x, torch.arange(kv.n_seen, kv.n_seen + t)[None])
    kv.n_seen += t
    watch_mass(WEIGHTS, cfg, kv, None)["probs"](0, probs[None, None])


def test_h2o_s_example_keeps_0_2_and_then_0_3_though_2_gets_more_attention_now():
    cfg = small(1)
    kv = new_buffer(cfg, 8)
    seen = Seen(2, Protection(recent=1), 3)
    plan = Plan(score=h2o, budget=2, protection=Protection(recent=1))
    feed(cfg, kv, torch.tensor([[[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]]))
    assert h2o(None, cfg, kv, seen)[0][0, 0].tolist() == pytest.approx([1.8333, 0.8333, 0.3333], abs=1e-4)
    refresh(None, cfg, kv, plan, seen)
    assert view(kv, 0)[2].tolist() == [[[0, 2]]]
    feed(cfg, kv, torch.tensor([[[0.2, 0.3, 0.5]]]))
    assert h2o(None, cfg, kv, seen)[0][0, 0].tolist() == pytest.approx([2.0333, 0.6333, 0.5], abs=1e-4)
    refresh(None, cfg, kv, plan, seen)
    assert view(kv, 0)[2].tolist() == [[[0, 3]]]


def test_uniform_causal_attention_over_4_gives_h2o_2_083_1_083_0_583_0_25():
    cfg = small(1)
    kv = new_buffer(cfg, 8)
    feed(cfg, kv, (torch.ones(4, 4).tril() / torch.arange(1, 5)[:, None])[None])
    assert h2o(None, cfg, kv, None)[0][0, 0].tolist() == pytest.approx([2.0833, 1.0833, 0.5833, 0.25], abs=1e-4)


def test_tova_s_example_keeps_0_and_2():
    """Last rows [.5 .3 .1 .1] and [.1 .2 .6 .1]: keys are unit vectors, so that a query's entries are its logits."""
    cfg = small(2)
    kv = new_buffer(cfg, 4)
    k = torch.eye(4, cfg.d_head)[None, None]
    append(kv, 0, k, k, torch.arange(4)[None])
    kv.n_seen = 4
    seen = Seen(2, Protection(), 4)
    logits = torch.tensor([[0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.6, 0.1]]).log() * cfg.d_head**0.5
    q = torch.nn.functional.pad(logits, (0, cfg.d_head - 4))
    watch_last_queries(None, cfg, kv, seen)["q"](0, q[None, None, :, None])
    assert tova(None, cfg, kv, seen)[0][0, 0].tolist() == pytest.approx([0.3, 0.25, 0.35, 0.1])
    refresh(None, cfg, kv, Plan(score=tova, budget=2), seen)
    assert view(kv, 0)[2].tolist() == [[[0, 2]]]


def test_the_query_heads_of_one_kv_head_are_combined_by_mean_or_max():
    x = torch.tensor([[[[1.0, 5.0], [3.0, 1.0]]]])  # [b h g s]
    assert over_group(x, "mean").tolist() == [[[2, 3]]] and over_group(x, "max").tolist() == [[[3, 5]]]
    with pytest.raises(UserError, match="mean or max, not 'sum'"):
        over_group(x, "sum")


def test_every_query_of_the_prompt_counts_for_h2o_under_a_full_causal_mask():
    """Each query gives away 1 in all, and the newest row has got only its own."""
    kv, probs = new_buffer(CFG, 24), []
    hooks = watch_mass(WEIGHTS, CFG, kv, None)
    causal_pass(WEIGHTS, CFG, kv, IDS[:, :12], hooks=hooks)
    causal_pass(WEIGHTS, CFG, kv, IDS[:, 12:], hooks={"probs": lambda i, p: probs.append(p) or hooks["probs"](i, p)})
    for mass, p in zip(h2o(WEIGHTS, CFG, kv, None), probs):
        torch.testing.assert_close(mass.sum(dim=-1), torch.full((1, 2), 24.0))
        torch.testing.assert_close(mass[0, :, -1], p[0, :, :, -1, -1].mean(dim=1))


def test_h2o_always_keeps_its_recent_half():
    plan, _ = build(find("h2o"), 12, 5)
    run = generate(WEIGHTS, CFG, IDS[0].tolist() * 2, plan, 12)
    assert len(run.refreshes) == 9
    for r in run.refreshes:
        for pos, keep in zip(r.positions, r.keep):
            for head in range(2):
                p = pos.expand(keep.shape)[0, head]
                assert {*range(r.n_seen - 6, r.n_seen)} <= set(p[keep[0, head]].tolist())


def test_scores_of_a_bfloat16_model_are_float32():
    kv, seen = new_buffer(CFG, 24, torch.bfloat16), Seen(8, Protection(), 24)
    weights = random_weights(CFG, dtype=torch.bfloat16)
    watch = {**watch_mass(weights, CFG, kv, seen), **watch_last_queries(weights, CFG, kv, seen)}
    causal_pass(weights, CFG, kv, IDS, hooks=watch)
    assert {s.dtype for s in (*h2o(weights, CFG, kv, seen), *tova(weights, CFG, kv, seen))} == {torch.float32}
    assert notes(kv, 0, "mass").dtype == torch.float32
    for layer, s in enumerate(tova(weights, CFG, kv, seen)):
        q, k = seen.record["q"][layer][0, :, :, 0].double(), view(kv, layer)[0][0].double()
        exact = torch.einsum("hgd,hsd->hgs", q, k).div(8**0.5).softmax(dim=-1).mean(dim=(0, 1))
        torch.testing.assert_close(s[0, 0].double(), exact, rtol=1e-5, atol=1e-6)
