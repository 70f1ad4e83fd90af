"""What becomes of a command: applied once, at a safe point, and one line in the log."""

import json
import threading

import pytest

from targetnet.rl_core.control.changes import Refused
from targetnet.rl_core.control.commands import ACTIONS, do_command, set_command
from targetnet.rl_core.control.files import submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.errors import BoundsError, StaticHyperparameter, UnknownName
from tests.rl_core.control.entries import entry


def test_a_set_is_in_force_after_the_next_safe_point_and_not_before(bench):
    bench.command(name="sync_period", value=50)
    assert bench.live["sync_period"] == 500
    bench.move()
    assert bench.live["sync_period"] == 50


def test_the_log_has_who_what_and_where(bench):
    bench.move(4)
    ident = bench.command(name="sync_period", value=50, who="board")
    bench.move()
    (line,) = [json.loads(x) for x in bench.files.log.read_text().splitlines()]
    assert line["id"] == ident and line["who"] == "board" and line["taken"] is True
    assert (line["name"], line["old"], line["new"], line["value"]) == ("sync_period", 500, 50, 50)
    assert (line["tick"], line["env_step"], line["update"]) == (5, 5, 10)
    assert line["time"] >= line["asked"] > 1e9


def test_an_answered_command_leaves_the_inbox(bench):
    bench.command(1, name="sync_period", value=50)
    bench.command(2, name="sync_period", value=0)
    bench.move()
    assert bench.inbox == []


def test_commands_are_answered_in_the_order_of_their_names(bench):
    for number, value in ((3, 30), (1, 10), (2, 20)):
        bench.command(number, name="sync_period", value=value)
    bench.move()
    assert [entry.new for entry in bench.log] == [10, 20, 30]
    assert bench.live["sync_period"] == 30


def test_a_command_that_is_withdrawn_while_the_one_before_is_answered_is_not_applied(bench):
    """Its sender has read that it was withdrawn, and may send it again."""
    bench.command(1, name="sync_period", value=50)
    second = f"{2:032x}"
    bench.command(2, name="tau", value=0.5)
    tried = bench.steering._changes.carry_out

    def slowly(*of, **more):
        (bench.files.inbox / f"{2:017d}-{second}.json").unlink()
        return tried(*of, **more)

    bench.steering._changes.carry_out = slowly
    bench.move()
    assert [entry.name for entry in bench.log] == ["sync_period"]
    assert bench.live["tau"] == 1


REFUSED = [
    ("sync_period", 0, ">= 1"),
    ("sync_period", 2.5, "whole"),
    ("sync_period", 2**63, "int64"),
    ("sync_period", "often", "often"),
    ("tau", 0, "(0, 1]"),
    ("tau", 10**400, "tau"),
    ("batch_size", 3, "--set batch_size"),
    ("sync_perod", 3, "did you mean 'sync_period'"),
    ("exempt", ["torse"], "torse"),
    ("exempt", 3, "names of blocks"),
]


@pytest.mark.parametrize(("name", "value", "reason"), REFUSED, ids=lambda x: str(x)[:20])
def test_a_refusal_changes_nothing_and_is_logged_with_its_reason(bench, name, value, reason):
    before = dict(bench.live)
    bench.command(name=name, value=value)
    bench.move()
    (entry,) = bench.log
    assert not entry.taken and reason in entry.reason and "\n" not in entry.reason
    bench.live.env_step = 0
    assert dict(bench.live) == before


def test_auto_returns_to_the_schedule_as_it_is_by_then(bench):
    bench.command(1, name="epsilon", value=0.7)
    bench.move(500)
    assert bench.live["epsilon"] == 0.7
    bench.command(2, name="epsilon", value="auto")
    bench.move()
    assert bench.live["epsilon"] == pytest.approx(1 - 0.9 * 0.501)
    assert bench.log[-1].new == pytest.approx(1 - 0.9 * 0.501)


def test_a_change_from_outside_is_not_overwritten_by_a_schedule_at_the_next_step(bench):
    """Stable-Baselines3 sets the learning rate from its schedule before every update."""
    bench.command(name="epsilon", value=0.25)
    for _ in range(20):
        bench.move()
        assert bench.live["epsilon"] == 0.25


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_is_done_once(bench, action):
    if action == "resume":
        bench.run.paused = True
    bench.command(do=action, value={"reset": "head", "perturb": 0.5}.get(action))
    bench.move(3)
    assert bench.run.done == [action]
    assert [(e.kind, e.name, e.taken) for e in bench.log] == [("do", action, True)]


def test_an_action_that_cannot_be_done_is_refused_with_the_runs_own_reason(bench):
    bench.command(do="resume")
    bench.move()
    assert bench.log[0].reason == "the run is not paused"


# Once, whatever happens.


def test_the_same_id_twice_is_applied_once(bench):
    bench.command(7, name="sync_period", value=50)
    bench.move()
    bench.live["sync_period"] = 60
    ident = f"{7:032x}"
    bench.put(
        f"99-{ident}.json", {"id": ident, "time": 1.0, "who": "cli", "name": "tau", "value": 0.1}
    )
    bench.move()
    assert bench.live["tau"] == 1.0 and bench.inbox == []
    assert [entry.id == ident for entry in bench.log] == [True, False]


def test_a_crash_between_log_and_removal_does_not_apply_it_again(bench, make_bench):
    bench.command(name="sync_period", value=50)
    command_file = next(bench.files.inbox.iterdir())
    kept = command_file.read_bytes()
    bench.move()
    bench.steering.close()
    command_file.write_bytes(kept)  # as if the process had died before removing it
    again = make_bench(bench.files.run)
    again.move()
    assert again.live["sync_period"] == 500  # of the new process's config
    assert len(again.log) == 1 and again.inbox == []


def test_the_log_is_written_before_the_file_is_removed(bench, monkeypatch):
    seen = []
    remove = bench.steering._inbox.remove
    monkeypatch.setattr(
        bench.steering._inbox, "remove", lambda x: (seen.append(len(bench.log)), remove(x))
    )
    bench.command(name="sync_period", value=50)
    bench.move()
    assert seen == [1]


def test_a_second_process_on_the_same_directory_is_refused(bench, make_bench):
    from targetnet.rl_core.errors import RunDirError

    with pytest.raises(RunDirError, match="another process"):
        make_bench(bench.files.run)


# From Python.


def test_setting_from_python_goes_through_the_same_door(bench):
    bench.move(3)
    bench.live["sync_period"] = 50
    (entry,) = bench.log
    assert (entry.who, entry.name, entry.old, entry.new) == ("api", "sync_period", 500, 50)
    assert (entry.tick, entry.env_step, entry.update, entry.taken) == (3, 3, 6, True)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("sync_period", 0, BoundsError),
        ("batch_size", 1, StaticHyperparameter),
        ("sync_perod", 1, UnknownName),
        ("tau", True, BoundsError),
        ("tau", float("nan"), BoundsError),
        ("tau", object(), BoundsError),
    ],
)
def test_a_refusal_from_python_is_raised_and_logged(bench, name, value, error):
    with pytest.raises(error):
        bench.live[name] = value
    (entry,) = bench.log
    assert not entry.taken and entry.who == "api" and entry.name == name


def test_an_update_from_python_logs_each_value(bench):
    bench.live.update({"tau": 0.5}, sync_period=50)
    assert [(e.who, e.name, e.old, e.new) for e in bench.log] == [
        ("api", "tau", 1.0, 0.5),
        ("api", "sync_period", 500, 50),
    ]


def test_a_refused_update_from_python_logs_what_was_refused_and_sets_nothing(bench):
    with pytest.raises(BoundsError):
        bench.live.update(sync_period=50, tau=2.0)
    (entry,) = bench.log
    assert (entry.name, entry.taken) == ("tau", False) and bench.live.overrides() == {}


def test_setting_from_another_thread_waits_for_the_safe_point(bench):
    thread = threading.Thread(target=lambda: bench.live.__setitem__("sync_period", 50))
    thread.start()
    thread.join()
    assert bench.live["sync_period"] == 500
    bench.move()
    assert bench.live["sync_period"] == 50
    assert [(e.who, e.name) for e in bench.log] == [("api", "sync_period")]


def test_after_the_end_setting_from_python_is_no_longer_logged(bench):
    bench.steering.close()
    bench.live["sync_period"] = 50
    assert bench.live["sync_period"] == 50 and bench.log == []


# Schedules and repeats.


def test_a_schedules_corner_is_logged_once(bench):
    bench.move(1_002)
    (entry,) = bench.log
    assert (entry.who, entry.name, entry.env_step) == ("schedule", "epsilon", 1_000)
    assert (entry.old, entry.new) == (1.0, pytest.approx(0.1))


def test_a_corner_of_a_schedule_that_is_overridden_then_is_not_logged(bench):
    bench.live["epsilon"] = 0.5
    bench.move(1_002)
    assert [entry.who for entry in bench.log] == ["api"]


def test_a_script_applies_what_was_taken_at_its_ticks(bench, make_bench, tmp_path):
    bench.move(2)
    bench.live["sync_period"] = 50
    with pytest.raises(BoundsError):
        bench.live["sync_period"] = 0
    bench.move(3)
    bench.command(1, do="sync")
    bench.command(2, do="pause")
    bench.command(3, name="sync_period", value="auto")
    bench.move(1_000)
    again = make_bench(tmp_path / "again", script=bench.log, repeats=True)
    periods = []
    for _ in range(1_005):
        again.move()
        periods.append(again.live["sync_period"])
    assert periods == [500] + [50] * 4 + [500] * 1_000  # at tick 2 and at tick 6
    assert again.run.done == ["sync"]  # a pause leaves no trace in what is learned
    kept = [(e.id, e.who, e.tick, e.new) for e in bench.log if e.taken and e.name != "pause"]
    assert [(e.id, e.who, e.tick, e.new) for e in again.log] == kept


@pytest.mark.parametrize("who", ["controller", "pbt"])
def test_what_comes_is_after_what_is_recorded_for_the_same_time_step(make_bench, tmp_path, who):
    """As in the log: a controller's change waits for what is due there, such as an evaluation."""
    recorded = entry(9, who=who, tick=3)  # tau from 1 to 0.5
    bench = make_bench(script=[recorded])
    bench.move(2)
    bench.command(1, do="sync")
    bench.move()
    bench.command(2, name="tau", value=0.7)
    bench.command(3, do="stop")
    bench.steering.safe_point()
    assert [e.name for e in bench.log] == ["stop"] and bench.live["tau"] == 1.0
    bench.steering.exchange()
    bench.steering.safe_point()
    assert [e.name for e in bench.log] == ["stop", "tau", "sync", "tau"]
    assert bench.live["tau"] == 0.7 and bench.inbox == []
    again = make_bench(tmp_path / "again", script=bench.log, repeats=True)
    again.move(3)
    again.steering.exchange()
    assert [(e.tick, e.name, e.new) for e in again.log] == [
        (3, "tau", 0.5), (3, "sync", None), (3, "tau", 0.7),
    ]  # fmt: skip


def test_what_comes_waits_for_all_that_is_recorded(make_bench):
    """A value set before a recorded `rewind` would take the snapshot that it goes back to."""
    bench = make_bench(script=[entry(9, kind="do", name="rewind", tick=3)])
    bench.command(1, name="sync_period", value=50)
    bench.command(2, do="rewind")
    bench.command(3, do="pause")
    bench.move(2)
    assert [e.name for e in bench.log] == ["pause"] and bench.live["sync_period"] == 500
    bench.move()
    assert [e.name for e in bench.log] == ["pause", "rewind", "sync_period", "rewind"]
    assert bench.inbox == []


def test_a_run_with_a_script_takes_no_other_change(make_bench):
    bench = make_bench(repeats=True)
    bench.command(1, name="sync_period", value=50)
    bench.command(2, do="sync")
    bench.command(3, do="pause")
    bench.move()
    assert [entry.taken for entry in bench.log] == [False, False, True]
    with pytest.raises(Refused, match="repeats"):
        bench.live["sync_period"] = 50
    assert bench.live["sync_period"] == 500


# The inbox.


def test_an_idle_poll_is_one_stat(bench, monkeypatch):
    import os
    import time

    calls = []
    long_ago = time.time() - 60
    bench.move()
    os.utime(bench.files.inbox, (long_ago, long_ago))
    bench.move()
    monkeypatch.setattr(bench.steering._publisher, "due", lambda now: False)
    for module, name in ((os, "stat"), (os, "scandir"), (os, "listdir"), (os, "open")):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, _r=real, _n=name, **k: (calls.append(_n), _r(*a, **k))[1]
        )
    bench.steering.poll()
    assert calls == ["stat"]


def test_a_file_that_comes_in_the_same_tick_of_the_clock_as_the_last_look_is_seen(bench):
    import os

    bench.move()
    stamp = bench.files.inbox.stat().st_mtime_ns
    bench.command(name="sync_period", value=50)
    os.utime(bench.files.inbox, ns=(stamp, stamp))
    bench.move()
    assert bench.live["sync_period"] == 50


def test_a_file_in_the_making_is_left_alone(bench):
    (bench.files.inbox / ".17-x.json.123.tmp").write_bytes(b"{")
    bench.move(2)
    assert bench.log == [] and len(bench.inbox) == 1


def test_a_flood_is_taken_in_portions_and_all_of_it(bench):
    for number in range(600):
        bench.command(number, name="sync_period", value=number + 1)
    bench.move()
    assert 0 < len(bench.log) < 600
    bench.move(3)
    assert [entry.new for entry in bench.log] == list(range(1, 601))


def test_submitting_is_whole_and_private(bench):
    path = submit(bench.files, set_command("sync_period", 50, "api"))
    submit(bench.files, do_command("sync", "cli"))
    assert path.parent == bench.files.inbox and len(bench.inbox) == 2
    assert bench.files.inbox.stat().st_mode & 0o777 == 0o700
    assert bench.files.token.stat().st_mode & 0o777 == 0o600
    assert len(bench.files.token.read_text().strip()) >= 32
    bench.move()
    assert [entry.taken for entry in read_log(bench.files.log)] == [True, True]
