"""Who copies whom in an exchange, and how live values change: by hand."""

import collections

import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.pbt import PbtKeys, knobs_of
from targetnet.agents.population.truncation import MemberScore, decided, perturbed
from targetnet.rl_core.hyperparameters import Knob

KNOBS = {
    knob.name: knob
    for knob in [
        *DqnConfig.knobs(),
        Knob("share", "1", "", at_least=0.0, at_most=1.0),
        Knob("steps", "1", "", whole=True, at_least=2, at_most=9),
    ]
}


@pytest.mark.parametrize(
    ("name", "value", "factor", "wanted"),
    [
        ("learning_rate", 0.5, 1.25, 0.625),
        ("learning_rate", 0.5, 0.8, 0.4),
        ("sync_period", 100, 1.25, 125),  # a whole number stays one
        ("sync_period", 10, 1.25, 12),  # 12.5: the even one of the two nearest
        ("sync_period", 2, 1.25, 3),  # 2.5 would be 2 again: by at least 1
        ("sync_period", 2, 0.8, 1),  # 1.6 would be 2 again
        ("sync_period", 1, 0.8, 1),  # 0 is below the bound, which is 1
        ("sync_period", 4, 1.0, 4),
        ("steps", 8, 1.25, 9),  # 10 is above the bound
        ("share", 0.9, 1.25, 1.0),  # the bound itself is allowed
        ("ema_decay", 0.9, 1.25, 0.9),  # 1 itself is not
        ("discount", 0.99, 1.25, 1.0),
        ("learning_rate", 3e38, 1.25, 3e38),  # beyond float32
        ("learning_rate", 1e300, 1e300, 1e300),  # beyond any float
        ("share", 0.0, 1.25, 0.0),
        ("munchausen_clip", -1.0, 1.25, -1.25),
    ],
)
def test_a_live_value_is_multiplied_and_stays_within_its_bounds(name, value, factor, wanted):
    got = perturbed(KNOBS[name], value, factor)
    assert got == wanted and type(got) is type(wanted)


def members(*scores, rate=1.0):
    values = {"learning_rate": rate}
    return {f"m{n:02}": MemberScore(score, values) for n, score in enumerate(scores)}


def pairs(scores, number=1, seed=0, **more):
    pbt = PbtKeys(period=10, perturb=("learning_rate",), **more)
    knobs = {"learning_rate": KNOBS["learning_rate"]}
    chosen = decided(pbt, seed, number, members(*scores), knobs)
    return {name: of.giver for name, of in chosen.items()}


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ([3.0, 1.0, 2.0, 4.0], {"m01": "m03"}),
        ([3.0, 1.0, 2.0, 4.0, None], {"m01": "m03"}),  # one without a score is left out
        ([None, 1.0, 2.0, 4.0], {}),  # a quarter of three is none
        ([1.0, 1.0, 4.0, 4.0], {"m00": "m03"}),  # of equal ones the first is the lower one
        ([2.0, 2.0, 2.0, 2.0], {}),  # nobody is better
        ([], {}),
    ],
)
def test_the_lowest_quarter_copies_the_highest(scores, wanted):
    assert pairs(scores) == wanted


def test_half_of_the_members_may_copy_the_other_half():
    chosen = pairs([4.0, 1.0, 3.0, 2.0], share=0.5)
    assert chosen.keys() == {"m01", "m03"} and {*chosen.values()} <= {"m00", "m02"}


def test_who_is_copied_is_drawn_evenly_by_seed_exchange_and_member_alone():
    scores = [float(n) for n in range(16)]
    counts = collections.Counter()
    for number in range(1, 251):
        chosen = pairs(scores, number)
        assert chosen.keys() == {"m00", "m01", "m02", "m03"}
        counts.update(chosen.values())
    assert counts.keys() == {"m12", "m13", "m14", "m15"}
    # 1,000 draws of four: 250 each, with a standard deviation of 14.
    assert all(180 < count < 320 for count in counts.values())
    assert pairs(scores, 7) == pairs(scores, 7) != pairs(scores, 8)
    assert pairs(scores, 7, seed=1) != pairs(scores, 7, seed=2)


def test_values_are_the_givers_times_a_factor_that_is_drawn():
    pbt = PbtKeys(period=10, perturb=("learning_rate", "sync_period"), factors=(0.5, 2.0))
    knobs = knobs_of(DqnConfig(), pbt.perturb)
    seen = collections.Counter()
    for number in range(1, 101):
        at = {
            f"m{n:02}": MemberScore(
                float(n), {"learning_rate": 10.0**-n, "sync_period": 8 * (n + 1)}
            )
            for n in range(4)
        }
        ((name, (giver, values)),) = decided(pbt, 3, number, at, knobs).items()
        assert (name, giver) == ("m00", "m03")
        seen[values["learning_rate"], values["sync_period"]] += 1
    # m03 has 0.001 and 32; a factor for each value.
    assert seen.keys() == {(5e-4, 16), (5e-4, 64), (2e-3, 16), (2e-3, 64)}
    assert min(seen.values()) > 10
