"""Means with their uncertainty: the percentile bootstrap (Efron and Tibshirani 1993, ch. 13) over samples.

Figures come as `groups`, a dict from task to {sample: figure}: the mean is the plain mean of the tasks' means, as the
benchmarks average, and samples are drawn anew within each task. What one run scored under several seeds has been
averaged before, so a sample is one draw however often it was run.

Known limits: where all samples have one figure the interval is a point, which says that they agree and not that the
mean is certain; and the tasks themselves are never drawn anew, so nothing is said about tasks that were not run.
"""

from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean, its interval (None from fewer than two samples in a task), and what it stands on."""

    mean: float
    low: float | None
    high: float | None
    n: int
    n_tasks: int

    @property
    def excludes_zero(self) -> bool:
        return self.low is not None and (self.low > 0 or self.high < 0)


def estimate(groups: dict, seed: int = 0) -> Estimate | None:
    """Mean of the tasks' means with its 95% interval; None where there is no figure at all."""
    values = [in_order(groups[task]) for task in sorted(groups) if groups[task]]
    if not values:
        return None
    mean = float(np.mean([v.mean() for v in values]))
    return Estimate(mean, *interval(values, seed), sum(len(v) for v in values), len(values))


def in_order(samples: dict):
    """Figures sorted by their samples' names, so that files merged in another order give the same interval. [n]"""
    return np.array([samples[sample] for sample in sorted(samples)], dtype=float)


def interval(values: list, seed: int = 0) -> tuple:
    """(low, high): the 2.5th and 97.5th percentile of the resampled means. `values`: an array [n] for each task.

    (None, None) where a task has one sample: that cannot say how far another one would have moved the mean.
    """
    if min(len(v) for v in values) < 2:
        return None, None
    rng = np.random.default_rng(seed)
    means = np.mean([resampled_means(v, rng) for v in values], axis=0)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return float(low), float(high)


def resampled_means(values, rng):
    """The means of RESAMPLES draws of n out of n with replacement. [RESAMPLES]"""
    drawn = rng.integers(len(values), size=(RESAMPLES, len(values)))
    return values[drawn].mean(axis=1)


def difference(ours: dict, theirs: dict, seed: int = 0) -> Estimate | None:
    """ours - theirs, paired: over the samples that both have, each compared with itself. None where they share none."""
    common = {}
    for task in ours.keys() & theirs.keys():
        both = ours[task].keys() & theirs[task].keys()
        common[task] = {sample: ours[task][sample] - theirs[task][sample] for sample in both}
    return estimate(common, seed)
