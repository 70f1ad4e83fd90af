"""The wall clock until a mark is reached, as far as it goes without peers."""

import json
import subprocess
import sys
import time
import types
from pathlib import Path
from unittest.mock import MagicMock

import gymnasium
import numpy as np
import pytest
from rich.console import Console

from targetnet.agents.config.files import load_config
from targetnet.agents.experiments.results.sb3_worker import SETTINGS
from targetnet.agents.run.process import process_began
from targetnet.rl_core.errors import RlCoreError
from targetnet.rl_core.seal import sealed_row, unsealed_row
from tests.benchmarks import numpy_jax, wall_clock
from tests.benchmarks.performance import VENVS
from tests.benchmarks.wall_clock import ENVS, LIBRARIES, WallClock
from tests.benchmarks.wall_clock_page import as_markdown

PEERS = Path(__file__).parent / "peers"


def asked(**more):
    return {
        "env_id": "CartPole-v1", "seed": 1, "mark": 475.0, "period": 50, "episodes": 2,
        "env_steps": 100, "config": "cartpole", "settings": {},
    } | more  # fmt: skip


def watch(load, tmp_path, **more):
    return load("until_mark").Watch(asked(**more), tmp_path / "row.json")


# The page.


def row(library, seed, seconds, *, env_id="CartPole-v1", jobs=1, sitting=7, began=100.0, **more):
    """A seed that took that long; one that never reached the mark, if it is negative."""
    return {
        "asked": asked(env_id=env_id, seed=seed, period=2_500, episodes=20, env_steps=500_000),
        "library": library, "jobs": jobs, "warm": False, "sitting": sitting,
        "processor": "A Processor, avx2",
        "commit": "abc1234", "date": "2026-01-02", "remark": "", "reached": seconds > 0,
        "began": began,
        "seconds": abs(seconds), "evaluating": 1.5, "env_steps": int(1_000 * abs(seconds)),
        "updates": 500, "evaluations": [], "settings": {"learning_rate": 0.5},
        "source": "https://example.org/dqn.yml", "versions": {"python": "3.11.4", "numpy": "2.4.6"},
    } | more  # fmt: skip


# Seconds of the seeds; the reached ones, median, least, most, then without evaluations: 1.5 less.
# Below 0: never.
CELLS = [
    ([30.0, 10.0, 12.0], "3 of 3 | 12.0 s | 10.0 s | 30.0 s | 10.5 s | 12,000 | 500 |"),
    ([10.0, -90.0, 14.0], "2 of 3 | 14.0 s | 10.0 s | never | 12.5 s | 14,000 |"),
    ([-90.0, -90.0, 10.0], "1 of 3 | never | 10.0 s | never | never | never |"),
    ([-90.0, 10.0], "1 of 2 | never | 10.0 s | never | never | never |"),
    ([-90.0], "0 of 1 | never | never | never | never | never |"),
]


@pytest.mark.parametrize(("seconds", "cells"), CELLS)
def test_a_seed_that_never_reaches_the_mark_is_counted_and_takes_for_ever(seconds, cells):
    rows = [row("sb3", seed, took) for seed, took in enumerate(seconds)]
    assert f"| Stable-Baselines3 | {cells}" in as_markdown(rows)


def test_a_batch_ends_with_its_last_process():
    # Two at once: 0 to 30, 0 to 10, 10 to 25 seconds.
    began = [(0, 100.0, 30.0), (1, 100.0, 10.0), (2, 110.0, 15.0)]
    rows = [row("ours", seed, took, jobs=2, began=at) for seed, at, took in began]
    assert "| ours | 3 of 3 | 30.0 s | 30.0 s | 15.0 s |" in as_markdown(rows)
    rows[2] = row("ours", 2, -25.0, jobs=2, began=110.0)
    page = as_markdown(rows)
    assert "\n\n### CartPole-v1, 2 at once\n" in page
    assert "| ours | 2 of 3 | never | 35.0 s | 30.0 s |" in page
    assert "wall_clock --jobs 2\n```" in page
    rows[1] = row("ours", 1, 10.0, jobs=2, sitting=8)
    assert "| ours | 2 of 3 | not in one go | not in one go | 30.0 s |" in as_markdown(rows)


def test_what_found_a_cache_is_a_table_and_a_command_of_its_own():
    page = as_markdown([row("ours", 0, 9.0), row("ours", 0, 5.0, warm=True), row("sb3", 0, 7.0)])
    cold, warm = page.split("\n\nWith what an earlier process had compiled and stored:\n\n")
    assert "| ours | 1 of 1 | 9.0 s |" in cold and "| Stable-Baselines3 | 1 of 1 | 7.0 s |" in cold
    assert "| ours | 1 of 1 | 5.0 s |" in warm and "| Stable-Baselines3 |" not in warm
    assert "wall_clock\npython -m tests.benchmarks.wall_clock --only ours --warm\n```" in page
    assert page.count("<details>") == 2


def test_the_page_is_what_its_rows_say():
    """Of all that was measured: each table, command, remark and setting."""
    folder = PEERS.parents[2] / "docs"
    rows = WallClock(rows=folder / "rows" / "wall_clock.jsonl").finished()
    page = (folder / "results" / "wall_clock.md").read_text()
    assert as_markdown([rows[name] for name in sorted(rows)]) == page


def test_rows_that_were_asked_for_differently_are_no_table():
    other = row("sb3", 0, 9.0)
    other["asked"]["period"] = 5_000
    with pytest.raises(RlCoreError, match="rows of CartPole-v1 have different period"):
        as_markdown([row("ours", 0, 9.0), other])


# The command.

FAKE = """
import os, signal, sys
sys.path.insert(0, {peers!r})
from until_mark import from_command_line

watch = from_command_line()
seed = watch.asked["seed"]
with open({calls!r}, "a") as calls:
    calls.write(f"{{seed}}{{'' if 'TARGETNET_XLA_CACHE' in os.environ else 'w'}}\\n")
while not watch.over:
    if seed == 3 and watch.due > 2_500:
        os.kill(os.getpid(), signal.SIGKILL)
    watch.note(100.0 * seed, watch.due, watch.due // 10, 0.25)
watch.write({{"rate": 0.5}}, "https://example.org", ("numpy",))
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """The command, whose seed S is worth 100 * S; seed 3 is killed after its first evaluation."""
    program = FAKE.format(peers=str(PEERS), calls=str(tmp_path / "calls"))
    (tmp_path / "fake.py").write_text(program)
    monkeypatch.setattr(wall_clock, "_PEERS", tmp_path)
    monkeypatch.setattr(wall_clock, "_ENV_STEPS", 5_000)
    monkeypatch.setitem(LIBRARIES, "ours", ("fake.py", ""))

    def measure(**more):
        command = command_of(tmp_path, envs=("CartPole-v1",), only=("ours",), **more)
        return command(Console(quiet=True))

    return measure


def command_of(tmp_path, **more):
    return WallClock(rows=tmp_path / "rows.jsonl", out=tmp_path / "out", **more)


@pytest.mark.thorough
def test_each_process_leaves_a_row_and_is_not_measured_again(fake, tmp_path):
    assert fake(seeds=2, first_seed=4) == 0
    rows = command_of(tmp_path).finished()
    never, reached = (rows[f"CartPole-v1-ours-{seed}"] for seed in (4, 5))
    assert len(rows) == 2
    # Seed 4 is worth 400 at env steps 2,500 and 5,000; seed 5 reaches 475 at once.
    assert (never["reached"], never["env_steps"], never["updates"]) == (False, 5_000, 500)
    assert (reached["reached"], reached["env_steps"], reached["updates"]) == (True, 2_500, 250)
    assert [x[:2] for x in never["evaluations"]] == [[2_500, 400.0], [5_000, 400.0]]
    assert (never["evaluating"], never["jobs"], never["library"]) == (0.5, 1, "ours")
    assert 0 < reached["seconds"] < 60 and abs(reached["began"] - time.time()) < 60
    page = (tmp_path / "rows.md").read_text()
    assert "| ours | 1 of 2 | never |" in page
    assert f"wall_clock --rows {tmp_path / 'rows.jsonl'}\n" in page
    assert fake(seeds=3, first_seed=4, jobs=1) == 0
    assert (tmp_path / "calls").read_text().split() == ["4", "5", "6"]
    assert fake(seeds=1, first_seed=4, jobs=2) == 0
    assert command_of(tmp_path).finished()["CartPole-v1-ours-4-2-at-once"]["jobs"] == 2


def test_what_fills_a_cache_leaves_no_row(fake, tmp_path):
    assert fake(seeds=2, first_seed=5, warm=True) == 0
    assert (tmp_path / "calls").read_text().split() == ["4w", "5w", "6w"]
    names = [f"CartPole-v1-ours-{seed}-warm" for seed in (5, 6)]
    assert list(command_of(tmp_path).finished()) == names


def test_a_killed_process_leaves_no_row_and_the_others_go_on(fake, tmp_path):
    assert fake(seeds=2, first_seed=3) == 1
    assert list(command_of(tmp_path).finished()) == ["CartPole-v1-ours-4"]
    assert "CartPole-v1-ours-3" in "".join(p.name for p in (tmp_path / "out/logs").iterdir())


def test_a_row_that_was_changed_or_asked_for_differently_is_refused(fake, tmp_path, monkeypatch):
    fake(seeds=1, first_seed=5)
    path, calls = tmp_path / "rows.jsonl", (tmp_path / "calls").read_text()
    row = unsealed_row(path.read_bytes())
    written_by_hand = path.read_bytes().replace(b'"env_steps": 2500', b'"env_steps": 2400')
    path.write_bytes(written_by_hand)
    with pytest.raises(RlCoreError, match=r"rows\.jsonl: line 1: it is damaged"):
        fake(seeds=1, first_seed=5)
    # A key that the row does not know yet had its default.
    del row["asked"]["settings"]["dueling"]
    path.write_bytes(sealed_row(row))
    assert fake(seeds=1, first_seed=5) == 0 and (tmp_path / "calls").read_text() == calls
    monkeypatch.setattr(wall_clock, "_ENV_STEPS", 10_000)
    with pytest.raises(RlCoreError, match=r"CartPole-v1-ours-5 was measured with other env_steps"):
        fake(seeds=1, first_seed=5)
    monkeypatch.setattr(wall_clock, "_ENV_STEPS", 5_000)
    del row["asked"]["settings"]["head"]  # the config's is not the default
    path.write_bytes(sealed_row(row))
    with pytest.raises(RlCoreError, match=r"CartPole-v1-ours-5 was measured with other settings: "):
        fake(seeds=1, first_seed=5)


def test_the_command_ends_with_2_after_a_mistake():
    command = [sys.executable, "-m", "tests.benchmarks.wall_clock", "--only", "sb4"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PEERS.parents[2])
    assert done.returncode == 2
    assert done.stdout.startswith("no library 'sb4': ours, sb3") and not done.stderr


def test_one_at_a_time_libraries_take_turns_and_several_at_once_are_of_one(tmp_path):
    envs, libraries = ["CartPole-v1", "Acrobot-v1"], ["ours", "sb3"]
    both = [command_of(tmp_path, seeds=2, jobs=jobs) for jobs in (1, 2)]
    alone, together = (command._groups(envs, libraries) for command in both)
    assert [of[1:3] for of in alone[0][:4]] == [
        ("ours", 2100), ("sb3", 2100), ("sb3", 2101), ("ours", 2101)
    ]  # fmt: skip
    assert [len(group) for group in alone] == [8]
    assert [[*{of[:2] for of in group}] for group in together] == [
        [("CartPole-v1", "ours")], [("CartPole-v1", "sb3")],
        [("Acrobot-v1", "ours")], [("Acrobot-v1", "sb3")],
    ]  # fmt: skip


def test_every_library_has_its_program_and_its_environment():
    for program, venv in LIBRARIES.values():
        assert (PEERS / program).exists()
        assert venv in {"", *VENVS}
    assert ENVS.keys() <= SETTINGS.keys()


@pytest.mark.parametrize("mark", ENVS.values())
def test_a_longer_run_of_ours_has_the_schedules_of_its_config(mark):
    own, longer = (
        load_config(mark.config, changes).model_dump(exclude={"env_steps"})
        for changes in ([], ["env_steps=502_500"])
    )
    assert own == longer


# The programs.


class Paid(gymnasium.Env):
    """Env 1, 2, 3 ..., whose number is what a step pays, and how many an episode has."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    made = 0

    def __init__(self):
        Paid.made += 1
        self.number, self.steps = Paid.made, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == self.number
        return np.ones(1, np.float32), float(self.number), over, False, {}


def test_each_env_plays_its_share_in_batches_of_one_size(load, monkeypatch):
    monkeypatch.setattr(Paid, "made", 0)
    sizes = []

    def act(observations):
        sizes.append(observations.shape)
        return np.zeros(len(observations), int)

    # Three episodes more than envs: the first three play two each, whose number squared is paid.
    returns = load("until_mark").greedy_returns(act, Paid, 0, 13)
    assert sorted(returns) == [1, 1, 4, 4, 9, 9, 16, 25, 36, 49, 64, 81, 100]
    assert sizes == [(10, 1)] * 10  # until the longest has ended


# Mean return, env step, whether the run is over, whether the mark is reached.
NOTED = [(474.9, 50, False, False), (475.0, 50, True, True), (474.9, 100, True, False)]


@pytest.mark.parametrize(("mean", "env_step", "over", "reached"), NOTED)
def test_a_run_is_over_at_the_mark_or_at_its_last_env_step(
    load, tmp_path, mean, env_step, over, reached
):
    of = watch(load, tmp_path)
    of.note(mean, env_step, 7, 0.5)
    assert (of.over, of._row["reached"], of.due) == (over, reached, env_step + 50)


def test_the_clock_began_with_the_process(load):
    assert load("until_mark").age() == pytest.approx(time.perf_counter() - process_began(), abs=1.0)


@pytest.fixture
def small(tmp_path_factory):
    """The path of a config that is made in a moment."""
    path = tmp_path_factory.mktemp("configs") / "small.toml"
    path.write_text('env_id = "CartPole-v1"\nhidden = [4]\nxla = false\n')
    return str(path)


@pytest.mark.thorough
@pytest.mark.parametrize(("mark", "env_steps"), [(1_000.0, [50, 100]), (1.0, [50])])
def test_ours_is_a_whole_run_that_ends_with_its_last_evaluation(
    load, tmp_path, small, mark, env_steps
):
    of = watch(load, tmp_path, mark=mark, config=small)
    load("until_ours").main(of)
    row = json.loads((tmp_path / "row.json").read_text())
    assert [step for step, *_ in row["evaluations"]] == env_steps
    assert (row["reached"], row["env_steps"], row["updates"]) == (mark == 1, env_steps[-1], 0)
    assert all(8 <= mean <= 500 for _, mean, _ in row["evaluations"])
    assert 0 < row["evaluating"] < row["seconds"]
    assert [path.name for path in tmp_path.iterdir()] == ["row.json"]  # the run is gone


@pytest.mark.parametrize("library", ["sb3", "sbx"])
def test_stable_baselines3_and_sbx_get_the_zoos_settings(load, tmp_path, monkeypatch, library):
    """Of an env's own length of 50,000; a run of 200,000 explores for a fourth of the share."""
    module = MagicMock()
    model, told = module.DQN.return_value, []
    model.num_timesteps, model._n_updates = 0, 3
    model.predict.side_effect = lambda observations, deterministic: (
        told.append(deterministic) or np.zeros(len(observations), int),
        None,
    )

    def learn(env_steps, callback):
        told.append(env_steps)
        for model.num_timesteps in range(1, env_steps + 1):
            if not callback({}, {}):
                return

    model.learn.side_effect = learn
    modules = {"sb3": "stable_baselines3", "sbx": "sbx"}
    monkeypatch.setitem(sys.modules, modules[library], module)
    torch = types.SimpleNamespace(get_num_threads=lambda: 1)
    monkeypatch.setitem(sys.modules, "torch", torch)
    settings = {"library": library, "source": "zoo", **SETTINGS["CartPole-v1"]}
    of = watch(load, tmp_path, env_steps=200_000, period=60, mark=8.0, settings=settings)
    monkeypatch.setattr(of, "write", lambda *written: told.append(written))
    load("until_sb3").main(of)
    (name, _), got = module.DQN.call_args
    wanted = dict(SETTINGS["CartPole-v1"])
    wanted["exploration_fraction"] *= wanted.pop("env_steps") / 200_000
    more = {"policy_kwargs": {"net_arch": [256, 256]}, "seed": 1, "device": "cpu"}
    assert (name, got) == ("MlpPolicy", wanted | more)
    # Always to the left: an episode lasts 8 steps at least.
    assert told[0] == 200_000 and set(told[1:-1]) == {True} and model.num_timesteps == 60
    written, source, packages = told[-1]
    assert (written["exploration_fraction"], written["env_steps"], source) == (0.16, 50_000, "zoo")
    assert ("sbx-rl" in packages) == (library == "sbx")


@pytest.fixture
def cleanrl(load, monkeypatch):
    """The program on a stand-in for JAX."""
    for name, module in numpy_jax.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return load("until_cleanrl_jax")


def test_cleanrls_epsilon_falls_over_half_of_its_own_length(cleanrl):
    found = [cleanrl.epsilon_at(step) for step in (0, 125_000, 250_000, 400_000)]
    assert found == pytest.approx([1.0, 0.525, 0.05, 0.05])


def test_cleanrl_updates_and_syncs_when_its_script_does(cleanrl, load, tmp_path, monkeypatch):
    more = {"learning_starts": 10, "train_frequency": 5, "target_network_frequency": 10}
    monkeypatch.setattr(cleanrl, "SETTINGS", cleanrl.SETTINGS | more | {"buffer_size": 8})
    targets, sizes = [], []

    def update(learner, batch, learning_rate):
        targets.append(float(learner.target[-1][0]))
        sizes.append([*map(len, batch), learning_rate])
        assert (batch.s_tm1 != batch.s_t).any() and (batch.r_t == 1).all()
        return learner._replace(online=[w + 1 for w in learner.online]), 0.0

    monkeypatch.setattr(cleanrl.jax_dqn, "update", update)
    of = watch(load, tmp_path, period=16, env_steps=32)
    written = []
    monkeypatch.setattr(of, "write", lambda *words: written.append(words))
    cleanrl.train(of)
    # Updates at env steps 15, 20, 25 and 30; at 20 and 30 the target is copied after them.
    assert targets == [0, 0, 2, 2] and sizes == [[128] * 5 + [2.5e-4]] * 4
    assert (of._row["env_steps"], of._row["updates"]) == (32, 4)
    assert [x[0] for x in of._row["evaluations"]] == [16, 32]
    assert written[0][0]["learning_rate"] == 2.5e-4
