"""Commands to an agent without a run: agents of one process are steered one by one."""

import pytest

from targetnet.agents.loops.plain import LoopState
from targetnet.agents.run.control import RunControl
from targetnet.agents.run.process import StopRequest
from targetnet.rl_core.control import steering as steering_module
from targetnet.rl_core.control.changes import Refused
from targetnet.rl_core.control.commands import do_command, set_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.control.steering import Steering
from targetnet.rl_core.errors import RlCoreError

PROGRESS = {"env_steps_per_second": 50.0, "episodes": 3, "mean_return": 2.5, "recent": {}}


class Member:
    """One agent with its control, its loop's counts and a directory, and nothing else."""

    def __init__(self, agent, directory, **known):
        directory.mkdir(exist_ok=True)
        self.agent, self.state = agent, LoopState(tick=7, env_step=5)
        self.said, self.shown, self.checkpoints = [], [], 0
        self.control = RunControl(
            agent, self.state, say=self.said.append, show=self.shown.append,
            progress=lambda: PROGRESS, checkpoint=self.take, copy=None, **known,
        )  # fmt: skip
        self.files = ControlFiles(directory)

    def take(self):
        self.checkpoints += 1

    def steered(self):
        return Steering(self.agent.hyperparameters, self.files, self.control)


@pytest.fixture(autouse=True)
def every_safe_point(monkeypatch):
    """The inbox is looked into at every safe point."""
    monkeypatch.setattr(steering_module, "POLL_SECONDS", 0.0)


@pytest.fixture
def member(lab, tmp_path):
    return Member(lab.agent(), tmp_path / "one")


def test_of_two_members_only_the_one_that_is_asked_changes(lab, tmp_path):
    one, two = (Member(lab.filled(), tmp_path / name) for name in ("one", "two"))
    for member in (one, two):
        member.agent.learn(3)
    with one.steered() as first, two.steered() as second:
        for command in (
            set_command("sync_period", 11, "cli"), do_command("sync", "cli"),
            do_command("pause", "cli"), do_command("checkpoint", "cli"),
            do_command("evaluate", "cli"), do_command("stop", "cli"),
        ):  # fmt: skip
            submit(one.files, command)
        for steering in (first, second):
            steering.safe_point()
        first.publish()
        second.publish()
    answers = [(e.name, e.taken, e.tick, e.env_step, e.update) for e in read_log(one.files.log)]
    assert answers == [
        (name, True, 7, 5, 3)
        for name in ("sync_period", "sync", "pause", "checkpoint", "evaluate", "stop")
    ]
    assert one.shown == read_log(one.files.log) and len(one.said) == 6
    assert (one.agent.hyperparameters["sync_period"], one.agent.learner.target_age) == (11, 0)
    control = one.control
    assert (one.checkpoints, control.evaluations_asked) == (1, 1)
    assert control.paused and control.stopped
    assert read_log(two.files.log) == [] and two.said == [] and two.checkpoints == 0
    assert (two.agent.hyperparameters["sync_period"], two.agent.learner.target_age) != (11, 0)
    assert two.agent.learner.target_age == 3
    assert not two.control.stopped and not two.control.paused
    assert [read_state(m.files)[0].status for m in (one, two)] == ["paused", "running"]


def test_a_signal_stops_whoever_shares_the_request(lab, tmp_path):
    request = StopRequest()
    members = [Member(lab.agent(), tmp_path / n, interrupt=request) for n in ("one", "two")]
    alone = Member(lab.agent(), tmp_path / "three")
    request.set()
    assert all(member.control.stopped for member in members) and not alone.control.stopped


def test_what_makes_no_sense_now_is_refused(member, lab, tmp_path):
    control = member.control
    with pytest.raises(Refused, match="the run is not paused"):
        control.do("resume")
    control.do("pause")
    with pytest.raises(Refused, match="the run is paused"):
        control.do("pause")
    with pytest.raises(RlCoreError, match="past_states is 0"):
        control.do("snapshot")
    control.training_over = True
    with pytest.raises(Refused, match="cannot sync: the training of this run is over"):
        control.do("sync")
    control.do("stop")
    assert control.stopped
    repeating = Member(lab.agent(), tmp_path / "again", repeats="repeats one").control
    for action in ("checkpoint", "evaluate"):
        with pytest.raises(Refused, match=f"cannot {action}: this run repeats another one"):
            repeating.do(action)
    assert repeating.evaluations_asked == 0


def test_several_changes_at_one_time_step_make_one_snapshot(lab, tmp_path):
    member = Member(lab.filled(past_states=3), tmp_path / "one")
    for tick in (7, 7, 8):
        member.state.tick = tick
        member.control.changed()
    assert member.agent.state.snapshots == (0, 0) and member.control.snapshot_tick == 8


def test_the_report_says_how_long_it_will_take_and_what_it_does(member):
    control = member.control
    left = member.agent.config.env_steps - 5
    report = control.report()
    assert report["eta_seconds"] == left / 50 and report["status"] == "running"
    assert PROGRESS.items() <= report.items()
    control.paused = control.evaluating = True
    assert control.report()["status"] == "evaluating"
