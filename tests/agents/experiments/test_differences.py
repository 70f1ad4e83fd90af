"""Student's intervals, by the tables in textbooks, and Holm's correction by hand."""

import numpy as np
import pytest

from targetnet.agents.experiments.statistics import holm, independent, mean, paired


def test_differences_are_of_pairs():
    """1, 2 and 3: mean 2, deviation 1, and 4.303 deviations of the mean for two degrees."""
    found = paired([1.0, 12.0, 103.0], [0.0, 10.0, 100.0])
    half = 4.303 / np.sqrt(3)
    assert found.estimate.value == 2.0
    assert found.estimate.interval == pytest.approx((2 - half, 2 + half), abs=1e-3)
    # t = 2 / (1 / sqrt(3)) = 3.464 with two degrees: p = 1 - t / sqrt(t^2 + 2)
    assert found.p == pytest.approx(1 - 3.4641 / np.sqrt(14), abs=1e-4)


def test_what_does_not_vary_has_no_width():
    equal, ahead = paired([3.0, 4.0], [3.0, 4.0]), paired([3.0, 4.0], [1.0, 2.0])
    assert (equal.estimate.value, equal.estimate.interval, equal.p) == (0, (0, 0), 1)
    assert (ahead.estimate.value, ahead.estimate.interval, ahead.p) == (2, (2, 2), 0)


def test_rounding_is_no_variation():
    """0.1 + 0.2 - 0.3, as computed, is not 0: SciPy would warn, and make a p value of it."""
    found = paired([0.3 + 1e-16, 0.1 + 0.2, 0.3], [0.2, 0.2, 0.2])
    assert found.estimate.value == pytest.approx(0.1) and found.p == 0


def test_groups_that_vary_differently_are_compared_by_welch():
    """1, 2, 3 beside 0, 0, 0, 4: means 2 and 1, squared errors 1/3 and 1.

    t = 1 / sqrt(4/3) = 0.8660 with (4/3)^2 / ((1/3)^2 / 2 + 1^2 / 3) = 4.571 degrees; a table has
    2.776 for four and 2.571 for five.
    """
    found = independent([1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 4.0])
    assert found.estimate.value == 1.0 and found.p == pytest.approx(0.4296, abs=1e-3)
    low, high = found.estimate.interval
    assert low + high == pytest.approx(2) and 2.571 < (high - 1) / np.sqrt(4 / 3) < 2.776


def test_a_group_that_does_not_vary_leaves_the_others_degrees():
    """1, 2, 3 beside 0: as Student's of one group, 4.303 errors for two degrees."""
    low, high = independent([1.0, 2.0, 3.0], [0.0, 0.0]).estimate.interval
    assert (high - low) / 2 == pytest.approx(4.303 / np.sqrt(3), abs=1e-3)
    alike = independent([5.0, 5.0], [2.0, 2.0, 2.0])
    assert (alike.estimate.value, alike.estimate.interval, alike.p) == (3, (3, 3), 0)


def test_one_seed_has_no_interval():
    assert mean([3.0]).interval is None and mean([3.0]).value == 3
    assert paired([3.0], [1.0]).p is None


@pytest.mark.parametrize("seeds", [5, 10])
def test_an_interval_of_a_few_seeds_holds_the_mean_as_often_as_it_says(seeds):
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(1_000):
        low, high = mean(rng.normal(7.0, 3.0, seeds).tolist()).interval
        inside += low <= 7.0 <= high
    assert 930 <= inside <= 970  # bootstrap percentiles: 840 of 5 seeds, 890 of 10


def test_holm_multiplies_the_smallest_most():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.001]) == pytest.approx([0.5, 0.002])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []
