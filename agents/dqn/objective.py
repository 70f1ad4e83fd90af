"""The objective of an update: what a batch's values are regressed on, and how far off they are."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from agents.config.model import DqnConfig
from agents.dqn.heads import Terms, head_of
from agents.dqn.live_feeds import LiveFeeds
from agents.dqn.networks import Networks
from rl_core.losses import TdLoss, functional_penalty, legal_only
from rl_core.networks import Conditions, Values
from rl_core.random import Draws, Keys
from rl_core.replay import Transitions


class Regression(NamedTuple):
    """Distances of a batch's values from their targets."""

    td: TdLoss
    priority: Any  # [B] for a prioritized replay
    q_tm1: Any  # [B, A] of the online network


class Objective:
    """Builds the regression of a batch: Q-learning, or its soft form (Munchausen).

    Args:
      config, keys: of the agent.
      networks: whose online values are regressed on their targets' values.
      live: what updates are fed.
    """

    def __init__(self, config: DqnConfig, keys: Keys, networks: Networks, live: LiveFeeds) -> None:
        self._config, self._keys, self._live = config, keys, live
        self._networks = networks
        self._head = head_of(config)

    def __call__(self, batch: Transitions, counter: tf.Tensor) -> Regression:
        """Returns the regression of `batch`; `counter`, of updates, picks random numbers."""
        now = self._networks.values(batch.s_tm1, self._conditions("now", counter))
        then = self._bootstrap_values(batch, counter)
        terms = Terms(self._config, self._live, batch, now, then)
        if self._config.munchausen:
            before = self._target_values(batch.s_tm1, "before", counter)
            assert self._head.soft is not None  # the config was checked
            td = self._head.soft(terms, before)
        else:
            td = self._head.hard(terms, self._choice(batch, then, counter))
        priority = self._head.priority(td)
        if self._config.holds_by("functional_weight"):
            td = td._replace(loss=td.loss + self._penalty(batch, now, counter))
        return Regression(td, priority, now.q)

    def _bootstrap_values(self, batch: Transitions, counter: tf.Tensor) -> Values:
        """The target's values of s_t, or a blend with the online network's."""
        then = self._target_values(batch.s_t, "then", counter)
        names = "online_weight", "min_weight"
        if not any(map(self._config.holds_by, names)):
            return then
        # The same draws: quantiles of the same fractions can be blended.
        online = self._networks.frozen_values(batch.s_t, self._conditions("then", counter))
        weights = (self._live[of] if self._config.holds_by(of) else 0.0 for of in names)
        return self._head.blend(then, online, *weights)

    def _penalty(self, batch: Transitions, now: Values, counter: tf.Tensor) -> tf.Tensor:
        """[B] of functional regularization."""
        before = self._target_values(batch.s_tm1, "before", counter)
        return functional_penalty(now.q, batch.a_tm1, before.q, self._live["functional_weight"])

    def _choice(self, batch: Transitions, then: Values, counter: tf.Tensor) -> tf.Tensor:
        """Values by which the next action is chosen: [B, A], illegal ones too low to be."""
        choice = legal_only(then.q, batch.legal_t)
        if self._config.double:
            chooser = self._networks.frozen_values(batch.s_t, self._conditions("chooser", counter))
            choice = legal_only(chooser.q, batch.legal_t)
        return choice

    def _target_values(self, observation: tf.Tensor, purpose: str, counter: tf.Tensor) -> Values:
        """The mean over the target network and its older copies, if there are any.

        Averaged-DQN, Anschel, Baram & Shimkin (2017), https://arxiv.org/abs/1611.01929.
        """
        values = self._networks.each_target(observation, self._conditions(purpose, counter))
        return values[0] if len(values) == 1 else self._head.average(values)

    def _conditions(self, purpose: str, counter: tf.Tensor) -> Conditions:
        return Conditions(Draws(self._keys, purpose, counter), self._live, training=True)
