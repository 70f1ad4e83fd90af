"""Rules in the graph as functions of NumPy values."""

from typing import NamedTuple

import numpy as np
import pytest


class Ran(NamedTuple):
    state: tuple
    reward: np.ndarray
    terminated: np.ndarray
    observation: np.ndarray


class Runner:
    """Rules as functions of NumPy values."""

    def __init__(self, rules, compiled):
        # Here, as some tests prove TensorFlow's absence.
        import tensorflow.compat.v1 as tf
        import tensorflow.compat.v2 as tf2

        from targetnet.rl_core.graph.engine import Engine

        rules = rules()
        self.engine = Engine()
        with self.engine.building():
            uniform = tf.placeholder(tf.float32, [None, rules.begin_draws])
            action = tf.placeholder(tf.int32, [None])
            state = rules.begin(uniform)
            self.form = type(state)
            fed = self.form(*(tf.placeholder(part.dtype, [None]) for part in state))

            @tf2.function(jit_compile=compiled, autograph=False)
            def step(action, *parts):
                moved = rules.step(self.form(*parts), action, tf.zeros([tf.size(action), 0]))
                seen = rules.observe(moved.state)
                return *moved.state, moved.reward, moved.terminated, seen

            stepped = tuple(step(action, *fed))
            observed = rules.observe(fed)
        self.engine.start()
        self.begin = self.engine.callable(state, [uniform])
        self.observe = self.engine.callable(observed, list(fed))
        self._step = self.engine.callable(stepped, [action, *fed])

    def step(self, state, action):
        *state, reward, terminated, observation = self._step(np.int32(action), *state)
        return Ran(self.form(*state), reward, terminated, observation)


@pytest.fixture(scope="module")
def runner():
    """Rules, compiled or not -> Runner; each is built once."""
    made = {}

    def runner(rules, compiled):
        if (rules, compiled) not in made:
            made[rules, compiled] = Runner(rules, compiled)
        return made[rules, compiled]

    yield runner
    for run in made.values():
        run.engine.close()
