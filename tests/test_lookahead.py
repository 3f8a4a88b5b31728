"""A lookahead is a tree in the prompt's own buffer: its branches equal separate runs, and afterwards nothing moved."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nanokv import UserError
from nanokv.buffer import bytes_held, mark, n_kept, new_buffer, rows_held, view
from nanokv.compact import compact
from nanokv.hooks import Record
from nanokv.load import random_weights, tiny_config
from nanokv.lookahead import Lookahead, ancestral, log_q, lookahead, most_likely, note_tokens, read_trajectories
from nanokv.model import unembed
from nanokv.passes import causal_pass
from nanokv.reliability import reliability

CFG = tiny_config()
WEIGHTS = random_weights(CFG)
IDS = torch.randint(97, (1, 300), generator=torch.Generator().manual_seed(4))
CASES = ["plain", "uneven_layers", "uneven_heads", "sliding_window"]


def setting(case: str = "plain", n: int = 30, cfg=CFG, room: int = 32):
    """(cfg, weights, buffer after the prompt, its last logits)."""
    cfg = replace(cfg, windows=(7, None, 7)) if case == "sliding_window" else cfg
    weights = random_weights(cfg)
    kv = new_buffer(cfg, n + room)
    x = causal_pass(weights, cfg, kv, IDS[:, :n])
    luck = torch.rand(3, 2, n, generator=torch.Generator().manual_seed(1))
    for layer, share in enumerate([0.9, 0.5, 0.2]):
        if case == "uneven_layers":
            compact(kv, layer, (torch.arange(n) % 10 < 10 * share)[None, None], room)
        if case == "uneven_heads":
            compact(kv, layer, (luck[layer] < torch.tensor([[share], [1 - share]]))[None], room)
    kv.shared = not case.startswith("uneven")
    return cfg, weights, kv, unembed(weights, x[:, -1:])[0, 0]


def look(case="plain", m=3, n_steps=5, draw=None, seed=0, **more):
    cfg, weights, kv, logits = setting(case)
    draw = draw or ancestral(torch.Generator().manual_seed(seed))
    return lookahead(weights, cfg, kv, logits, m, n_steps, draw, **more), (cfg, weights, kv, logits)


@pytest.mark.parametrize("case", CASES)
def test_every_branch_equals_a_run_of_its_own(case):
    before = setting(case)[2]
    tree, (cfg, weights, _, logits) = look(case)
    assert len({tuple(ids) for ids in tree.ids}) == 3 and [len(ids) for ids in tree.ids] == [5, 5, 5]
    for m, ids in enumerate(tree.ids):
        kv, record, logp = copy.deepcopy(before), Record("q", "k", "v"), [logits.log_softmax(dim=-1)]
        for token in ids:
            x = causal_pass(weights, cfg, kv, torch.tensor([[token]]), hooks=record.hooks)
            logp.append(unembed(weights, x)[0, 0].log_softmax(dim=-1))
        alone = [float(p[token]) for p, token in zip(logp, ids)]
        entropy = [-float((p.exp() * p).sum()) for p in logp[:5]]
        assert tree.logp[m] == pytest.approx(alone, abs=1e-5) and tree.entropy[m] == pytest.approx(entropy, abs=1e-5)
        for layer in range(3):
            for name in "qkv":
                torch.testing.assert_close(getattr(tree, name)[layer][m], record.seen[name][layer][0])


@pytest.mark.parametrize("case", CASES)
def test_afterwards_buffer_ids_counters_and_every_random_state_are_bit_for_bit_what_they_were(case):
    cfg, weights, kv, logits = setting(case)
    before, marked, n_bytes = copy.deepcopy(kv), mark(kv), bytes_held(kv)
    blocks = [part[name].block for layer in kv.layers for part in layer for name in part]
    places = [block.data_ptr() for block in blocks]
    state = torch.get_rng_state()
    lookahead(weights, cfg, kv, logits, 4, 8, ancestral(torch.Generator().manual_seed(2)))
    assert torch.equal(torch.get_rng_state(), state)
    assert (kv.n_seen, kv.ids.n, n_kept(kv), kv.shared) == (30, 30, n_kept(before), before.shared)
    assert mark(kv) == marked and bytes_held(kv) == n_bytes and rows_held(kv) == rows_held(before)
    for layer in range(3):
        assert all(torch.equal(a, b) for a, b in zip(view(kv, layer), view(before, layer)))
    now = [part[name].block for layer in kv.layers for part in layer for name in part]
    assert all(a is b for a, b in zip(now, blocks)) and [block.data_ptr() for block in now] == places
    assert kv.peak_rows == max(30, n_kept(before) + 32)


def test_branches_stay_apart_under_a_hook_that_sees_uneven_heads_side_by_side():
    given, seen = [[1, 2, 3], [4, 5, 6]], []
    plain, watched = (
        look("uneven_heads", given=given, hooks=hooks)[0]
        for hooks in (None, {"probs": lambda layer, x: seen.append(x.shape)})
    )
    assert len(seen) == 9 and seen[0][1:3] == (2, 3)
    assert [x for m in watched.logp for x in m] == pytest.approx([x for m in plain.logp for x in m], abs=1e-5)


class BiggestNew(TorchDispatchMode):
    """Numbers in the largest tensor that is made and is no view of one that was there."""

    n = 0

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        out = f(*args, **(kwargs or {}))
        old = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in old:
                self.n = max(self.n, x.numel())
        return out


@pytest.mark.parametrize("case", CASES)
def test_no_tensor_of_the_size_of_the_prompt_s_keys_is_made(case):
    cfg, weights, kv, logits = setting(case, 300, tiny_config(d_head=128))
    with BiggestNew() as biggest:
        lookahead(weights, cfg, kv, logits, 2, 4, ancestral(torch.Generator().manual_seed(2)))
    rows_of_fewest = min(min(heads) for heads in rows_held(kv))
    assert 0 < biggest.n < rows_of_fewest * 128


def test_a_stop_token_ends_its_branch_and_is_its_last_while_the_others_go_on():
    script = iter([[5, 6, 7], [8, 96, 9], [10, 11], [96, 12], [13]])
    tree, (cfg, weights, kv, _) = look(draw=lambda probs: torch.tensor(next(script)), stop_ids={96})
    assert tree.ids == [[5, 8, 10, 96], [6, 96], [7, 9, 11, 12, 13]]
    assert [len(x) for x in (*tree.logp, *tree.entropy)] == [4, 2, 5, 4, 2, 5]
    assert [q.shape for q in tree.q[2]] == [(2, 3, t, 8) for t in (4, 2, 5)]
    record = Record("q")
    for token in tree.ids[2]:
        causal_pass(weights, cfg, kv, torch.tensor([[token]]), hooks=record.hooks)
    torch.testing.assert_close(tree.q[2][2], record.seen["q"][2][0])


def test_one_branch_of_one_token_is_a_single_step_from_the_prompt_s_logits():
    tree, (_, _, kv, logits) = look(m=1, n_steps=1, draw=most_likely)
    assert tree.ids == [[int(logits.argmax())]] and tree.q[0][0].shape == (2, 3, 1, 8)
    assert tree.logp[0] == pytest.approx([float(logits.log_softmax(dim=-1).max())]) and kv.peak_rows == 31


def test_ids_that_only_pad_the_vocabulary_are_never_drawn_and_have_no_part_in_the_entropy():
    cfg, weights, kv, logits = setting()
    weights.unembed[90:] *= 40  # they would win
    tree = lookahead(weights, cfg, kv, logits[:90], 4, 8, ancestral(torch.Generator().manual_seed(0)))
    assert max(i for ids in tree.ids for i in ids) < 90
    assert max(h for hs in tree.entropy for h in hs) <= math.log(90) and min(map(min, tree.entropy)) > 1


def test_a_replay_stops_where_each_given_trajectory_ends():
    given = [[1, 2, 3], [4], [5, 6]]
    tree, (_, _, kv, logits) = look(given=given)
    assert tree.ids == given and kv.peak_rows == 36
    assert [t[0] for t in tree.logp] == pytest.approx(logits.log_softmax(dim=-1)[[1, 4, 5]].tolist())


@pytest.mark.parametrize("temperature, mean_under_p", [(0.7, 0.177), (1.5, -0.185)])
def test_a_tempered_lookahead_scores_its_tokens_under_what_it_drew_from(temperature, mean_under_p):
    """Scored under the untempered p, c would not be centred: the numbers of p = (.7, .2, .1)."""
    p = torch.tensor([0.7, 0.2, 0.1])
    q = log_q(p.log(), temperature).exp()
    assert float((q * (q.log() - (q * q.log()).sum())).sum()) == pytest.approx(0, abs=1e-6)
    assert float((q * (p.log() - (p * p.log()).sum())).sum()) == pytest.approx(mean_under_p, abs=1e-3)
    tree, (_, _, _, logits) = look(temperature=temperature)
    drawn_from = (logits / temperature).log_softmax(dim=-1)
    assert [t[0] for t in tree.logp] == pytest.approx(drawn_from[[ids[0] for ids in tree.ids]].tolist(), abs=1e-5)


def test_p_7_2_1_has_entropy_802_and_c_445_808_1501_whose_mean_is_0():
    p = torch.tensor([0.7, 0.2, 0.1])
    tree = Lookahead([[], [], []], [[], [], []], [[], [], []], [[torch.ones(1, 1, 1, 2)] * 3], [], [])
    note_tokens(tree, [0, 1, 2], torch.tensor([0, 1, 2]), p.log().expand(3, -1))
    report = {"lookahead": {}}
    reliability(tree, 1.0, 1.3, 0.0, "reliability", report)
    assert report["lookahead"]["H_bar"] == pytest.approx([0.802] * 3, abs=1e-3)
    assert report["lookahead"]["c_bar"] == pytest.approx([0.445, -0.808, -1.501], abs=1e-3)
    assert float(p @ torch.tensor(report["lookahead"]["c_bar"])) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    "text, words",
    [("[]", "not a lookahead file"), ('{"trajectories": []}', "none empty"), ('{"trajectories": [[1], []]}', "none")],
)
def test_a_broken_lookahead_file_is_refused_by_name(tmp_path, text, words):
    (tmp_path / "look.json").write_text(text)
    with pytest.raises(UserError, match=f"look.json.*{words}"):
        read_trajectories(tmp_path / "look.json")
    with pytest.raises(UserError, match=r"missing\.json"):
        read_trajectories(tmp_path / "missing.json")


@pytest.mark.parametrize("more", [{"m": 0}, {"n_steps": 0}, {"temperature": 0.0}, {"given": [[3, 97]]}])
def test_an_empty_lookahead_a_temperature_of_0_and_a_token_that_is_none_are_refused(more):
    with pytest.raises(UserError, match=r"M=0|T=0|not 0|token 97; there are 97"):
        look(**more)
