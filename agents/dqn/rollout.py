"""The objective of learning from rollouts: returns that the network itself gives them (PQN)."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.heads import LossInputs, head_of
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.memory import learned_rewards
from targetnet.agents.dqn.networks import Networks
from targetnet.agents.dqn.objective import Regression
from targetnet.rl_core.graph.large import large_variable, write_at
from targetnet.rl_core.graph.xla import when
from targetnet.rl_core.losses import lambda_returns, legal_only
from targetnet.rl_core.networks import Conditions
from targetnet.rl_core.random import Draws, Keys
from targetnet.rl_core.replay import ReplayMemory, Transitions


class RolloutObjective:
    """Regression of batches of a rollout on its Q(lambda) returns.

    Gallici et al. (2024), https://arxiv.org/abs/2407.04811. The first update after a
    rollout computes the returns of all its steps, with the network as it is then; they are the
    targets of all updates until the next rollout. No other network is asked.

    Args:
      config, keys, networks, memory: of the agent.
      live: what updates are fed.
    """

    def __init__(
        self,
        config: DqnConfig,
        keys: Keys,
        networks: Networks,
        live: LiveFeeds,
        memory: ReplayMemory,
    ) -> None:
        self._config, self._keys, self._live = config, keys, live
        self._networks, self._rows = networks, memory.rows
        self._head = head_of(config)
        # Not in checkpoints: these lie between two phases, and each begins with new returns.
        with tf.variable_scope(memory.rows.scope, auxiliary_name_scope=False):
            self._returns = large_variable(
                "returns", tf.float32, [memory.capacity], tf.zeros_initializer()
            )

    def __call__(self, batch: Transitions, counter: tf.Tensor) -> Regression:
        """Returns the regression of `batch`; `counter`, of updates, picks random numbers."""
        first = tf.equal(counter % self._config.updates_per_rollout, 0)
        with tf.control_dependencies([when(first, lambda: self._renew(counter))]):
            target = tf.gather(self._returns, batch.row)  # [B]
        (now,) = self._networks.values(batch.s_tm1, self._conditions("now", counter))
        assert self._head.loss_to is not None  # the config was checked
        terms = LossInputs(self._config, self._live, batch, now, now)
        td = self._head.loss_to(terms, tf.stop_gradient(target))
        return Regression(td, self._head.priority(td), now.q)

    def _renew(self, counter: tf.Tensor) -> tf.Operation:
        """Computes the returns of all rows whose outcome is known, each at its row's number."""
        ring, N, T = self._rows.ring, self._config.num_envs, self._config.rollout
        oldest = self._rows.rows_written.read_value() - (T + 1)  # [1]
        rows = ring.numbers_of_steps(oldest + tf.range(T + 1, dtype=tf.int64))  # [(T + 1) N]
        known = rows[: T * N]  # all but those of the newest time step
        terminated, autoreset = (
            tf.reshape(ring.at(name, known), [T, N]) for name in ("terminated", "autoreset")
        )
        reward = tf.reshape(learned_rewards(self._live)(ring.at("reward", known)), [T, N])
        v = self._best_values(rows, counter)  # [T + 1, N]
        # A return does not go on where the next step is a reset: the next row is the true final
        # observation then. Nor does it at the newest row.
        over = tf.concat([autoreset[1:], tf.ones([1, N], tf.bool)], axis=0)  # [T, N]
        returns = lambda_returns(
            r_t=reward,
            discount_t=tf.where_v2(terminated, 0.0, self._live["discount"]),
            v_t=v[1:],
            lambda_t=tf.where_v2(over, 0.0, self._live["q_lambda"]),
        )
        return write_at(self._returns, known, tf.reshape(returns, [-1]))

    def _best_values(self, rows: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
        """[T + 1, N] largest value of a legal action at each row."""
        ring, conditions = self._rows.ring, self._conditions("returns", counter)
        (values,) = self._networks.frozen_values(ring.observations(rows), conditions)
        legal = ring.at("legal", rows) if "legal" in ring.columns else None
        return tf.reshape(
            tf.reduce_max(legal_only(values.q, legal), axis=1), [-1, self._config.num_envs]
        )

    def _conditions(self, purpose: str, counter: tf.Tensor) -> Conditions:
        return Conditions(Draws(self._keys, purpose, counter), self._live, training=True)
