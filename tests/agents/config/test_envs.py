"""Evaluating and playing what was trained on, whatever kind of envs that is."""

import contextlib

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from targetnet.agents.config.envs import envs_beside, training_envs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.evaluation import evaluate
from targetnet.agents.policy.load import load_policy
from targetnet.agents.policy.play import play
from targetnet.agents.run.train import train
from targetnet.envs import make_envs
from targetnet.rl_core.errors import EnvError

SHORT = {
    "num_envs": 4, "env_steps": 80, "hidden": (8,), "batch_size": 8, "replay_capacity": 100,
    "learn_start": 40, "eval_period": 40, "eval_episodes": 2, "final_eval_episodes": 3,
    "xla": False,
}  # fmt: skip


class Shown(CartPoleVectorEnv):
    """A vector env that shows each observation twice; there is no single env of its id."""

    def __init__(self, num_envs=1, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self.observation_space = gym.vector.utils.batch_space(
            self.single_observation_space, num_envs
        )

    def reset(self, **kwargs):
        observation, info = super().reset(**kwargs)
        return np.tile(observation, 2), info

    def step(self, actions):
        observation, *rest = super().step(actions)
        return np.tile(observation, 2), *rest


class NotDrawn(Shown):
    """As ALE's: it takes no render_mode."""

    def __init__(self, num_envs=1, max_episode_steps=30):
        super().__init__(num_envs, max_episode_steps=max_episode_steps)


@pytest.fixture(autouse=True)
def registered():
    for name, env in (("test/Shown-v0", Shown), ("test/NotDrawn-v0", NotDrawn)):
        gym.register(name, vector_entry_point=env, max_episode_steps=30)
    yield
    for name in ("test/Shown-v0", "test/NotDrawn-v0"):
        del gym.registry[name]


@pytest.mark.thorough
def test_an_env_that_is_only_a_vector_env_is_trained_and_evaluated(tmp_path):
    config = DqnConfig(env_id="test/Shown-v0", vectorization="vector_entry_point", **SHORT)
    outcome = train(config, tmp_path / "run")
    assert len(outcome.returns) == 3 and all(r > 0 for r in outcome.returns)
    with load_policy(tmp_path / "run") as policy:
        assert evaluate(policy, config, 3) == outcome.returns
        assert policy(np.zeros((2, 8), np.float32)).shape == (2,)


def test_playing_a_vector_env_that_draws_nothing_says_so(tmp_path):
    config = DqnConfig(env_id="test/NotDrawn-v0", vectorization="vector_entry_point", **SHORT)
    train(config, tmp_path / "run")
    with pytest.raises(EnvError, match="the vector env of 'test/NotDrawn-v0' draws no pictures"):
        play(tmp_path / "run", video=tmp_path / "a.gif")
    assert not (tmp_path / "a.gif").exists()


def test_what_workers_step_is_evaluated_without_them():
    config = DqnConfig(env_id="CartPole-v1", vectorization="async", **SHORT)
    envs = envs_beside(config, 2, seed=1)
    assert type(envs).__name__ == "SyncEnvs"
    envs.close()


@pytest.mark.parametrize("vectorization", ["sync", "vector_entry_point"])
def test_envs_beside_have_the_arguments_of_the_runs_env(vectorization):
    """An evaluation with another time limit, or another map, would be of another task."""
    limit = {"max_episode_steps": 3}
    config = DqnConfig(env_id="CartPole-v1", vectorization=vectorization, env_kwargs=limit)
    with contextlib.closing(envs_beside(config)) as envs:
        envs.reset()
        ended = [envs.step(np.zeros(1, np.int64)).truncated.item() for _ in range(3)]
    assert ended == [False, False, True]


@pytest.mark.parametrize(("given", "used"), [(None, 5), (0, 0), (7, 7)])
def test_envs_beside_have_the_runs_seed_unless_another_is_given(given, used):
    beside = envs_beside(DqnConfig(env_id="CartPole-v1", seed=5), seed=given)
    with contextlib.closing(beside), contextlib.closing(make_envs("CartPole-v1", seed=used)) as own:
        np.testing.assert_array_equal(beside.reset().observation, own.reset().observation)


def test_arguments_of_an_env_in_the_graph_are_not_left_out():
    config = DqnConfig(env_id="InGraph/Catch-v0", loop="compiled", env_kwargs={"rows": 3})
    with pytest.raises(EnvError, match="'InGraph/Catch-v0' takes no argument 'rows'"):
        training_envs(config)
