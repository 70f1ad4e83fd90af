"""Means of a few seeds and their differences, with Student's intervals; several tests at once.

Bootstrap percentiles are too narrow for a few seeds: of ten, a 95 % interval holds the mean of
normal numbers in 89 % of cases, Student's in 95 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from targetnet.agents.results.statistics import CONFIDENCE, Estimate, Interval
from targetnet.rl_core.extras import require_package

_ROUNDING = 1e-12  # of the largest value: what differs by less does not vary


class Difference(NamedTuple):
    """The mean of the differences of pairs, or the difference of two means.

    Attributes:
      estimate: the difference and its interval.
      p: two-sided p value of a difference of 0, from Student's t; None for a single pair.
    """

    estimate: Estimate
    p: float | None


def require_scipy() -> None:
    """Checks that SciPy is installed.

    Raises:
      RlCoreError: it is not; the message says how to install it.
    """
    require_package("scipy", "the intervals need SciPy", "plots")


def mean(scores: Sequence[float]) -> Estimate:
    """Returns the mean of a few scores, with Student's 95 % interval if they are more than one."""
    return _tested(scores).estimate


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Returns the mean of the differences of pairs (Student's paired t test)."""
    return _tested(np.subtract(ours, theirs).tolist())


def independent(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Returns the difference of the means of two groups of two scores or more.

    They need not vary alike: Welch (1947), https://doi.org/10.1093/biomet/34.1-2.28.
    """
    from scipy.stats import t

    value = float(np.mean(ours) - np.mean(theirs))
    # Squared errors of both means; SciPy's own test warns of a group that does not vary.
    errors = [np.var(of, ddof=1) / len(of) if _varies(of) else 0.0 for of in (ours, theirs)]
    if not any(errors):
        return _without_variation(value)
    error = np.sqrt(sum(errors))
    degrees = sum(errors) ** 2 / sum(
        of**2 / (len(group) - 1) for of, group in zip(errors, (ours, theirs), strict=True)
    )
    half = float(t.ppf((1 + CONFIDENCE) / 2, degrees) * error)
    p = float(2 * t.sf(abs(value) / error, degrees))
    return Difference(Estimate(value, Interval(value - half, value + half)), p)


def _varies(values: Sequence[float]) -> bool:
    return bool(np.ptp(values) > _ROUNDING * np.max(np.abs(values)))


def _without_variation(value: float) -> Difference:
    return Difference(Estimate(value, Interval(value, value)), float(value == 0))


def _tested(values: Sequence[float]) -> Difference:
    from scipy.stats import ttest_1samp

    value = float(np.mean(values))
    if len(values) == 1:
        return Difference(Estimate(value, None), None)
    if not _varies(values):  # SciPy divides by the deviation
        return _without_variation(value)
    found = ttest_1samp(values, 0.0)
    low, high = found.confidence_interval(CONFIDENCE)
    return Difference(Estimate(value, Interval(float(low), float(high))), float(found.pvalue))


def holm(p: Sequence[float]) -> list[float]:
    """Returns the p values of several tests, so corrected that one below 5 % is 5 % for all.

    The k-th smallest of m is multiplied by m - k + 1, and is no smaller than the one before.
    Holm (1979), "A simple sequentially rejective multiple test procedure",
    https://www.jstor.org/stable/4615733.
    """
    order = np.argsort(p, kind="stable")
    corrected = np.asarray(p, float)[order] * np.arange(len(p), 0, -1)
    corrected = np.minimum(np.maximum.accumulate(corrected), 1.0)
    found = np.empty(len(p))
    found[order] = corrected
    return found.tolist()
