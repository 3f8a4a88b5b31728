"""Rotation by explicit positions: layout, the frequencies of every scaling, and positions past any table."""

import cmath
import math

import pytest
import torch
from naive import Reader

from nanokv import UserError
from nanokv.buffer import new_buffer
from nanokv.config_rope import Rope
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.passes import causal_pass
from nanokv.rope import angles, inverse_frequencies, query_scale, rotate

PLANES = [10000.0 ** (-2 * i / 8) for i in range(4)]  # d_head 8: 1, 0.1, 0.01, 0.001


def turned(x, pos: int, rope: Rope | None = None):
    """x [d] rotated at one position."""
    return rotate(x[None], *angles(inverse_frequencies(rope or Rope(), len(x)), torch.tensor([pos])))[0]


def random_vector(seed: int, d: int = 8):
    return torch.randn(d, generator=torch.Generator().manual_seed(seed))


def test_the_layout_is_half_split():
    y = turned(torch.tensor([1.0, 0, 0, 0]), 1)
    torch.testing.assert_close(y, torch.tensor([0.5403, 0, 0.8415, 0]), rtol=0, atol=5e-5)


def test_position_0_turns_nothing():
    x = random_vector(0)
    assert torch.equal(turned(x, 0), x)


@pytest.mark.parametrize("pos", [1, 7, 300])
def test_rotation_equals_multiplying_complex_numbers(pos):
    x = random_vector(1).tolist()
    z = [complex(x[i], x[i + 4]) * cmath.exp(1j * pos * PLANES[i]) for i in range(4)]
    expected = torch.tensor([c.real for c in z] + [c.imag for c in z])
    torch.testing.assert_close(turned(torch.tensor(x), pos), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("shift", [1, 40, 1000])
def test_a_dot_product_stays_when_query_and_key_shift_together(shift):
    q, k = random_vector(2), random_vector(3)
    here, there = turned(q, 9) @ turned(k, 2), turned(q, 9 + shift) @ turned(k, 2 + shift)
    torch.testing.assert_close(here, there, rtol=0, atol=1e-3)
    assert abs(here - turned(q, 9 + shift) @ turned(k, 2)) > 0.1  # it does depend on the distance


def test_a_dot_product_is_the_real_part_of_the_complex_form():
    q, k = random_vector(4), random_vector(5)
    pairs = [complex(q[i], q[i + 4]) * complex(k[i], k[i + 4]).conjugate() for i in range(4)]
    expected = sum((pair * cmath.exp(1j * (11 - 3) * f)).real for pair, f in zip(pairs, PLANES))
    assert float(turned(q, 11) @ turned(k, 3)) == pytest.approx(expected, abs=1e-5)


def test_half_precision_is_turned_in_float32_and_handed_back_as_it_came():
    x = random_vector(6).bfloat16()
    y = turned(x, 5)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, turned(x.float(), 5).bfloat16())


def test_frequencies_of_the_default():
    assert float(inverse_frequencies(Rope(theta=5e5), 64)[1]) == pytest.approx(0.663601, abs=5e-7)
    torch.testing.assert_close(inverse_frequencies(Rope(), 8), torch.tensor([1, 0.1, 0.01, 0.001]))


def test_linear_scaling_divides_every_frequency():
    rope = Rope(kind="linear", factor=4.0)
    torch.testing.assert_close(inverse_frequencies(rope, 8), torch.tensor([0.25, 0.025, 0.0025, 0.00025]))


@pytest.mark.parametrize("plane, value", [(1, 0.663601), (15, 1.29054801e-3), (17, 9.70828623e-5), (31, 9.41830649e-8)])
def test_frequencies_of_llama3(plane, value):
    rope = Rope(5e5, "llama3", factor=32.0, n_original=8192, low_freq_factor=1.0, high_freq_factor=4.0)
    assert float(inverse_frequencies(rope, 64)[plane]) == pytest.approx(value, rel=1e-6)


def test_frequencies_of_yarn():
    # 32 and 1 turns in 8192 positions are at planes 8 ln(8192 / 64 pi) / 2 ln 10000 = 1.61006 and 3.11521: the ramp
    # over whole planes, 1 to 4, is 0 0 1/3 2/3
    rope = Rope(kind="yarn", factor=4.0, n_original=8192)
    torch.testing.assert_close(inverse_frequencies(rope, 8), torch.tensor([1, 0.1, 0.0075, 0.0005]))


def test_frequencies_of_yarn_without_whole_planes():
    # the ramp from 1.61006 to 3.11521 is 0.259071 and 0.923456 at planes 2 and 3: 0.259071 * 0.0025 + 0.740929 * 0.01
    # and 0.923456 * 0.00025 + 0.076544 * 0.001
    rope = Rope(kind="yarn", factor=4.0, n_original=8192, truncate=False)
    expected = torch.tensor([1, 0.1, 0.00805697, 0.000307408])
    torch.testing.assert_close(inverse_frequencies(rope, 8), expected, rtol=5e-6, atol=0)


def test_yarns_attention_factor_multiplies_cos_and_sin():
    cos, sin = angles(torch.tensor([1.0]), torch.tensor([2]), 1.25)
    assert float(cos) == pytest.approx(1.25 * math.cos(2)) and float(sin) == pytest.approx(1.25 * math.sin(2))


def test_ministral3_queries_grow_by_the_log_of_the_lengths_passed():
    rope = Rope(kind="yarn", n_original=16, q_scale_beta=0.5)
    expected = torch.tensor([1, 1, 1 + 0.5 * math.log(2), 1 + 0.5 * math.log(3)])
    torch.testing.assert_close(query_scale(rope, torch.tensor([0, 15, 16, 47])), expected)


def test_angles_far_past_any_table_are_the_naive_ones():
    cos, sin = angles(inverse_frequencies(Rope(), 8), torch.tensor([100_000]))
    expected = [cmath.exp(1j * 100_000 * f) for f in PLANES]
    torch.testing.assert_close(cos[0], torch.tensor([z.real for z in expected]), rtol=0, atol=1e-2)
    torch.testing.assert_close(sin[0], torch.tensor([z.imag for z in expected]), rtol=0, atol=1e-2)


def test_a_pass_goes_on_past_the_models_length_as_the_naive_one_does():
    cfg = tiny_config(n_positions=8, n_layer=2)
    weights, ids = random_weights(cfg), [5, 3, 8, 1, 90, 44, 7, 7, 12, 60, 33, 2]
    x = causal_pass(weights, cfg, new_buffer(cfg, 4), torch.tensor([ids]))[0]
    reader = Reader(weights, cfg)
    expected = torch.stack([reader.feed(token) for token in ids]).float()
    assert x.isfinite().all()
    torch.testing.assert_close(x, expected, rtol=0, atol=1e-4)


def test_the_full_cache_refuses_a_prompt_past_the_models_length_naming_length_limit_and_option():
    cfg = tiny_config(n_positions=8)
    with pytest.raises(UserError, match=r"\b9\b.*\b8\b.*--method"):
        generate(random_weights(cfg), cfg, list(range(9)))


def test_the_full_cache_counts_prompt_and_new_tokens_against_the_models_length():
    cfg = tiny_config(n_positions=8)
    run = generate(random_weights(cfg), cfg, list(range(6)), max_new_tokens=20)
    assert (run.stop, run.kv.n_seen, len(run.output_ids)) == ("context", 8, 3)  # the third was not read any more
