"""Projected deletion in closed form against really deleting the key and renormalising, head by head in float64."""

import math

import pytest
import torch
from hand import A, O, V, score_and_keep

from nanokv.deletion import back_to_slots, deletion_by_query, deletion_effect, gram, in_chunks, output_slices
from nanokv.load import random_weights, tiny_config

CFG = tiny_config()  # 6 query heads on 2 kv heads, d 8, e 40
H, G, D, T, S = 2, 3, 8, 4, 11
LAYER = random_weights(CFG).layers[1]
SLICES = output_slices(CFG, LAYER)


def setting(n_other: int = 3):
    """(a of the deletable keys [h g t s], v [h s d], o [h g t d]); `n_other` keys hold the rest."""
    rng = torch.Generator().manual_seed(3)
    logits = torch.randn(H, G, T, S + n_other, generator=rng)
    v = torch.randn(H, S + n_other, D, generator=rng)
    a = logits.double().softmax(dim=-1)
    o = torch.einsum("hgts,hsd->hgtd", a, v.double())
    return a[..., :S].float(), v[:, :S], o.float()


def moved(a, v, o, h, g, t, chunk):
    """What the residual stream gets less when the keys `chunk` are gone: loops over numbers, float64."""
    gone = sum(float(a[h, g, t, s]) for s in chunk)
    after = [
        (float(o[h, g, t, i]) - sum(float(a[h, g, t, s]) * float(v[h, s, i]) for s in chunk)) / (1 - gone)
        for i in range(D)
    ]
    delta = [x - float(y) for x, y in zip(after, o[h, g, t])]
    first = (h * G + g) * D
    return [sum(float(LAYER.w_o[e, first + i]) * delta[i] for i in range(D)) for e in range(CFG.d_model)]


def chunks(size: int):
    return [range(first, min(first + size, S)) for first in range(0, S, size)]


def l2(x):
    return math.sqrt(sum(y * y for y in x))


def expected(size: int, norm):
    a, v, o = setting()
    numbers = [
        [[[norm(moved(a, v, o, h, g, t, c)) for c in chunks(size)] for t in range(T)] for g in range(G)]
        for h in range(H)
    ]
    return torch.tensor(numbers)


@pytest.mark.parametrize("size", [1, 4, 3])
def test_the_closed_form_equals_deleting_the_keys_and_renormalising(size):
    a, v, o = setting()
    found = deletion_effect(a, v, o, gram(SLICES), size)
    torch.testing.assert_close(found, expected(size, l2), rtol=1e-5, atol=1e-5)


def test_the_output_without_a_key_is_the_softmax_over_the_others():
    """The closed form starts from a and o; here the softmax is done again without the key."""
    rng = torch.Generator().manual_seed(5)
    z, v = torch.randn(6, generator=rng).double(), torch.randn(6, D, generator=rng).double()
    a = z.softmax(dim=0)
    found = deletion_effect(
        a[None, None, None].float(), v[None].float(), (a @ v)[None, None, None].float(), torch.eye(D)[None, None]
    )
    for s in range(6):
        rest = [i for i in range(6) if i != s]
        gone = z[rest].softmax(dim=0) @ v[rest] - a @ v
        assert float(found[0, 0, 0, s]) == pytest.approx(float(gone.norm()), abs=1e-5)


@pytest.mark.parametrize("size", [1, 4])
def test_by_the_book_one_query_at_a_time_gives_the_same_l2_effect(size):
    a, v, o = setting()
    torch.testing.assert_close(deletion_by_query(a, v, o, SLICES, size), expected(size, l2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1, 4])
def test_the_l1_norm_sums_absolute_values_over_the_model_width(size):
    a, v, o = setting()
    found = deletion_by_query(a, v, o, SLICES, size, norm="l1")
    torch.testing.assert_close(found, expected(size, lambda x: sum(map(abs, x))), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm, naive", [("l2", l2), ("l1", lambda x: sum(map(abs, x)))])
def test_sum_before_norm_adds_what_a_group_s_heads_write_before_the_norm(norm, naive):
    a, v, o = setting()
    found = deletion_by_query(a, v, o, SLICES, 4, norm, True)
    assert found.shape == (H, 1, T, 3)
    for h in range(H):
        for t in range(T):
            for c, chunk in enumerate(chunks(4)):
                together = [sum(x) for x in zip(*(moved(a, v, o, h, g, t, chunk) for g in range(G)))]
                assert float(found[h, 0, t, c]) == pytest.approx(naive(together), rel=1e-5)


def test_a_query_head_writes_through_its_own_columns_of_w_o():
    for h in range(H):
        for g in range(G):
            first = (3 * h + g) * D
            assert torch.equal(SLICES[h, g], LAYER.w_o[:, first : first + D])


def test_the_five_line_check_gives_0_7071_0_4066_0_4257():
    a, v, o = A[None, None, None], V[None], O[None, None, None]
    e = deletion_effect(a, v, o, torch.eye(2)[None, None])
    assert e[0, 0, 0].tolist() == pytest.approx([0.7071, 0.4066, 0.4257], abs=1e-4)


def test_the_chunk_of_the_last_two_keys_moves_the_output_by_0_7071_and_not_by_the_sum_of_its_rows():
    a, v, o = A[1:][None, None, None], V[1:][None], O[None, None, None]
    e = deletion_effect(a, v, o, torch.eye(2)[None, None], size=2)
    assert e[0, 0, 0].tolist() == pytest.approx([0.7071], abs=1e-4)


def test_a_key_that_holds_all_attention_gets_a_finite_effect():
    a = torch.tensor([1.0, 0.0])[None, None, None]
    v = torch.tensor([[3.0, 4.0], [1.0, 1.0]])[None]
    e = deletion_effect(a, v, v[:, None, :1] + 0.5, torch.eye(2)[None, None])
    assert e.isfinite().all() and e[0, 0, 0, 0] > 1e4 and e[0, 0, 0, 1] == 0


def test_chunks_are_cut_from_the_left_and_the_last_is_filled_with_zeros():
    x = torch.arange(1.0, 6.0)
    assert in_chunks(x, 2).tolist() == [[1, 2], [3, 4], [5, 0]]
    assert back_to_slots(torch.tensor([7.0, 8.0, 9.0]), 2, 5).tolist() == [7, 7, 8, 8, 9]


@pytest.mark.parametrize(
    "name, settings, scores, kept",
    [
        ("snapkv", {"kernel": 1}, [0.5, 0.3, 0.2], [0, 1]),
        ("criticalkv", {"kernel": 1}, [math.inf, 0.3001, 0.8004], [0, 2]),
        ("obcache", {"drop": "V"}, [0.25, 0.09, 0.32], [0, 2]),
        ("obcache", {"drop": "K"}, [0.0118, 0.0034, 0.0431], [0, 2]),
        ("obcache", {"drop": "VK"}, [0.277, 0.082, 0.129], [0, 2]),
        ("andpro", {"kernel": 1, "chunk": 1}, [0.45, 0.21, 0.64], [0, 2]),
        ("caote", {}, [0.7071, 0.4066, 0.4257], [0, 2]),
        ("caote_fast", {}, [1.0, 0.4286, 0.3536], [0, 1]),
        ("lore_window", {"chunk": 1, "psi": "identity"}, [0.7071, 0.4066, 0.4257], [0, 2]),
        ("lore_window", {"chunk": 1}, [0.459, 0.264, 0.277], [0, 2]),
        ("lore_window", {"chunk": 1, "norm": "l1", "psi": "identity"}, [0.8, 0.5143, 0.6], [0, 2]),
    ],
)
def test_each_method_s_numbers_and_rows_on_the_shared_example(name, settings, scores, kept):
    found, rows = score_and_keep(name, window=1, **settings)
    assert found == pytest.approx(scores, abs=6e-4)
    assert rows == kept
