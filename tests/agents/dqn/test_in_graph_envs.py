"""Envs stepped in the graph, beside the same rules as Gymnasium envs stepped from Python."""

from typing import NamedTuple

import gymnasium as gym
import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.compiled import EnvsInGraph
from targetnet.envs.drivers import SyncEnvs
from targetnet.envs.in_graph.gymnasium_env import InGraphGymEnv
from targetnet.envs.in_graph.interface import EnvStep, InGraphEnv
from targetnet.envs.spaces import read_spaces
from targetnet.rl_core import Engine
from targetnet.rl_core.random import Keys


class CountState(NamedTuple):
    count: tf.Tensor  # [N] float32


class Count(InGraphEnv):
    """Adds up the actions: an episode ends at 9 or more, or after 6 steps; no chance in it."""

    observation_shape = (1,)
    observation_dtype = np.float32
    num_actions = 4
    max_episode_steps = 6
    begin_draws = 1
    step_draws = 0

    def begin(self, uniform):
        return CountState(uniform[:, 0] * 0)

    def step(self, state, action, uniform):
        action = tf.cast(action, tf.float32)
        count = state.count + action
        return EnvStep(CountState(count), 0.7 * action - 1.0, count >= 9)

    def observe(self, state):
        return state.count[:, tf.newaxis]


class InGraph:
    """N envs in the graph, one call for each step."""

    def __init__(self, rules, **settings):
        self.engine, config = Engine(), DqnConfig(**settings)
        with self.engine.building():
            keys = Keys(config.seed)
            self._envs = EnvsInGraph(config, keys, rules)
            action = tf.placeholder(tf.int32, [config.num_envs])
            counter = tf.placeholder(tf.int64, [1])
            state, length, total = self._envs.step(self._envs.read(), action, counter)
            length, total = tf.identity(length), tf.identity(total)
            with tf.control_dependencies([length, total, *tf2.nest.flatten(state)]):
                kept = self._envs.write(state)
        self.engine.start()
        self.engine.callable(None, targets=[self._envs.begin])()
        self._step = self.engine.callable((length, total), [action, counter], kept)

    def step(self, actions, counter):
        """(lengths, returns) of the episodes that ended, then what is kept."""
        ended = self._step(actions.astype(np.int32), np.array([counter]))
        return *ended, self.engine.run(self._envs.variables)


def test_envs_in_the_graph_show_what_the_same_rules_show_from_python():
    """Resets, ends of both kinds, lengths, returns and rewards."""
    N = 3
    singles = [gym.wrappers.TimeLimit(InGraphGymEnv(Count()), 6) for _ in range(N)]
    spaces = read_spaces("Count-v0", singles[0].observation_space, singles[0].action_space)
    python = SyncEnvs("Count-v0", singles, spaces, 0)
    graph = InGraph(Count(), num_envs=N)
    python.reset()
    rng, finished = np.random.default_rng(0), []
    for counter in range(1, 80):
        actions = rng.integers(0, 4, N)
        shown = python.step(actions)
        lengths, returns, now = graph.step(actions, counter)
        np.testing.assert_array_equal(now.rules.count[:, None], shown.observation)
        np.testing.assert_array_equal(now.reward, shown.reward)
        np.testing.assert_array_equal(now.terminated, shown.terminated)
        np.testing.assert_array_equal(now.autoreset, shown.autoreset)
        ended = [
            (env, now.finished[env] - 1, returns[env], abs(lengths[env]), lengths[env] > 0, False)
            for env in np.flatnonzero(lengths)
        ]
        assert ended == list(shown.episodes)
        finished += ended
    python.close()
    assert {terminated for *_, terminated, _ in finished} == {True, False} and len(finished) > 30
