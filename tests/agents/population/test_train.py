"""A population: each member is a run, with the bits that it has alone."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.cli.main import main
from targetnet.agents.config.members import as_members, read_members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.population.repeat import repeat_population
from targetnet.agents.population.runner import MembersFailed
from targetnet.agents.population.train import resume_population, train_population
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved import directory
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control import steering
from targetnet.rl_core.control.commands import do_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import ConfigError, RunDirError
from tests.agents.run.interrupting import curves

ROOT = Path(__file__).parents[3]
SHORT = {
    "env_steps": 400, "hidden": (8,), "batch_size": 8, "replay_capacity": 200, "learn_start": 50,
    "updates_per_learn": 1,
    "xla": False, "eval_period": 150, "eval_episodes": 1, "final_eval_episodes": 2,
    "checkpoint_steps": 90, "checkpoint_seconds": 0, "log_period": 50, "past_states": 2,
}  # fmt: skip
MEMBERS = ("sync_period=5,9",)
LOOPS = {
    "plain": {},
    "two envs, prioritized": {"num_envs": 2, "prioritized": True, "learn_period": 7},
    "concurrent": {"loop": "concurrent", "learn_period": 8},
    "compiled": {"loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 20},
    "planned actions on the weights": {
        "actions": [
            {"do": "reset", "block": "head", "every": 110},
            {"do": "recycle", "threshold": 0.3, "every": 90},
            {"do": "perturb", "factor": 0.8, "every": 150},
        ],
    },
}


def members(seeds=2, **more):
    return as_members(DqnConfig(**(SHORT | more)), MEMBERS, seeds)


def alone(of, folder):
    """The digests that the members have each for itself."""
    return {name: train(c, folder / f"alone-{name}").digest for name, c in of.configs.items()}


def digests(run):
    return {path.name: RunDir.open(path).load_digest().digest for path in sorted(run.glob("m*"))}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A population, and what its members are alone; read only."""
    folder = tmp_path_factory.mktemp("population")
    of = members()
    outcome = train_population(of, folder / "run")
    return outcome, alone(of, folder)


@pytest.mark.thorough
def test_each_member_has_the_bits_that_it_has_alone(trained):
    outcome, wanted = trained
    assert {name: of.digest for name, of in outcome.members.items()} == wanted
    assert len(set(wanted.values())) == 4 and not outcome.failed and not outcome.signal


@pytest.mark.slow
@pytest.mark.parametrize("loop", list(LOOPS)[1:])
def test_so_has_it_in_every_loop(tmp_path, loop):
    of = members(1, **LOOPS[loop])
    train_population(of, tmp_path / "run")
    assert digests(tmp_path / "run") == alone(of, tmp_path)
    for name in of.configs:  # they are evaluated at the same env steps, and came to the same
        both = tmp_path / "run" / name, tmp_path / f"alone-{name}"
        inside, outside = (curves(path)["evaluation/return"] for path in both)
        assert inside == outside and len(inside) > 2


@pytest.mark.thorough
def test_a_member_is_a_run_like_any_other(trained):
    outcome, _ = trained
    run = outcome.population / "m03"
    assert RunDir.open(run).config() == members().configs["m03"]
    assert (run / "result.json").exists() and (run / "weights.safetensors").exists()
    assert outcome.members["m03"].policy(np.zeros(4, np.float32)) in (0, 1)
    assert repeat(run).identical
    with pytest.raises(RunDirError, match=r"is a population: name one of its members"):
        resume(outcome.population)


@pytest.mark.slow
def test_on_tick_that_returns_false_stops_that_member_alone(trained, tmp_path):
    of = members()
    first = of.configs["m00"]

    def on_tick(agent, tick):
        return not (agent.config == first and tick.env_step == 200)

    outcome = train_population(of, tmp_path / "run", on_tick=on_tick)
    steps = {name: of.env_steps for name, of in outcome.members.items()}
    assert steps == {"m00": 200, "m01": 400, "m02": 400, "m03": 400}
    assert not outcome.failed and not outcome.signal
    assert read_state(ControlFiles(tmp_path / "run" / "m00"))[0].status == "stopped"
    resume_population(tmp_path / "run")
    assert digests(tmp_path / "run") == trained[1]


@pytest.mark.slow
def test_all_finished_is_nothing_to_do_and_then_all_go_on(trained, tmp_path):
    outcome, _ = trained
    with pytest.raises(RunDirError, match=r"all members of .* are finished"):
        resume_population(outcome.population)
    of = members(1)
    train_population(of, tmp_path / "run")
    resume_population(tmp_path / "run", changes={"env_steps": 500, "sync_period": 3})
    for name, config in of.configs.items():
        train(config, tmp_path / name)
        digest = resume(tmp_path / name, changes={"env_steps": 500, "sync_period": 3}).digest
        assert digest == digests(tmp_path / "run")[name]


@pytest.mark.thorough
def test_one_is_stopped_and_goes_on_while_the_others_are_finished(tmp_path, trained, monkeypatch):
    monkeypatch.setattr(steering, "POLL_SECONDS", 0.0)

    def stop_first(agent, tick):
        if tick.env_step == 120 and agent.config == members().configs["m00"]:
            submit(ControlFiles(tmp_path / "run/m00"), do_command("stop", "api"))

    outcome = train_population(members(), tmp_path / "run", on_tick=stop_first)
    assert outcome.members["m00"].env_steps < 400 and not outcome.members["m00"].returns
    assert [of.env_steps for of in outcome.members.values()][1:] == [400] * 3
    assert [*resume_population(tmp_path / "run").members] == ["m00"]
    assert digests(tmp_path / "run") == trained[1]


def test_one_that_is_paused_holds_up_nobody(tmp_path, trained, monkeypatch):
    monkeypatch.setattr(steering, "POLL_SECONDS", 0.0)
    first, second = ControlFiles(tmp_path / "run/m00"), members().configs["m01"]
    paused_at = []

    def steer(agent, tick):
        if tick.env_step == 120 and agent.config == members().configs["m00"]:
            submit(first, do_command("pause", "api"))
        if tick.env_step == 390 and agent.config == second:
            paused_at.append(read_state(first)[0])
            submit(first, do_command("resume", "api"))

    train_population(members(), tmp_path / "run", on_tick=steer)
    assert paused_at[0].status == "paused" and paused_at[0].env_step < 150
    assert digests(tmp_path / "run") == trained[1]


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize(
    ("how", "code"),
    [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)],
    ids=["kill", "ctrl-c"],
)
def test_whatever_ends_it_all_members_go_on_as_if_nothing_had_been(tmp_path, trained, how, code):
    run = tmp_path / "run"
    call = f"end_by(Path({str(run)!r}), {how:d})"
    script = f"import sys; from {__name__} import *; sys.exit({call})"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, timeout=200)
    assert done.returncode == code
    resume_population(run)
    assert digests(run) == trained[1]


def end_by(run, how):
    """Trains until a signal of its own ends it; returns the exit code."""

    def end(agent, tick):
        if tick.env_step == 210 and agent.config == members().configs["m02"]:
            os.kill(os.getpid(), how)

    return 128 + train_population(members(), run, on_tick=end).signal


@pytest.mark.thorough
def test_a_member_that_was_never_made_is_made_on_resume(tmp_path):
    """The process was killed between two directories."""
    of = members(1)
    train_population(of, tmp_path / "run")
    wanted = digests(tmp_path / "run")
    for path in sorted((tmp_path / "run/m01").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    resume_population(tmp_path / "run")
    assert digests(tmp_path / "run") == wanted


@pytest.mark.slow
def test_what_one_member_changed_alone_does_not_keep_the_others_from_going_on(tmp_path):
    of, run = members(1), tmp_path / "run"
    train_population(of, run)
    resume(run / "m01", changes={"env_steps": 450, "eval_episodes": 2})
    outcome = resume_population(run, changes={"env_steps": 500})
    assert [of.env_steps for of in outcome.members.values()] == [500, 500]
    assert RunDir.open(run / "m01").config().eval_episodes == 2
    # A directory that is lost is made again as the others are now.
    shutil.rmtree(run / "m00")
    assert resume_population(run).members["m00"].env_steps == 500


def test_one_that_is_finished_is_free_while_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(steering, "POLL_SECONDS", 0.0)
    of, run = members(1), tmp_path / "run"
    first, alive = of.configs["m00"], []

    def stop(agent, tick):
        if tick.env_step == 120 and agent.config == first:
            submit(ControlFiles(run / "m00"), do_command("stop", "api"))

    def look(agent, tick):
        alive.append([read_state(ControlFiles(run / name))[1] for name in of.configs])

    train_population(of, run, on_tick=stop)
    resume_population(run, on_tick=look)
    assert alive[-1] == [True, False]


@pytest.mark.slow
def test_weights_that_tensorflow_draws_are_those_of_a_run_alone(tmp_path, monkeypatch):
    """Its own initializers draw by the seed of the graph, which members share."""
    (tmp_path / "drawing.py").write_text(OWN_NETWORK)
    monkeypatch.syspath_prepend(tmp_path)
    of = members(2, network="drawing:network", env_steps=60)
    train_population(of, tmp_path / "run")
    assert digests(tmp_path / "run") == alone(of, tmp_path)


OWN_NETWORK = """
import tensorflow.compat.v1 as tf

def network(observation):
    return tf.nn.relu(observation @ tf.get_variable("layer/w", [4, 8], tf.float32))
"""


@pytest.mark.thorough
def test_a_call_from_outside_is_of_the_member_that_is_asked(tmp_path):
    """Also past the agent's methods, while other members have their turns."""
    seen = {}

    def look(agent, tick):
        with agent.engine.graph.as_default():
            count = next(v for v in tf.global_variables() if v.op.name == "counters/updates")
        seen.setdefault(agent.config.seed, []).append(agent.engine.run(count) == agent.updates)

    train_population(as_members(DqnConfig(**SHORT), (), 3), tmp_path / "run", on_tick=look)
    assert len(seen) == 3 and all(map(all, seen.values()))


@pytest.mark.parametrize(
    ("spoil", "wanted"),
    [
        (lambda run: (run / "m01/config.toml").unlink(), "m01 is damaged: it has no config.toml"),
        (
            lambda run: shutil.copy(run / "m00/config.toml", run / "m01/config.toml"),
            "m01 is not the member that it was",
        ),
    ],
    ids=["no config", "another's config"],
)
def test_a_member_that_is_damaged_is_told_in_a_line(tmp_path, trained, spoil, wanted):
    shutil.copytree(trained[0].population, tmp_path / "run")
    spoil(tmp_path / "run")
    with pytest.raises(RunDirError, match=wanted):
        resume_population(tmp_path / "run", changes={"env_steps": 500})
    with pytest.raises(RunDirError, match=r"m01 is not (a run directory: it|the member that it)"):
        repeat_population(tmp_path / "run")


class Faulty(gym.Env):
    """The second one that is made fails."""

    observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    made = 0

    def __init__(self):
        Faulty.made += 1
        self.is_faulty, self.t = Faulty.made == 2, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen(), {}

    def seen(self):
        return self.np_random.normal(size=2).astype(np.float32)

    def step(self, action):
        self.t += 1
        if self.is_faulty and self.t == 120:
            raise RuntimeError("the simulator is gone")
        return self.seen(), float(action), False, self.t % 50 == 0, {}


@pytest.mark.slow
def test_one_that_fails_leaves_the_others_alone_and_is_tried_again(tmp_path):
    if "Faulty-population-v0" not in gym.registry:
        gym.register("Faulty-population-v0", Faulty)
    of = as_members(
        DqnConfig(**SHORT, env_id="Faulty-population-v0", check_env=False), ["sync_period=3,4,5"]
    )
    Faulty.made = 0
    outcome = train_population(of, tmp_path / "run")
    assert [*outcome.failed] == ["m01"] and [*outcome.members] == ["m00", "m02"]
    assert "the simulator is gone" in str(outcome.failed["m01"])
    with pytest.raises(MembersFailed, match="1 of 3 members failed: m01; targetnet resume"):
        outcome.require_all()
    Faulty.made = 10
    assert [*resume_population(tmp_path / "run").members] == ["m01"]
    assert digests(tmp_path / "run") == alone(of, tmp_path)


@pytest.mark.thorough
def test_an_error_of_the_program_ends_all_and_their_files_are_whole(tmp_path, trained):
    def fail(agent, tick):
        if tick.env_step == 210 and agent.config == members().configs["m02"]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train_population(members(), tmp_path / "run", on_tick=fail)
    resume_population(tmp_path / "run")
    assert digests(tmp_path / "run") == trained[1]


def test_a_place_that_is_taken_is_left_as_it_is(tmp_path):
    train(DqnConfig(**(SHORT | {"env_steps": 60})), tmp_path / "run/m01")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RunDirError, match="already holds a run"):
        train_population(members(), tmp_path / "run")
    with pytest.raises(RunDirError, match="already holds a run"):
        train_population(members(), tmp_path / "run/m01")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/m01").symlink_to("/nowhere/at/all")
    with pytest.raises(RunDirError, match="a link to nothing"):
        train_population(members(), tmp_path / "other")
    (tmp_path / "other/m01").unlink()
    (tmp_path / "other").rmdir()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_disk_that_is_full_leaves_nothing(tmp_path, monkeypatch):
    create, made = RunDir.create, []

    def full(path, *rest):
        made.append(path)
        if len(made) == 3:
            raise RunDirError("no space left")
        return create(path, *rest)

    monkeypatch.setattr(RunDir, "create", full)
    with pytest.raises(RunDirError, match="no space left"):
        train_population(members(), tmp_path / "run")
    assert len(made) == 3 and not [*tmp_path.iterdir()]


def test_weights_that_were_given_are_there_before_a_run_is(tmp_path, monkeypatch):
    """A kill between the two would have the run begin with others."""
    order = []
    write = directory.write_file
    monkeypatch.setattr(
        "targetnet.agents.saved.directory.write_file",
        lambda p, data: order.append(p.name) or write(p, data),
    )
    monkeypatch.setattr(
        "targetnet.agents.run.agent_factory.write_file",
        lambda p, data: order.append(p.name) or write(p, data),
    )

    def zeros(weights):
        return {name: np.zeros_like(value) for name, value in weights.items()}

    of = members(1, env_steps=60)
    train_population(of, tmp_path / "run", initial=zeros)
    assert order[:4] == ["initial.safetensors"] * 2 + ["config.toml"] * 2
    for name, config in of.configs.items():
        one = train(config, tmp_path / name, initial=zeros)
        assert digests(tmp_path / "run")[name] == one.digest
    shutil.rmtree(tmp_path / "run/m00")
    with pytest.raises(RunDirError, match="the weights it began with are lost"):
        resume_population(tmp_path / "run")


def test_another_number_of_members_cannot_go_on(trained):
    run = trained[0].population
    with pytest.raises(ConfigError, match="has 4 members, and the config has 2"):
        resume_population(run, members(1))
    with pytest.raises(ConfigError, match="hidden is"):
        resume_population(run, members(hidden=(9,)))


def test_all_of_them_are_steered_at_once(tmp_path, capsys):
    run, ended = tmp_path / "run", []
    of = members(env_steps=1_000_000, eval_period=1_000_000)
    thread = threading.Thread(target=lambda: ended.append(train_population(of, run)))
    thread.start()
    names = [*of.configs]
    while not all(_is_up(run / name) for name in names):
        assert thread.is_alive()
        time.sleep(0.05)
    try:
        assert main(["set", str(run), "tau=0.25"]) == 2
        assert "name one of its members" in capsys.readouterr().err
        assert main(["do", str(run / "m00"), "stop"]) == 0
        while _is_up(run / "m00"):
            time.sleep(0.05)
        assert main(["set", str(run), "--all", "tau=0.25"]) == 0
        said = capsys.readouterr().out
        assert [line.partition(":")[0] for line in said.splitlines()][-3:] == names[1:]
        assert main(["do", str(run), "--all", "perturb", "0.9", "torso"]) == 0
        assert capsys.readouterr().out.count("perturb 0.9 torso at update") == 3
        assert main(["set", str(run), "--all", "tau=7"]) == 2
        assert capsys.readouterr().err.count("tau") >= 3
        assert main(["status", str(run)]) == 0
        shown = capsys.readouterr().out
        places = [shown.index(f" {name} ") for name in names]
        assert places == sorted(places)
    finally:
        assert main(["do", str(run), "--all", "stop"]) == 0
        thread.join()
    changed = {n: [e.name for e in read_log(ControlFiles(run / n).log) if e.taken] for n in names}
    done = ["tau", "perturb", "stop"]
    assert changed == {"m00": ["stop"]} | dict.fromkeys(names[1:], done)
    assert main(["do", str(run), "--all", "stop"]) == 2
    assert "no member of" in capsys.readouterr().err
    assert main(["set", str(run / "m00"), "--all", "tau=0.25"]) == 2


def _is_up(run: Path) -> bool:
    try:
        return read_state(ControlFiles(run))[1]
    except RunDirError:
        return False


@pytest.mark.thorough
def test_the_command_trains_resumes_and_says_what_came_of_it(tmp_path, capsys):
    run, settings = str(tmp_path / "run"), "xla=false hidden=[8] env_steps=150 learn_start=50"
    more = ["eval_period=1000", "final_eval_episodes=1", "replay_capacity=200"]
    command = ["train", "cartpole", "--run", run, "--set", *settings.split(), *more]
    command += ["--members", "sync_period=5,9"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "2 members, CartPole-v1" in said and "m01" in said and "greedy return" in said
    results = {member: Path(run, member, "result.json") for member in ("m00", "m01")}
    means = {member: json.loads(path.read_text())["mean"] for member, path in results.items()}
    best = Path(run, max(means, key=means.get))
    assert f"next: targetnet eval {best}, targetnet play {best} or targetnet board {run}\n" in said
    assert main(["resume", run]) == 2
    assert "are finished" in capsys.readouterr().err
    assert main([*command[:-2], "--members"]) == 2
    assert "--members wants NAME=VALUE" in capsys.readouterr().err
    assert main(command) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    assert "finished: nothing to do" in capsys.readouterr().out
    assert main(["resume", run, "--set", "env_steps=170"]) == 0
    assert "m01: resumed at env step 150" in capsys.readouterr().out


@pytest.mark.slow
def test_a_member_that_recorded_nothing_is_told_and_keeps_its_place_in_a_repeat(
    tmp_path, trained, capsys
):
    run, again = shutil.copytree(trained[0].population, tmp_path / "run"), tmp_path / "again"
    for path in (run / "m01").iterdir():  # as when an env failed in its first step
        if path.name != "config.toml":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert main(["replay", str(run), "--to", str(again)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "m01: recorded no step, so there is nothing to replay" in said
    assert [f"{n}: identical {trained[1][n]}" in said for n in trained[1]] == [1, 0, 1, 1]
    # The kept repeat is a population like the first one.
    assert read_members(again / "population.toml") == members()
    repeated = repeat_population(again)
    assert [name for name, of in repeated.items() if of.identical] == ["m00", "m02", "m03"]
