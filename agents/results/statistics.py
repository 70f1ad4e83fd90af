"""Statistics over a few seeds: the interquartile mean and bootstrap confidence intervals.

Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the Statistical Precipice",
https://arxiv.org/abs/2108.13264.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES, CONFIDENCE = 10_000, 0.95

# Called like np.mean: (scores, axis=...) -> scores without that axis.
Statistic = Callable[..., NDArray[np.float64]]


class Interval(NamedTuple):
    """Ends of a confidence interval."""

    low: float
    high: float


class Estimate(NamedTuple):
    """A statistic over seeds and its 95 % interval; a single seed has no interval."""

    value: float
    interval: Interval | None


def iqm(scores: ArrayLike, axis: int | None = None) -> NDArray[np.float64]:
    """Returns the interquartile mean: the mean without the lowest and the highest quarter.

        k = floor(n / 4)        iqm = mean of the sorted scores k .. n - k - 1

    Equal to scipy.stats.trim_mean(scores, 0.25), which the paper's own code uses. Only whole
    scores are left out, so if n is not divisible by 4, slightly more than half of the scores are
    kept: 6 of 10 seeds. (The mean of exactly the middle half would give the outer two of these six
    half the weight.)

    Args:
      scores: array of any shape with at least one score.
      axis: axis to average over; None averages all scores.

    Returns:
      Array with the shape of `scores` without `axis`; a scalar array if `axis` is None.
    """
    values = np.asarray(scores, np.float64)
    if axis is None:
        values, axis = values.ravel(), 0
    n = values.shape[axis]
    assert n, "the interquartile mean of no scores"
    kept = np.arange(n // 4, n - n // 4)
    return np.mean(np.take(np.sort(values, axis=axis), kept, axis=axis), axis=axis)


def stratified_bootstrap(
    scores_by_stratum: Sequence[ArrayLike],
    statistic: Statistic,
    *,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """Returns the percentile bootstrap interval of a statistic of all scores together.

    A stratum holds the seeds of one env. Each resample draws n_s scores with replacement from a
    stratum of n_s scores. The interval lies between the quantiles (1 -+ confidence) / 2 of the
    statistic over the resamples. Efron (1979), https://doi.org/10.1214/aos/1176344552; stratified
    as in Agarwal et al. (2021), section 4.1.

    Args:
      scores_by_stratum: the scores [n_s] of each stratum; the sizes may differ.
      statistic: called once with scores [resamples, sum of n_s] and axis=-1.
      resamples: number of resamples.
      confidence: level of confidence in (0, 1).
      seed: seed of the random generator; equal arguments give equal intervals.
    """
    strata = [np.asarray(scores, np.float64).ravel() for scores in scores_by_stratum]
    assert strata and all(scores.size for scores in strata), "a stratum without scores"
    rng = np.random.Generator(np.random.Philox(seed))
    drawn = [
        scores[rng.integers(scores.size, size=(resamples, scores.size))]  # [R, n_s]
        for scores in strata
    ]
    values = statistic(np.concatenate(drawn, axis=-1), axis=-1)  # [R]
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))
