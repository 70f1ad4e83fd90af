"""The envs of evaluations: made at the first one, and there until the run ends."""

import contextlib
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.evaluation import EvaluationEnvs, evaluate, play_episodes
from targetnet.agents.policy.load import load_policy
from targetnet.agents.population.train import train_population
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.control.commands import do_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.errors import EnvFault

SHORT = {
    "env_id": "test/OneDisplay-v0", "hidden": (8,), "batch_size": 8, "replay_capacity": 100,
    "learn_start": 20, "updates_per_learn": 1,
    "env_steps": 100, "eval_period": 30, "eval_episodes": 2,
    "final_eval_episodes": 3, "xla": False, "check_env": False,
}  # fmt: skip


class OneDisplay(gym.Env):
    """Draws on the one display of the process, as with pygame: whoever is closed ends it for all.

    An env that is made begins it anew, but for the others theirs is gone.
    """

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    display = 0
    tape: ClassVar[list[str]] = []

    def __init__(self):
        self.mine = OneDisplay.display
        self.tape.append("make")

    def draw(self):
        if self.mine != OneDisplay.display:
            raise RuntimeError("display Surface quit")
        return np.float32(self.np_random.random(2))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.draw(), {}

    def step(self, action):
        self.t += 1
        return self.draw(), float(self.np_random.random()), self.t == 7, False, {}

    def close(self):
        OneDisplay.display += 1
        self.tape.append("close")


@pytest.fixture(autouse=True)
def registered():
    gym.register("test/OneDisplay-v0", OneDisplay, max_episode_steps=50)
    OneDisplay.tape.clear()
    yield
    del gym.registry["test/OneDisplay-v0"]


def config(**settings):
    return DqnConfig(**(SHORT | settings))


def test_an_evaluation_leaves_the_envs_of_training_alone(tmp_path):
    outcome = train(config(), tmp_path / "run")
    assert outcome.env_steps == 100 and len(outcome.returns) == 3
    # The training's, those of three evaluations, and those of the last one, which has 3 episodes.
    assert OneDisplay.tape == ["make"] + ["make"] * 2 + ["make"] * 3 + ["close"] * 6


def test_they_are_closed_after_those_of_training(tmp_path, monkeypatch):
    order = []
    close = EvaluationEnvs.close
    monkeypatch.setattr(
        EvaluationEnvs, "close", lambda of: (order.append(list(OneDisplay.tape)), close(of))
    )
    train(config(), tmp_path / "run")
    assert order[0].count("close") == 1  # the training's


def test_an_evaluation_that_is_asked_for_leaves_them_alone_too(tmp_path):
    control = ControlFiles(tmp_path / "run")

    def ask(agent, tick):
        if tick.env_step in (20, 40):
            submit(control, do_command("evaluate", "cli"))

    settings = {"eval_period": 1_000, "final_eval_episodes": 2}
    assert train(config(**settings), tmp_path / "run", on_tick=ask).env_steps == 100
    assert OneDisplay.tape.count("make") == 3


@pytest.mark.thorough
def test_a_member_that_ends_leaves_the_others_alone(tmp_path):
    def fail_one(agent, tick):
        if agent.config.seed == 1 and tick.env_step == 50:
            raise EnvFault("as if its env had failed")

    outcome = train_population(config(), tmp_path / "run", seeds=3, on_tick=fail_one)
    assert sorted(outcome.failed) == ["m01"] and sorted(outcome.members) == ["m00", "m02"]
    assert OneDisplay.tape.index("close") == OneDisplay.tape.count("make")


def test_they_are_closed_whatever_ends_the_run(tmp_path):
    class Crash(Exception):
        pass

    def crash(agent, tick):
        if tick.env_step == 50:
            raise Crash

    with pytest.raises(Crash):
        train(config(), tmp_path / "run", on_tick=crash)
    assert OneDisplay.tape == ["make"] * 3 + ["close"] * 3
    with pytest.raises(Crash):
        resume(tmp_path / "run", on_tick=crash)
    assert OneDisplay.tape.count("make") == OneDisplay.tape.count("close")


def test_one_that_fails_ends_the_run_and_is_closed_with_the_others(tmp_path, monkeypatch):
    step = OneDisplay.step

    def fails(env, action):
        if OneDisplay.tape.count("make") == 3 and env.number > 1:
            raise RuntimeError("no more")
        return step(env, action)

    make = OneDisplay.__init__

    def numbered(env):
        make(env)
        env.number = OneDisplay.tape.count("make")

    monkeypatch.setattr(OneDisplay, "__init__", numbered)
    monkeypatch.setattr(OneDisplay, "step", fails)
    with pytest.raises(EnvFault, match=r"at env step 30, in an evaluation, env 0 .*no more"):
        train(config(), tmp_path / "run")
    assert OneDisplay.tape.count("close") == 3


@pytest.mark.cases(0)
@pytest.mark.parametrize("vectorization", ["sync", "vector_entry_point"])
def test_the_returns_are_those_of_envs_that_are_made_anew(tmp_path, vectorization):
    kept = config(
        env_id="CartPole-v1", final_eval_episodes=12, num_envs=2, vectorization=vectorization
    )
    outcome = train(kept, tmp_path / "run")
    with load_policy(tmp_path / "run") as policy:
        assert evaluate(policy, kept, 12) == outcome.returns
        with contextlib.closing(EvaluationEnvs(kept)) as envs:
            for _ in range(3):
                again = play_episodes(policy.greedy, envs, 12, lambda: False, lambda *_: None)
                assert again == outcome.returns
