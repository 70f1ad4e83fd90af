"""Scores of one run: areas under its greedy curve, and its final return."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from targetnet.agents.compare.arm_results import SeedResult

Score = Callable[[SeedResult], float]


def area(seed: SeedResult) -> float:
    """Returns the area under a seed's greedy curve, divided by its length in env steps.

    The curve is straight between two evaluations, and before the first one as high as there.
    """
    return _stretch(seed, 0, seed.env_steps)


def quarter(number: int, seed: SeedResult) -> float:
    """Returns what `area` is of one quarter of the run, 0 to 3."""
    return _stretch(seed, number * seed.env_steps / 4, (number + 1) * seed.env_steps / 4)


def second_half(seed: SeedResult) -> float:
    """Returns what `area` is of the second half of the run."""
    return _stretch(seed, seed.env_steps / 2, seed.env_steps)


def _stretch(seed: SeedResult, begin: float, end: float) -> float:
    steps, values = zip(*seed.curve, strict=True)
    at = [begin, *(step for step in steps if begin < step < end), end]
    return float(np.trapezoid(np.interp(at, steps, values), at) / (end - begin))


def final(seed: SeedResult) -> float:
    """Returns the mean return of a seed's final greedy episodes."""
    return seed.mean
