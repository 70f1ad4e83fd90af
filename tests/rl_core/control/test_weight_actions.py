"""Actions on the weights as commands: the words after them, and those that a config plans."""

import math

import pytest

from targetnet.rl_core.control.commands import (
    BadCommand,
    as_value,
    do_command,
    dump,
    parse_command,
    words_of,
)
from targetnet.rl_core.control.log import Entry
from targetnet.rl_core.control.timetable import PlannedAction
from targetnet.rl_core.errors import BoundsError
from tests.rl_core.control.conftest import Bench

WORDS = [
    # action, value -> number, block
    ("reset", "head", (None, "head")),
    ("reset", "all", (None, "all")),
    ("perturb", 0.8, (0.8, "all")),
    ("perturb", "0.8", (0.8, "all")),
    ("perturb", "0.8 torso", (0.8, "torso")),
    ("recycle", None, (0.1, "all")),
    ("recycle", 0, (0.0, "all")),
    ("recycle", "torso", (0.1, "torso")),
    ("recycle", "0.025 torso", (0.025, "torso")),
]
BAD = [
    (
        "reset",
        None,
        "reset takes the name of a block, as in `reset head`, or `reset all`, got noth",
    ),
    ("reset", 3, "got 3"),
    ("reset", "head torso", "got 'head torso'"),
    ("perturb", None, "perturb takes a factor above 0 and below 1, .* got nothing"),
    ("perturb", 0, "got 0"),
    ("perturb", 1, "got 1"),
    ("perturb", 1.5, "got 1.5"),
    ("perturb", "torso", "got 'torso'"),
    ("perturb", "torso 0.8", "got 'torso 0.8'"),
    ("perturb", "0.8 torso head", "got '0.8 torso head'"),
    ("recycle", -0.1, "recycle takes perhaps a threshold >= 0, .* got -0.1"),
    ("recycle", "0.1 0.2 torso", "got '0.1 0.2 torso'"),
]


@pytest.mark.parametrize(("action", "value", "wanted"), WORDS)
def test_the_words_after_an_action_are_a_number_and_a_block(action, value, wanted):
    assert words_of(action, value) == wanted
    command = do_command(action, "cli", value)
    assert parse_command(dump(command)) == command


@pytest.mark.parametrize(("action", "value", "problem"), BAD)
def test_other_words_are_refused_in_one_line_by_sender_and_run(action, value, problem):
    with pytest.raises(BoundsError, match=problem):
        words_of(action, value)
    with pytest.raises(BadCommand, match=problem) as error:
        do_command(action, "cli", value)
    assert "\n" not in str(error.value)
    good = dump(do_command("stop", "cli"))
    forged = good.replace(b'"stop"', b'"%s"' % action.encode())
    if isinstance(value, str):
        forged = forged.replace(b"null", b'"%s"' % value.encode())
    elif value is not None:
        forged = forged.replace(b"null", str(value).encode())
    with pytest.raises(BadCommand, match=problem):
        parse_command(forged)


@pytest.mark.parametrize(
    ("action", "value", "problem"),
    [
        ("rewind", 0, "rewind takes a whole number of snapshots >= 1, got 0"),
        ("rewind", 1.5, "got 1.5"),
        ("rewind", "head", "got 'head'"),
        ("sync", 3, "sync takes nothing after it, got 3"),
        ("stop", "now", "got 'now'"),
        ("reset", ["head"], "value: "),
        ("perturb", math.nan, "value: "),
        ("perturb", True, "value: "),
    ],
)
def test_each_action_takes_its_own_words(action, value, problem):
    with pytest.raises(BadCommand, match=problem):
        do_command(action, "cli", value)


@pytest.mark.parametrize(
    ("number", "block", "value"),
    [(None, None, None), (0.8, None, 0.8), (None, "head", "head"), (0.1, "head", "0.1 head")],
)
def test_a_number_and_a_block_become_the_value_of_a_command(number, block, value):
    assert as_value(number, block) == value


def test_entries_say_what_was_done():
    def said(name, value=None, old=None, new=None):
        return Entry(
            id="x", asked=0, time=0, who="cli", kind="do", name=name, value=value, old=old,
            new=new, tick=1, env_step=1_200, update=300,
        ).describe()  # fmt: skip

    where = "at update 300 (env step 1,200)"
    assert said("reset", "head") == f"reset head {where}"
    assert said("perturb", "0.8 torso") == f"perturb 0.8 torso {where}"
    assert said("recycle", None, 7, 512) == f"recycle: 7 of 512 units {where}"
    assert said("recycle", 0.05, 7, 512) == f"recycle 0.05: 7 of 512 units {where}"


@pytest.fixture(autouse=True)
def every_safe_point(monkeypatch):
    """The inbox is looked into at every safe point."""
    monkeypatch.setattr("targetnet.rl_core.control.steering.POLL_SECONDS", 0.0)


PLANNED = PlannedAction("reset", "head", every=100, until=350)


@pytest.mark.parametrize(
    ("env_step", "last", "following"),
    [(0, 0, 100), (99, 0, 100), (100, 100, 200), (250, 200, 300), (300, 300, math.inf),
     (349, 300, math.inf), (900, 300, math.inf)],
)  # fmt: skip
def test_a_planned_action_is_due_at_every_multiple_up_to_its_end(env_step, last, following):
    assert (PLANNED.last(env_step), PLANNED.next(env_step)) == (last, following)


def test_planned_actions_come_once_each_and_before_the_commands_there(tmp_path):
    recycle = PlannedAction("recycle", 0.1, every=6)
    bench = Bench(
        tmp_path / "run", planned=[PlannedAction("reset", "head", every=4, until=9), recycle]
    )
    for tick in range(1, 13):
        if tick == 4:
            bench.command(do="perturb", value=0.5)
        bench.move()
    made = [(e.env_step, e.name, e.value, e.who) for e in bench.log if e.kind == "do"]
    assert made == [
        (4, "reset", "head", "schedule"),
        (4, "perturb", 0.5, "cli"),
        (6, "recycle", 0.1, "schedule"),
        (8, "reset", "head", "schedule"),
        (12, "recycle", 0.1, "schedule"),
    ]
    ids = [e.id for e in bench.log if e.who == "schedule"]
    assert ids == [
        "schedule-reset-0-4", "schedule-recycle-1-6", "schedule-reset-0-8",
        "schedule-recycle-1-12",
    ]  # fmt: skip


def test_several_multiples_between_two_safe_points_are_one_action(tmp_path):
    bench = Bench(tmp_path / "run", planned=[PlannedAction("reset", "head", every=10)])
    for tick in (25, 26, 61):  # a chunk of the compiled loop may make hundreds of env steps
        bench.run.tick = bench.live.env_step = tick
        bench.steering.safe_point()
    assert [(e.id, e.env_step) for e in bench.log] == [
        ("schedule-reset-0-20", 25),
        ("schedule-reset-0-60", 61),
    ]


def test_a_resumed_run_plans_what_came_after_its_checkpoint(tmp_path):
    planned = [PlannedAction("reset", "head", every=4)]
    bench = Bench(tmp_path / "run", planned=planned)
    bench.move(9)
    bench.steering.close()
    again = Bench(tmp_path / "run", planned=planned)  # killed after 9, its checkpoint is of 4
    again.live.env_step = again.run.tick = 4
    again.steering.close()
    again.steering = type(again.steering)(again.live, again.files, again.run, planned=planned)
    again.move(8)
    assert again.run.done == ["reset", "reset"]  # at 8 and at 12; that of 4 is in the checkpoint
    assert [e.env_step for e in again.log] == [4, 8, 12]  # 8 is not logged twice


def test_an_impossible_planned_action_is_logged_as_refused(tmp_path):
    bench = Bench(tmp_path / "run", planned=[PlannedAction("resume", None, every=3)])
    bench.move(3)
    (entry,) = bench.log
    assert not entry.taken and entry.reason == "the run is not paused"
