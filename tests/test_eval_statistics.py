"""Bootstrap intervals and paired differences, against exact small cases, every resample counted, and plain loops."""

import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from eval.statistics import difference, estimate


def of(*values, start=0):
    return {str(start + i): value for i, value in enumerate(values)}


def test_the_interval_of_one_zero_and_one_hundred_is_exact():
    """Resampled means are 0, 50, 100 with chances 1/4, 1/2, 1/4: both tails are wider than 2.5%."""
    e = estimate({"t": of(0, 100)})
    assert (e.mean, e.low, e.high, e.n) == (50, 0, 100, 2)


def test_one_hit_in_four_has_the_binomial_s_percentiles():
    """P(0 hits) = .316, P(<= 2) = .949, P(<= 3) = .996: the 97.5th percentile is 3 of 4."""
    e = estimate({"t": of(0, 0, 100, 0)})
    assert (e.mean, e.low, e.high) == (25, 0, 75)


def test_four_values_agree_with_all_256_resamples_counted():
    values = [0, 10, 30, 100]
    means = sorted(Fraction(sum(draw), 4) for draw in product(values, repeat=4))
    e = estimate({"t": of(*values)})
    below = [sum(m <= Fraction(x) for m in means) / 256 for x in (e.low, e.high)]
    strictly = [sum(m < Fraction(x) for m in means) / 256 for x in (e.low, e.high)]
    assert strictly[0] - 0.01 < 0.025 < below[0] + 0.01 and strictly[1] - 0.01 < 0.975 < below[1] + 0.01
    assert e.low in map(float, means) and e.high in map(float, means)


def naive(tasks, n=4000):
    rng = random.Random(5)
    means = []
    for _ in range(n):
        per_task = []
        for values in tasks:
            total = 0
            for _ in values:
                total += values[rng.randrange(len(values))]
            per_task.append(total / len(values))
        means.append(sum(per_task) / len(per_task))
    means.sort()
    return means[int(0.025 * n)], means[int(0.975 * n)]


def test_a_mean_over_tasks_weighs_tasks_alike_and_draws_within_each():
    """20 samples of one task against 5 of another: drawing from the pool would give another mean and interval."""
    rng = random.Random(3)
    one, other = [rng.uniform(0, 100) for _ in range(20)], [rng.uniform(0, 20) for _ in range(5)]
    e = estimate({"one": of(*one), "other": of(*other)})
    assert e.mean == pytest.approx((sum(one) / 20 + sum(other) / 5) / 2) and e.n == 25
    assert (e.low, e.high) == pytest.approx(naive([one, other]), abs=0.8)
    assert abs(naive([one + other])[1] - e.high) > 5


def test_the_interval_holds_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for seed in range(200):
        e = estimate({"t": of(*(100 * (rng.random(60) < 0.4)))}, seed)
        hits += e.low <= 40 <= e.high
    assert 0.89 <= hits / 200 <= 0.99


def test_the_same_figures_give_the_same_interval_in_any_order():
    values = {str(i): (i * 37) % 11 for i in range(30)}
    backwards = dict(reversed(values.items()))
    assert estimate({"a": values, "b": backwards}) == estimate({"b": values, "a": backwards})
    assert estimate({"a": values}, seed=1) != estimate({"a": values}, seed=2)


def test_one_sample_has_a_mean_and_no_interval():
    e = estimate({"t": of(70)})
    assert (e.mean, e.low, e.high, e.n) == (70, None, None, 1) and not e.excludes_zero
    assert estimate({"t": of(1, 2), "u": of(3)}).low is None


def test_no_figures_no_estimate():
    assert estimate({}) is None and estimate({"t": {}}) is None


def test_equal_scores_give_a_point():
    e = estimate({"t": of(*[0] * 50)})
    assert (e.mean, e.low, e.high) == (0, 0, 0)


def test_a_difference_compares_each_sample_with_itself():
    """Ours 10 above theirs on every sample, while the samples lie 0..90 apart: no doubt is left."""
    theirs = of(*range(0, 100, 10))
    ours = {sample: value + 10 for sample, value in reversed(theirs.items())}
    d = difference({"t": ours}, {"t": theirs})
    assert (d.mean, d.low, d.high, d.n) == (10, 10, 10, 10) and d.excludes_zero
    assert difference({"t": theirs}, {"t": ours}).mean == -10


def test_only_common_samples_and_tasks_count():
    """By hand: samples 1 and 2 are common, (50 - 20 + 70 - 60) / 2 = 20; task u is only ours."""
    ours = {"t": {"0": 0, "1": 50, "2": 70}, "u": {"1": 100}}
    theirs = {"t": {"1": 20, "2": 60, "3": 100}}
    d = difference(ours, theirs)
    assert (d.mean, d.low, d.high, d.n) == (20, 10, 30, 2)
    assert difference({"t": of(1)}, {"t": of(1, start=5)}) is None and difference({"t": of(1)}, {"u": of(1)}) is None


def test_a_difference_of_two_tasks_is_the_mean_of_theirs():
    d = difference({"t": of(4, 4), "u": of(9, 9, 9, 9)}, {"t": of(0, 0), "u": of(1, 1, 1, 1)})
    assert d.mean == (4 + 8) / 2


def test_an_interval_across_zero_excludes_nothing():
    d = difference({"t": of(1, 0, 1, 0)}, {"t": of(0, 1, 0, 1)})
    assert d.mean == 0 and d.low < 0 < d.high and not d.excludes_zero
