"""Attention itself: the fast form against the explicit one, rows that see nothing, head order, float32 scoring."""

import pytest
import torch

from nanokv import attention
from nanokv.attention import attend, attend_explicitly, attend_in_blocks, probs_of, scores_of
from nanokv.buffer import new_buffer
from nanokv.load import random_weights, tiny_config
from nanokv.passes import causal_pass


def tensors(t=7, s=13, h=2, g=3, d=8, dtype=torch.float32, seed=0):
    rng = torch.Generator().manual_seed(seed)
    shapes = (1, h, g, t, d), (1, h, s, d), (1, h, s, d)
    return [torch.randn(shape, generator=rng).to(dtype) for shape in shapes]


def ragged_mask(t=7, s=13, h=2, seed=1):
    """Other keys for every head; query 2 of head 0 and query 4 of every head see nothing."""
    visible = torch.rand(1, h, t, s, generator=torch.Generator().manual_seed(seed)) < 0.4
    visible[0, 0, 2] = False
    visible[0, :, 4] = False
    return visible


def test_both_forms_agree_on_ragged_masks_and_empty_rows():
    q, k, v = tensors()
    visible = ragged_mask()
    torch.testing.assert_close(attend_in_blocks(q, k, v, visible), attend_explicitly(q, k, v, visible))


def test_a_row_that_may_look_at_nothing_reads_zeros_in_both_forms():
    q, k, v = tensors()
    visible = ragged_mask()
    for form in (attend_in_blocks, attend_explicitly):
        z = form(q, k, v, visible)
        assert (z[:, :, :, 4] == 0).all() and (z[0, 0, :, 2] == 0).all() and (z[0, 1, :, 2] != 0).all()


def test_a_mask_without_any_true_reads_zeros_in_both_forms():
    q, k, v = tensors()
    nothing = torch.zeros(1, 1, 7, 13, dtype=torch.bool)
    for form in (attend_in_blocks, attend_explicitly):
        assert (form(q, k, v, nothing) == 0).all()


@pytest.mark.parametrize("t", [1, 4, 5, 11])
def test_cutting_queries_into_blocks_changes_nothing(monkeypatch, t):
    monkeypatch.setattr(attention, "BLOCK", 4)
    q, k, v = tensors(t=t)
    visible = torch.ones(1, 1, t, 13, dtype=torch.bool).tril(13 - t)
    torch.testing.assert_close(attend_in_blocks(q, k, v, visible), attend_explicitly(q, k, v, visible))


def test_ragged_masks_and_empty_rows_survive_the_cutting_too(monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 3)
    q, k, v = tensors(t=11)
    visible = ragged_mask(t=11)
    visible[0, :, 3:6] = False  # one whole block sees nothing
    torch.testing.assert_close(attend_in_blocks(q, k, v, visible), attend_explicitly(q, k, v, visible))


def test_more_queries_than_one_real_block_agree_too():
    t = attention.BLOCK + 44
    q, k, v = tensors(t=t, s=t, d=4)
    visible = torch.ones(1, 1, t, t, dtype=torch.bool).tril()
    torch.testing.assert_close(attend_in_blocks(q, k, v, visible), attend_explicitly(q, k, v, visible))


def test_bfloat16_attention_rounds_once_from_float32():
    q, k, v = tensors(dtype=torch.bfloat16)
    visible = ragged_mask()
    exact = attend_explicitly(q.float(), k.float(), v.float(), visible)
    for form in (attend_in_blocks, attend_explicitly):
        torch.testing.assert_close(form(q, k, v, visible).float(), exact, rtol=2**-7, atol=2**-7)


def test_kv_heads_serve_query_heads_in_order_0_0_1_1_and_are_not_tiled():
    q, k, v = tensors(t=1, s=1, h=2, g=2)
    v = torch.tensor([10.0, 20.0])[None, :, None, None].expand(1, 2, 1, 8)
    z = attend(q, k, v, torch.ones(1, 1, 1, 1, dtype=torch.bool))
    assert z.flatten(1, 2)[0, :, 0, 0].tolist() == [10, 10, 20, 20]


def test_projection_reads_the_query_heads_of_one_kv_head_side_by_side():
    cfg = tiny_config(n_layer=1, n_head=4, n_kv_head=2, d_head=8, d_model=32)
    weights, kv = random_weights(cfg), new_buffer(cfg, 4)
    weights.layers[0].w_q = torch.arange(32.0).repeat_interleave(32).reshape(32, 32)  # row r of W_q gives r times a sum
    seen = {}
    causal_pass(weights, cfg, kv, torch.tensor([[3]]), hooks={"q": lambda layer, q: seen.update(q=q)})
    q = seen["q"][0, :, :, 0, 0]  # first number of each head at position 0: not rotated
    torch.testing.assert_close(q / q[0, 1], torch.tensor([[0.0, 1.0], [2.0, 3.0]]))


def test_scores_and_probs_of_a_bfloat16_model_are_float32():
    q, k, _ = tensors(dtype=torch.bfloat16)
    scores = scores_of(q, k)
    probs = probs_of(scores, ragged_mask())
    assert scores.dtype == probs.dtype == torch.float32
    by_hand = (q[0, 1, 2, 3].double() @ k[0, 1, 5].double()) / 8**0.5
    assert abs(scores[0, 1, 2, 3, 5].item() - by_hand.item()) < 1e-5


def test_probs_of_a_hidden_row_are_zeros_and_of_the_others_sum_to_one():
    q, k, _ = tensors()
    sums = probs_of(scores_of(q, k), ragged_mask()).sum(dim=-1)
    expected = torch.ones_like(sums)
    expected[0, 0, :, 2] = 0
    expected[0, :, :, 4] = 0
    torch.testing.assert_close(sums, expected)


def test_a_mask_of_the_wrong_size_is_refused_with_the_numbers():
    q, k, v = tensors()
    with pytest.raises(AssertionError, match="7 queries and 13 keys"):
        attend(q, k, v, torch.ones(1, 1, 7, 12, dtype=torch.bool))
    with pytest.raises(AssertionError, match="float32"):
        attend(q, k, v, torch.ones(1, 1, 7, 13))


def test_a_hook_on_probs_is_always_given_them():
    cfg, seen = tiny_config(), []
    kv = new_buffer(cfg, 8)
    causal_pass(random_weights(cfg), cfg, kv, torch.arange(5)[None], hooks={"probs": lambda i, p: seen.append(p)})
    assert [tuple(p.shape) for p in seen] == [(1, 2, 3, 5, 5)] * 3
    torch.testing.assert_close(torch.stack(seen).sum(dim=-1), torch.ones(3, 1, 2, 3, 5))
