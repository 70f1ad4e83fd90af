"""Schedules at their corners, by hand."""

import pytest
from pydantic import TypeAdapter

from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.schedules import Constant, Geometric, Linear, Piecewise, Schedule

LINEAR = Linear(start=1.0, end=0.0, steps=4)
LATE = Linear(start=1.0, end=3.0, steps=2, begin=10)
GEOMETRIC = Geometric(start=8.0, end=0.5, steps=4)
LINES = Piecewise(points=[[10, 0.0], [20, 1.0], [40, 0.0]])
STAIRS = Piecewise(points=[[10, 0.0], [20, 1.0], [40, 0.5]], between="hold")

VALUES = [
    (Constant(value=0.3), {0: 0.3, 1: 0.3, 10**9: 0.3}),
    (LINEAR, {0: 1.0, 1: 0.75, 2: 0.5, 3: 0.25, 4: 0.0, 5: 0.0, 10**9: 0.0}),
    (LATE, {0: 1.0, 9: 1.0, 10: 1.0, 11: 2.0, 12: 3.0, 13: 3.0}),
    (GEOMETRIC, {0: 8.0, 1: 4.0, 2: 2.0, 3: 1.0, 4: 0.5, 5: 0.5}),  # halved at every step
    (Geometric(start=1.0, end=100.0, steps=2, begin=5), {0: 1.0, 5: 1.0, 6: 10.0, 7: 100.0}),
    (LINES, {0: 0.0, 10: 0.0, 15: 0.5, 20: 1.0, 25: 0.75, 30: 0.5, 40: 0.0, 99: 0.0}),
    (STAIRS, {0: 0.0, 10: 0.0, 19: 0.0, 20: 1.0, 39: 1.0, 40: 0.5, 99: 0.5}),
    (Piecewise(points=[[5, 2.0]]), {0: 2.0, 5: 2.0, 6: 2.0}),
]


def kind_and_begin(case):
    return type(case).__name__ if not isinstance(case, dict) else ""


@pytest.mark.parametrize(("schedule", "values"), VALUES, ids=kind_and_begin)
def test_a_schedule_has_its_hand_computed_values(schedule, values):
    got = {env_step: schedule.value_at(env_step) for env_step in values}
    assert got == pytest.approx(values)


def test_a_ramp_ends_exactly_at_its_end():
    """A learning rate of almost 1e-5 would be one that no comparison finds."""
    for kind in (Linear, Geometric):
        ramp = kind(start=2.3e-3, end=1e-5, steps=50_000)
        assert ramp.value_at(0) == 2.3e-3
        assert ramp.value_at(50_000) == 1e-5
        assert ramp.value_at(50_001) == 1e-5


@pytest.mark.parametrize("kind", [Linear, Geometric])
@pytest.mark.parametrize(("start", "end"), [(0.1, 0.7), (0.7, 0.1), (1.0, 0.04)])
def test_a_ramp_never_leaves_its_extremes(kind, start, end):
    ramp = kind(start=start, end=end, steps=1_000)
    low, high = ramp.extremes()
    assert all(low <= ramp.value_at(step) <= high for step in range(1_002))


def test_extremes_are_the_smallest_and_largest_value_there_ever_is():
    assert Constant(value=0.3).extremes() == (0.3, 0.3)
    assert LINEAR.extremes() == (0.0, 1.0)
    assert LATE.extremes() == (1.0, 3.0)
    assert GEOMETRIC.extremes() == (0.5, 8.0)
    assert LINES.extremes() == (0.0, 1.0)  # the middle corner is the highest
    assert STAIRS.extremes() == (0.0, 1.0)


def test_points_are_joined_by_lines_unless_told_to_hold():
    assert LINES.between == "line"


@pytest.mark.parametrize(
    "table",
    [
        {"schedule": "constant", "value": 1.0},
        {"schedule": "linear", "start": 1.0, "end": 0.0, "steps": 4, "begin": 2},
        {"schedule": "geometric", "start": 1.0, "end": 0.1, "steps": 4},
        {"schedule": "piecewise", "points": [[0, 1.0], [5, 0.0]], "between": "hold"},
    ],
    ids=lambda table: table["schedule"],
)
def test_a_table_is_read_by_the_name_of_its_schedule_and_written_back_equal(table):
    adapter = TypeAdapter(Schedule)
    schedule = adapter.validate_python(table)
    assert type(schedule).__name__.lower() == table["schedule"]
    assert adapter.validate_python(schedule.model_dump(mode="json")) == schedule


@pytest.mark.parametrize(
    "make",
    [
        lambda: Linear(start=1.0, end=0.0, steps=0),
        lambda: Linear(start=1.0, end=0.0, steps=4, begin=-1),
        lambda: Linear(start=float("nan"), end=0.0, steps=4),
        lambda: Linear(start=1.0, end=float("inf"), steps=4),
        lambda: Geometric(start=1.0, end=0.0, steps=4),
        lambda: Geometric(start=-1.0, end=1.0, steps=4),
        lambda: Constant(value=float("nan")),
        lambda: Piecewise(points=[]),
        lambda: Piecewise(points=[[5, 1.0], [5, 2.0]]),
        lambda: Piecewise(points=[[5, 1.0], [4, 2.0]]),
        lambda: Piecewise(points=[[-1, 1.0]]),
        lambda: Piecewise(points=[[0, float("inf")]]),
        lambda: Piecewise(points=[[0, 1.0]], between="spline"),
        lambda: Linear(start=1.0, end=0.0, steps=4, power=2),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(make):
    """In one line: the class's name, the key, what was wanted, what was given."""
    with pytest.raises(ConfigError, match=r"^(Linear|Geometric|Constant|Piecewise): [^\n]+$"):
        make()


# Shares of a run.

SHARE = Linear(start=1.0, end=0.0, fraction=0.8)
SHARES = Piecewise(fractions=[[0, 1.0], [0.25, 0.5], [1, 0.0]], between="hold")


def test_a_share_becomes_env_steps_once_the_length_of_the_run_is_known():
    assert SHARE.over(1_000) == Linear(start=1.0, end=0.0, steps=800, fraction=0.8)
    assert SHARES.over(80).points == ((0, 1.0), (20, 0.5), (80, 0.0))
    assert Geometric(start=1.0, end=0.1, fraction=0.35).over(10).steps == 4  # 3.5, to even
    assert SHARE.over(1_000).value_at(400) == 0.5
    assert SHARES.over(80).corners() == (20, 80)


def test_env_steps_that_a_schedule_has_stay_whatever_the_run_becomes():
    assert SHARE.over(1_000).over(2_000) == SHARE.over(1_000)
    assert LINEAR.over(1_000) == LINEAR
    assert LINES.over(1_000) == LINES
    assert Constant(value=1.0).over(5) == Constant(value=1.0)


def test_in_shares_a_schedule_waits_for_another_length():
    assert SHARE.over(1_000).in_shares() == SHARE
    assert SHARES.over(1_000).in_shares().over(40).points == ((0, 1.0), (10, 0.5), (40, 0.0))
    assert LINEAR.in_shares() == LINEAR and LINES.in_shares() == LINES


@pytest.mark.parametrize("env_steps", [1, 2, 2**63 - 1])
def test_a_share_fits_the_shortest_and_the_longest_run(env_steps):
    """In a run of one env step two shares are the same step; the last one counts."""
    assert 1 <= Linear(start=1.0, end=0.0, fraction=1e-9).over(env_steps).steps <= env_steps
    assert SHARE.model_copy(update={"fraction": 1.0}).over(env_steps).steps == env_steps
    points = SHARES.over(env_steps).points
    assert points[-1] == (env_steps, 0.0)
    assert [step for step, _ in points] == sorted({step for step, _ in points})


@pytest.mark.parametrize("ask", [lambda s: s.value_at(3), lambda s: s.corners()])
@pytest.mark.parametrize("schedule", [SHARE, SHARES])
def test_a_share_has_no_value_before_and_says_so(schedule, ask):
    with pytest.raises(ConfigError, match=r"of the run.*; schedule.over\(env_steps\) gives"):
        ask(schedule)


def test_a_schedule_in_shares_shows_them_and_is_written_without_absent_keys():
    assert str(SHARE) == "linear from 1 to 0 over 0.8 of the run"
    assert (
        str(SHARES)
        == "piecewise, hold: 1 at 0 of the run, 0.5 at 0.25 of the run, 0 at 1 of the run"
    )
    assert str(SHARE.over(1_000)) == "linear from 1 to 0 over env steps 0 to 800"
    assert "steps" not in SHARE.model_dump() and "fraction" not in LINEAR.model_dump()
    assert "points" not in SHARES.model_dump() and "fractions" not in LINES.model_dump()
    assert SHARES.extremes() == (0.0, 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linear(start=1.0, end=0.0), "steps is missing, or fraction, a share of the run"),
        (lambda: Piecewise(), "points is missing, or fractions, with shares of the run"),
        (lambda: Linear(start=1.0, end=0.0, fraction=0.0), "fraction should be greater than 0"),
        (lambda: Linear(start=1.0, end=0.0, fraction=1.1), "fraction should be less than or equal"),
        (lambda: Piecewise(fractions=[[0.5, 1.0], [0.2, 1.0]]), r"shares .* must rise, got \[0.5"),
        (lambda: Linear(start=1.0, end=0.0, fractoin=0.5), "did you mean 'fraction'"),
    ],
)
def test_a_share_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(value="1"), "Constant: value should be a number, got '1'"),
        (lambda: Constant(value=True), "Constant: value should be a number, got True"),
        (lambda: Linear(start=1, end=0, steps="5"), "steps should be a whole number, got '5'"),
        (lambda: Linear(start=1, end=0, steps=5.0), "steps should be a whole number, got 5.0"),
        (lambda: Linear(start=1, end=0, fraction=True), "fraction should be a number, got True"),
        (
            lambda: Piecewise(points=[[0, 1], ["4", 0]]),
            "points.1.0 should be a whole number, got '",
        ),
        (lambda: Piecewise(points=[[0, True]]), "points.0.1 should be a number, got True"),
        (lambda: Piecewise(fractions=[["0", 1]]), "fractions.0.0 should be a number, got '0'"),
        (lambda: Piecewise(points=[]), r"Piecewise: points should have at least 1 item, got \[\]"),
        (
            lambda: Piecewise(points=[[0, 1, 2]]),
            r"points.0 should have at most 2 items, got \[0, 1, 2\]",
        ),
    ],
)
def test_numbers_are_not_made_of_texts_nor_of_true_and_false(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_lists_and_whole_numbers_serve_as_in_toml():
    assert Piecewise(points=[[0, 1], [4, 0]]) == Piecewise(points=((0, 1.0), (4, 0.0)))
    assert Piecewise(fractions=[[0, 1], [1, 0]]).fractions == ((0.0, 1.0), (1.0, 0.0))
    assert type(Linear(start=1, end=0, steps=5).start) is float


def test_a_schedule_cannot_be_changed_afterwards():
    with pytest.raises(ConfigError, match="a Linear cannot be changed"):
        LINEAR.start = 2.0
