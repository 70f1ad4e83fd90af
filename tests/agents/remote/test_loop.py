"""The remote loop: against the same work written out, and against everything that may go wrong."""

import io
import itertools
import json
import math
import os
import shutil
import signal
from hashlib import sha256

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file, save_file

from targetnet.agents.cli.main import main
from targetnet.agents.config.members import load_members
from targetnet.agents.dqn.memory_estimate import needs
from targetnet.agents.loops.plain import LearnClock, LoopState
from targetnet.agents.remote import run_actors
from targetnet.agents.remote.collector import Collector
from targetnet.agents.remote.deliveries import Request
from targetnet.agents.remote.loop import epsilon_of, remote_loop
from targetnet.agents.remote.remote_envs import RemoteEnvs
from targetnet.agents.remote.transport import InProcess
from targetnet.agents.run.agent_factory import arguments_for
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.checkpoint.store import CheckpointError, CheckpointStore
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.records import Arrival, ArrivalsFile, read_arrivals
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import (
    ArgumentError,
    ConfigError,
    EnvError,
    EnvFailed,
    FeedError,
    MemoryLimitError,
    RlCoreError,
    RunDirError,
)
from tests.agents.pool import POOL
from tests.agents.remote.helpers import Repeating, Unreliable, config
from tests.agents.run.interrupting import Crash, crash_at

FREE = {"actor_pace": "free", "actor_ahead": 2}


def on(monkeypatch, transport):
    """Runs with actors in this process get this transport."""
    monkeypatch.setattr("targetnet.agents.remote.run_actors.InProcess", transport)


def unreliable(seed, losses=0.1):
    return lambda of: Unreliable(of, seed, losses)


def run(path, on_tick=None, **settings):
    return train(config(**settings), path, on_tick=on_tick, ray="off", console=None)


def steer(agent, tick):
    """Changes at odd places, of what is learned and of what actors do."""
    live, span = agent.hyperparameters, agent.config.delivered_at_once * agent.config.num_envs
    changes = {120: ("epsilon", 0.2), 190: ("learn_period", 3), 270: ("epsilon", "auto")}
    for env_step, (name, value) in changes.items():
        if tick.env_step - span < env_step <= tick.env_step and live[name] != value:
            live[name] = value


# In phases.


def written_out(of):
    """The definition: all actors with the weights of before, then the updates, then the rows."""
    envs = RemoteEnvs(of, InProcess(of))
    agent = POOL.agent(of, **arguments_for(of, envs))
    envs.close()
    actors = [Collector(of, actor) for actor in range(of.actors)]
    live, clock = agent.hyperparameters, LearnClock()
    tick = env_step = due = 0
    for phase in itertools.count():
        weights = agent.state.weights()
        deliveries = []
        for actor, collector in enumerate(actors):
            epsilon = epsilon_of(actor, live["epsilon"], of)
            asked = Request(phase, phase, agent.updates, {"epsilon": epsilon})
            deliveries.append(collector.collect(asked, weights))
        if due:
            agent.learn(due)
        made = 0
        for delivery in deliveries:
            agent.store(delivery.rows)
            made += int((~delivery.rows["autoreset"][1:]).sum())
            tick += of.actor_steps + 1
        env_step += made
        live.env_step = env_step
        due = clock.phases_due(made, live["learn_period"]) * (env_step >= of.learn_start)
        if env_step >= of.env_steps:
            break
    position = LoopState(tick=tick, env_step=env_step, due_updates=due, clock=clock).position()
    return agent.state.digest(**position), agent.updates


SCHEDULE = {"schedule": "linear", "start": 1.0, "end": 0.1, "steps": 300}


@pytest.fixture(scope="module")
def phases(tmp_path_factory, pool):
    """A run in phases that nothing disturbed; look, do not touch."""
    with pool.open():
        return run(tmp_path_factory.mktemp("runs") / "phases", epsilon=SCHEDULE)


@pytest.mark.thorough
def test_phases_are_the_loop_written_out(phases):
    digest, updates = written_out(config(epsilon=SCHEDULE))
    assert (phases.digest, phases.updates) == (digest, updates) and updates > 60


@pytest.mark.thorough
def test_phases_have_the_same_bits_whatever_becomes_of_the_actors(tmp_path, monkeypatch, phases):
    on(monkeypatch, unreliable(seed=5))
    assert run(tmp_path / "run", epsilon=SCHEDULE).digest == phases.digest


def test_a_replay_of_phases_needs_no_actors_elsewhere(phases):
    assert repeat(phases.run, console=None).identical


def crashed(path, moments, **settings):
    """A run that crashes at these env steps, each time resumed, and then goes to its end."""
    go = lambda on_tick: run(path, on_tick, **settings)  # noqa: E731
    for moment in moments:
        with pytest.raises(Crash):
            go(crash_at(moment, steer))
        go = lambda on_tick: resume(path, on_tick=on_tick, ray="off", console=None)  # noqa: E731
    return go(steer)


OFTEN = {"checkpoint_steps": 90, "env_steps": 500}


@pytest.mark.thorough
def test_a_learner_that_was_killed_in_phases_becomes_the_run_that_was_not(tmp_path):
    straight = run(tmp_path / "straight", steer, **OFTEN)
    broken = crashed(tmp_path / "broken", (150, 330), **OFTEN)
    assert broken.digest == straight.digest and broken.returns == straight.returns
    assert repeat(broken.run, console=None).identical


# Free running.


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"prioritized": True, "n_step": 3, "xla": True}, marks=pytest.mark.slow),
        pytest.param({"prioritized": True, "actor_priorities": True}, marks=pytest.mark.slow),
        pytest.param({"noisy": True, "env_kwargs": {"masks": True}}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_free_running_actors_deliver_in_any_order_and_a_replay_follows_it(
    tmp_path, monkeypatch, settings
):
    digests = set()
    for seed in range(3):
        on(monkeypatch, unreliable(seed, losses=0.05))
        outcome = run(tmp_path / str(seed), steer, **FREE, **settings)
        monkeypatch.undo()
        # The replay's actors are not lost: so nothing was lost or doubled with those that were.
        verdict = repeat(outcome.run, console=None)
        assert verdict.identical and verdict.complete
        digests.add(outcome.digest)
    assert len(digests) == 3  # or orders do not matter, and the replay shows nothing


def test_arrivals_tell_the_weights_that_were_acted_with(tmp_path, monkeypatch):
    on(monkeypatch, unreliable(1, losses=0.0))
    outcome = run(tmp_path / "run", **FREE)
    arrivals = read_arrivals(ControlFiles(outcome.run).arrivals, 10)
    assert {arrival.actor for arrival in arrivals} == {0, 1, 2}
    # Two ahead, of random weights: they are asked for before there were updates.
    assert [a.updates for a in arrivals[:3]] == [0, 0, 0]
    assert 0 < arrivals[-1].updates < outcome.updates
    for actor in range(3):
        updates = [a.updates for a in arrivals if a.actor == actor]
        assert updates == sorted(updates)


@pytest.mark.cases(1)
@pytest.mark.parametrize("moments", [(60,), (150, 330)])
def test_a_killed_learner_follows_what_had_arrived_and_the_whole_run_replays(
    tmp_path, monkeypatch, moments
):
    chance = itertools.count(10)  # other orders after each resume
    on(monkeypatch, lambda of: Unreliable(of, next(chance), losses=0.05))
    path = tmp_path / "run"
    broken = crashed(path, moments, **OFTEN, **FREE)
    monkeypatch.undo()
    assert repeat(broken.run, console=None).identical
    entries = [e for e in read_log(ControlFiles(path).log) if e.taken and e.who == "api"]
    names = [name for name, _ in itertools.groupby(entry.name for entry in entries)]
    assert names == ["epsilon", "learn_period", "epsilon"]


def test_what_had_arrived_before_a_kill_arrives_again(tmp_path, monkeypatch):
    path, chance, lines = tmp_path / "run", itertools.count(), []
    on(monkeypatch, lambda of: Unreliable(of, next(chance)))

    with pytest.raises(Crash):
        run(path, crash_at(260), checkpoint_steps=100, **FREE)
    before = read_arrivals(ControlFiles(path).arrivals, 20)

    def until_then(agent, tick):
        lines.append(read_arrivals(ControlFiles(path).arrivals, 0)[: len(before)])

    resume(path, on_tick=until_then, ray="off", console=None)
    # At every moment: were it killed there again, it would still know all of them.
    assert all(found == before for found in lines)
    assert read_arrivals(ControlFiles(path).arrivals, len(before) + 1)[: len(before)] == before


def test_a_longer_run_goes_on_with_the_requests_that_were_open(tmp_path, monkeypatch):
    on(monkeypatch, unreliable(3))
    first = run(tmp_path / "run", **FREE)
    again = resume(first.run, changes={"env_steps": 700}, ray="off", console=None)
    monkeypatch.undo()
    assert again.env_steps >= 700 and repeat(again.run, console=None).identical


def test_a_replay_in_another_order_is_not_identical(tmp_path, monkeypatch):
    on(monkeypatch, unreliable(1, losses=0.0))
    outcome = run(tmp_path / "run", **FREE)
    other = run(tmp_path / "other", **FREE, seed=0)
    monkeypatch.undo()
    files, others = ControlFiles(outcome.run), ControlFiles(other.run)
    assert outcome.digest == other.digest  # the same chance, the same order
    arrivals = read_arrivals(files.arrivals, 30)
    files.arrivals.unlink()
    file = ArrivalsFile(files.arrivals)
    i = next(i for i in range(10, 30) if arrivals[i].actor != arrivals[i + 1].actor)
    arrivals[i], arrivals[i + 1] = arrivals[i + 1], arrivals[i]
    for arrival in arrivals:
        file.append(arrival)
    file.close()
    assert not repeat(outcome.run, console=None).identical
    others.arrivals.write_bytes(others.arrivals.read_bytes()[:100])
    with pytest.raises(RunDirError, match=r"arrivals\.bin is damaged: it has 5 whole records"):
        repeat(other.run, console=None)


def test_a_checkpoint_with_other_requests_is_refused(tmp_path, monkeypatch):
    outcome = run(tmp_path / "run", **FREE)
    split = run_actors.split_variables
    monkeypatch.setattr(run_actors, "split_variables", lambda v: (split(v)[0], {}))
    with pytest.raises(CheckpointError, match="has no weights"):
        resume(outcome.run, changes={"env_steps": 700}, ray="off", console=None)


def test_arrivals_of_other_actors_are_refused(tmp_path):
    outcome = run(tmp_path / "run", **FREE)
    files = ControlFiles(outcome.run)
    file = ArrivalsFile(files.arrivals, len(read_arrivals(files.arrivals, 0)))
    file.append(Arrival(3, 0, 0))
    file.close()
    with pytest.raises(RunDirError, match=r"arrivals\.bin is damaged: it is of more than 3 actors"):
        repeat(outcome.run, console=None)
    with pytest.raises(RunDirError, match=r"arrivals\.bin is damaged: it is of more than 3 actors"):
        resume(outcome.run, changes={"env_steps": 700}, ray="off", console=None)


def test_an_env_that_is_another_one_after_a_kill_is_told(tmp_path):
    settings = {"env_kwargs": {"forgets": True}, "checkpoint_steps": 90, **FREE}
    path, shown = tmp_path / "run", io.StringIO()

    with pytest.raises(Crash):
        run(path, crash_at(260), **settings)
    resume(path, ray="off", console=Console(file=shown, width=300))
    assert "gave other results when episode" in shown.getvalue()
    assert "is not what it was: not the same bits from here on" in shown.getvalue()
    # What is recorded is what really came.
    assert len(read_arrivals(ControlFiles(path).arrivals, 0)) * 6 == read_end(path)


def read_end(path):
    return RunDir.open(path).load_digest().tick


@pytest.mark.thorough
def test_a_lost_actor_that_takes_long_to_come_back_keeps_nobody_waiting(tmp_path, monkeypatch):
    never = lambda: pytest.fail("waits for it")  # noqa: E731
    on(monkeypatch, lambda of: Repeating(of, 1, never))
    outcome = run(tmp_path / "run", **FREE)
    monkeypatch.undo()
    arrivals = read_arrivals(ControlFiles(outcome.run).arrivals, 20)
    assert [a.actor for a in arrivals].count(1) == 3 and outcome.updates > 60
    assert repeat(outcome.run, console=None).identical
    # Its requests are in the checkpoint, and answered when the run goes on.
    longer = resume(outcome.run, changes={"env_steps": 700}, ray="off", console=None)
    arrivals = read_arrivals(ControlFiles(outcome.run).arrivals, 30)
    assert [a.actor for a in arrivals].count(1) > 8
    assert repeat(longer.run, console=None).identical


def pressed():
    """Ctrl-C, at the first look for an actor that never comes."""
    pressed.count += 1
    if pressed.count == 1:
        os.kill(os.getpid(), signal.SIGINT)
    assert pressed.count < 5, "it waits on"
    return False


@pytest.mark.slow
def test_ctrl_c_ends_free_running_at_once_while_it_waits_for_a_lost_actor(tmp_path, monkeypatch):
    pressed.count = 0
    on(monkeypatch, lambda of: Repeating(of, 0, pressed))
    settings = {"actors": 1, "learn_start": 20, **FREE}
    outcome = run(tmp_path / "run", **settings)
    assert outcome.signal == signal.SIGINT and outcome.env_steps < 40
    assert read_state(ControlFiles(outcome.run))[0].status == "interrupted"
    monkeypatch.undo()
    # It goes on from there: nothing is lost.
    longer = resume(outcome.run, ray="off", console=None)
    assert longer.env_steps >= 400 and repeat(longer.run, console=None).identical
    assert longer.digest == run(tmp_path / "straight", **settings).digest


def test_ctrl_c_ends_phases_at_once_while_they_wait_for_a_lost_actor(tmp_path, monkeypatch):
    pressed.count = 0
    straight = run(tmp_path / "straight", **OFTEN)
    on(monkeypatch, lambda of: Repeating(of, 2, pressed))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", **(OFTEN | {"checkpoint_steps": 50}))
    assert read_state(ControlFiles(tmp_path / "run"))[0].status == "interrupted"
    monkeypatch.undo()
    done = []
    longer = resume(
        tmp_path / "run",
        on_tick=lambda _, tick: done.append(tick.env_step),
        ray="off",
        console=None,
    )
    assert longer.digest == straight.digest and done[0] > 60  # from its last checkpoint


# Both.


@pytest.mark.cases(0)
@pytest.mark.parametrize("settings", [{}, FREE], ids=["phases", "free"])
def test_a_fault_of_an_env_ends_the_run_in_one_line_and_replays(tmp_path, settings):
    broken = {"env_kwargs": {"fails": 97}, "seed": 1, "env_steps": 2_000, **settings}
    with pytest.raises(
        EnvFailed, match=r"at env step [\d,]+, actor \d \(seed 1\), env \d"
    ) as error:
        run(tmp_path / "run", checkpoint_steps=50, **broken)
    assert "the toy is broken" in str(error.value) and "where resume goes on" in str(error.value)
    assert repeat(tmp_path / "run", console=None).first_difference is None


def test_a_mistake_in_an_actor_is_told_once_and_no_other_actor_tries(tmp_path, monkeypatch):
    def fails(self, weights):
        raise FeedError("weights of another shape")

    monkeypatch.setattr("targetnet.agents.remote.numpy_policy.NumpyPolicy.load", fails)
    with pytest.raises(FeedError, match=r"^actor 0 \(seed 0\): weights of another shape$"):
        run(tmp_path / "run")


def test_an_actor_whose_env_is_another_one_is_refused_before_anything_is_written(
    tmp_path, monkeypatch
):
    masked = config(env_kwargs={"masks": True})
    on(monkeypatch, lambda of: InProcess(masked))
    why = (
        r"the envs of actor 0 are others than here: observations \(2,\) of float32, 3 actions with "
    )
    with pytest.raises(EnvError, match=why + r"masks; here .* without masks"):
        run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_actors_explore_less_and_less():
    of = config(actors=5, actor_alpha=7.0)
    # 0.4 ** (1 + 7 i / 4)
    wanted = [0.4, 0.0805, 0.0162, 0.00326, 0.000655]
    np.testing.assert_allclose([epsilon_of(i, 0.4, of) for i in range(5)], wanted, rtol=2e-3)
    alike = config(actors=5, actor_alpha=0.0)
    assert {epsilon_of(i, 0.3, alike) for i in range(5)} == {float(np.float32(0.3))}
    assert epsilon_of(0, 0.3, config(actors=1)) == float(np.float32(0.3))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"vectorization": "async"}, "needs vectorization = 'sync'"),
        ({"boltzmann": True}, "explores by epsilon alone"),
        ({"replay_capacity": 100}, "stores 36 rows at once, and needs replay_capacity >= 108"),
    ],
)
def test_what_actors_cannot_do_is_refused_in_one_line(settings, why):
    with pytest.raises(ConfigError, match=why):
        config().model_copy(update=settings)


@pytest.mark.parametrize(
    ("ray", "settings", "why"),
    [
        ("off", {"loop": "plain"}, "ray says where the actors of loop = 'remote' live"),
        (6379, {}, "ray must be an address"),
        ("here", {}, "--ray wants HOST:PORT or auto, got 'here'"),
    ],
)
def test_a_place_for_actors_that_is_none_is_refused(tmp_path, ray, settings, why):
    with pytest.raises(RlCoreError, match=why):
        train(config(**settings), tmp_path / "run", ray=ray, console=None)
    assert not (tmp_path / "run").exists()


def test_members_have_no_actors():
    with pytest.raises(ConfigError, match="cannot be a population's"):
        load_members("cartpole", ["loop=remote"], ["sync_period=25,100"])


def test_what_may_be_on_the_way_is_counted_and_told(tmp_path):
    shown = io.StringIO()
    train(config(**FREE), tmp_path / "run", ray="off", console=Console(file=shown, width=200))
    # 6 deliveries of 6 time steps of 2 envs; a row has 2 floats, an action, a reward, two flags;
    # the weights of 2 * 8 + 8 + 8 * 3 + 3 floats may be others for each.
    nbytes = 6 * 6 * 2 * (8 + 4 + 4 + 2) + 6 * 51 * 4
    assert f"6 deliveries of 3 actors may be on their way: up to {nbytes / 1e3:.3g} kB" in (
        shown.getvalue()
    )
    of = config(**FREE, hidden=(8,))
    need = needs(of, (2,), np.dtype("f4"), 3)[-1]
    assert (need.nbytes, need.lower) == (nbytes, "actors")


@pytest.mark.parametrize("ray", ["off", None])
def test_a_run_that_does_not_fit_into_memory_starts_no_actor(tmp_path, monkeypatch, ray):
    for name in ("InProcess", "RayActors"):
        monkeypatch.setattr(run_actors, name, lambda *of: pytest.fail("starts actors"))
    with pytest.raises(MemoryLimitError, match="lower replay_capacity"):
        train(config(replay_capacity=10**13), tmp_path / "run", ray=ray, console=None)
    assert not (tmp_path / "run").exists()


def test_other_envs_than_those_of_actors_are_refused():
    with pytest.raises(ArgumentError, match="envs must be the envs of actors, a RemoteEnvs"):
        next(remote_loop(type("A", (), {"config": config()})(), object()))


# Damaged checkpoints.


def damaged(run, damage, number):
    """Changes a checkpoint as an attacker would: all digests fit."""
    directory = run / f"checkpoints/{number:08d}"
    files = {name: directory / name for name in ("host.json", "variables.safetensors")}
    host = json.loads(files["host.json"].read_text())
    variables = load_file(files["variables.safetensors"])
    damage(host["actors"], variables)
    files["host.json"].write_text(json.dumps(host))
    save_file(variables, files["variables.safetensors"])
    manifest = json.loads((directory / "manifest.json").read_text().split("\n")[0])
    for name, path in files.items():
        data = path.read_bytes()
        manifest["files"][name] = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    text = json.dumps(manifest, sort_keys=True)
    (directory / "manifest.json").write_text(f"{text}\n{sha256(text.encode()).hexdigest()}\n")


def at(*path, value):
    """Puts a value into the actors' part."""

    def damage(part, variables):
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = value

    return damage


def in_weights(change):
    def damage(part, variables):
        name = next(n for n in variables if n.startswith("actors/") and n.endswith("head/q/w"))
        change(variables, name)

    return damage


def changed(make):
    return lambda variables, name: variables.update({name: make(variables[name])})


REQUEST = "requests", 1, 0
DAMAGE = {
    "negative": (at("delivered", 1, value=-1), "host.json", "actors.delivered.1 should be greater"),
    "too large": (at("delivered", 1, value=2**63), "host.json", "delivered.1 should be less than"),
    "no number": (at("delivered", 1, value="3"), "host.json", "delivered.1 should be a whole"),
    "a fraction": (at("delivered", 1, value=3.5), "host.json", "delivered.1 should be a whole"),
    "another count": (at("delivered", 1, value=2**40), "host.json", "arrivals has"),
    "two of three": (at("delivered", value=[1, 2]), "host.json", "arrivals has"),
    "a list too many": (
        lambda part, _: part["requests"].append([]), "host.json", "are of 3 and 4 actors, not of 3",
    ),
    "no arrivals": (at("arrivals", value=[0, 0]), "host.json", "arrivals has 0 deliveries"),
    "more arrivals": (at("arrivals", 0, value=2**60), "host.json", "arrivals has"),
    "another seal": (at("arrivals", 1, value=5), "arrivals.bin", "not what was written"),
    "a request less": (at(*REQUEST[:2], value=[]), "host.json", "requests [] after"),
    "another number": (at(*REQUEST, "number", value=2**62), "host.json", "requests [4611686"),
    "later updates": (at(*REQUEST, "updates", value=2**62), "host.json", "requests at updates"),
    "NaN": (at(*REQUEST, "live", "epsilon", value=math.nan), "host.json", "epsilon should be"),
    "infinite": (at(*REQUEST, "live", "epsilon", value=math.inf), "host.json", "epsilon should be"),
    "out of bounds": (at(*REQUEST, "live", "epsilon", value=1.5), "host.json", "epsilon must be"),
    "a text": (at(*REQUEST, "live", "epsilon", value="0.5"), "host.json", "should be a number"),
    "more values": (at(*REQUEST, "live", "tau", value=0.5), "host.json", "with the live values"),
    "a request that is none": (at(*REQUEST, value=7), "host.json", "requests.1.0 should be"),
    "no such weights": (
        at(*REQUEST, "weights", value=2**62), "variables.safetensors", "has no weights 46116860"
    ),
    "NaN in weights": (
        in_weights(changed(lambda w: w * np.float32(np.nan))), "variables.safetensors",
        "head/q/w of weights",
    ),
    "another shape": (
        in_weights(changed(lambda w: w[:, :2].copy())), "variables.safetensors", "has no weights",
    ),
    "another type": (
        in_weights(changed(lambda w: w.astype(np.float64))), "variables.safetensors",
        "has no weights",
    ),
    "a layer less": (
        in_weights(lambda variables, name: variables.pop(name)), "variables.safetensors",
        "has no weights",
    ),
    "weights of nobody": (
        in_weights(lambda v, name: v.update({"actors/999/head/q/w": v[name]})),
        "variables.safetensors", "has weights 999, which no request names",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def free(tmp_path_factory, pool):
    """A run of free actors that is over; copy it."""
    with pool.open():
        return run(tmp_path_factory.mktemp("free") / "run", **FREE)


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_numbers_of_actors_are_one_line_that_names_the_file(free, tmp_path, capsys, name):
    damage, file, problem = DAMAGE[name]
    path = shutil.copytree(free.run, tmp_path / "run")
    damaged(path, damage, CheckpointStore(path / "checkpoints").latest().number)
    before = {of: of.read_bytes() for of in path.rglob("*") if of.is_file()}
    assert main(["resume", str(path), "--set", "env_steps=700", "--ray", "off"]) == 2
    lines = capsys.readouterr().err.splitlines()
    # One line tells that the env's code is imported, if it comes to that.
    (err,) = (line for line in lines if "RemoteToy-v0' imports " not in line)
    assert file in err and problem in err, err
    assert {of: of.read_bytes() for of in before} == before


@pytest.mark.parametrize(
    ("more", "problem"),
    [([1, 0, 0], "are not the rows of"), ([1, -1, 0], "the same number of each actor is wanted")],
)
def test_counts_of_phases_that_do_not_agree_are_refused(phases, tmp_path, more, problem):
    def damage(part, variables):
        part["delivered"] = [n + k for n, k in zip(part["delivered"], more, strict=True)]

    path = shutil.copytree(phases.run, tmp_path / "run")
    damaged(path, damage, CheckpointStore(path / "checkpoints").latest().number)
    with pytest.raises(CheckpointError, match=rf"host\.json of checkpoint \d+ is .*{problem}"):
        resume(path, changes={"env_steps": 700}, ray="off", console=None)


def test_requests_in_a_checkpoint_of_phases_are_refused(phases, free, tmp_path):
    path, other = (
        shutil.copytree(phases.run, tmp_path / "run"),
        CheckpointStore(free.run / "checkpoints"),
    )
    asked = other.latest().host["actors"]["requests"]
    damaged(
        path, at("requests", value=asked), CheckpointStore(path / "checkpoints").latest().number
    )
    with pytest.raises(CheckpointError, match=r"host\.json of checkpoint .* and 0 are wanted"):
        resume(path, changes={"env_steps": 700}, ray="off", console=None)


def test_the_same_checkpoint_undamaged_goes_on(free, tmp_path):
    """The refusals above are not of everything."""
    path = shutil.copytree(free.run, tmp_path / "run")
    damaged(path, lambda *_: None, CheckpointStore(path / "checkpoints").latest().number)
    assert resume(path, changes={"env_steps": 700}, ray="off", console=None).env_steps >= 700
