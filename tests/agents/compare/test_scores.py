"""Scores by hand."""

from pathlib import Path

import numpy as np
import pytest

from agents.compare.kept import KeptSeed, quarters_of
from agents.compare.plan import Arm, load_plan
from agents.compare.scores import Scores, area, final, paired


class Seeds:
    def __init__(self, **areas):
        self.seeds = {int(n[1:]): seed(value) for n, value in areas.items()}


def seed(*values):
    return of_curve(*((i, float(v)) for i, v in enumerate(values, 1)))


def of_curve(*curve):
    return KeptSeed(
        env_steps=curve[-1][0], updates=5, mean=curve[-1][1], curve=[*curve], signs={},
        seconds=1.0, digest="d", processor="p", versions={}, date="2026-01-01",
    )  # fmt: skip


def test_the_area_is_that_under_the_curve_whenever_it_was_evaluated():
    """0 up to 100, 5 on average up to 200 and 30 up to 400: 6,500 / 400."""
    found = of_curve((100, 0.0), (200, 10.0), (400, 50.0))
    assert area(found) == 16.25 and final(found) == 50
    # Another point on a straight line changes nothing.
    assert area(of_curve((100, 0.0), (150, 5.0), (200, 10.0), (400, 50.0))) == 16.25
    assert area(of_curve((7, 3.0))) == 3


def test_what_a_curve_showed_is_its_mean_in_each_quarter():
    """A point on a border is of the quarter that begins there; the last one is of the last."""
    curve = [(0, 1.0), (99, 3.0), (100, 5.0), (300, 7.0), (400, 8.0)]
    found = quarters_of({"a": curve, "b": [], "c": [(1, float("inf"))]}, 400)
    assert found == {"a": [2.0, 5.0, None, 7.5], "b": [None] * 4, "c": [None] * 4}


def test_differences_are_of_pairs():
    found = paired([1.0, 12.0, 103.0], [0.0, 10.0, 100.0])
    assert found.value == 2.0
    # Seeds lie 50 apart; unpaired, the interval would be as wide as that.
    assert 1.0 <= found.interval.low < 2.0 < found.interval.high <= 3.0
    assert paired([3.0], [1.0]).interval is None


@pytest.fixture
def scores(comparison):
    """Tuning areas: on CartPole 0, 100, 50 for the baseline, on Other 0, 4, 5."""
    loaded = load_plan(comparison())
    areas = {
        ("CartPole", Arm("hard", 0)): 0, ("CartPole", Arm("hard", 1)): 100,
        ("CartPole", Arm("hard", 2)): 50, ("Other", Arm("hard", 0)): 0,
        ("Other", Arm("hard", 1)): 4, ("Other", Arm("hard", 2)): 5,
        # 20 ahead is a fifth of the spread there; 2 behind is two fifths here.
        ("CartPole", Arm("other", 0)): 120, ("Other", Arm("other", 0)): 3,
        ("CartPole", Arm("other", 1)): 95, ("Other", Arm("other", 1)): 5,
    }  # fmt: skip
    return Scores(loaded, {arm: Seeds(s0=of - 1, s1=of + 1) for arm, of in areas.items()})


def test_the_best_constant_is_that_of_each_env(scores):
    assert scores.best_constant("CartPole") == Arm("hard", 1)
    assert scores.best_constant("Other") == Arm("hard", 2)


def test_one_arm_is_chosen_for_all_envs_by_shares_of_the_spread(scores):
    assert scores._standing(Arm("other", 0)) == pytest.approx((0.2 - 0.4) / 2)
    assert scores._standing(Arm("other", 1)) == pytest.approx((-0.05 + 0.0) / 2)
    assert scores.chosen("other") == Arm("other", 1)


def test_an_env_that_is_held_out_chooses_its_own_constant_alone(scores, comparison):
    path = comparison(
        ("[envs.Other]\n", "[envs.Other]\nheld_out = true\ntuning = {first = 7, count = 1}\n")
    )
    held = Scores(load_plan(path), scores._kept)
    assert held.chosen("other") == Arm("other", 0)
    wanted = [of for of in held.tuning() if of.env == "Other"]
    assert [(of.arm.group, of.seed) for of in wanted] == [("hard", 7)] * 3
    assert len([*held.tuning()]) == 2 * 5 + 3


def test_the_study_of_the_project_is_a_comparison():
    loaded = load_plan(Path(__file__).parents[3] / "docs/study/periods.toml")
    assert loaded.plan.seeds.numbers == range(5000, 5020)


def test_what_is_compared_is_every_arm_but_of_those_chosen_from_one(scores):
    assert [*scores.compared("Other")] == [
        Arm("hard", 0), Arm("hard", 1), Arm("hard", 2), Arm("other", 1), Arm("alone", 0),
    ]  # fmt: skip
    assert len([*scores.tuning()]) == 2 * 5 * 2
    assert len([*scores.fresh()]) == 7 * 3 + 5 * 2


def test_estimates_are_means_of_fresh_seeds(comparison):
    kept = {("CartPole", Arm("alone", 0)): Seeds(s0=1_000, s5000=1, s5001=2, s5002=6)}
    found = Scores(load_plan(comparison()), kept).estimate("CartPole", Arm("alone", 0), area)
    assert found.value == 3.0 and np.isfinite(found.interval).all()
