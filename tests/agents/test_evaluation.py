"""Greedy evaluation: which episodes, and that it leaves no trace."""

import itertools

import gymnasium as gym
import numpy as np
import pytest

from agents.evaluation import evaluate


class Uneven(gym.Env):
    """The first env made plays episodes of 50 steps, the others of one; each step pays 1."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)
    made = itertools.count()

    def __init__(self):
        self.length = 50 if next(Uneven.made) == 0 else 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(2, np.float32), 1.0, self.t == self.length, False, {}


class Lottery(gym.Env):
    """An episode of one step whose pay its seed decides."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.pay = float(self.np_random.random())
        return np.float32(self.np_random.random(2)), {}

    def step(self, action):
        return np.zeros(2, np.float32), self.pay, True, False, {}


class Ramp(Lottery):
    """Pays 1, 2, 3, ... until its time limit; undiscounted that is 6 for three steps."""

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.t += 1
        return np.zeros(2, np.float32), float(self.t), False, False, {}


class Choice(Lottery):
    """Pays the action it gets."""

    def step(self, action):
        return np.zeros(2, np.float32), float(action), True, False, {}


@pytest.fixture(autouse=True)
def registered():
    classes = {"Uneven": Uneven, "Lottery": Lottery, "Choice": Choice}
    for name, env in classes.items():
        gym.register(f"test/{name}-v0", env)
    gym.register("test/Ramp-v0", Ramp, max_episode_steps=3)
    Uneven.made = itertools.count()
    yield
    for name in [*classes, "Ramp"]:
        del gym.registry[f"test/{name}-v0"]


@pytest.fixture(scope="module")
def agent(lab):
    return lab.filled()


def returns_of(lab, agent, name, episodes, **kwargs):
    return evaluate(agent, lab.config(env_id=f"test/{name}-v0"), episodes, **kwargs)


@pytest.mark.parametrize("episodes", [1, 2, 9, 10, 11, 23])
def test_as_many_episodes_are_played_as_asked_for(lab, agent, episodes):
    assert len(returns_of(lab, agent, "Lottery", episodes)) == episodes


def test_envs_with_short_episodes_play_no_more_of_them(lab, agent):
    """By the first 20 to finish, the slow env would be left out."""
    returns = returns_of(lab, agent, "Uneven", 20)
    envs = next(Uneven.made)
    assert sorted(returns) == [1.0] * (20 - 20 // envs) + [50.0] * (20 // envs)
    assert envs > 1


def test_returns_are_undiscounted_sums_up_to_the_time_limit(lab, agent):
    assert returns_of(lab, agent, "Ramp", 4) == [6.0] * 4  # 1 + 2 + 3


def test_the_policy_is_greedy(lab, agent):
    always_2 = {"head/q/w": np.zeros((8, 3)), "head/q/b": [0, 0, 1]}
    trained = agent.weights()
    agent.load_weights(trained | {k: np.float32(v) for k, v in always_2.items()})
    assert agent.hyperparameters["epsilon"] == 1.0
    assert returns_of(lab, agent, "Choice", 12) == [2.0] * 12
    agent.load_weights(trained)


def test_the_same_seed_gives_the_same_returns_and_another_other_ones(lab, agent):
    first = returns_of(lab, agent, "Lottery", 12, seed=5)
    assert returns_of(lab, agent, "Lottery", 12, seed=5) == first
    assert returns_of(lab, agent, "Lottery", 12, seed=6) != first
    assert len(set(first)) == 12  # no episode is played twice


def test_without_a_seed_it_is_derived_from_the_runs(lab, agent):
    by_run = [
        evaluate(agent, lab.config(env_id="test/Lottery-v0", seed=seed), 3) for seed in (1, 1, 2)
    ]
    assert by_run[0] == by_run[1] != by_run[2]


def test_the_episodes_are_not_those_of_training(lab, agent):
    from envs import make_envs

    config = lab.config(env_id="test/Lottery-v0", seed=1)
    envs = make_envs("test/Lottery-v0", 3, seed=1)
    envs.reset()
    step = envs.step(np.zeros(3, np.int32))
    envs.close()
    training = {episode.episode_return for episode in step.episodes}
    assert len(training) == 3 and not training & set(evaluate(agent, config, 20))


def test_nothing_is_stored_and_nothing_is_learned(lab):
    agent, twin = lab.filled(num_envs=2), lab.filled(num_envs=2)
    for one in (agent, twin):
        one.learn(3)
    before = agent.inspect(), agent.updates, agent.hyperparameters.env_step
    returns_of(lab, agent, "Lottery", 12)
    assert (agent.inspect(), agent.updates, agent.hyperparameters.env_step) == before
    for scope in ("online", "target"):
        assert lab.same(lab.weights(agent, scope), lab.weights(twin, scope))
    # What comes after is as if there had been no evaluation.
    assert np.array_equal(lab.fill(agent, 20, seed=1), lab.fill(twin, 20, seed=1))
    for one in (agent, twin):
        one.learn(3)
    assert lab.same(agent.weights(), twin.weights())


def test_a_stop_request_gives_the_returns_so_far(lab, agent):
    assert returns_of(lab, agent, "Lottery", 50, stop=lambda: True) == []
    calls = iter([False] * 3)
    returns = returns_of(lab, agent, "Lottery", 500, stop=lambda: next(calls, True))
    assert 0 < len(returns) < 500
