"""Heads of a network: how each is built, and how its values are learned.

To add one you need: a function that builds it (rl_core/networks/heads.py; a field of `Values` if
its output is of a new kind), its TD loss (rl_core/losses), a `HeadKind` here, and the key `head`
with its size and paper (config/network_keys.py, config/keys.py: PAPERS). Look at what names heads:
config/combinations.py, `huber_delta` in config/learning_keys.py, and, if it embeds fractions,
memory_estimate.py; if it has `loss_to` and a new field of `Values`, objective.py: branching_loss.
Its functions are named in the `__init__.py` of rl_core/networks and rl_core/losses. Optional:
remote/numpy_policy.py, and the lists of public names. A block that has a loss and a step size of
its own is an entry of `HeadKind.own_losses`. A new loss is a line of `LOSSES`, or, with
another kind of target, of `BY_LOSS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.rl_core.losses import (
    TdLoss,
    blend,
    categorical_q_learning,
    double_q_learning,
    fraction_loss,
    hl_gauss,
    huber,
    munchausen_q_learning,
    munchausen_quantile,
    q_learning,
    quantile_huber,
    quantile_q_learning,
    rescaled,
    squared,
    support,
    unscaled,
)
from targetnet.rl_core.losses.td import at_action, at_best
from targetnet.rl_core.networks import (
    Streams,
    Values,
    categorical_head,
    fqf_head,
    implicit_head,
    q_head,
    quantile_head,
)
from targetnet.rl_core.networks.network import Head
from targetnet.rl_core.replay import Transitions


class LossInputs(NamedTuple):
    """Inputs of a TD loss."""

    config: DqnConfig
    live: LiveFeeds
    batch: Transitions
    online_tm1: Values  # of the online network at s_tm1
    target_t: Values  # of the target network at s_t; of the online one if there is no target

    @property
    def transition(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """a_tm1, r_t and discount_t of the batch."""
        return self.batch.a_tm1, self.batch.r_t, self.batch.discount_t


Weight: TypeAlias = tf.Tensor | float


class OwnLoss(NamedTuple):
    """The loss of one block, which the TD loss does not train.

    Attributes:
      loss: [B].
      learning_rate: name of the live value that is the block's step size.
    """

    loss: Callable[[LossInputs], tf.Tensor]
    learning_rate: str


class HeadKind(NamedTuple):
    """One head.

    Attributes:
      build: from the config and the streams below it.
      q_loss: the TD loss of Q-learning, given [B, A] values by which the next action is chosen.
      munchausen_loss: the TD loss of Munchausen, given the target network's values at s_tm1; None
        where it is not defined.
      priority: [B] for a prioritized replay. Hessel et al. (2018) take the loss where it is a
        distance of distributions.
      average: the mean of several targets' values of the same observations and fractions.
      blend: the values that bootstrap, of the target's, the online network's, and two weights; see
        `targetnet.rl_core.losses.blend`; None where it is not defined.
      loss_to: the TD loss toward scalar targets [B]; None for distributional heads.
      size_key: key of the config that says how many numbers it has for each action; "" for one.
      blocks: scopes that it has beside those of the streams.
      own_losses: block -> the loss that trains it alone; no gradient of it reaches other blocks.
        The head leaves what it needs in `Values.own`.
    """

    build: Callable[[DqnConfig, Streams], Head]
    q_loss: Callable[[LossInputs, tf.Tensor], TdLoss]
    munchausen_loss: Callable[[LossInputs, Values], TdLoss] | None
    priority: Callable[[TdLoss], tf.Tensor]
    average: Callable[[list[Values]], Values]
    blend: Callable[[Values, Values, Weight, Weight], Values] | None
    loss_to: Callable[[LossInputs, tf.Tensor], TdLoss] | None = None
    size_key: str = ""
    blocks: frozenset[str] = frozenset()
    own_losses: Mapping[str, OwnLoss] = MappingProxyType({})


def _soft(terms: LossInputs) -> dict[str, Any]:
    batch, live = terms.batch, terms.live
    return {
        "alpha": live["munchausen_alpha"],
        "temperature": live["munchausen_temperature"],
        "clip": live["munchausen_clip"],
        "legal_tm1": batch.legal_tm1,
        "legal_t": batch.legal_t,
    }


# A scalar head: means.


def _means(terms: LossInputs, choice: tf.Tensor) -> TdLoss:
    return _of_size(terms, _td_of_means(terms, choice))


def _soft_means(terms: LossInputs, target_tm1: Values) -> TdLoss:
    return _of_size(terms, _soft_td_of_means(terms, target_tm1))


def _td_of_means(terms: LossInputs, choice: tf.Tensor) -> TdLoss:
    online_tm1, target_t = terms.online_tm1, terms.target_t
    if terms.config.value_rescaling:
        return _td_of_rescaled(terms, choice)
    if terms.config.double:
        return double_q_learning(online_tm1.q, *terms.transition, target_t.q, choice)
    return q_learning(online_tm1.q, *terms.transition, choice)


def _td_of_rescaled(terms: LossInputs, choice: tf.Tensor) -> TdLoss:
    """Values h(x) of returns x: the target is h(r_t + discount_t * h^-1(value of the choice))."""
    a_tm1, r_t, discount_t = terms.transition
    bootstrap = unscaled(at_best(terms.target_t.q, choice))  # [B]
    target = tf.stop_gradient(rescaled(r_t + discount_t * bootstrap))  # [B]
    td_error = target - at_action(terms.online_tm1.q, a_tm1)  # [B]
    return TdLoss(squared(td_error), target, td_error)


def _soft_td_of_means(terms: LossInputs, target_tm1: Values) -> TdLoss:
    online_tm1, target_t = terms.online_tm1, terms.target_t
    return munchausen_q_learning(
        online_tm1.q, *terms.transition, target_t.q, target_tm1.q, **_soft(terms)
    )


def _loss_to_means(terms: LossInputs, target: tf.Tensor) -> TdLoss:
    td_error = target - at_action(terms.online_tm1.q, terms.batch.a_tm1)  # [B]
    return _of_size(terms, TdLoss(squared(td_error), target, td_error))


def _of_size(terms: LossInputs, td: TdLoss) -> TdLoss:
    return td._replace(loss=LOSSES[terms.config.loss](td.td_error, terms.live))


def _mean_of_means(values: list[Values]) -> Values:
    return Values(_mean([v.q for v in values]))


def _blend_of_means(target: Values, online: Values, *weights: Weight) -> Values:
    return Values(blend(target.q, online.q, online.q < target.q, *weights))


# A categorical head: probabilities of fixed atoms.


def _categorical(config: DqnConfig, streams: Streams) -> Head:
    return categorical_head(streams, support(*config.ends_of_support, config.atoms))


def _probabilities(terms: LossInputs, choice: tf.Tensor) -> TdLoss:
    config = terms.config
    atoms = support(*config.ends_of_support, config.atoms)
    p_t = tf.nn.softmax(terms.target_t.logits)
    return categorical_q_learning(terms.online_tm1.logits, *terms.transition, p_t, choice, atoms)


def _mean_of_probabilities(values: list[Values]) -> Values:
    mean = _mean([v.q for v in values])
    probabilities = _mean([tf.nn.softmax(v.logits) for v in values])
    return Values(mean, logits=_logits(probabilities))


def _blend_of_probabilities(target: Values, online: Values, *weights: Weight) -> Values:
    """Blends distributions of an action; the smaller one is that of the smaller mean."""
    lower = online.q < target.q  # [B, A]
    p_t, p_online = tf.nn.softmax(target.logits), tf.nn.softmax(online.logits)
    mixed = _logits(blend(p_t, p_online, lower, *weights))
    # The logarithm of a softmax's softmax has other bits.
    logits = tf.where_v2(tf.equal(tf.add_n(weights), 0.0), target.logits, mixed)
    return Values(blend(target.q, online.q, lower, *weights), logits=logits)


def _logits(probabilities: tf.Tensor) -> tf.Tensor:
    return tf.math.log(tf.maximum(probabilities, 1e-30))


# A categorical head that learns a mean: HL-Gauss. All targets are those of a scalar head.


def _histogram(terms: LossInputs, choice: tf.Tensor) -> TdLoss:
    return _around(terms, _td_of_means(terms, choice).target)


def _soft_histogram(terms: LossInputs, target_tm1: Values) -> TdLoss:
    return _around(terms, _soft_td_of_means(terms, target_tm1).target)


def _around(terms: LossInputs, target: tf.Tensor) -> TdLoss:
    config, sigma = terms.config, terms.live["hl_gauss_sigma"]
    atoms = support(*config.ends_of_support, config.atoms)
    return hl_gauss(terms.online_tm1.logits, terms.batch.a_tm1, target, atoms, sigma)


# A quantile or an implicit head: quantiles, whose fractions are fixed or drawn.


def _quantiles(terms: LossInputs, choice: tf.Tensor) -> TdLoss:
    online_tm1, kappa = terms.online_tm1, terms.live["huber_delta"]
    return quantile_q_learning(
        online_tm1.z, online_tm1.taus, *terms.transition, terms.target_t.z, choice, kappa
    )


def _soft_quantiles(terms: LossInputs, target_tm1: Values) -> TdLoss:
    online_tm1, target_t, kappa = terms.online_tm1, terms.target_t, terms.live["huber_delta"]
    return munchausen_quantile(
        online_tm1.z,
        online_tm1.taus,
        *terms.transition,
        target_t.z,
        target_t.q,
        target_tm1.q,
        kappa,
        **_soft(terms),
    )


def _mean_of_quantiles(values: list[Values]) -> Values:
    mean = _mean([v.q for v in values])
    return Values(mean, z=_mean([v.z for v in values]), taus=values[0].taus)


def _blend_of_quantiles(target: Values, online: Values, *weights: Weight) -> Values:
    """Blends quantiles of the same fractions; the smaller ones are those of the smaller mean."""
    lower = online.q < target.q  # [B, A]
    q, z = (blend(a, b, lower, *weights) for a, b in ((target.q, online.q), (target.z, online.z)))
    return Values(q, z=z, taus=target.taus)


# An FQF head: quantiles of fractions that each network proposes for itself.


def _proposed_quantiles(terms: LossInputs, choice: tf.Tensor) -> TdLoss:
    """The loss of quantiles, where a target has the mass of its share; so its mean is that of q."""
    a_tm1, r_t, discount_t = terms.transition
    online_tm1, target_t, kappa = terms.online_tm1, terms.target_t, terms.live["huber_delta"]
    y = r_t[:, None] + discount_t[:, None] * at_best(target_t.z, choice)  # [B, M]
    masses, _ = target_t.own
    loss = quantile_huber(at_action(online_tm1.z, a_tm1), online_tm1.taus, y, kappa, masses)  # [B]
    target = tf.stop_gradient(r_t + discount_t * at_best(target_t.q, choice))  # [B]
    return TdLoss(loss, target, target - at_action(online_tm1.q, a_tm1))


def _fractions(terms: LossInputs) -> tf.Tensor:
    (shares, z_edges), z = terms.online_tm1.own, terms.online_tm1.z
    return fraction_loss(shares, z_edges, z, terms.batch.a_tm1, terms.live["fraction_entropy"])


def _mixture_of_quantiles(values: list[Values]) -> Values:
    """The quantiles of all: their fractions differ, so there is no mean one by one."""
    masses = tf.concat([v.own[0] for v in values], axis=1) / len(values)  # [B, M]
    z = tf.concat([v.z for v in values], axis=2)  # [B, A, M]
    return Values(_mean([v.q for v in values]), z=z, own=(masses, None))


def _mean(tensors: list[tf.Tensor]) -> tf.Tensor:
    return tf.add_n(tensors) / len(tensors)


# Loss of a TD error [B], of a scalar head -> [B].
LOSSES: dict[str, Callable[[tf.Tensor, LiveFeeds], tf.Tensor]] = {
    "huber": lambda td_error, live: huber(td_error, live["huber_delta"]),
    "squared": lambda td_error, live: squared(td_error),
}

HEADS = {
    "scalar": HeadKind(
        build=lambda config, streams: q_head(streams),
        q_loss=_means,
        munchausen_loss=_soft_means,
        priority=lambda td: tf.abs(td.td_error),
        average=_mean_of_means,
        blend=_blend_of_means,
        loss_to=_loss_to_means,
    ),
    "categorical": HeadKind(
        build=_categorical,
        q_loss=_probabilities,
        munchausen_loss=None,
        priority=lambda td: td.loss,
        average=_mean_of_probabilities,
        blend=_blend_of_probabilities,
        size_key="atoms",
    ),
    "quantile": HeadKind(
        build=lambda config, streams: quantile_head(streams, config.quantiles),
        q_loss=_quantiles,
        munchausen_loss=_soft_quantiles,
        priority=lambda td: td.loss,
        average=_mean_of_quantiles,
        blend=_blend_of_quantiles,
        size_key="quantiles",
    ),
    "implicit": HeadKind(
        build=lambda config, streams: implicit_head(
            streams, config.tau_samples, config.tau_samples_acting
        ),
        q_loss=_quantiles,
        munchausen_loss=_soft_quantiles,
        priority=lambda td: td.loss,
        average=_mean_of_quantiles,
        blend=_blend_of_quantiles,
        size_key="tau_samples",
        blocks=frozenset({"embedding"}),
    ),
    "fqf": HeadKind(
        build=lambda config, streams: fqf_head(streams, config.fractions),
        q_loss=_proposed_quantiles,
        munchausen_loss=None,
        priority=lambda td: td.loss,
        average=_mixture_of_quantiles,
        blend=None,
        size_key="fractions",
        blocks=frozenset({"embedding", "fractions"}),
        own_losses={"fractions": OwnLoss(_fractions, "fraction_learning_rate")},
    ),
}
# Heads whose loss has another kind of target than their own.
BY_LOSS = {
    "hl_gauss": HEADS["categorical"]._replace(
        q_loss=_histogram,
        munchausen_loss=_soft_histogram,
        priority=lambda td: tf.abs(td.td_error),
        average=_mean_of_means,
        blend=_blend_of_means,
        loss_to=_around,
    )
}


def head_of(config: DqnConfig) -> HeadKind:
    """Returns the head of a config, and how its values are learned."""
    return BY_LOSS.get(config.loss) or HEADS[config.head]
