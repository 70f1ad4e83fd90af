"""What a batch's values are regressed on, and how far they are from it.

`HEADS` says it for each head in one place: what the values are regressed on and by which loss,
what a prioritized replay takes as priority, and how several targets are averaged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from agents.config.model import DqnConfig
from agents.dqn.live_feeds import LiveFeeds
from agents.dqn.networks import Networks
from rl_core.losses import (
    TdLoss,
    categorical_q_learning,
    double_q_learning,
    huber,
    legal_only,
    munchausen_q_learning,
    munchausen_quantile,
    q_learning,
    quantile_q_learning,
    support,
)
from rl_core.networks import Values
from rl_core.random import Draws, Keys
from rl_core.replay import Transitions


class Regression(NamedTuple):
    """How far a batch's values are from their targets."""

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
        self.config, self._keys, self.live = config, keys, live
        self._networks = networks
        self._head = HEADS[config.head]

    def __call__(self, batch: Transitions, counter: tf.Tensor) -> Regression:
        """Returns the regression of `batch`; `counter`, of updates, picks random numbers."""
        now = self._networks.values(batch.s_tm1, self._draws("now", counter))
        then = self._target_values(batch.s_t, "then", counter)
        if self.config.munchausen:
            before = self._target_values(batch.s_tm1, "before", counter)
            assert self._head.soft is not None  # the config was checked
            td = self._head.soft(self, batch, now, then, before)
        else:
            td = self._head.hard(self, batch, now, then, self._choice(batch, then, counter))
        return Regression(td, self._head.priority(td), now.q)

    def _choice(self, batch: Transitions, then: Values, counter: tf.Tensor) -> tf.Tensor:
        """Values by which the next action is chosen: [B, A], illegal ones too low to be."""
        choice = legal_only(then.q, batch.legal_t)
        if self.config.double:
            chooser = self._networks.frozen_values(batch.s_t, self._draws("chooser", counter))
            choice = legal_only(chooser.q, batch.legal_t)
        return choice

    def _target_values(self, observation: tf.Tensor, purpose: str, counter: tf.Tensor) -> Values:
        """The mean over the target network and its older copies, if there are any.

        Averaged-DQN, Anschel, Baram & Shimkin (2017), https://arxiv.org/abs/1611.01929.
        """
        values = self._networks.each_target(observation, self._draws(purpose, counter))
        return values[0] if len(values) == 1 else self._head.average(values)

    def _draws(self, purpose: str, counter: tf.Tensor) -> Draws | None:
        random = self.config.noisy or self.config.head == "implicit"
        return Draws(self._keys, purpose, counter) if random else None


def _transition(batch: Transitions) -> tuple[Any, Any, Any]:
    return batch.a_tm1, batch.r_t, batch.discount_t


def _soft(objective: Objective, batch: Transitions) -> dict[str, Any]:
    live = objective.live
    return {
        "alpha": live["munchausen_alpha"],
        "temperature": live["munchausen_temperature"],
        "clip": live["munchausen_clip"],
        "legal_tm1": batch.legal_tm1,
        "legal_t": batch.legal_t,
    }


# Of a scalar head: means.


def _means(
    objective: Objective, batch: Transitions, now: Values, then: Values, choice: tf.Tensor
) -> TdLoss:
    if objective.config.double:
        td = double_q_learning(now.q, *_transition(batch), then.q, choice)
    else:
        td = q_learning(now.q, *_transition(batch), choice)
    return _by_size(objective, td)


def _soft_means(
    objective: Objective, batch: Transitions, now: Values, then: Values, before: Values
) -> TdLoss:
    soft = _soft(objective, batch)
    td = munchausen_q_learning(now.q, *_transition(batch), then.q, before.q, **soft)
    return _by_size(objective, td)


def _by_size(objective: Objective, td: TdLoss) -> TdLoss:
    if objective.config.loss == "squared":
        return td
    return td._replace(loss=huber(td.td_error, objective.live["huber_delta"]))


def _mean_of_means(values: list[Values]) -> Values:
    return Values(_mean([v.q for v in values]))


# Of a categorical head: probabilities of fixed atoms.


def _probabilities(
    objective: Objective, batch: Transitions, now: Values, then: Values, choice: tf.Tensor
) -> TdLoss:
    config = objective.config
    atoms = support(config.v_min, config.v_max, config.atoms)
    p_t = tf.nn.softmax(then.logits)
    return categorical_q_learning(now.logits, *_transition(batch), p_t, choice, atoms)


def _mean_of_probabilities(values: list[Values]) -> Values:
    mean = _mean([v.q for v in values])
    probabilities = _mean([tf.nn.softmax(v.logits) for v in values])
    return Values(mean, logits=tf.math.log(tf.maximum(probabilities, 1e-30)))


# Of a quantile or an implicit head: quantiles, whose fractions are fixed or drawn.


def _quantiles(
    objective: Objective, batch: Transitions, now: Values, then: Values, choice: tf.Tensor
) -> TdLoss:
    kappa = objective.live["huber_delta"]
    return quantile_q_learning(now.z, now.taus, *_transition(batch), then.z, choice, kappa)


def _soft_quantiles(
    objective: Objective, batch: Transitions, now: Values, then: Values, before: Values
) -> TdLoss:
    kappa, soft = objective.live["huber_delta"], _soft(objective, batch)
    return munchausen_quantile(
        now.z, now.taus, *_transition(batch), then.z, then.q, before.q, kappa, **soft
    )


def _mean_of_quantiles(values: list[Values]) -> Values:
    mean = _mean([v.q for v in values])
    return Values(mean, z=_mean([v.z for v in values]), taus=values[0].taus)


def _mean(tensors: list[tf.Tensor]) -> tf.Tensor:
    return tf.add_n(tensors) / len(tensors)


class _Head(NamedTuple):
    """One line of the table.

    Attributes:
      hard: the TD loss of Q-learning; soft: of Munchausen, None where it is not defined.
      priority: of a prioritized replay. Hessel et al. (2018) take the loss where it is a distance
        of distributions.
      average: the mean of several targets' values of the same observations and fractions.
    """

    hard: Callable[[Objective, Transitions, Values, Values, tf.Tensor], TdLoss]
    soft: Callable[[Objective, Transitions, Values, Values, Values], TdLoss] | None
    priority: Callable[[TdLoss], tf.Tensor]
    average: Callable[[list[Values]], Values]


HEADS = {
    "scalar": _Head(_means, _soft_means, lambda td: tf.abs(td.td_error), _mean_of_means),
    "categorical": _Head(_probabilities, None, lambda td: td.loss, _mean_of_probabilities),
    "quantile": _Head(_quantiles, _soft_quantiles, lambda td: td.loss, _mean_of_quantiles),
    "implicit": _Head(_quantiles, _soft_quantiles, lambda td: td.loss, _mean_of_quantiles),
}
