"""Envs whose episodes do not come back: a run says so at its start, and a replay why it differs."""

import io
import random

import gymnasium as gym
import numpy as np
import pytest
from rich.console import Console

from targetnet.agents.cli.main import main
from targetnet.agents.config.envs import why_not_repeated
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.population.train import train_population
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir

SHORT = {
    "hidden": (8,), "batch_size": 8, "replay_capacity": 100, "learn_start": 20,
    "updates_per_learn": 1,
    "env_steps": 60,
    "eval_period": 30, "eval_episodes": 2, "final_eval_episodes": 3, "xla": False,
}  # fmt: skip
TOLD = "test/Draws-v0 gives other results when an episode is repeated from its seed"
MENDED = "env_wrapper = 'seed_globals' mends that"


class Draws(gym.Env):
    """Shows what it draws from `random`."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def shown(self):
        return np.float32([random.random(), random.random()])

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.shown(), {}

    def step(self, action):
        self.t += 1
        return self.shown(), random.random(), self.t == 8, False, {}


@pytest.fixture(autouse=True)
def registered():
    gym.register("test/Draws-v0", Draws, max_episode_steps=20)
    yield
    del gym.registry["test/Draws-v0"]


def drawing(**settings):
    return DqnConfig(**(SHORT | {"env_id": "test/Draws-v0"} | settings))


def words_of(call, *args, **how):
    console = Console(record=True, width=400, file=io.StringIO())
    outcome = call(*args, console=console, **how)
    return outcome, console.export_text().splitlines()


def told(lines):
    return [line for line in lines if TOLD in line]


@pytest.mark.thorough
def test_a_run_says_at_its_start_what_is_not_exact_and_what_mends_it(tmp_path):
    _, lines = words_of(train, drawing(), tmp_path / "run")
    assert told(lines) == [f"{TOLD}, so resume and replay are not exact; {MENDED}"]
    assert lines.index(told(lines)[0]) < next(i for i, x in enumerate(lines) if "env step" in x)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "settings",
    [{"check_env": False}, {"env_wrapper": "seed_globals"}, {"env_id": "CartPole-v1"}],
    ids=str,
)
def test_nothing_is_said_of_one_that_is_not_checked_or_comes_back(tmp_path, settings):
    _, lines = words_of(train, drawing(**settings), tmp_path / "run")
    assert not any("gives other results" in line for line in lines)


@pytest.mark.thorough
def test_a_resume_says_it_too_but_not_of_a_run_without_the_key(tmp_path):
    train(drawing(), tmp_path / "run")
    _, lines = words_of(resume, tmp_path / "run", changes={"env_steps": 80})
    assert len(told(lines)) == 1
    file = tmp_path / "run" / "config.toml"
    # As an older version wrote it.
    kept = [
        x for x in file.read_text().splitlines() if not x.startswith(("check_env", "#", "targ"))
    ]
    file.write_text("\n".join(kept))
    assert RunDir.open(tmp_path / "run").config().check_env is False
    _, lines = words_of(resume, tmp_path / "run", changes={"env_steps": 100})
    assert told(lines) == []
    _, lines = words_of(resume, tmp_path / "run", changes={"env_steps": 120, "check_env": True})
    assert len(told(lines)) == 1


@pytest.mark.slow
def test_members_of_a_population_are_checked_and_say_it_once(tmp_path, monkeypatch):
    from targetnet.envs import factory

    checked, check = [], factory._checked_before
    monkeypatch.setattr(
        factory, "_checked_before", lambda *args: (checked.append(args), check(*args))[1]
    )
    _, lines = words_of(train_population, drawing(), tmp_path / "run", seeds=3)
    assert len(told(lines)) == len(checked) == 1


@pytest.mark.thorough
def test_an_env_of_actors_is_checked_where_the_learner_is(tmp_path):
    remote = drawing(loop="remote", actors=2, actor_steps=5, replay_capacity=300)
    _, lines = words_of(train, remote, tmp_path / "run", ray="off")
    assert len(told(lines)) == 1


@pytest.mark.slow
def test_with_the_wrapper_a_run_is_exact_whatever_else_draws_meanwhile(tmp_path):
    # Values without schedules, whose steps would be shares of the whole run.
    fixed = {"epsilon": 0.2, "learning_rate": 1e-3}
    config = drawing(env_wrapper="seed_globals", num_envs=3, env_steps=90, **fixed)

    def draws_too(agent, tick):
        random.seed(tick.env_step)

    whole = train(config, tmp_path / "whole", on_tick=draws_too)
    assert repeat(tmp_path / "whole").identical  # without evaluations
    train(config.model_copy(update={"env_steps": 50}), tmp_path / "cut")
    assert resume(tmp_path / "cut", changes={"env_steps": 90}).digest == whole.digest


@pytest.mark.thorough
def test_the_check_changes_no_bits(tmp_path):
    digests = {
        train(drawing(env_id="CartPole-v1", check_env=check), tmp_path / str(check)).digest
        for check in (True, False)
    }
    assert len(digests) == 1


# A replay.


@pytest.mark.parametrize("check", [True, False])
def test_a_replay_names_the_env_as_the_cause_of_a_difference(tmp_path, capsys, check):
    train(drawing(check_env=check), tmp_path / "run")
    assert main(["replay", str(tmp_path / "run")]) != 0
    last = capsys.readouterr().out.replace("\n", " ")
    assert "different: the first difference is at env step" in last
    assert "the cause: test/Draws-v0 gives other results when" in last


def test_without_a_cause_it_names_none(tmp_path):
    assert why_not_repeated(drawing(env_id="CartPole-v1")) == ""
    assert why_not_repeated(drawing(env_id="test/NotThere-v0")) == ""
    compiled = drawing(env_id="InGraph/CartPole-v1", loop="compiled")
    assert why_not_repeated(compiled) == ""
    train(drawing(env_id="CartPole-v1"), tmp_path / "run")
    assert repeat(tmp_path / "run").cause == ""


# An env that takes long to make.


@pytest.fixture
def slow(monkeypatch):
    """Each look at the clock finds it a second later, while an env is checked."""
    from targetnet.envs import factory

    seconds = iter(range(10**6))

    class Clock:
        @staticmethod
        def perf_counter():
            return float(next(seconds)) * 2

    monkeypatch.setattr(factory, "time", Clock)


def test_one_that_takes_long_is_compared_at_the_first_evaluation(tmp_path, slow):
    _, lines = words_of(train, drawing(), tmp_path / "run")
    assert len(told(lines)) == 1
    at = lines.index(told(lines)[0])
    greedy = [i for i, line in enumerate(lines) if "greedy return" in line]
    assert at < greedy[0] and "mends that if it draws from random" in lines[at]
    assert any("saved" not in line and "env step" in line for line in lines[:at])


def test_and_nothing_is_said_if_it_comes_back(tmp_path, slow):
    outcome, lines = words_of(train, drawing(env_id="CartPole-v1"), tmp_path / "slow")
    assert not any("gives other results" in line for line in lines)
    quick = train(drawing(env_id="CartPole-v1", check_env=False), tmp_path / "quick")
    assert (outcome.digest, outcome.returns) == (quick.digest, quick.returns)


def test_a_replay_compares_it_all_the_same(slow):
    assert TOLD in why_not_repeated(drawing())
