"""The interquartile mean and its interval, by hand and beside SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from targetnet.agents.experiments.statistics import iqm, stratified_bootstrap

stats = pytest.importorskip("scipy.stats")
SCORES = np.random.default_rng(1).normal(100, 20, 10)

# scores                              iqm
ROWS = [
    ([1, 2, 3, 100], 2.5),  # (2 + 3) / 2
    ([100, 1, 3, 2], 2.5),  # in any order
    ([7], 7.0),  # nothing to leave out
    ([0, 10, 20], 10.0),  # floor(3 / 4) = 0 are left out: the mean
    # floor(10 / 4) = 2 at each end: (4 * 0 + 2 * 10) / 6; the exact middle half has 20 / 6.67.
    ([0, 0, 0, 0, 0, 0, 10, 10, 10, 10], 20 / 6),
]


@pytest.mark.parametrize(("scores", "wanted"), ROWS)
def test_iqm_matches_hand_computed_rows(scores, wanted):
    assert iqm(scores) == pytest.approx(wanted)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_iqm_is_scipys_trimmed_mean_for_every_number_of_scores(scores):
    np.testing.assert_allclose(iqm(scores), stats.trim_mean(scores, 0.25, axis=None), atol=1e-6)


def test_iqm_along_an_axis_is_that_of_each_row():
    scores = np.arange(24.0).reshape(2, 3, 4) ** 2
    for axis in (0, 1, 2, -1):
        np.testing.assert_allclose(iqm(scores, axis=axis), np.apply_along_axis(iqm, axis, scores))
    assert iqm(scores) == pytest.approx(iqm(scores.ravel()))


def test_the_interval_of_two_scores_is_the_one_of_four_equally_likely_resamples():
    # 0 0, 0 1, 1 0, 1 1: means 0 (a quarter), 1/2 (a half), 1 (a quarter)
    assert stratified_bootstrap([[0, 1]], np.mean) == (0, 1)
    assert stratified_bootstrap([[0, 1]], np.mean, confidence=0.4) == (0.5, 0.5)  # 30 to 70 %
    assert stratified_bootstrap([[0, 1]], np.mean, confidence=0.6) == (0, 1)  # 20 to 80 %


def test_the_interval_of_four_scores_is_that_of_all_their_256_resamples():
    scores = [100, 200, 300, 400]
    # Mean 100 or 125: 1 + 4 of 256, which is 2.0 %; with the 10 of mean 150 it is 5.9 %.
    assert stratified_bootstrap([scores], np.mean) == (150, 350)
    # IQM 100: three or four times 100, 4 * 3 + 1 of 256, which is 5.1 %.
    assert stratified_bootstrap([scores], iqm) == (100, 400)


def test_no_score_is_drawn_from_another_stratum():
    # Each stratum keeps its two scores, so every resample has mean 1/2; drawn from all four
    # together one in sixteen would be 0.
    assert stratified_bootstrap([[0, 0], [1, 1]], np.mean) == (0.5, 0.5)
    assert stratified_bootstrap([[0, 0], [1]], np.mean) == (1 / 3, 1 / 3)


@pytest.mark.parametrize("statistic", [np.mean, iqm])
def test_the_interval_is_scipys_percentile_bootstrap_within_its_own_error(statistic):
    ours = stratified_bootstrap([SCORES], statistic)
    theirs = stats.bootstrap(
        (SCORES,), statistic, n_resamples=10_000, method="percentile", rng=np.random.default_rng(2)
    )
    # Compared as shares, because resampled IQMs of ten scores are lumpy. The share of 10,000 draws
    # below a 2.5 % quantile has error sqrt(.025 * .975 / 10,000) = 0.0016; the difference of two
    # 0.0022: five of these.
    for end, share in zip(ours, (0.025, 0.975), strict=True):
        assert np.mean(theirs.bootstrap_distribution < end) <= share + 0.011
        assert np.mean(theirs.bootstrap_distribution <= end) >= share - 0.011


def test_the_same_scores_have_the_same_interval_and_another_seed_another():
    assert stratified_bootstrap([SCORES], iqm) == stratified_bootstrap([SCORES], iqm)
    assert stratified_bootstrap([SCORES], iqm) != stratified_bootstrap([SCORES], iqm, seed=1)


def test_it_is_the_interval_of_a_loop_over_resamples():
    """The obvious twin: every resample by itself, from the same generator."""
    strata = [SCORES[:4], SCORES[4:]]
    rng = np.random.Generator(np.random.Philox(3))
    picks = [rng.integers(len(scores), size=(50, len(scores))) for scores in strata]
    values = [
        iqm([*strata[0][first], *strata[1][second]]) for first, second in zip(*picks, strict=True)
    ]
    wanted = np.quantile(values, [0.05, 0.95])
    got = stratified_bootstrap(strata, iqm, resamples=50, confidence=0.9, seed=3)
    np.testing.assert_allclose(got, wanted)


def test_no_scores_are_our_own_mistake():
    with pytest.raises(AssertionError):
        iqm([])
    with pytest.raises(AssertionError):
        stratified_bootstrap([[1.0], []], np.mean)
