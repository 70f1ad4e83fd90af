"""Runs that begin with demonstrations: exact in every loop, resumed without them, repeated."""

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
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.population.train import train_population
from targetnet.agents.run.announcements import overwritten
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.records import read_trace
from targetnet.rl_core.errors import RlCoreError
from tests.agents.data.datasets import random_dataset, random_episodes, written
from tests.agents.run.interrupting import Crash, crash_at, curves, setting

SHORT = {
    "env_id": "CartPole-v1", "env_steps": 700, "hidden": (8,), "batch_size": 8, "learn_start": 40,
    "learn_period": 4, "updates_per_learn": 2, "learning_rate": 0.01, "sync_period": 37,
    "replay_capacity": 600, "log_period": 100, "eval_period": 350, "eval_episodes": 2,
    "final_eval_episodes": 2, "xla": False, "epsilon": 0.3, "checkpoint_seconds": 0,
    "checkpoint_steps": 90, "past_states": 2, "margin_weight": 0.5,
}  # fmt: skip
IN_GRAPH = {"env_id": "InGraph/CartPole-v1", "loop": "compiled", "chunk": 40}
# The ring of those with one env overwrites their demonstrations on the way.
KINDS = {
    "plain, prioritized": {"prioritized": True, "demonstration_bonus": 0.5, "n_step": 3},
    "three envs": {"num_envs": 3, "frame_stack": 2, "normalize_observations": True},
    "concurrent": {
        "loop": "concurrent", "learn_period": 16, "updates_per_learn": 4, "num_envs": 2,
    },
    "in the graph": {**IN_GRAPH, "num_envs": 2},
    "rows that wait": {"learn_period": 40, "updates_per_learn": 8, "margin_weight": 0.0},
    "compiled, quantile": {"xla": True, "head": "quantile", "quantiles": 5},
    "compiled in the graph": {
        **IN_GRAPH, "xla": True, "prioritized": True, "demonstration_bonus": 0.5,
    },
    "concurrent, prioritized, noisy": {
        "loop": "concurrent", "learn_period": 20, "updates_per_learn": 4, "num_envs": 3,
        "prioritized": True, "demonstration_bonus": 0.5, "noisy": True,
    },
}  # fmt: skip
SLOW = [*KINDS][5:]
every_kind = pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow) if k in SLOW else k for k in KINDS]
)
steer = setting(
    {100: ("margin_weight", 2.0), 210: ("margin", 0.1), 330: ("demonstration_bonus", 3.0)}
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return random_dataset(tmp_path_factory.mktemp("data") / "random-v0")


def config(data, **settings):
    return DqnConfig(**SHORT | {"begin_with": str(data)} | settings)


@pytest.mark.cases(0, 1)
@every_kind
def test_killed_and_resumed_it_is_the_same_run_and_a_repeat_is_identical(
    data, tmp_path, pool, kind, none_left_out
):
    """Resumed without the dataset, which only a repeat needs again."""
    settings, path = KINDS[kind], tmp_path / "mine-v0"
    shutil.copytree(data, path)
    straight = train(config(path, **settings), tmp_path / "straight", on_tick=steer)
    pool.take_back()
    broken = tmp_path / "broken"
    with pytest.raises(Crash):
        train(config(path, **settings), broken, on_tick=crash_at(191, steer))
    moved = path.rename(tmp_path / "moved-v0")
    with pytest.raises(Crash):
        resume(broken, on_tick=crash_at(505, steer))
    # By its config as it was given, without what a run keeps of its dataset.
    outcome = resume(broken, config(path, **settings), on_tick=steer)
    pool.take_back()
    assert outcome.digest == straight.digest and outcome.updates == straight.updates > 100
    assert curves(broken) == curves(straight.run)
    traces = [read_trace(ControlFiles(run).trace) for run in (broken, straight.run)]
    np.testing.assert_array_equal(*traces)
    assert len(traces[0]) >= 700 // config(data, **settings).num_envs
    with pytest.raises(RlCoreError, match="there is no Minari dataset"):
        repeat(broken)
    moved.rename(path)
    verdict = repeat(broken)
    assert verdict.identical and verdict.digest == straight.digest and verdict.complete


@pytest.mark.slow
def test_what_a_failing_phase_did_not_store_is_not_traced(data, tmp_path, monkeypatch):
    settings, calls = KINDS["concurrent"], []
    straight = train(config(data, **settings), tmp_path / "straight").run
    store = DqnAgent.store

    def failing(agent, rows):
        calls.append(rows)
        if len(calls) == 10:
            raise Crash
        store(agent, rows)

    monkeypatch.setattr(DqnAgent, "store", failing)
    with pytest.raises(Crash):
        train(config(data, **settings), tmp_path / "broken")
    found, whole = (read_trace(ControlFiles(run).trace) for run in (tmp_path / "broken", straight))
    assert 20 < len(found) < len(whole)
    np.testing.assert_array_equal(found, whole[: len(found)])


@pytest.mark.slow
def test_the_datasets_rows_decide_what_is_learned_and_not_its_path(data, tmp_path):
    other = written(tmp_path / "other-v0", random_episodes(lengths=(30, 30), seed=1))
    shutil.copytree(data, tmp_path / "copy-v0")
    digests = [
        train(config(of, eval_period=1_000), tmp_path / name).digest
        for name, of in {"a": data, "b": tmp_path / "copy-v0", "c": other}.items()
    ]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.slow
def test_without_a_checkpoint_a_resume_begins_with_the_same_dataset_again(data, tmp_path):
    path, run = tmp_path / "mine-v0", tmp_path / "run"
    shutil.copytree(data, path)
    settings = {"checkpoint_steps": 0, "eval_period": 1_000, "env_steps": 300}
    straight = train(config(path, **settings), tmp_path / "straight").digest
    train(config(path, **settings), run, on_tick=None)
    for left in ("checkpoints", "digest.json", "result.json"):
        of = run / left
        shutil.rmtree(of) if of.is_dir() else of.unlink()
    moved = path.rename(tmp_path / "moved-v0")
    written(path, random_episodes(seed=9))
    with pytest.raises(RlCoreError, match="is not the one that this run learns from"):
        resume(run)
    shutil.rmtree(path)
    with pytest.raises(RlCoreError, match="there is no Minari dataset"):
        resume(run)
    assert resume(run, changes={"begin_with": str(moved)}).digest == straight
    assert read_config(run / "config.toml").begin_with == str(moved)


@pytest.mark.slow
def test_a_resume_takes_no_other_dataset_and_none_where_there_was_none(data, tmp_path):
    other = written(tmp_path / "other-v0", random_episodes(lengths=(30, 30), seed=1))
    with pytest.raises(Crash):
        train(config(data), tmp_path / "run", on_tick=crash_at(131, steer))
    with pytest.raises(RlCoreError, match="is not the one that this run learns from"):
        resume(tmp_path / "run", changes={"begin_with": str(other)})
    with pytest.raises(RlCoreError, match="set offline or begin_with"):
        resume(tmp_path / "run", changes={"begin_with": ""})
    with pytest.raises(Crash):
        settings = SHORT | {"margin_weight": 0.0}
        train(DqnConfig(**settings), tmp_path / "without", on_tick=crash_at(131, steer))
    with pytest.raises(RlCoreError, match="begin_with cannot be set on resume"):
        resume(tmp_path / "without", changes={"begin_with": str(data)})


@pytest.mark.slow
@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_recorded_replay_has_the_runs_own_episodes_alone(data, tmp_path, num_envs):
    """As a run without demonstrations, and without learning, that does the same."""
    still = {"learn_start": 10_000, "env_steps": 200, "epsilon": 0.0, "num_envs": num_envs}
    begun = train(config(data, **still), tmp_path / "begun")
    without = SHORT | {"margin_weight": 0.0} | still
    plain = train(DqnConfig(**without), tmp_path / "plain")
    sets = [
        minari.MinariDataset(record(of.run, tmp_path / f"{name}-v0", replay=True).path / "data")
        for name, of in {"begun": begun, "plain": plain}.items()
    ]
    assert len(sets[0]) == len(sets[1]) > num_envs
    for one, other in zip(*sets, strict=True):
        np.testing.assert_array_equal(one.observations, other.observations)
        np.testing.assert_array_equal(one.actions, other.actions)


@pytest.mark.slow
def test_a_replay_that_has_gone_around_is_recorded_without_demonstrations_too(data, tmp_path):
    steps = 320
    capacity = read_steps(data) + steps
    outcome = train(config(data, replay_capacity=capacity), tmp_path / "run")
    made = record(outcome.run, tmp_path / "last-v0", replay=True)
    kept = minari.MinariDataset(made.path / "data")
    rows = sum(len(episode.actions) + 1 for episode in kept)
    # All of the ring; of the oldest episode perhaps one row less, which was its last one.
    assert capacity - 1 <= rows <= capacity
    shown = {tuple(of) for episode in minari.MinariDataset(data / "data") for of in
             episode.observations}  # fmt: skip
    assert not any(tuple(of) in shown for episode in kept for of in episode.observations)


def read_steps(data):
    return sum(len(e.actions) + 1 for e in minari.MinariDataset(data / "data"))


def test_a_line_says_from_when_on_they_are_overwritten_and_what_keeps_them():
    begun = {"begin_with": "a-v0", "demonstration_steps": 100, "num_envs": 2, "env_steps": 5_000}
    assert overwritten(DqnConfig(**begun), 2_600) is None  # 5,000 rows of its own
    line = overwritten(DqnConfig(**begun), 1_000)
    assert "are overwritten from env step 1,800 on" in line
    assert "replay_capacity = 5,200, and one row more for each episode" in line


# The command.


@pytest.fixture
def short(tmp_path, monkeypatch):
    """A directory to be in, with a config."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "short.toml").write_text(
        'env_id = "CartPole-v1"\nenv_steps = 300\nhidden = [8]\nbatch_size = 8\nlearn_start = 10\n'
        "replay_capacity = 400\nxla = false\nfinal_eval_episodes = 1\nmargin_weight = 1.0\n"
    )
    return tmp_path


@pytest.mark.thorough
def test_the_command_begins_with_a_path_or_an_id_and_a_resume_takes_it_too(
    data, short, monkeypatch, capsys
):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(data.parent))
    for name, given in ("a", str(data)), ("b", data.name):
        assert main(["train", "short.toml", "--run", name, "--begin-with", given]) == 0
    out = capsys.readouterr().out
    assert f"begins with {read_steps(data)} rows of {data}" in out
    own = 400 - read_steps(data)
    assert f"the demonstrations are overwritten from env step {own} on" in out
    digests = {RunDir.open(short / name).load_digest().digest for name in "ab"}
    assert len(digests) == 1
    again = ["train", "short.toml", "--run", "a", "--begin-with", data.name, "--resume"]
    assert main(again) == 0 and "nothing to do" in capsys.readouterr().out
    nothing = ["train", "short.toml", "--run", "a", "--resume", "--set", "margin_weight=0.0"]
    assert main(nothing) == 2 and f"name '{data}' again" in capsys.readouterr().err
    # It may be gone: the checkpoint has its rows.
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(short / "none"))
    assert main([*again, "--set", "env_steps=330"]) == 0
    assert "resumed at env step 300" in capsys.readouterr().out
    assert main(["replay", "a"]) == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--begin-with", "nothing-v0"], "there is no Minari dataset 'nothing-v0'"),
        (["--begin-with", "DATA", "--offline", "DATA"], "leave one out"),
        (["--begin-with", "DATA", "--set", "env_id=Acrobot-v1"], "of another env than Acrobot-v1"),
        (["--begin-with", "DATA", "--set", "replay_capacity=50"], "needs replay_capacity >= "),
        (["--begin-with", "DATA", "--set", "num_envs=30"], "deals at least one to each"),
        (["--begin-with", "DATA", "--set", "demonstration_steps=7"], "got 7; leave it out"),
        (["--begin-with", "DATA", "--seeds", "2"], "members of a population begin with none"),
        (["--begin-with", "DATA", "--set", "loop=remote"], "take another loop"),
        ([], "margin_weight is of demonstrations"),
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
    assert main(["train", "short.toml", "--begin-with", str(data)]) == 2
    assert "pip install 'targetnet[data]'" in capsys.readouterr().err
    assert [path.name for path in short.iterdir()] == ["short.toml"]


@pytest.mark.slow
@pytest.mark.parametrize("replay", [True, False])
def test_branches_have_no_margin_but_may_begin_with_demonstrations(data, tmp_path, replay):
    """Masks of a lever each, a tuple of arrays, are recorded as those of a replay are."""
    env_id = "tests.agents.lamps:Levers-v0"
    settings = SHORT | {"env_id": env_id, "env_steps": 150, "margin_weight": 0.0, "learn_start": 0}
    first = train(DqnConfig(**settings), tmp_path / "first")
    how = {"replay": True} if replay else {"env_steps": 150}
    made = record(first.run, tmp_path / "levers-v0", **how)
    begun = DqnConfig(**settings | {"begin_with": str(made.path), "prioritized": True})
    outcome = train(begun, tmp_path / "begun")
    assert outcome.updates > 0 and repeat(outcome.run).identical
    with pytest.raises(RlCoreError, match="cql_weight and margin_weight out"):
        train(begun.model_copy(update={"margin_weight": 1.0}), tmp_path / "margin")


def test_members_of_a_population_begin_with_none(data, tmp_path):
    with pytest.raises(RlCoreError, match="train such runs on their own"):
        train_population(as_members(config(data), (), 2), tmp_path / "run")
