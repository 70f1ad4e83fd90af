"""Live values: where they come from, what they may be, and what a refusal says."""

import math
from collections.abc import MutableMapping

import numpy as np
import pytest

from targetnet.rl_core.errors import (
    ArgumentError,
    BoundsError,
    RlCoreError,
    StaticHyperparameter,
    UnknownName,
)
from targetnet.rl_core.hyperparameters import BlocksKnob, Hyperparameters, Knob
from targetnet.rl_core.schedules import Constant, Geometric, Linear, Piecewise

SYNC_PERIOD = Knob("sync_period", "updates", "age of a copy", whole=True, at_least=1)
TAU = Knob("tau", "1", "share", above=0, at_most=1)
EPSILON = Knob("epsilon", "probability", "of a random action", at_least=0, at_most=1)
ANY = Knob("offset", "1", "anything")
FADING = Linear(start=1.0, end=0.0, steps=100)


def some_blocks(names):
    names = frozenset(names)
    if unknown := names - {"torso", "head"}:
        raise UnknownName(f"no block {sorted(unknown)}")
    return names


EXEMPT = BlocksKnob("exempt", some_blocks, ("torso", "head"))


@pytest.fixture
def live():
    return Hyperparameters(
        [SYNC_PERIOD, TAU, EPSILON, EXEMPT],
        {"sync_period": 500, "tau": 1.0, "epsilon": FADING, "exempt": frozenset()},
        static=["batch_size", "hidden"],
    )


# Where a value comes from.


def test_a_number_in_the_config_holds_until_it_is_set(live):
    live.env_step = 10_000
    assert live["sync_period"] == 500
    assert live.source("sync_period") == "config"
    live["sync_period"] = 50
    assert live["sync_period"] == 50
    assert live.source("sync_period") == "override"


def test_a_schedule_is_followed_as_the_env_steps_go_on(live):
    for env_step, epsilon in [(0, 1.0), (25, 0.75), (100, 0.0), (101, 0.0)]:
        live.env_step = env_step
        assert live["epsilon"] == pytest.approx(epsilon)
    assert live.source("epsilon") == "schedule"


def test_a_live_value_is_not_overwritten_by_a_schedule_at_the_next_step(live):
    live.env_step = 50
    live["epsilon"] = 0.9
    for env_step in (50, 51, 99, 100, 101, 10**6):
        live.env_step = env_step
        assert live["epsilon"] == 0.9
        assert dict(live)["epsilon"] == 0.9
    assert live.source("epsilon") == "override"


def test_auto_returns_to_the_schedule_at_the_present_env_step_not_where_it_was_left(live):
    live["epsilon"] = 0.9
    live.env_step = 75
    live["epsilon"] = "auto"
    assert live["epsilon"] == pytest.approx(0.25)
    assert live.source("epsilon") == "schedule"


def test_auto_returns_to_the_number_of_the_config(live):
    live["sync_period"] = 50
    live["sync_period"] = "auto"
    assert live["sync_period"] == 500
    assert live.source("sync_period") == "config"


def test_auto_on_a_value_that_was_never_set_changes_nothing(live):
    live["tau"] = "auto"
    assert live["tau"] == 1.0


def test_setting_one_value_leaves_the_others(live):
    live["sync_period"] = 50
    assert dict(live) == {
        "sync_period": 50,
        "tau": 1.0,
        "epsilon": 1.0,
        "exempt": frozenset(),
    }


def test_a_whole_number_may_have_a_schedule_and_is_then_rounded():
    live = Hyperparameters([SYNC_PERIOD], {"sync_period": Linear(start=1, end=4, steps=10)})
    got = []
    for env_step in (0, 1, 2, 4, 6, 10):
        live.env_step = env_step
        got.append(live["sync_period"])
    assert got == [1, 1, 2, 2, 3, 4]  # of 1, 1.3, 1.6, 2.2, 2.8, 4
    assert {type(value) for value in got} == {int}


def test_a_whole_number_with_a_geometric_or_piecewise_schedule_stays_whole():
    for schedule in (
        Geometric(start=1, end=1000, steps=7),
        Piecewise(points=[[0, 1], [7, 1000]]),
        Constant(value=3.0),
    ):
        live = Hyperparameters([SYNC_PERIOD], {"sync_period": schedule})
        for env_step in range(9):
            live.env_step = env_step
            assert type(live["sync_period"]) is int


def test_it_can_be_asked_what_there_is(live):
    names = ["sync_period", "tau", "epsilon", "exempt"]
    assert list(live) == names
    assert len(live) == 4
    assert "tau" in live and "batch_size" not in live and "tua" not in live
    assert live.knob("tau") is TAU


def test_it_is_a_mapping(live):
    assert isinstance(live, MutableMapping)
    assert list(live.keys()) == ["sync_period", "tau", "epsilon", "exempt"]
    assert dict(live.items()) == dict(live) == {
        "sync_period": 500, "tau": 1.0, "epsilon": 1.0, "exempt": frozenset()
    }  # fmt: skip
    assert list(live.values()) == [500, 1.0, 1.0, frozenset()]
    live.env_step = 50
    assert live.get("epsilon") == 0.5
    assert live.get("batch_size") is None and live.get("tua", 3) == 3


def test_an_update_sets_several_values(live):
    live.update({"tau": 0.5}, sync_period=50, epsilon="auto")
    live.update([("exempt", ["torso"])])
    assert live.overrides() == {"tau": 0.5, "sync_period": 50, "exempt": {"torso"}}


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("sync_period", 0, BoundsError),
        ("batch_size", 1, StaticHyperparameter),
        ("sync_perod", 1, UnknownName),
    ],
)
def test_an_update_with_one_bad_value_sets_none(live, name, value, error):
    with pytest.raises(error, match=name):
        live.update({"tau": 0.5, name: value, "epsilon": 0.5})
    assert live.overrides() == {} and live.revision == 0


@pytest.mark.parametrize("changes", [(5,), ("tau",), ({"tau": 1}, 2)], ids=str)
def test_an_update_by_something_else_is_one_line(live, changes):
    with pytest.raises(ArgumentError, match="update needs a dictionary of live values, got"):
        live.update(*changes)


@pytest.mark.parametrize(
    "delete",
    [lambda live: live.__delitem__("tau"), lambda live: live.pop("tau"), MutableMapping.clear],
    ids=["del", "pop", "clear"],
)
def test_a_value_cannot_be_deleted_and_one_line_says_how_to_go_back(live, delete):
    live["tau"] = 0.5
    with pytest.raises(StaticHyperparameter, match="cannot be deleted; set it to 'auto'"):
        delete(live)
    assert live["tau"] == 0.5


# What a value may be.


@pytest.mark.parametrize(
    ("knob", "good"),
    [
        (SYNC_PERIOD, [1, 2, 10**9]),
        (TAU, [1e-9, 0.5, 1.0]),
        (EPSILON, [0.0, 0.5, 1.0]),
        (ANY, [-1e38, 0.0, 1e38]),
        (Knob("sigma", "1", "rounded beyond both", at_least=0.01, at_most=0.1), [0.01, 0.1]),
        (Knob("discount", "1", "of later", at_least=0, below=1), [0.0, 0.999]),
    ],
    ids=lambda case: case.name if isinstance(case, Knob) else "",
)
def test_values_up_to_the_bounds_are_taken(knob, good):
    assert [knob.check(value) for value in good] == good


@pytest.mark.parametrize(
    ("knob", "bad"),
    [
        (SYNC_PERIOD, [0, -1]),
        (TAU, [0.0, -0.5, 1.0000001]),
        (EPSILON, [-1e-9, 1.0000001]),
        (Knob("discount", "1", "of later", at_least=0, below=1), [-0.1, 1.0]),
        # In float32 these are 1, and 0: what the graph would be fed.
        (Knob("decay", "1", "of weights", at_least=0, below=1), [0.99999999]),
        (Knob("temperature", "1", "of a policy", above=0), [1e-46, 1e-39]),
    ],
    ids=lambda case: case.name if isinstance(case, Knob) else "",
)
def test_values_beyond_the_bounds_are_refused(knob, bad):
    for value in bad:
        with pytest.raises(BoundsError):
            knob.check(value)


@pytest.mark.parametrize("knob", [SYNC_PERIOD, TAU, ANY], ids=lambda knob: knob.name)
@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, math.inf, -math.inf, True, False, "1", "", None, [1], 1j),
        *(np.nan, np.array([1.0]), np.bool_(True), np.complex64(1), np.str_("1")),
    ],
    ids=repr,
)
def test_what_is_no_finite_number_is_refused(knob, value):
    with pytest.raises(BoundsError):
        knob.check(value)


@pytest.mark.parametrize("knob", [SYNC_PERIOD, TAU, ANY], ids=lambda knob: knob.name)
def test_a_whole_number_too_large_for_a_float_is_refused(knob):
    """JSON and TOML can hold it; a float cannot."""
    with pytest.raises(BoundsError):
        knob.check(10**400)


@pytest.mark.parametrize("value", [2.5, 1e-3, 1.9999999])
def test_a_fraction_is_refused_where_a_whole_number_is_wanted(value):
    with pytest.raises(BoundsError, match="whole number"):
        SYNC_PERIOD.check(value)


@pytest.mark.parametrize("number", [np.int64(7), np.int32(7), np.uint8(7)])
def test_a_numpy_whole_number_becomes_an_int(number):
    assert SYNC_PERIOD.check(number) == 7
    assert type(SYNC_PERIOD.check(number)) is int


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), 1, np.int64(1)])
def test_any_real_number_becomes_a_float(number):
    assert TAU.check(number) == float(number)
    assert type(TAU.check(number)) is float


@pytest.mark.parametrize(
    ("knob", "bounds"),
    [(SYNC_PERIOD, ">= 1"), (TAU, "in (0, 1]"), (EPSILON, "in [0, 1]"), (ANY, "any number")],
    ids=lambda case: getattr(case, "name", case),
)
def test_bounds_read_as_people_write_them(knob, bounds):
    assert knob.bounds == bounds


def test_a_refusal_says_name_unit_bounds_and_what_came(live):
    with pytest.raises(BoundsError) as caught:
        live["sync_period"] = 0
    assert str(caught.value) == "sync_period must be a whole number of updates >= 1, got 0"
    with pytest.raises(BoundsError) as caught:
        live["epsilon"] = 1.5
    for part in ("epsilon", "probability", "[0, 1]", "1.5"):
        assert part in str(caught.value)


def test_a_refusal_of_what_has_no_bounds_still_reads_as_a_sentence():
    with pytest.raises(BoundsError, match=r"^offset must be (a|any) number, got nan$"):
        ANY.check(math.nan)


def test_a_refused_value_changes_nothing(live):
    live["sync_period"] = 50
    for value in (0, 2.5, math.nan, "fifty"):
        with pytest.raises(BoundsError):
            live["sync_period"] = value
    assert live["sync_period"] == 50
    with pytest.raises(BoundsError):
        live["tau"] = 2
    assert (live["tau"], live.source("tau")) == (1.0, "config")


# Blocks.


def test_blocks_may_be_given_as_a_collection_or_as_one_string():
    for value in (["torso", "head"], {"torso", "head"}, "torso,head", " torso , head "):
        assert EXEMPT.check(value) == {"torso", "head"}
    assert EXEMPT.check("torso") == {"torso"}
    assert EXEMPT.check("") == EXEMPT.check([]) == frozenset()


def test_a_set_of_blocks_is_an_override_like_any_other(live):
    live["exempt"] = "torso"
    assert live["exempt"] == {"torso"}
    live["exempt"] = "auto"
    assert live["exempt"] == frozenset()


def test_an_unknown_block_is_refused_by_name(live):
    with pytest.raises(UnknownName, match="tors"):
        live["exempt"] = ["tors"]
    assert live["exempt"] == frozenset()


@pytest.mark.parametrize("value", [3, None, 1.5, [1, 2], math.nan])
def test_what_is_no_collection_of_names_is_refused_in_words(live, value):
    with pytest.raises(RlCoreError, match=r"exempt|block"):
        live["exempt"] = value


# Names.


@pytest.mark.parametrize(
    "use",
    [
        lambda live: live["sync_perod"],
        lambda live: live.__setitem__("sync_perod", 5),
        lambda live: live.source("sync_perod"),
        lambda live: live.knob("sync_perod"),
        lambda live: live.__delitem__("sync_perod"),
    ],
    ids=["get", "set", "source", "knob", "delete"],
)
def test_an_unknown_name_is_refused_with_the_nearest(live, use):
    with pytest.raises(UnknownName, match=r"sync_perod.*did you mean 'sync_period'"):
        use(live)


def test_a_static_name_is_refused_with_what_to_do(live):
    with pytest.raises(StaticHyperparameter) as caught:
        live["batch_size"] = 128
    message = str(caught.value)
    assert "batch_size" in message
    assert "config" in message or "new run" in message


def test_auto_is_refused_for_a_static_and_an_unknown_name_too(live):
    with pytest.raises(StaticHyperparameter):
        live["hidden"] = "auto"
    with pytest.raises(UnknownName):
        live["hiden"] = "auto"
