"""Tables of seeds that differ by hand."""

import numpy as np
import pytest

from targetnet.agents.experiments.compare.arms import area
from targetnet.agents.experiments.compare.plan import ComparedArm, load_plan
from targetnet.agents.experiments.compare.scores import Scores
from targetnet.agents.experiments.compare.tables import Tables
from tests.agents.experiments.compare.conftest import ArmsByHand, finished_run

FRESH, TUNING = (*range(5_000, 5_010),), (0, 1)
NOISE = np.float64([-3, -2, -1.5, -1, -0.5, 0.5, 1, 1.5, 2, 3])  # mean 0


class Seeds:
    def __init__(self, fresh, tuning):
        self.seeds = {
            n: seed(of) for n, of in zip((*TUNING, *FRESH), (*tuning, *fresh), strict=True)
        }


def seed(value):
    return finished_run((5, value), (10, value), env_steps=10)


@pytest.fixture
def tables(comparison):
    """On each env `other` is ahead of the best constant by a little, `alone` is behind by much."""

    def made(*changes):
        path = comparison(
            ("seeds = {first = 5000, count = 3}", "seeds = {first = 5000, count = 10}"),
            ("seeds = {first = 5000, count = 2}\n", ""),
            *changes,
        )
        kept = {}
        for env in ("CartPole", "Other"):
            for i, of in enumerate((5, 10, 0)):
                kept[env, ComparedArm("hard", i)] = Seeds(np.full(10, of), (of - 1, of + 1))
            kept[env, ComparedArm("other", 0)] = Seeds(10 + NOISE, (4, 6))
            kept[env, ComparedArm("other", 1)] = Seeds(11.55 + NOISE, (14, 16))
            kept[env, ComparedArm("alone", 0)] = Seeds(6 + NOISE, (0, 0))
        return Tables(plan := load_plan(path).plan, Scores(plan, ArmsByHand(kept)))

    return made


BEST = {"CartPole": ComparedArm("hard", 1), "Other": ComparedArm("hard", 1)}


def test_a_difference_is_bold_if_it_holds_among_all_of_its_family(tables):
    """Ahead by 1.55 with a deviation of 1.915: t = 2.56 with nine degrees, p = 0.031."""
    found = tables().differences(["other", "alone"], area, BEST, ["other", "alone"])
    other, alone = [line.split("|")[1:-1] for line in found.splitlines()[2:]]
    assert other[1].strip() == "+1.55 [+0.18, +2.92]"  # its interval leaves 0 out
    assert [cell.strip() for cell in other[3:]] == ["0", "0"]
    assert alone[2].strip() == "**-4.00 [-5.37, -2.63]**"
    assert [cell.strip() for cell in alone[3:]] == ["0", "2"]


def test_alone_in_its_family_the_same_difference_is_bold(tables):
    one = {"CartPole": BEST["CartPole"]}
    found = tables().differences(["other"], area, one, ["other"])
    assert "| **+1.55 [+0.18, +2.92]** | - | 1 | 0 |" in found


def test_promises_are_of_tuning_seeds_and_stand_beside_what_was_kept(tables):
    """The best constant had 10 on tuning seeds, other 15; one without tuning seeds has no row."""
    found = tables().promises(["other", "alone"], BEST).splitlines()
    assert found[2:] == ["| another | +5.00 → +1.55 | +5.00 → +1.55 |"]


def test_a_single_tuning_seed_says_nothing_of_how_firm_a_choice_is(tables):
    text = "\n".join(
        tables(("tuning = {first = 0, count = 2}", "tuning = {first = 0, count = 1}")).choices()
    )
    assert "| CartPole | `hard-100` | - |" in text and "100%" not in text
