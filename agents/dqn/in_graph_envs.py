"""Envs that are stepped inside the graph: their variables, and one step of all of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.agents.config.model import DqnConfig
from targetnet.envs.in_graph.interface import InGraphEnv
from targetnet.envs.stacks import frame_shape
from targetnet.rl_core.random import Draws, Keys


class EnvState(NamedTuple):
    """N envs between two time steps: what `agent.step` would be given, and the bookkeeping."""

    rules: Any  # as the rules have it
    earlier: Any  # [N, ..., (k - 1) * C] the k - 1 frames before the present one; (): no stack
    reward: Any  # [N] float32
    terminated: Any  # [N] bool
    autoreset: Any  # [N] bool
    ended: Any  # [N] bool; the next time step begins a new episode
    length: Any  # [N] int32
    episode_return: Any  # [N] float64
    finished: Any  # [N] int64, episodes


class EnvsInGraph:
    """N envs of one kind, kept in variables between two calls.

    Args:
      config: one run.
      keys: of the agent.
      rules: of the env; also an attribute.

    Attributes:
      variables: the state of the envs.
      begin: the operation that begins the first episode of each.
    """

    def __init__(self, config: DqnConfig, keys: Keys, rules: InGraphEnv) -> None:
        self._config, self._keys, self.rules = config, keys, rules
        N, more = config.num_envs, config.frame_stack - 1
        self._frame = frame_shape(rules.observation_shape)
        earlier = [N, *self._frame[:-1], more * self._frame[-1]]
        with tf.variable_scope("envs"):
            # Before the session is open there are no keys to draw the first states by.
            first = rules.begin(self._draws(np.zeros(1, np.int64), rules.begin_draws))
            states = {name: tf.zeros(of.shape, of.dtype) for name, of in first._asdict().items()}
            self.variables = EnvState(
                type(first)(*(_kept(name, nothing) for name, nothing in states.items())),
                _kept("earlier", tf.zeros(earlier, rules.observation_dtype)) if more else (),
                _kept("reward", tf.zeros([N])),
                _kept("terminated", tf.zeros([N], tf.bool)),
                _kept("autoreset", tf.ones([N], tf.bool)),
                _kept("ended", tf.zeros([N], tf.bool)),
                _kept("length", tf.zeros([N], tf.int32)),
                _kept("episode_return", tf.zeros([N], tf.float64)),
                _kept("finished", tf.zeros([N], tf.int64)),
            )
            pairs = zip(self.variables.rules, first, strict=True)
            self.begin = tf.group(*[v.assign(value, read_value=False) for v, value in pairs])

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for a variable of the envs' state."""
        return any(variable is own for own in tf2.nest.flatten(self.variables))

    def read(self) -> EnvState:
        """Returns the state as it is kept."""
        return tf2.nest.map_structure(lambda variable: variable.read_value(), self.variables)

    def write(self, state: EnvState) -> list[tf.Operation]:
        """Keeps `state`."""
        saved = tf2.nest.map_structure(
            lambda variable, value: variable.assign(value, read_value=False),
            self.variables, state,
        )  # fmt: skip
        return tf2.nest.flatten(saved)

    def observe(self, state: EnvState) -> tf.Tensor:
        """Returns what the agent sees, [N, ...]; with a stack, of all frames."""
        now = self.rules.observe(state.rules)
        if self._config.frame_stack < 2:
            return now
        return tf.concat([state.earlier, tf.reshape(now, [-1, *self._frame])], axis=-1)

    def step(
        self, state: EnvState, action: tf.Tensor, counter: tf.Tensor
    ) -> tuple[EnvState, tf.Tensor, tf.Tensor]:
        """Makes one step of every env, or begins its next episode where the last one has ended.

        Args:
          counter: int64 scalar, another one at each time step.

        Returns:
          The state after it; [N] int32 lengths of the episodes that ended with it, negative if
          truncated, else 0; [N] float64 returns so far.
        """
        rules, begins = self.rules, state.ended
        draws = self._draws(counter, max(rules.begin_draws, rules.step_draws))
        moved = rules.step(state.rules, action, draws[:, : rules.step_draws])
        first = rules.begin(draws[:, : rules.begin_draws])
        reward = tf.where(begins, tf.zeros_like(moved.reward), moved.reward)
        terminated = tf.logical_and(moved.terminated, tf.logical_not(begins))
        length = tf.where(begins, tf.zeros_like(state.length), state.length + 1)
        total = tf.where(begins, tf.zeros_like(state.episode_return), state.episode_return)
        total = total + tf.cast(reward, tf.float64)
        ended = terminated
        if rules.max_episode_steps is not None:
            ended = tf.logical_or(ended, length >= rules.max_episode_steps)
        earlier: Any = ()
        if self._config.frame_stack > 1:
            later = self.observe(state)[..., self._frame[-1] :]
            earlier = _where(begins, tf.zeros_like(later), later)
        after = EnvState(
            tf2.nest.map_structure(lambda new, old: _where(begins, new, old), first, moved.state),
            earlier,
            reward,
            terminated,
            begins,
            ended,
            length,
            total,
            state.finished + tf.cast(ended, tf.int64),
        )
        sign = tf.where(terminated, tf.ones_like(length), -tf.ones_like(length))
        return after, tf.where(ended, length * sign, tf.zeros_like(length)), total

    def _draws(self, counter: tf.Tensor, count: int) -> tf.Tensor:
        return Draws(self._keys, "envs", counter).uniform("draws", [self._config.num_envs, count])


def _kept(name: str, value: tf.Tensor) -> tf.Variable:
    return tf.get_variable(name, initializer=value, trainable=False)


def _where(condition: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """[N] bool, [N, ...], [N, ...]: by envs."""
    shape = [-1, *[1] * (a.shape.rank - 1)]
    return tf.where_v2(tf.reshape(condition, shape), a, b)
