"""Scores by hand."""

from pathlib import Path

import numpy as np
import pytest

from targetnet.agents.experiments.compare.arms import area, final, quarter, second_half
from targetnet.agents.experiments.compare.plan import ComparedArm, load_plan
from targetnet.agents.experiments.compare.scores import Scores
from targetnet.agents.experiments.store import quarters_of
from tests.agents.experiments.compare.conftest import ArmsByHand, finished_run


class Seeds:
    def __init__(self, **areas):
        self.seeds = {int(n[1:]): seed(value) for n, value in areas.items()}


def seed(*values):
    return of_curve(*((i, float(v)) for i, v in enumerate(values, 1)))


def of_curve(*curve):
    return finished_run(*curve, env_steps=curve[-1][0])


def test_the_area_is_that_under_the_curve_whenever_it_was_evaluated():
    """0 up to 100, 5 on average up to 200 and 30 up to 400: 6,500 / 400."""
    found = of_curve((100, 0.0), (200, 10.0), (400, 50.0))
    assert area(found) == 16.25 and final(found) == 50
    # Another point on a straight line changes nothing.
    assert area(of_curve((100, 0.0), (150, 5.0), (200, 10.0), (400, 50.0))) == 16.25
    assert area(of_curve((7, 3.0))) == 3


def test_the_area_of_a_quarter_is_that_of_the_curve_between_its_borders():
    """0 up to 100, then to 40 at 200, and 40 up to 400."""
    found = of_curve((100, 0.0), (200, 40.0), (400, 40.0))
    assert [quarter(i, found) for i in range(4)] == [0, 20, 40, 40]
    assert second_half(found) == 40 and area(found) == 25
    # A border between two evaluations, 10 above the one before.
    assert quarter(1, of_curve((50, 0.0), (150, 20.0), (400, 20.0))) == (10 + 20) / 2 / 2 + 20 / 2


def test_what_a_curve_showed_is_its_mean_in_each_quarter():
    """A point on a border is of the quarter that begins there; the last one is of the last."""
    curve = [(0, 1.0), (99, 3.0), (100, 5.0), (300, 7.0), (400, 8.0)]
    found = quarters_of({"a": curve, "b": [], "c": [(1, float("inf"))]}, 400)
    assert found == {"a": [2.0, 5.0, None, 7.5], "b": [None] * 4, "c": [None] * 4}


@pytest.fixture
def scores(comparison):
    """Tuning areas: on CartPole 0, 100, 50 for the baseline, on Other 0, 4, 5."""
    loaded = load_plan(comparison())
    areas = {
        ("CartPole", ComparedArm("hard", 0)): 0, ("CartPole", ComparedArm("hard", 1)): 100,
        ("CartPole", ComparedArm("hard", 2)): 50, ("Other", ComparedArm("hard", 0)): 0,
        ("Other", ComparedArm("hard", 1)): 4, ("Other", ComparedArm("hard", 2)): 5,
        # 20 ahead is a fifth of the spread there; 2 behind is two fifths here.
        ("CartPole", ComparedArm("other", 0)): 120, ("Other", ComparedArm("other", 0)): 3,
        ("CartPole", ComparedArm("other", 1)): 95, ("Other", ComparedArm("other", 1)): 5,
    }  # fmt: skip
    kept = {arm: Seeds(s0=of - 1, s1=of + 1) for arm, of in areas.items()}
    return Scores(loaded.plan, ArmsByHand(kept))


def test_the_best_constant_is_that_of_each_env(scores):
    assert scores.choices.best_of_baseline("CartPole") == ComparedArm("hard", 1)
    assert scores.choices.best_of_baseline("Other") == ComparedArm("hard", 2)


def test_one_arm_is_chosen_for_all_envs_by_shares_of_the_spread(scores):
    standings = scores.choices._standings("other", scores.choices._seeds)[:, 0]
    assert standings.tolist() == pytest.approx([(0.2 - 0.4) / 2, (-0.05 + 0.0) / 2])
    assert scores.choices.chosen("other") == ComparedArm("other", 1)


def test_an_env_that_is_held_out_chooses_its_own_constant_alone(scores, comparison):
    path = comparison(
        ("[envs.Other]\n", "[envs.Other]\nheld_out = true\ntuning = {first = 7, count = 1}\n")
    )
    held = Scores(load_plan(path).plan, scores._finished)
    assert held.choices.chosen("other") == ComparedArm("other", 0)
    wanted = [of for of in held.choices.tuning() if of.env == "Other"]
    assert [(of.arm.group, of.seed) for of in wanted] == [("hard", 7)] * 3
    assert len([*held.choices.tuning()]) == 2 * 5 + 3


def test_the_study_of_the_project_is_a_comparison():
    loaded = load_plan(Path(__file__).parents[4] / "docs/study/periods.toml")
    assert loaded.plan.seeds.numbers == range(5000, 5020)


def test_what_is_compared_is_every_arm_but_of_those_chosen_from_one(scores):
    assert [*scores.compared("Other")] == [
        *(ComparedArm("hard", value) for value in range(3)), ComparedArm("other", 1),
        ComparedArm("alone", 0),
    ]  # fmt: skip
    assert len([*scores.choices.tuning()]) == 2 * 5 * 2
    assert len([*scores.fresh()]) == 7 * 3 + 5 * 2


def test_estimates_are_means_of_fresh_seeds(comparison):
    kept = {("CartPole", ComparedArm("alone", 0)): Seeds(s0=1_000, s5000=1, s5001=2, s5002=6)}
    found = Scores(load_plan(comparison()).plan, ArmsByHand(kept)).estimate(
        "CartPole", ComparedArm("alone", 0), area
    )
    assert found.value == 3.0 and np.isfinite(found.interval).all()


def test_how_firm_a_choice_is_are_shares_of_draws_of_tuning_seeds(comparison):
    """Two seeds, of which each decides for another arm: both drawn alike in a quarter each."""
    areas = {("CartPole", ComparedArm("hard", i)): 0 for i in range(3)}
    kept = {arm: Seeds(s0=of, s1=of) for arm, of in areas.items()}
    kept["CartPole", ComparedArm("hard", 1)] = Seeds(s0=10, s1=0)
    kept["CartPole", ComparedArm("hard", 2)] = Seeds(s0=0, s1=9)
    found = Scores(load_plan(comparison()).plan, ArmsByHand(kept)).choices.firmness_of_baseline(
        "CartPole"
    )
    assert [arm for arm, _ in found] == [ComparedArm("hard", 1), ComparedArm("hard", 2)]
    assert found[0][1] == pytest.approx(0.75, abs=0.04)
    assert sum(share for _, share in found) == 1


def test_the_best_of_all_constants_is_compared_too(scores, comparison):
    loaded = load_plan(
        comparison(('baseline = "hard"', 'baseline = "hard"\nconstants = ["other"]'))
    )
    both = Scores(loaded.plan, scores._finished)
    assert both.choices.best_of_constants("CartPole") == ComparedArm("other", 0)
    assert both.choices.best_of_constants("Other") == ComparedArm(
        "hard", 2
    )  # of two alike the first
    assert ComparedArm("other", 0) in both.compared("CartPole")
    assert ComparedArm("other", 0) not in both.compared("Other")


def test_what_tuning_seeds_promised_is_their_distance_from_the_best_constant(scores):
    assert scores.choices.promised("CartPole", ComparedArm("other", 0)) == 20
    assert scores.choices.promised("Other", ComparedArm("other", 0)) == -2
    assert scores.choices.promised("CartPole", ComparedArm("alone", 0)) is None
