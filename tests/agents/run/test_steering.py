"""A run that is steered while it trains: what a change does, and what it leaves behind."""

import os
import signal
import sys
import threading
import time
import types

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.repeat import repeat as replay
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control import steering as steering_module
from targetnet.rl_core.control.commands import do_command, set_command
from targetnet.rl_core.control.files import ControlFiles, is_alive, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import BoundsError
from tests.agents.steady import STEADY

SHORT = {
    "env_steps": 400,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 300,
    "learn_start": 20,
    "learn_period": 1,
    "learning_rate": 0.01,
    "sync_period": 7,
    "log_period": 50,
    "eval_period": 1_000,
    "eval_episodes": 2,
    "final_eval_episodes": 2,
    "xla": False,
    "epsilon": {"schedule": "linear", "start": 1.0, "end": 0.1, "steps": 200},
}


@pytest.fixture(autouse=True)
def every_tick(monkeypatch):
    """The inbox is looked into at every safe point, so commands land where they are sent."""
    monkeypatch.setattr(steering_module, "POLL_SECONDS", 0.0)


def go(run, changes=(), watch=None, **settings):
    """Trains; `changes` are (tick, name, value) or (tick, action), sent through the inbox."""
    config = DqnConfig(**(STEADY | SHORT | settings))
    ticks = 0

    def on_tick(agent, tick):
        nonlocal ticks
        ticks += 1
        for at, *what in changes:
            if at == ticks:
                made = set_command(*what, "cli") if len(what) == 2 else do_command(*what, "cli")
                submit(ControlFiles(run), made)
        return watch(ticks, agent, tick) if watch else None

    return train(config, run, on_tick=on_tick)


def ages(run, changes=(), **settings):
    """The target's age after every update."""
    seen = []

    def watch(ticks, agent, tick):
        if agent.updates > len(seen):
            seen.append(agent.inspect().target_age)

    go(run, changes, watch, **settings)
    return seen


def sawtooth(period, updates):
    return [(n + 1) % period for n in range(updates)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory, pool):
    """A run that nobody touched."""
    with pool.open():
        return go(tmp_path_factory.mktemp("plain") / "run")


# The sync period is an age.


def test_a_shorter_period_syncs_in_the_next_update_if_the_target_is_that_old(tmp_path):
    seen = ages(tmp_path / "run", [(150, "sync_period", 5)], sync_period=1_000)
    (entry,) = [e for e in read_log(tmp_path / "run/control/log.jsonl") if e.who == "cli"]
    assert entry.name == "sync_period" and entry.update > 100
    assert seen[: entry.update] == list(range(1, entry.update + 1))
    rest = seen[entry.update :]
    assert rest == [0, *sawtooth(5, len(rest) - 1)]


def test_a_longer_period_lets_the_target_grow_older(tmp_path):
    seen = ages(tmp_path / "run", [(150, "sync_period", 90)], sync_period=10)
    entry = next(e for e in read_log(tmp_path / "run/control/log.jsonl") if e.who == "cli")
    assert seen[: entry.update] == sawtooth(10, entry.update)
    age = seen[entry.update - 1]
    assert seen[entry.update : entry.update + 89 - age] == list(range(age + 1, 90))
    assert seen[entry.update + 89 - age] == 0


def test_a_period_of_501_means_501(tmp_path):
    """Not 500, and not 504, where the learn period is 4 env steps."""
    seen = ages(tmp_path / "run", [(30, "sync_period", 501)], learn_period=4, env_steps=2_500,
                sync_period=10_000)  # fmt: skip
    assert seen.index(0) == 500 and seen == sawtooth(501, len(seen))


@pytest.mark.thorough
def test_the_sync_still_fires_when_the_two_periods_do_not_divide_each_other(tmp_path):
    """A peer tests `env_step % sync_period == 0` only on env steps that learn."""
    seen = ages(tmp_path / "run", [(30, "sync_period", 7)], learn_period=3, sync_period=10_000)
    entry = next(e for e in read_log(tmp_path / "run/control/log.jsonl") if e.who == "cli")
    rest = seen[entry.update :]
    assert rest.count(0) >= len(rest) // 7
    zeros = [i for i, age in enumerate(rest) if age == 0]
    assert set(np.diff(zeros)) == {7}


def test_a_change_waits_for_the_phase_and_is_logged_where_it_landed(tmp_path):
    updates = {}

    def watch(ticks, agent, tick):
        updates[ticks] = agent.updates

    go(tmp_path / "run", [(100, "sync_period", 3)], watch, updates_per_learn=16, learn_period=8)
    entry = next(e for e in read_log(tmp_path / "run/control/log.jsonl") if e.who == "cli")
    assert entry.tick == 101 and entry.update == updates[101] and entry.update % 16 == 0


@pytest.mark.thorough
def test_an_arm_that_ends_inside_a_phase_cuts_it_and_its_length_is_live(tmp_path):
    trained = []

    def watch(ticks, agent, tick):
        trained.append((agent.updates, agent.learner.freeze.position))

    arms = [{"exempt": ["head"], "updates": 5}, {"exempt": ["torso"], "updates": 3}]
    go(tmp_path / "run", [(100, "arm_0_updates", 2)], watch, freeze=arms, updates_per_learn=4,
       learn_period=10)  # fmt: skip
    entry = next(e for e in read_log(tmp_path / "run/control/log.jsonl") if e.who == "cli")
    assert (entry.name, entry.old, entry.new) == ("arm_0_updates", 5, 2)
    before = {n: p for n, p in trained if n <= entry.update}
    slow = [(0, 1 + i) if i < 5 else (1, 1 + i - 5) for i in range(8)]
    assert all(position == slow[(n - 1) % 8] for n, position in before.items() if n)
    cycle = trained[-1][1]
    assert cycle in [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]


def test_auto_returns_to_the_schedule(tmp_path):
    seen = []
    changes = [(50, "epsilon", 0.77), (100, "epsilon", "auto")]
    go(
        tmp_path / "run",
        changes,
        lambda t, a, tick: seen.append((tick.env_step, a.hyperparameters["epsilon"])),
    )
    scheduled = [max(0.1, 1 - 0.9 * step / 200) for step, _ in seen]
    values = [value for _, value in seen]
    assert values[:50] == pytest.approx(scheduled[:50])
    assert set(values[50:100]) == {0.77}
    assert values[100:] == pytest.approx(scheduled[100:])


# Actions.


def test_sync_copies_at_once_and_says_how_old_the_target_was(tmp_path):
    seen = ages(tmp_path / "run", [(150, "sync")], sync_period=1_000)
    entry = next(e for e in read_log(tmp_path / "run/control/log.jsonl") if e.name == "sync")
    assert (entry.old, entry.new) == (entry.update, 0)
    # Looked at after the safe point that copied, so the last one before is 0 by then.
    before, after = entry.update, len(seen) - entry.update
    assert seen == [*sawtooth(1_000, before)[:-1], 0, *sawtooth(1_000, after)]


@pytest.mark.thorough
def test_a_paused_run_stands_still_and_goes_on_with_the_same_bits(tmp_path, plain):
    run = tmp_path / "run"
    states = []

    def resume():
        files = ControlFiles(run)
        while not states or states[-1].status != "paused":
            time.sleep(0.02)
            if files.state.exists():
                states.append(read_state(files)[0])
        time.sleep(0.2)
        submit(files, set_command("sync_period", 7, "cli"))  # as it is: a change while paused
        submit(files, do_command("pause", "cli"))
        submit(files, do_command("resume", "cli"))

    thread = threading.Thread(target=resume)
    thread.start()
    outcome = go(run, [(100, "pause")])
    thread.join()
    entries = [e for e in read_log(run / "control/log.jsonl") if e.who == "cli"]
    assert [(e.name, e.taken) for e in entries] == [
        ("pause", True), ("sync_period", True), ("pause", False), ("resume", True),
    ]  # fmt: skip
    assert {e.tick for e in entries} == {101}
    assert outcome.env_steps == plain.env_steps and outcome.updates == plain.updates
    assert (run / "weights.safetensors").read_bytes() == (
        plain.run / "weights.safetensors"
    ).read_bytes()


def test_evaluate_writes_a_point_and_changes_no_bit(tmp_path, plain):
    outcome = go(tmp_path / "run", [(100, "evaluate"), (200, "evaluate")])
    assert outcome.digest == plain.digest
    steps = [p.step for p in events(outcome.run).Scalars("evaluation/return")]
    assert len(steps) == 3


def test_stop_ends_the_run_there_with_weights_and_digest(tmp_path):
    outcome = go(tmp_path / "run", [(100, "stop")])
    assert outcome.env_steps <= 101 and outcome.returns == [] and not outcome.interrupted
    directory = RunDir.open(outcome.run)
    assert directory.load_digest().digest == outcome.digest and directory.load_weights()
    assert directory.load_digest().tick == 101
    assert not (outcome.run / "result.json").exists()
    assert read_state(directory.control)[0].status == "stopped"


@pytest.mark.parametrize("answer", [False, np.float64(2) < 1])
def test_on_tick_that_returns_false_stops_the_run_there_as_a_stop_does(tmp_path, answer):
    outcome = go(tmp_path / "run", (), lambda ticks, agent, tick: None if ticks < 101 else answer)
    asked = go(tmp_path / "asked", [(100, "stop")])
    assert outcome.env_steps == asked.env_steps < 101  # a reset is a tick without an env step
    assert outcome.digest == asked.digest and outcome.returns == [] and not outcome.interrupted
    directory = RunDir.open(outcome.run)
    assert directory.load_digest().digest == outcome.digest
    assert read_state(directory.control)[0].status == "stopped"
    (entry,) = (e for e in read_log(directory.control.log) if e.who == "api")
    assert (entry.name, entry.taken, entry.tick) == ("stop", True, 101)


@pytest.mark.thorough
def test_a_run_that_on_tick_stopped_goes_on_to_the_bits_of_one_that_was_not(tmp_path, plain):
    stopped = go(tmp_path / "run", (), lambda ticks, agent, tick: ticks < 101)
    assert resume(stopped.run).digest == plain.digest
    assert replay(stopped.run).identical


@pytest.mark.parametrize("answer", [None, True, 0, "", []])
def test_any_other_answer_of_on_tick_lets_the_run_go_on(tmp_path, answer):
    outcome = go(tmp_path / "run", (), lambda ticks, agent, tick: answer, env_steps=30)
    assert outcome.env_steps == 30 and outcome.returns


def test_ctrl_c_ends_a_paused_run(tmp_path):
    run = tmp_path / "run"

    def interrupt():
        files = ControlFiles(run)
        while not files.state.exists() or read_state(files)[0].status != "paused":
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    outcome = go(run, [(100, "pause")])
    thread.join()
    assert outcome.interrupted and RunDir.open(run).load_digest().digest == outcome.digest
    state, alive = read_state(ControlFiles(run))
    assert state.status == "interrupted" and not alive


def test_an_env_that_breaks_leaves_what_was_learned_and_says_so(tmp_path):
    def break_down(ticks, agent, tick):
        if ticks == 100:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        go(tmp_path / "run", (), break_down)
    directory = RunDir.open(tmp_path / "run")
    assert directory.load_digest().tick == 100 and directory.load_weights()
    assert read_state(directory.control)[0].status == "failed"
    assert not is_alive(directory.control)


def test_once_training_is_over_changes_are_refused_with_the_reason(tmp_path, monkeypatch):
    from targetnet.agents.run import evaluations

    run = tmp_path / "run"
    play_episodes = evaluations.play_episodes

    def evaluate_meanwhile(*args, **kwargs):
        submit(ControlFiles(run), set_command("tau", 0.5, "cli"))
        submit(ControlFiles(run), do_command("pause", "cli"))
        return play_episodes(*args, **kwargs)

    monkeypatch.setattr(evaluations, "play_episodes", evaluate_meanwhile)
    outcome = go(run)
    entries = [e for e in read_log(run / "control/log.jsonl") if e.who == "cli"]
    assert [e.taken for e in entries] == [False, False]
    assert all("the training of this run is over" in e.reason for e in entries)
    assert outcome.returns


# From Python.


def test_a_set_from_python_is_logged_at_the_tick_it_followed(tmp_path):
    positions = {}

    def watch(ticks, agent, tick):
        positions[ticks] = (ticks, tick.env_step, agent.updates)
        if ticks == 120:
            agent.hyperparameters["sync_period"] = 50
            with pytest.raises(BoundsError):
                agent.hyperparameters["sync_period"] = 0

    go(tmp_path / "run", (), watch)
    taken, refused = (e for e in read_log(tmp_path / "run/control/log.jsonl") if e.who == "api")
    assert (taken.old, taken.new, taken.taken, refused.taken) == (7, 50, True, False)
    assert (taken.tick, taken.env_step, taken.update) == positions[120]


def test_an_agent_outside_a_run_is_set_without_a_log(tmp_path, lab):
    agent = lab.agent()
    agent.hyperparameters["sync_period"] = 50
    assert agent.hyperparameters["sync_period"] == 50


# What is shown.


def events(run):
    """As TensorBoard reads them without TensorFlow."""
    name = "tensorboard.compat.notf"
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, name, types.ModuleType(name))
        return EventAccumulator(str(run), size_guidance={"scalars": 0, "tensors": 0}).Reload()


def test_a_change_is_a_step_in_its_curve_and_a_text(tmp_path):
    changes = [(100, "sync_period", 50), (150, "sync_period", 0), (200, "exempt", "head")]
    outcome = go(tmp_path / "run", changes)
    first, refused, third = (
        e for e in read_log(outcome.run / "control/log.jsonl") if e.who == "cli"
    )
    assert not refused.taken
    board = events(outcome.run)
    for name, entry, old, new in (("sync_period", first, 7, 50), ("exempt", third, 0, 1)):
        curve = {p.step: p.value for p in board.Scalars(f"live/{name}")}
        before = [value for step, value in curve.items() if step < entry.env_step]
        after = [value for step, value in curve.items() if step > entry.env_step]
        assert (set(before), set(after)) == ({old}, {new})
        assert len(after) > 1  # it goes on with the other curves
        assert {entry.env_step - 1, outcome.env_steps} <= curve.keys()
    texts = [p.tensor_proto.string_val[0].decode() for p in board.Tensors("control/changes")]
    assert texts[0] == f"{first.describe()}, by cli"
    assert any("exempt none -> head" in text for text in texts)
    assert not any("refused" in text for text in texts)


def test_the_state_tells_how_far_the_run_is(plain):
    state, alive = read_state(ControlFiles(plain.run))
    assert not alive and state.status == "finished"
    assert (state.env_step, state.update) == (plain.env_steps, plain.updates)
    assert (state.env_id, state.env_steps) == ("CartPole-v1", 400)
    assert state.mean_return and state.episodes > 5
    assert {"episode/return", "learn/q_mean", "target/age"} <= state.recent.keys()
    assert state.target_age == plain.updates % 7
