"""Objectives over time: sequences for a network that remembers (R2D2), and rollouts (PQN)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.heads import LossInputs, head_of
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.agents.dqn.objective import (
    Average,
    BatchValues,
    InConditions,
    Objective,
    Regression,
    learned_rewards,
)
from targetnet.rl_core.graph.large import large_variable, write_at
from targetnet.rl_core.graph.xla import when
from targetnet.rl_core.losses import lambda_returns, legal_only
from targetnet.rl_core.networks import Conditions, Values
from targetnet.rl_core.random import Draws, Keys
from targetnet.rl_core.replay import ReplayMemory, Sequences, Transitions


class SequenceObjective:
    """Builds the regression of a batch of sequences.

    Kapturowski et al. (2019), https://openreview.net/forum?id=r1lyTjAqYX. Each step is learned
    by the loss that a transition has, on features that know what went before it; a
    sequence's loss is the mean over its steps, and its priority

        eta * max_t p_t + (1 - eta) * mean_t p_t

    of the priorities p_t of its steps.

    Args:
      objective: of transitions.
      live: what updates are fed.
    """

    def __init__(self, objective: Objective, live: LiveFeeds) -> None:
        self._objective, self._live = objective, live

    def __call__(self, batch: Sequences, counter: tf.Tensor) -> Regression:
        """Returns the regression of `batch`: loss and priority [B], all others [B L, ...].

        A step that is not learned from has a TD error of 0, and its target is its value.
        """
        of = self._objective.regression_of(SequenceValues(batch, *self._objective.by(counter)))
        good = tf.reshape(batch.learned, [-1, *[1] * (of.td.td_error.shape.rank - 1)])
        td_error = tf.where_v2(good, of.td.td_error, 0.0)
        value = of.td.target - of.td.td_error
        td = of.td._replace(loss=batch.mean(of.td.loss), target=value + td_error, td_error=td_error)
        own = {name: loss._replace(loss=batch.mean(loss.loss)) for name, loss in of.own.items()}
        return Regression(td, self._priority(batch, of.priority), of.q_tm1, own)

    def _priority(self, batch: Sequences, of_steps: tf.Tensor) -> tf.Tensor:
        if "priority_eta" not in self._live:
            return batch.mean(of_steps)
        eta = self._live["priority_eta"]
        return eta * batch.largest(of_steps) + (1.0 - eta) * batch.mean(of_steps)


class SequenceValues(BatchValues):
    """The same of the steps of sequences: a network is unrolled once, and its heads stand on that.

    Args:
      sequences: the batch.
      networks, conditions, average: as for `BatchValues`.
    """

    def __init__(
        self,
        sequences: Sequences,
        networks: Networks,
        conditions: InConditions,
        average: Average,
    ) -> None:
        super().__init__(sequences.steps, networks, conditions, average)
        self._sequences, self._built = sequences, networks.built

    @functools.cached_property
    def online_tm1(self) -> list[Values]:
        """The online network's where the steps begin; the gradient flows through them."""
        features = self._at_source(self._features)
        return [self._built.on(self._networks.online, features, self._conditions("now"))]

    @functools.cached_property
    def target_t(self) -> list[Values]:
        """The target's where they lead."""
        return self._of_targets(self._at_destination, "then")

    @functools.cached_property
    def target_tm1(self) -> list[Values]:
        """The target's where they begin."""
        return self._of_targets(self._at_source, "before")

    @functools.cached_property
    def online_t(self) -> list[Values]:
        """The online network's where they lead, by the draws of `then`."""
        return self._frozen("then")

    @functools.cached_property
    def selector_t(self) -> list[Values]:
        """The online network's where they lead, by draws of its own."""
        return self._frozen("chooser")

    # Features of all time steps, [B, T, U].

    @functools.cached_property
    def _features(self) -> tf.Tensor:
        draws = self._conditions("now")
        return self._built.unroll(self._networks.online, self._sequences, draws)

    @functools.cached_property
    def _features_of_targets(self) -> dict[str, tf.Tensor]:
        draws = self._conditions("then")
        return {
            name: self._built.unroll(name, self._sequences, draws) for name in self._built.targets
        }

    def _at_source(self, features: tf.Tensor) -> tf.Tensor:
        begin, (_, L) = self._sequences.first, self._sequences.learned.shape.as_list()
        return tf.reshape(features[:, begin : begin + L], [-1, features.shape[2]])  # [B L, U]

    def _at_destination(self, features: tf.Tensor) -> tf.Tensor:
        there = tf.gather(features, self._sequences.destination, axis=1, batch_dims=1)
        return tf.reshape(there, [-1, features.shape[2]])  # [B L, U]

    def _frozen(self, purpose: str) -> list[Values]:
        features, of = self._at_destination(self._features), self._conditions(purpose)
        return [self._built.on(self._networks.online, features, of, frozen=True)]

    def _of_targets(self, at: Callable[[tf.Tensor], tf.Tensor], purpose: str) -> list[Values]:
        of = self._conditions(purpose)
        values = [
            self._built.on(name, at(features), of)
            for name, features in self._features_of_targets.items()
        ]
        return values if len(values) == 1 else [self._average(values)]


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
        (online_tm1,) = self._networks.values(batch.s_tm1, self._conditions("now", counter))
        assert self._head.loss_to is not None  # the config was checked
        terms = LossInputs(self._config, self._live, batch, online_tm1, online_tm1)
        td = self._head.loss_to(terms, tf.stop_gradient(target))
        return Regression(td, self._head.priority(td), online_tm1.q)

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
