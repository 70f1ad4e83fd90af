"""Runs that learn from a dataset: exact, steered, killed, resumed, repeated; refused in a line."""

import shutil
import sys

import minari
import numpy as np
import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.files import read_config
from targetnet.agents.config.members import as_members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.record import record
from targetnet.agents.data.run_dataset import fill, with_dataset
from targetnet.agents.population.train import train_population
from targetnet.agents.remote.run_actors import envs_of_run
from targetnet.agents.run.agent_factory import agent_for
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.envs.drivers import SyncEnvs
from targetnet.rl_core.control import steering
from targetnet.rl_core.control.commands import set_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.errors import RlCoreError
from tests.agents.data.datasets import random_dataset, random_episodes, written
from tests.agents.run.interrupting import Crash, crash_at, curves, setting

SHORT = {
    "env_id": "CartPole-v1", "env_steps": 400, "hidden": (8,), "batch_size": 8, "learn_start": 40,
    "learn_period": 4, "updates_per_learn": 2, "learning_rate": 0.01, "sync_period": 37,
    "log_period": 50, "eval_period": 150, "eval_episodes": 2, "final_eval_episodes": 2,
    "xla": False, "checkpoint_seconds": 0, "checkpoint_steps": 90, "past_states": 2,
    "cql_weight": 0.5,
}  # fmt: skip
ARMS = [{"exempt": ["head"], "updates": 7}, {"exempt": ["torso"], "updates": 5}]
KINDS = {
    "scalar": {},
    "prioritized, three steps": {"prioritized": True, "n_step": 3, "cql_weight": 0.0},
    "quantile, stack": {"head": "quantile", "quantiles": 5, "frame_stack": 2},
    "compiled, freezing": {"xla": True, "freeze": ARMS, "ema_decay": 0.9},
}
KINDS_PARAMETERS = [
    pytest.param(how, id=kind, marks=() if i < 2 else pytest.mark.slow)
    for i, (kind, how) in enumerate(KINDS.items())
]
steer = setting({100: ("cql_weight", 2.0), 210: ("learn_period", 3), 330: ("learning_rate", 0.002)})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return random_dataset(tmp_path_factory.mktemp("data") / "random-v0")


def config(data, **settings):
    return DqnConfig(**SHORT | {"offline": str(data)} | settings)


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("settings", KINDS_PARAMETERS)
def test_killed_and_resumed_it_is_the_same_run_and_a_repeat_is_identical(
    data, tmp_path, pool, settings
):
    straight = train(config(data, **settings), tmp_path / "straight", on_tick=steer)
    pool.take_back()
    broken = tmp_path / "broken"
    with pytest.raises(Crash):
        train(config(data, **settings), broken, on_tick=crash_at(131, steer))
    with pytest.raises(Crash):
        resume(broken, on_tick=crash_at(305, steer))
    # By its config as it was given, without what a run keeps of its dataset.
    outcome = resume(broken, config(data, **settings), on_tick=steer)
    pool.take_back()
    assert outcome.digest == straight.digest and outcome.updates == straight.updates > 150
    assert curves(broken, complete=False) == curves(straight.run, complete=False)
    verdict = repeat(broken)
    assert verdict.identical and verdict.digest == straight.digest and verdict.complete


@pytest.mark.slow
def test_another_seed_and_another_dataset_are_other_runs(data, tmp_path):
    other = written(tmp_path / "other-v0", random_episodes(lengths=(30, 30), seed=1))
    runs = {"a": config(data), "b": config(data, seed=1), "c": config(other)}
    digests = [train(of, tmp_path / name).digest for name, of in runs.items()]
    assert len({*digests}) == 3


def test_no_env_is_stepped_but_in_evaluations(data, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(SyncEnvs, "step", None)
    with pytest.raises(TypeError):  # the evaluation at env step 150 is the first that steps one
        train(config(data), tmp_path / "run", on_tick=lambda agent, tick: seen.append(tick))
    assert seen[-1].env_step == 150


def test_env_steps_are_the_clock_of_updates_schedules_and_evaluations(data, tmp_path):
    made = []
    rate = {"schedule": "linear", "start": 0.02, "end": 0.0001, "steps": 400}
    outcome = train(
        config(data, learning_rate=rate),
        tmp_path / "run",
        on_tick=lambda agent, tick: made.append(
            (tick.env_step, agent.updates, agent.hyperparameters["learning_rate"])
        ),
    )
    assert [step for step, _, _ in made] == [*range(1, 401)]
    # Two updates after every fourth env step, from the 40th on; they are made before the next one.
    assert [of for _, of, _ in made] == [2 * max(0, (s - 1) // 4 - 9) for s, _, _ in made]
    assert outcome.updates == made[-1][1] == 180
    assert made[199][2] == pytest.approx(0.02 - 0.0199 / 2)
    shown = curves(outcome.run, complete=False)
    assert [step for step, _ in shown["evaluation/return"]][:2] == [150, 300]
    assert "episode/return" not in shown


def test_a_command_steers_it(data, tmp_path, monkeypatch):
    monkeypatch.setattr(steering, "POLL_SECONDS", 0.0)
    run = tmp_path / "run"
    command = set_command("cql_weight", 3.0, "api")

    def on_tick(agent, tick):
        if tick.env_step == 200:
            submit(ControlFiles(run), command)

    outcome = train(config(data), run, on_tick=on_tick)
    (entry,) = (entry for entry in read_log(ControlFiles(run).log) if entry.id == command.id)
    assert entry.taken and (entry.old, entry.new) == (0.5, 3.0) and entry.env_step > 200
    verdict = repeat(run)
    assert verdict.identical and verdict.digest == outcome.digest


@pytest.mark.thorough
def test_the_run_keeps_which_dataset_it_was_and_takes_no_other(data, tmp_path):
    path = tmp_path / "mine-v0"
    shutil.copytree(data, path)
    with pytest.raises(Crash):
        train(config(path), tmp_path / "run", on_tick=crash_at(131, steer))
    kept = read_config(tmp_path / "run" / "config.toml")
    assert kept.offline == str(path) and len(kept.dataset_digest) == 64
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    moved = path.rename(tmp_path / "moved-v0")
    with pytest.raises(RlCoreError, match="there is no Minari dataset"):
        resume(tmp_path / "run")
    written(path, random_episodes(seed=9))
    with pytest.raises(RlCoreError, match="is not the one that this run learns from"):
        resume(tmp_path / "run")
    with pytest.raises(RlCoreError, match="set offline"):
        resume(tmp_path / "run", changes={"offline": ""})
    after = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    assert {f: b for f, b in after.items() if "control" not in f.parts} == {
        f: b for f, b in before.items() if "control" not in f.parts
    }
    # It may be somewhere else, as long as it is the same one.
    outcome = resume(tmp_path / "run", changes={"offline": str(moved)}, on_tick=steer)
    assert outcome.digest == train(config(moved), tmp_path / "straight", on_tick=steer).digest
    shutil.rmtree(moved)
    written(moved, random_episodes(seed=9))
    with pytest.raises(RlCoreError, match="is not the one that this run learns from"):
        repeat(tmp_path / "run")


@pytest.mark.thorough
def test_a_run_that_steps_envs_does_not_become_offline(data, tmp_path):
    settings = {name: value for name, value in SHORT.items() if name != "cql_weight"}
    with pytest.raises(Crash):
        train(DqnConfig(**settings), tmp_path / "run", on_tick=crash_at(131, steer))
    with pytest.raises(RlCoreError, match="offline cannot be set on resume"):
        resume(tmp_path / "run", changes={"offline": str(data)})


def test_a_run_that_has_not_ended_has_nothing_to_repeat(data, tmp_path):
    with pytest.raises(Crash):
        train(config(data), tmp_path / "run", on_tick=crash_at(131, steer))
    with pytest.raises(RlCoreError, match="resume it first"):
        repeat(tmp_path / "run")


def test_what_was_learned_from_can_be_recorded_again(data, tmp_path):
    outcome = train(config(data), tmp_path / "run")
    made = record(outcome.run, tmp_path / "again-v0", replay=True)
    ours, theirs = (minari.MinariDataset(path / "data") for path in (made.path, data))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.observations, other.observations)
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_array_equal(one.rewards, other.rewards.astype(np.float32))
        np.testing.assert_array_equal(one.terminations, other.terminations)
        np.testing.assert_array_equal(one.truncations, other.truncations)


# The command.


@pytest.fixture
def short(tmp_path, monkeypatch):
    """A directory to be in, with a config that names no env."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "short.toml").write_text(
        "env_steps = 90\nhidden = [8]\nbatch_size = 8\nlearn_start = 10\nxla = false\n"
        "final_eval_episodes = 1\n"
    )
    return tmp_path


@pytest.mark.thorough
def test_the_command_learns_from_a_path_or_an_id_and_a_resume_takes_it_too(
    data, short, monkeypatch, capsys
):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(data.parent))
    for name, given in ("a", str(data)), ("b", data.name):
        assert main(["train", "short.toml", "--run", name, "--offline", given]) == 0
    assert f"learns from {data}" in capsys.readouterr().out
    digests = {RunDir.open(short / name).load_digest().digest for name in "ab"}
    assert len(digests) == 1
    again = ["train", "short.toml", "--run", "a", "--offline", data.name, "--resume"]
    assert main(again) == 0 and "nothing to do" in capsys.readouterr().out
    assert main([*again, "--set", "env_steps=120"]) == 0
    assert "resumed at env step 90" in capsys.readouterr().out
    assert main(["replay", "a"]) == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--offline", "nothing-v0"], "there is no Minari dataset 'nothing-v0'"),
        (["--offline", ""], "--offline wants a dataset, its path or id, got ''"),
        (["--begin-with", ""], "--begin-with wants a dataset, its path or id, got ''"),
        (["--offline", "DATA", "--set", "env_id=Acrobot-v1"], "is of another env than Acrobot-v1"),
        (["--offline", "DATA", "--set", "num_envs=2"], "set num_envs = 1"),
        (["--offline", "DATA", "--seeds", "2"], "members of a population step envs"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(data, short, capsys, more, said, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(short / "none"))
    words = [str(data) if word == "DATA" else word for word in more]
    code = main(["train", "short.toml", "--run", "run", *words])
    err = capsys.readouterr().err
    assert code == 2 and said in err and err.count("\n") == 1
    assert [path.name for path in short.iterdir()] == ["short.toml"]


def test_without_minari_the_extra_is_named(data, short, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "minari", None)
    assert main(["train", "short.toml", "--offline", str(data)]) == 2
    assert "pip install 'targetnet[data]'" in capsys.readouterr().err
    assert [path.name for path in short.iterdir()] == ["short.toml"]


def test_members_of_a_population_step_envs(data, tmp_path):
    with pytest.raises(RlCoreError, match="train such runs on their own"):
        train_population(as_members(config(data), (), 2), tmp_path / "run")


@pytest.mark.thorough
def test_the_target_begins_with_the_moments_of_the_dataset(data, lab):
    """Without a copy it would see raw numbers until the first one of the run."""
    settings = with_dataset(config(data, normalize_observations=True, sync_period=10_000))
    envs = envs_of_run(settings, None)
    agent = agent_for(settings, envs)
    fill(agent)
    online, target = (lab.weights(agent, scope) for scope in ("online", "target"))
    assert (online["normalize/scale"] != 1).all()
    np.testing.assert_array_equal(target["normalize/mean"], online["normalize/mean"])
    np.testing.assert_array_equal(target["normalize/scale"], online["normalize/scale"])
    envs.close()
