"""The counter-causal pass against a naive loop, by hand, and against the causal pass; it writes nothing."""

import pytest
import torch
from naive import look_ahead
from naive_surprise import IDS, read_both

from nanokv.buffer import held_ids, new_buffer, note, view
from nanokv.evict import Protection, Seen, protected, select
from nanokv.load import random_weights, tiny_config
from nanokv.masks import causal, counter_causal
from nanokv.passes import causal_pass, counter_causal_pass
from nanokv.surprise import surprise

FAMILIES = [{}, {"family": "qwen2", "qkv_bias": True}, {"family": "qwen3", "qk_norm": True}]
SETTINGS = {"full": (None, True), "without_mlp": (None, False), "last_two": ([1, 2], True), "fast": ([2], False)}


@pytest.mark.parametrize("family", FAMILIES, ids=["plain", "qwen2", "qwen3"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_pass_equals_a_double_loop_over_tokens_and_heads(family, setting):
    cfg = tiny_config(**family)
    weights = random_weights(cfg)
    kv, reader = read_both(cfg, weights, gone=(1, 2, 5, 8))
    layers, with_mlp = SETTINGS[setting]
    pos = view(kv, 0)[2][0, 0]
    assert pos.tolist() == [0, 3, 4, 6, 7, 9, 10, 11, 12, 13, 14, 15]
    first = layers[0] if layers else 0
    starts = [reader.inputs[first][i] for i in pos.tolist()]
    expected = [look_ahead(reader, x, i, lambda q, k: k > q, layers, with_mlp) for x, i in zip(starts, pos.tolist())]
    x = torch.stack(starts).float()[None]
    found = counter_causal_pass(weights, cfg, kv, x, pos, layers=layers, with_mlp=with_mlp)
    torch.testing.assert_close(found[0].double(), torch.stack(expected), rtol=0, atol=1e-4)


def test_the_pass_leaves_every_column_id_and_counter_bit_for_bit_as_it_was():
    cfg = tiny_config()
    weights = random_weights(cfg)
    kv, _ = read_both(cfg, weights, gone=(3,))
    note(kv, 1, "own", torch.rand(1, 1, 15, 4))

    def state():
        columns = [(name, c.block, c.n) for layer in kv.layers for part in layer for name, c in part.items()]
        blocks = [block.clone() for _, block, _ in columns] + [kv.ids.block.clone()]
        return blocks, [(name, id(block), n) for name, block, n in columns], (kv.ids.n, kv.n_seen, kv.peak_rows)

    blocks, columns, counters = state()
    surprise(weights, cfg, kv, Seen(4, Protection(), 16), value="logprob", span=3, window=5, min_gap=1)
    counter_causal_pass(weights, cfg, kv, weights.embed[held_ids(kv, 0)[0]], view(kv, 0)[2][0, 0])
    after, same_columns, same_counters = state()
    assert (columns, counters) == (same_columns, same_counters)
    assert all(a.view(torch.uint8).equal(b.view(torch.uint8)) for a, b in zip(blocks, after))


@pytest.mark.parametrize("windows", [(None,), (5,)])
def test_a_causal_mask_through_the_same_code_gives_the_causal_pass(windows):
    cfg = tiny_config(windows=windows)
    weights, kv = random_weights(cfg), new_buffer(cfg, 16)
    x = causal_pass(weights, cfg, kv, IDS)
    again = counter_causal_pass(weights, cfg, kv, weights.embed[IDS], torch.arange(16), mask=causal)
    torch.testing.assert_close(again, x, rtol=0, atol=2e-5)
    ahead = counter_causal_pass(weights, cfg, kv, weights.embed[IDS], torch.arange(16), mask=counter_causal)
    assert (ahead - x).abs().max() > 0.1


def test_rows_do_not_depend_on_each_other():
    cfg = tiny_config()
    weights, kv = random_weights(cfg), new_buffer(cfg, 16)
    causal_pass(weights, cfg, kv, IDS)
    whole = counter_causal_pass(weights, cfg, kv, weights.embed[IDS], torch.arange(16))
    some = torch.tensor([3, 11, 15])
    part = counter_causal_pass(weights, cfg, kv, weights.embed[IDS[:, some]], some)
    torch.testing.assert_close(part, whole[:, some], rtol=0, atol=1e-5)


def test_the_newest_row_sees_nothing_and_reads_zeros_in_every_layer():
    cfg = tiny_config()
    weights, kv, z = random_weights(cfg), new_buffer(cfg, 16), []
    causal_pass(weights, cfg, kv, IDS)
    counter_causal_pass(
        weights, cfg, kv, weights.embed[IDS], torch.arange(16), hooks={"z": lambda layer, x: z.append(x)}
    )
    assert all((x[:, :, :, 15] == 0).all() and (x[:, :, :, :15] != 0).all() for x in z)


def test_the_model_s_own_window_looks_both_ways_in_original_positions():
    """w 4, held 0 3 4 6 7 9 10 11 12..15: the row at 4 sees 6 and 7, not 9; the row at 0 sees 3."""
    cfg, probs = tiny_config(windows=(4,)), []
    weights = random_weights(cfg)
    kv, _ = read_both(cfg, weights, gone=(1, 2, 5, 8))
    pos = view(kv, 0)[2][0, 0]
    x = weights.embed[IDS[:, pos]]
    counter_causal_pass(weights, cfg, kv, x, pos, hooks={"probs": lambda layer, p: probs.append(p)})
    for p in probs:
        seen = {int(i): pos[row > 0].tolist() for i, row in zip(pos, p[0, 0, 0])}
        assert (seen[0], seen[4], seen[9], seen[15]) == ([3], [6, 7], [10, 11, 12], [])


def hand_made(eps=2.0**40):
    """One layer on e_a = (1, 0), e_b = (0, 1) with identity W_V, W_O and read-out, no mlp, uniform attention.

    The norms cannot be switched off, but with eps 2^40 and weight 2^20 they multiply by exactly one in float32.
    """
    cfg = tiny_config(n_layer=1, n_head=1, n_kv_head=1, d_head=2, d_model=2, n_vocab=2, norm_eps=eps)
    weights, one = random_weights(cfg), torch.eye(2)
    w = weights.layers[0]
    weights.embed, weights.unembed = one, one
    w.w_v, w.w_o, w.w_q, w.w_down = one, one, 0 * one, torch.zeros_like(w.w_down)
    weights.norm = w.norm_attn = w.norm_mlp = torch.full((2,), eps**0.5)
    return cfg, weights


def test_the_hand_check_a_b_a_gives_logits_1_5_and_1_and_keeps_1_and_2():
    cfg, weights = hand_made()
    kv = new_buffer(cfg, 3)
    causal_pass(weights, cfg, kv, torch.tensor([[0, 1, 0]]))
    x = counter_causal_pass(weights, cfg, kv, weights.embed[torch.tensor([[0, 1, 0]])], torch.arange(3))
    assert x[0, :2].tolist() == [[1.5, 0.5], [1.0, 1.0]]
    score = surprise(weights, cfg, kv, Seen(2, Protection(), 3))
    assert score.tolist() == [[[-1.5, -1.0, torch.inf]]]
    pos = view(kv, 0)[2]
    keep = select(score, pos, protected(Protection(), pos, 3, 2), torch.tensor([[2]]))
    assert pos[keep].tolist() == [1, 2]


def test_every_token_gets_one_from_its_own_embedding_and_none_of_it_when_blind():
    cfg, weights = hand_made()
    kv = new_buffer(cfg, 3)
    causal_pass(weights, cfg, kv, torch.tensor([[0, 1, 0]]))
    score = surprise(weights, cfg, kv, Seen(2, Protection(), 3), start="blind")
    assert score.tolist() == [[[-1.0, -0.5, torch.inf]]]  # own 1 becomes the mean embedding's 0.5
