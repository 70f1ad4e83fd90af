"""Envs that come back in the middle of their episodes: by seed and actions, and checked."""

import json

import gymnasium as gym
import numpy as np
import pytest

from targetnet.envs import make_envs
from tests.gymnasium_versions import TAXI

ENV_IDS = [
    "CartPole-v1",
    "Acrobot-v1",
    "Walk-v0",
    TAXI,
    "MinAtar/Asterix-v1",
    "MinAtar/Breakout-v1",
    "MinAtar/Freeway-v1",
    "MinAtar/Seaquest-v1",
    "MinAtar/SpaceInvaders-v1",
]


class Walk(gym.Env):
    """Shows how often it was stepped; a detour shows something else at step 2 alone."""

    observation_space = gym.spaces.Box(-100, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    detour = 0.0
    illegal_at = 0  # the step that raises; 0 is none

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.float32([self.np_random.normal()]), {}

    def step(self, action):
        self.t += 1
        if self.t == self.illegal_at:
            raise ValueError("an illegal move")
        shown = self.t + (self.detour if self.t == 2 else 0.0)
        return np.float32([shown]), 1.0, self.t == 5, False, {}


@pytest.fixture(autouse=True)
def walk(monkeypatch):
    gym.register("Walk-v0", Walk)
    yield
    gym.registry.pop("Walk-v0")
    Walk.detour, Walk.illegal_at = 0.0, 0


def played(env_id, steps, num_envs=3):
    envs = make_envs(env_id, num_envs, seed=7)
    rng = np.random.default_rng(0)
    envs.reset()
    for _ in range(steps):
        step = envs.step(rng.integers(0, envs.num_actions, num_envs).astype(np.int32))
    return envs, step, rng


def copied(step):
    columns = step._replace(episodes=None)
    return [np.array(column) for column in columns if column is not None]


@pytest.mark.cases(39)
@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("steps", [1, 9, 40, 150])
@pytest.mark.parametrize("env_id", ENV_IDS)
def test_from_there_on_everything_is_the_same(env_id, steps, num_envs):
    envs, step, rng = played(env_id, steps, num_envs)
    state = json.loads(json.dumps(envs.state()))
    other = make_envs(env_id, num_envs, seed=7)
    again, problems = other.restore(state)
    assert problems == []
    for a, b in zip(copied(again), copied(step), strict=True):
        np.testing.assert_array_equal(a, b)
    for _ in range(200):
        actions = rng.integers(0, envs.num_actions, num_envs).astype(np.int32)
        ours, theirs = envs.step(actions), other.step(actions)
        assert ours.episodes == theirs.episodes
        for a, b in zip(copied(ours), copied(theirs), strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_was_different_on_the_way_is_noticed_though_the_end_is_the_same():
    envs, step, _ = played("Walk-v0", 4)
    state = envs.state()
    Walk.detour = 0.5
    again, problems = make_envs("Walk-v0", 3, seed=7).restore(state)
    assert step.observation[0] == 4.0
    assert problems == [
        f"env {i} (Walk-v0) gave other results when episode 0 was repeated" for i in range(3)
    ]
    # A new episode begins: nothing of the old one is learned from.
    assert again.autoreset.all() and not again.terminated.any()


@pytest.mark.parametrize("num_envs", [1, 3])
def test_an_env_that_raises_on_its_old_actions_begins_a_new_episode(num_envs):
    """It was reset to something else, where they are illegal; a run would never go on again."""
    envs, *_ = played("Walk-v0", 4, num_envs)
    Walk.illegal_at = 3
    again, problems = make_envs("Walk-v0", num_envs, seed=7).restore(envs.state())
    assert len(problems) == num_envs
    assert problems[0].startswith("env 0 (Walk-v0) failed (")
    assert "an illegal move" in problems[0]
    assert problems[0].endswith("when episode 0 was repeated")
    assert again.autoreset.all() and not again.terminated.any()


def test_an_env_that_ends_too_early_is_noticed():
    envs, *_ = played("Walk-v0", 4, 1)
    state = envs.state()
    other = make_envs("Walk-v0", 1, seed=7, env_kwargs={"max_episode_steps": 2})
    assert len(other.restore(state)[1]) == 1
