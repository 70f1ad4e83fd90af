"""A run that was interrupted and goes on is, bit for bit, the run that was not interrupted."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import gymnasium as gym
import numpy as np
import pytest
from rich.console import Console

from targetnet.agents.cli.main import main
from targetnet.agents.config.files import dump_config
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.checkpoint.store import CheckpointError, CheckpointStore
from targetnet.rl_core.control import steering
from targetnet.rl_core.control.commands import do_command, set_command
from targetnet.rl_core.control.files import ControlFiles, RunLock, submit
from targetnet.rl_core.control.inbox import Inbox
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import ConfigError, RunDirError
from tests.agents.run.interrupting import Crash, crash_at, curves

SHORT = {
    "env_steps": 1_500,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 400,  # several times around the ring
    "learn_start": 50,
    "updates_per_learn": 1,
    "learn_period": 2,
    "learning_rate": 0.01,
    "sync_period": 37,
    "log_period": 100,
    "eval_period": 600,
    "eval_episodes": 2,
    "final_eval_episodes": 2,
    "xla": False,
    "epsilon": {"schedule": "linear", "start": 1.0, "end": 0.1, "steps": 1_000},
    "checkpoint_seconds": 0,
    "checkpoint_steps": 130,
}
# Eight envs make 12 updates in a time step: a turn of 13 is never over when a checkpoint is taken.
ARMS = [{"exempt": ["head"], "updates": 7}, {"exempt": ["torso"], "updates": 6}]
KINDS = {
    "one env": {},
    "eight envs": {"num_envs": 8},
    "one env, fused": {"updates_per_learn": 4},
    "eight envs, fused and freezing": {"num_envs": 8, "updates_per_learn": 3, "freeze": ARMS},
    "compiled": {"updates_per_learn": 4, "xla": True},
    "pixels of bytes, dueling, double": {"dueling": True, "double": True, "layer_norm": True},
    "rainbow, eight envs": {
        "num_envs": 8, "head": "categorical", "v_min": 0.0, "v_max": 50.0, "atoms": 11,
        "double": True, "dueling": True, "prioritized": True, "n_step": 3, "noisy": True,
    },
    "implicit, munchausen, averaged": {
        "head": "implicit", "tau_samples": 4, "munchausen": True, "averaged_targets": 2,
    },
    "fqf, fused, prioritized, freezing": {
        "head": "fqf", "fractions": 4, "fraction_learning_rate": 0.01, "updates_per_learn": 3,
        "prioritized": True, "freeze": [{"exempt": ["fractions"], "updates": 7}, *ARMS],
    },
    "a chain, fused": {"chain": 3, "refresh_period": 4, "updates_per_learn": 3},
    "concurrent": {"loop": "concurrent", "learn_period": 16, "updates_per_learn": 8},
    "concurrent, eight envs, prioritized, noisy, freezing": {
        "loop": "concurrent", "num_envs": 8, "learn_period": 20, "updates_per_learn": 3,
        "prioritized": True, "noisy": True, "freeze": ARMS,
    },
    "in the graph": {
        "loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 20, "freeze": ARMS,
        "sync_distance": 0.05,
    },
    "in the graph, compiled, eight envs, prioritized": {
        "loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 5, "num_envs": 8,
        "xla": True, "prioritized": True, "n_step": 2,
    },
}  # fmt: skip


def steer(agent, tick):
    """Changes made while the run goes on, between checkpoints and at odd places."""
    live = agent.hyperparameters
    changes = {
        300: ("sync_period", 11), 700: ("tau", 0.5), 950: ("epsilon", 0.3),
        1_100: ("exempt", "torso"), 1_200: ("exempt", "auto"), 1_301: ("epsilon", "auto"),
    }  # fmt: skip
    plain = agent.config.loop == "plain"
    span = {
        "plain": len(tick.actions),
        "concurrent": agent.config.learn_period,
        "compiled": agent.config.chunk * agent.config.num_envs,
    }[agent.config.loop]
    for env_step, (name, value) in changes.items():
        if tick.env_step - span < env_step <= tick.env_step and not (
            plain and tick.step.autoreset.any()
        ):
            if name == "tau" and agent.config.chain > 1:
                name, value = "refresh_period", 3
            live[name] = value


def config(**settings):
    return DqnConfig(**(SHORT | settings))


def interrupted(run, moments, watch=steer, **settings):
    """A run that crashes at these env steps, each time resumed, and then goes to its end."""
    go = lambda on_tick: train(config(**settings), run, on_tick=on_tick)  # noqa: E731
    for moment in moments:
        with pytest.raises(Crash):
            go(crash_at(moment, watch))
        go = lambda on_tick: resume(run, on_tick=on_tick)  # noqa: E731
    return go(watch)


def answered(run):
    return [(e.tick, e.name, e.value, e.new) for e in read_log(ControlFiles(run).log) if e.taken]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def whole(folder, pool):
    """One run that was never interrupted; look, do not touch."""
    with pool.open():
        return train(config(), folder / "whole", on_tick=steer)


# Four moments of every kind in the slow run, one of some kinds in the default one.


FAST = (
    "concurrent",
    "in the graph",
)


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *(pytest.param(kind, 1, id=kind) for kind in FAST),
        *(pytest.param(kind, 4, id=f"{kind}, 4", marks=pytest.mark.slow) for kind in KINDS),
    ],
)
def test_whatever_the_moments_everything_is_as_if_nothing_had_happened(tmp_path, pool, kind, count):
    rng = np.random.default_rng([*KINDS].index(kind))
    env_steps = 1_500 if count > 1 else 800  # at 600 there is an evaluation
    settings = KINDS[kind] | {"env_steps": env_steps}
    if count == 1 and settings.get("loop") == "compiled":
        settings["eval_period"] = 10_000  # for each env of an evaluation a graph is built
    # A single one comes after the first checkpoint, so that the run goes on from it.
    moments = sorted(rng.integers(1 if count > 1 else 300, env_steps, count).tolist())
    straight = train(config(**settings), tmp_path / "straight", on_tick=steer)
    pool.take_back()
    broken = interrupted(tmp_path / "broken", moments, **settings)
    pool.take_back()
    assert broken.digest == straight.digest
    assert (broken.env_steps, broken.updates) == (straight.env_steps, straight.updates)
    assert broken.returns == straight.returns
    assert curves(broken.run) == curves(straight.run)
    assert answered(broken.run) == answered(straight.run)
    traces = [ControlFiles(run).trace.read_bytes() for run in (broken.run, straight.run)]
    assert traces[0] == traces[1] and len(traces[0]) > 3.7 * env_steps / settings.get("num_envs", 1)
    assert repeat(broken.run).identical


@pytest.mark.thorough
def test_killed_before_the_first_checkpoint_it_is_made_again_from_its_beginning(folder, whole):
    outcome = interrupted(folder / "early", [60])
    assert outcome.digest == whole.digest
    assert curves(outcome.run) == curves(whole.run)


def test_what_was_set_after_the_checkpoint_is_set_again_at_its_time_step(folder, whole):
    """Also if nobody is there any more to set it."""
    run = folder / "alone"
    with pytest.raises(Crash):
        train(config(checkpoint_steps=280), run, on_tick=crash_at(549, steer))
    assert resume(run, config(env_steps=700, checkpoint_steps=280)).env_steps == 700
    assert [e[1:3] for e in answered(run) if e[1] == "sync_period"] == [("sync_period", 11)]
    long = train(config(env_steps=700), folder / "attended", on_tick=until_before(700))
    assert CheckpointStore(run / "checkpoints").latest().host["agent"]["overrides"] == {
        "sync_period": 11
    }
    assert digest_of(run) == long.digest


@pytest.mark.thorough
def test_killed_twice_before_it_came_to_the_change_it_still_comes_to_it(folder):
    """The second checkpoint knows a log that is ahead of it."""
    run = folder / "twice"
    with pytest.raises(Crash):
        train(config(checkpoint_steps=280), run, on_tick=crash_at(549, steer))
    with pytest.raises(Crash):
        resume(run, config(checkpoint_steps=2), on_tick=crash_at(297))
    newest = CheckpointStore(run / "checkpoints").latest().host
    assert newest["loop"]["env_step"] > 280 and len(newest["log"]["to_do"]) == 1
    assert resume(run, config(env_steps=700)).env_steps == 700
    straight = train(config(env_steps=700), folder / "not_twice", on_tick=until_before(700))
    assert digest_of(run) == straight.digest
    assert answered(run) == answered(straight.run)


def test_an_evaluation_that_was_cut_short_is_made_when_the_run_goes_on(folder, whole):
    run = folder / "evaluating"
    with pytest.raises(Crash):
        train(config(env_steps=700), run, on_tick=crash_at(599, steer))
    # Stopped while it evaluates at 600, which is a safe point like others.
    submit(ControlFiles(run), do_command("stop", "cli"))
    stopped = []

    def watch(agent, tick):
        steer(agent, tick)
        stopped.append(tick.env_step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steering, "POLL_SECONDS", 0.0)
        patch.setattr(Inbox, "command_files", command_files_from(600, stopped, Inbox.command_files))
        outcome = resume(run, on_tick=watch)
    assert outcome.env_steps == 600 and outcome.returns == []
    assert "evaluation/return" not in dict(curves(run, complete=False))
    resume(run, on_tick=steer)
    assert curves(run)["evaluation/return"][0] == curves(whole.run)["evaluation/return"][0]


def command_files_from(moment, seen, command_files):
    """The inbox is empty until that env step."""
    return lambda inbox: command_files(inbox) if seen and seen[-1] >= moment else []


def test_an_evaluation_somebody_asked_for_has_its_point_also_after_a_kill(folder):
    """It changes nothing that is learned, but it is in the curve."""
    run = folder / "asked"
    submit_at = {350: do_command("evaluate", "cli")}

    def watch(agent, tick):
        if tick.env_step in submit_at:
            submit(ControlFiles(run), submit_at.pop(tick.env_step))
            time.sleep(0.05)  # longer than between two looks into the inbox

    with pytest.raises(Crash):
        train(config(checkpoint_steps=280), run, on_tick=crash_at(500, watch))
    before = [point for point in curves(run)["evaluation/return"] if point[0] < 600]
    assert len(before) == 1
    resume(run)
    assert curves(run)["evaluation/return"][0] == before[0]


def until_before(moment):
    def on_tick(agent, tick):
        if tick.env_step < moment:
            steer(agent, tick)

    return on_tick


def digest_of(run):
    return json.loads((run / "digest.json").read_text())["digest"]


@pytest.mark.thorough
def test_a_finished_run_goes_on_when_it_is_made_longer(folder, whole):
    shutil.copytree(whole.run, folder / "longer")
    longer = resume(folder / "longer", config(env_steps=1_900))
    straight = train(config(env_steps=1_900), folder / "long", on_tick=steer)
    assert longer.digest == straight.digest and longer.env_steps == 1_900
    # Of the shorter run's final evaluation nothing is left.
    assert curves(longer.run) == curves(straight.run)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["concurrent", "in the graph"])
def test_a_finished_run_that_was_made_longer_resumes_exactly_in_every_loop(
    kind, tmp_path, pool, none_left_out
):
    """Its last phase or chunk was cut at the old end."""
    settings = KINDS[kind] | {"eval_period": 10_000, "checkpoint_steps": 90}
    longer = config(**settings, env_steps=700)
    train(config(**settings, env_steps=333), tmp_path / "straight")
    shutil.copytree(tmp_path / "straight", tmp_path / "broken")
    straight = resume(tmp_path / "straight", longer)
    pool.take_back()
    with pytest.raises(Crash):
        resume(tmp_path / "broken", longer, on_tick=crash_at(590))
    assert CheckpointStore(tmp_path / "broken/checkpoints").latest().host["loop"]["env_step"] > 333
    broken = resume(tmp_path / "broken")
    assert (broken.digest, broken.env_steps) == (straight.digest, 700)
    assert broken.returns == straight.returns


def test_the_best_checkpoint_is_the_one_of_the_best_evaluation(whole):
    best = CheckpointStore(whole.run / "checkpoints").best()
    points = dict(curves(whole.run)["evaluation/return"])
    points.pop(1_500)  # the final one
    assert best.score == max(points.values()) == points[best.host["loop"]["env_step"]]


# Peers' bugs.


def test_epsilon_does_not_restart(folder, none_left_out):
    """Stable-Baselines3 #1021: exploration began anew at 1 after `load`."""
    seen = {}

    def watch(agent, tick):
        seen.setdefault(tick.env_step, agent.hyperparameters["epsilon"])

    with pytest.raises(Crash):
        train(config(), folder / "epsilon", on_tick=crash_at(800, watch))
    seen.clear()
    resume(folder / "epsilon", on_tick=watch)
    first = min(seen)
    assert 650 <= first <= 800
    assert seen[first] == pytest.approx(1 - 0.9 * first / 1_000)


@pytest.mark.cases(0)
@pytest.mark.parametrize("count", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_interruptions_leave_the_sync_interval_the_target_and_the_buffer(folder, count):
    """A wrapper that multiplied the interval, and one that loaded the buffer twice, were seen."""
    moments = list(range(150, 1_200, 1_050 // count))
    ages = [{}, {}]

    def watched(by_tick):
        def on_tick(agent, tick):
            by_tick[tick.env_step] = (
                agent.inspect(),
                agent.hyperparameters["sync_period"],
                agent.state.contents.written(),
            )

        return on_tick

    straight = train(config(), folder / f"once_{count}", on_tick=watched(ages[0]))
    broken = interrupted(folder / f"often_{count}", moments, watched(ages[1]))
    assert len(moments) == count
    assert ages[0] == ages[1] and len(ages[0]) == 1_500
    assert max(seen[0].target_age for seen in ages[0].values()) == 36
    assert broken.digest == straight.digest


@pytest.mark.slow  # in the default run digests say it, of all weights at once
def test_the_target_is_neither_synced_nor_stale_after_a_resume(folder):
    def weights_at_700(go):
        seen = []

        def watch(agent, tick):
            if tick.env_step == 700 and not seen:  # a reset is a second tick
                seen.append(agent.state.read().variables)

        go(watch)
        return {n: w for n, w in seen[0].items() if n.startswith(("target/", "online/"))}

    broken = weights_at_700(lambda watch: interrupted(folder / "target", [699], watch))
    straight = weights_at_700(lambda watch: train(config(), folder / "straight", on_tick=watch))
    for name, weights in straight.items():
        np.testing.assert_array_equal(broken[name], weights)
    assert any(
        (straight[name] != straight[name.replace("online", "target")]).any()
        for name in straight
        if name.startswith("online/")
    )


class Presses(gym.Wrapper):
    """Ctrl-C, twice, in its next step."""

    now = False

    def step(self, action):
        if Presses.now:
            Presses.now = False
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return self.env.step(action)


def test_a_second_ctrl_c_ends_the_run_without_a_checkpoint_and_it_goes_on(folder, whole):
    run, seen = folder / "pressed", []

    def watch(agent, tick):
        steer(agent, tick)
        seen.append(tick.env_step)
        Presses.now = tick.env_step == 700

    gym.register("Presses-v0", lambda **k: Presses(gym.make("CartPole-v1", **k)))
    try:
        with pytest.raises(KeyboardInterrupt):
            train(config(env_id="Presses-v0"), run, on_tick=watch)
        assert seen[-1] == 700
        newest = CheckpointStore(run / "checkpoints").latest().host["loop"]["env_step"]
        assert newest < 700  # one that was due, not that of the first Ctrl-C
        assert resume(run, on_tick=steer).digest == whole.digest
    finally:
        Presses.now = False
        gym.registry.pop("Presses-v0")


# What is not exact is said.


class Forgetful(gym.Wrapper):
    """Its episodes depend on what came before, whatever the seed."""

    count = 0

    def step(self, action):
        observation, *rest = self.env.step(action)
        Forgetful.count += 1
        return observation + np.float32(Forgetful.count * 1e-3), *rest


@pytest.fixture(scope="module", autouse=True)
def forgetful():
    gym.register("Forgetful-v0", lambda **k: Forgetful(gym.make("CartPole-v1", **k)))
    yield
    gym.registry.pop("Forgetful-v0")


def resumed_words(run, **how):
    console = Console(record=True, width=200, file=io.StringIO())
    outcome = resume(run, console=console, **how)
    return outcome, console.export_text()


def require_other_bits_from(run, checkpoint):
    """What was learned until there was kept, and a replay differs from there on."""
    learned = json.loads((run / "digest.json").read_text())["update"]
    assert learned > checkpoint.variables["counters/updates"] > 0
    told = repeat(run)
    assert not told.identical and told.first_difference == checkpoint.host["loop"]["env_step"]


@pytest.mark.thorough
def test_an_env_that_does_not_come_back_the_same_is_named_and_begins_a_new_episode(folder):
    run, Forgetful.count = folder / "forgetful", 0
    with pytest.raises(Crash):
        settings = {"env_id": "Forgetful-v0", "num_envs": 2, "env_steps": 500}
        train(config(**settings), run, on_tick=crash_at(377))
    begun = CheckpointStore(run / "checkpoints").latest()
    outcome, said = resumed_words(run)
    assert "env 0 (Forgetful-v0) gave other results when episode" in said
    assert "env 1 (Forgetful-v0) gave other results when episode" in said
    assert "not the same bits from here on" in said
    assert outcome.env_steps >= 500
    Forgetful.count = 0
    require_other_bits_from(run, begun)


def test_an_env_that_comes_back_the_same_is_not_complained_of(folder, none_left_out):
    with pytest.raises(Crash):
        train(config(), folder / "quiet", on_tick=crash_at(777, steer))
    _, said = resumed_words(folder / "quiet")
    assert "gave other results" not in said and "not the same bits" not in said
    assert "resumed at env step 6" in said


@pytest.mark.slow
def test_a_vector_env_of_its_own_is_said_not_to_come_back(folder):
    run = folder / "vector"
    settings = {
        "vectorization": "vector_entry_point", "num_envs": 4, "env_steps": 500,
        "replay_capacity": 800,
    }  # fmt: skip
    with pytest.raises(Crash):
        train(config(**settings), run, on_tick=crash_at(377))
    begun, agents = CheckpointStore(run / "checkpoints").latest(), []
    outcome, said = resumed_words(run, on_tick=lambda agent, tick: agents.append(agent))
    assert "a vector env cannot be restored (CartPole-v1)" in said
    assert outcome.env_steps >= 500
    # They begin anew with the seed that the run began with.
    first, again = (agents[0].state.contents.time_steps(t, t + 1) for t in (0, begun.tick))
    np.testing.assert_array_equal(again["observation"], first["observation"])
    require_other_bits_from(run, begun)


@pytest.mark.thorough
def test_a_damaged_checkpoint_is_named_and_the_one_before_gives_the_same_run(folder, whole):
    run = folder / "damaged"
    with pytest.raises(Crash):
        train(config(), run, on_tick=crash_at(1_000, steer))
    newest = max((run / "checkpoints").glob("0*"))
    path = newest / "variables.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    outcome, said = resumed_words(run, on_tick=steer)
    assert f"{path} is damaged" in said.replace("\n", "")
    assert outcome.digest == whole.digest


def test_of_a_damaged_checkpoint_the_run_before_it_is_repeated(folder, whole):
    run = folder / "damaged_too"
    with pytest.raises(Crash):
        train(config(), run, on_tick=crash_at(1_000, steer))
    (max((run / "checkpoints").glob("0*")) / "host.json").write_text("{}")
    assert resume(run, on_tick=steer).digest == whole.digest


def test_without_any_whole_checkpoint_it_stops_and_changes_nothing(folder):
    run = folder / "broken"
    with pytest.raises(Crash):
        train(config(), run, on_tick=crash_at(1_000, steer))
    for path in (run / "checkpoints").glob("0*/manifest.json"):
        path.write_text("x")
    before = contents(run)
    with pytest.raises(CheckpointError, match="no checkpoint is whole"):
        resume(run)
    assert contents(run) == before


def contents(run):
    return {
        str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()
    }


# A disk that is slow, or full.


def test_one_that_is_due_while_another_is_being_written_is_left_out(folder, whole, monkeypatch):
    """Training does not wait for the disk."""
    taken, go_on = [], threading.Event()
    write = CheckpointStore.write

    def slow(store, tick, variables, host, *content):
        taken.append(host["loop"]["env_step"])
        assert go_on.wait(60)
        return write(store, tick, variables, host, *content)

    def watch(agent, tick):
        steer(agent, tick)
        if tick.env_step >= 600:
            go_on.set()

    monkeypatch.setattr(CheckpointStore, "write", slow)
    outcome = train(config(), folder / "slow", on_tick=watch)
    assert taken[0] < 260 and taken[1] >= 600
    assert outcome.digest == whole.digest


def test_a_checkpoint_that_cannot_be_written_is_a_warning_and_training_goes_on(
    folder, whole, monkeypatch, none_left_out
):
    real, failing = os.fsync, [True]

    def full(file):
        if failing[0] and "checkpoints" in os.readlink(f"/proc/self/fd/{file}"):  # noqa: PTH115
            raise OSError(28, "No space left on device")
        return real(file)

    monkeypatch.setattr(os, "fsync", full)

    def watch(agent, tick):
        steer(agent, tick)
        failing[0] = tick.env_step < 900

    console = Console(record=True, width=200, file=io.StringIO())
    outcome = train(config(), folder / "full", console=console, on_tick=watch)
    said = console.export_text()
    assert said.count("no checkpoint: cannot write") == 1 and "No space left on device" in said
    assert outcome.digest == whole.digest
    assert CheckpointStore(folder / "full/checkpoints").latest().host["loop"]["env_step"] == 1_500


@pytest.mark.thorough
def test_a_run_whose_disk_is_full_stops_in_one_line_and_goes_on_when_there_is_room(
    small_disk, folder, whole, capsys
):
    disk, give_room = small_disk
    toml = disk.parent / "short.toml"
    toml.write_text(dump_config(config(log_period=1, env_steps=700)))
    command = ["train", str(toml), "--run", str(disk / "run"), "--resume"]
    assert main(command) == 2
    _out, err = capsys.readouterr()
    assert err.count("\n") == 1 and "No space left on device" in err
    assert give_room()
    assert main(command) == 0
    assert "resumed at env step" in capsys.readouterr().out
    straight = train(config(log_period=1, env_steps=700), folder / "room")
    assert digest_of(disk / "run") == straight.digest
    assert curves(disk / "run") == curves(straight.run)


@pytest.mark.thorough
def test_a_disk_that_is_full_for_a_while_costs_a_run_nothing_but_checkpoints(small_disk, folder):
    """The first release ended at its next heartbeat, without weights."""
    disk, give_room = small_disk
    hog = disk / "hog"
    heartbeats = []

    def watch(agent, tick):
        if tick.env_step == 200:
            hog.write_bytes(b"")
            with contextlib.suppress(OSError), hog.open("ab", buffering=0) as file:
                while True:
                    file.write(b"x" * 512)
        if tick.env_step in (500, 900):
            time.sleep(1.1)  # a heartbeat is due
            heartbeats.append(read_state(ControlFiles(disk / "run"))[0].env_step)
        if tick.env_step == 800:
            hog.unlink()
            assert give_room()
        steer(agent, tick)

    console = Console(record=True, width=300)
    outcome = train(config(), disk / "run", on_tick=watch, console=console)
    text = console.export_text()
    straight = train(config(), folder / "with_room", on_tick=steer)
    assert outcome.digest == straight.digest
    found, wanted = curves(disk / "run"), curves(straight.run)
    # Tau was set while the log could not be written; its curve goes on once it can be.
    tau, whole = found.pop("live/tau"), wanted.pop("live/tau")
    assert (tau[:3], tau[-1]) == (whole[:3], whole[-1]) and set(tau) <= set(whole)
    assert found == wanted
    assert answered(disk / "run") == answered(straight.run)
    assert repeat(disk / "run").identical
    assert heartbeats[0] < 500
    told = re.findall(r"(?<!checkpoint: )cannot write (\S+): .*; the run goes on and will", text)
    assert told and len(set(told)) == len(told)  # of each file once
    assert text.count("no checkpoint: cannot write ") == 1


def test_an_episode_that_ended_just_before_an_exception_is_in_the_curve(folder):
    """Those are shown some at a time."""
    ended = []

    def watch(agent, tick):
        ended.extend(tick.ended_at)
        if tick.episodes and tick.env_step > 300:
            raise Crash

    with pytest.raises(Crash):
        train(config(), folder / "just_before", on_tick=watch)
    points = curves(folder / "just_before", complete=False)["episode/return"]
    assert [step for step, _ in points] == ended


# What is refused.


def test_a_finished_run_is_finished(whole, capsys):
    with pytest.raises(RunDirError, match=r"is finished after 1,500 env steps; .*--set env_steps"):
        resume(whole.run)
    assert main(["resume", str(whole.run)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_the_past_depends_on_cannot_be_changed(whole):
    before = contents(whole.run)
    for change in ({"seed": 5}, {"hidden": (16,)}, {"learning_rate": 0.1}, {"replay_capacity": 9}):
        with pytest.raises(ConfigError, match=f"{next(iter(change))} is .* and cannot become"):
            resume(whole.run, config(env_steps=2_000, **change))
    assert contents(whole.run) == before


def test_a_run_that_is_alive_is_refused_at_once_and_left_alone(whole):
    lock = RunLock(ControlFiles(whole.run))
    before = contents(whole.run)
    with pytest.raises(RunDirError, match="another process is running"):
        resume(whole.run, config(env_steps=2_000))
    lock.release()
    assert contents(whole.run) == before


def test_where_no_run_is_nothing_is_made(tmp_path, capsys):
    assert main(["resume", str(tmp_path / "none")]) == 2
    assert "is not a run directory" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# From outside.


@pytest.fixture
def process(tmp_path):
    """A run that would take minutes, some way on."""
    (tmp_path / "long.toml").write_text(
        'env_id = "CartPole-v1"\nenv_steps = 10_000_000\nhidden = [8]\nlearn_start = 50\n'
        "checkpoint_seconds = 0.3\nxla = false\n"
    )
    command = [sys.executable, "-m", "targetnet.agents.cli", "train", str(tmp_path / "long.toml")]
    with subprocess.Popen(
        [*command, "--run", str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "run/checkpoints").glob("0*")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        yield process, tmp_path / "run"
        process.kill()


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)],
)
def test_a_signal_leaves_a_checkpoint_of_the_last_step_and_says_so_by_its_exit_code(
    process, number, code
):
    process, run = process
    submit(ControlFiles(run), set_command("tau", 0.25, "cli"))
    time.sleep(0.3)
    process.send_signal(number)
    assert process.wait(60) == code
    checkpoint = CheckpointStore(run / "checkpoints").latest()
    end = json.loads((run / "digest.json").read_text())
    assert (checkpoint.tick, checkpoint.host["agent"]["updates"]) == (end["tick"], end["update"])
    assert checkpoint.host["agent"]["overrides"] == {"tau": 0.25}


# What TensorBoard shows.


@pytest.mark.slow  # in the default run the event files are read
@pytest.mark.parametrize("loader", ["rust", "python"])
def test_tensorboard_shows_one_curve_each_step_once(folder, whole, loader, request):
    """Also a board that was open all the time and had read what was then cut off."""
    logdir = folder / f"board_{loader}"
    run = logdir / "run"
    flag = {"rust": "--load_fast=true", "python": "--load_fast=false"}[loader]
    with pytest.raises(Crash):
        train(config(checkpoint_steps=450), run, on_tick=crash_at(880, steer))
    command = [sys.executable, "-m", "tensorboard.main", f"--logdir={logdir}", "--port=0", flag]
    with subprocess.Popen(
        [*command, "--reload_interval=1"], stderr=subprocess.PIPE, text=True
    ) as board:
        request.addfinalizer(board.kill)
        while not (found := re.search(r"http://\S+:\d+", board.stderr.readline())):
            assert board.poll() is None
        url = f"{found[0]}/data/plugin/timeseries/timeSeries"
        before = asked(url, "episode/return")
        assert 450 < before[-1][0] <= 880
        resume(run, on_tick=steer)
        wanted = curves(whole.run)
        for tag in ("episode/return", "target/age", "live/epsilon", "evaluation/return"):
            points = [(step, pytest.approx(value)) for step, value in wanted[tag]]
            assert asked(url, tag, lambda got, points=points: got == points) == points
        board.kill()


def asked(url, tag, done=bool):
    """(step, value) of a curve of `run`, as the browser gets it."""
    query = json.dumps([{"plugin": "scalars", "tag": tag}])
    boundary = "b0undary"
    body = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="requests"\r\n\r\n{query}\r\n'
        f"--{boundary}--\r\n"
    )
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    deadline = time.monotonic() + 30
    points = []
    while time.monotonic() < deadline:
        request = urllib.request.Request(url, body.encode(), headers)
        with contextlib.suppress(OSError), urllib.request.urlopen(request) as answer:
            series = json.load(answer)[0].get("runToSeries", {})
            points = [(p["step"], p["value"]) for p in series.get("run", [])]
        if done(points):
            break
        time.sleep(0.3)
    return points


# For jobs that are restarted.


def test_train_resume_begins_goes_on_and_is_done(tmp_path, capsys):
    toml = tmp_path / "short.toml"
    toml.write_text(dump_config(config(env_steps=300)))
    run = tmp_path / "run[/b]"  # rich would take the end of the name for markup
    command = ["train", str(toml), "--run", str(run), "--resume"]
    assert main(command) == 0
    assert main(command) == 0 and "[/b] is finished: nothing to do" in capsys.readouterr().out
    digest = digest_of(run)
    (run / "result.json").unlink()  # as if it had been killed while it was evaluated
    assert main(command) == 0
    assert "resumed at env step 300" in capsys.readouterr().out and digest_of(run) == digest
    assert main([*command, "--set", "env_steps=400"]) == 0
    assert "resumed at env step 300" in capsys.readouterr().out
    before = contents(run)
    assert main([*command, "--seed", "5"]) == 2
    assert "seed is 0 in this run and cannot become 5" in capsys.readouterr().err
    assert main([*command[:2], "--resume"]) == 2
    assert "--resume needs --run" in capsys.readouterr().err
    assert contents(run) == before


@pytest.mark.thorough
def test_copies_that_a_rule_makes_are_drawn_where_they_were_drawn_without_the_kill(folder):
    """The graph alone knows of them: they are looked for again and again, from the last look on."""
    how = {"env_steps": 400, "sync_growth": 0.01, "log_period": 300, "checkpoint_steps": 70}
    straight = train(config(**how), folder / "ruled")
    broken = interrupted(folder / "ruled_twice", (180, 260), lambda *_: None, **how)
    drawn = [curves(run, complete=False)["target/age"] for run in (straight.run, broken.run)]
    assert drawn[0] == drawn[1] and len(drawn[0]) >= 4
