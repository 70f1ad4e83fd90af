"""The objective of a batch: what its values are regressed on, with branches and demonstrations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.heads import HeadKind, LossInputs, head_of
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.rl_core.branches import by_branch
from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.losses import (
    TdLoss,
    branching_target,
    conservative_penalty,
    functional_penalty,
    large_margin,
    legal_only,
)
from targetnet.rl_core.networks import Conditions, Values
from targetnet.rl_core.optimizers.freeze import NO_BLOCK_LOSSES, BlockLoss, BlockLosses
from targetnet.rl_core.random import Draws, Keys
from targetnet.rl_core.replay import Transitions, ValidRows


class Demonstrations:
    """Tells demonstrations from other rows by their place in the ring.

    They were stored before all other rows, so no column has to say it. A run without a dataset has
    none, and in an offline run all rows are.

    Args:
      config: of the agent.
      rows: where they are stored.
    """

    def __init__(self, config: DqnConfig, rows: ValidRows) -> None:
        self._all, self._steps = bool(config.offline), config.demonstration_steps
        self._rows = rows

    def among(self, row: tf.Tensor) -> tf.Tensor:
        """Says which rows are demonstrations that are not overwritten yet.

        Args:
          row: [B] int64 numbers of rows.

        Returns:
          [B] bool.
        """
        if self._all:
            return tf.ones_like(row, tf.bool)
        time_step = row // self._rows.num_envs  # [B] the first that was stored at this place
        written = self._rows.rows_written.read_value()  # [1]
        there = written <= time_step + self._rows.steps
        return tf.logical_and(time_step < self._steps, there)


def branching_loss(
    head: HeadKind, terms: LossInputs, choice: tf.Tensor, sizes: Sequence[int]
) -> tuple[TdLoss, tf.Tensor]:
    """Regresses the values of all branches on one target.

        td_error[d] = target - q_tm1[d, a_tm1[d]]
        loss        = mean_d loss(td_error[d])
        priority    = sum_d |td_error[d]|

    with the target of `targetnet.rl_core.losses.branching_target`. Tavakoli, Pardo & Kormushev
    (2018), https://arxiv.org/abs/1711.08946; the loss of each branch is the head's. They also scale
    the gradient of what the branches share down, by 1 / (D + 1), which Adam's steps do not depend
    on where `max_grad_norm` does not clip, and clip each variable alone.

    Args:
      head: learns numbers (`HeadKind.loss_to`).
      terms: of values [B, A].
      choice: [B, A] values by which the next action is chosen.
      sizes: of the branches, [D].

    Returns:
      The loss [B], with a target and a TD error for each branch, [B, D]; and the priority, [B].
    """
    D, batch, online_tm1 = len(sizes), terms.batch, terms.online_tm1
    target_t = by_branch(terms.target_t.q, sizes)  # [B, D, n]
    target = branching_target(
        batch.r_t, batch.discount_t, target_t, by_branch(choice, sizes)
    )  # [B]
    # Each branch is a transition of its own to the head.
    each = terms._replace(
        batch=batch._replace(a_tm1=tf.reshape(batch.a_tm1, [-1])),  # [B D]
        online_tm1=Values(
            _folded(online_tm1.q, sizes),
            None if online_tm1.logits is None else _folded(online_tm1.logits, sizes),
        ),
    )
    assert head.loss_to is not None  # the config was checked
    td = head.loss_to(each, tf.reshape(tf.tile(target[:, tf.newaxis], [1, D]), [-1]))
    loss, targets, errors = (tf.reshape(of, [-1, D]) for of in td)
    priority = tf.reshape(head.priority(td), [-1, D])
    return (
        TdLoss(tf.reduce_mean(loss, axis=1), targets, errors),
        tf.reduce_sum(priority, axis=1),
    )


def _folded(values: tf.Tensor, sizes: Sequence[int]) -> tf.Tensor:
    """[B, A, ...] -> [B D, n, ...]; no action is in the places that are filled."""
    apart = by_branch(values, sizes, fill=0.0)
    return tf.reshape(apart, [-1, *apart.shape.as_list()[2:]])


def require_branching(config: DqnConfig, branches: Sequence[int]) -> None:
    """Checks that the config can learn actions with these branches; () is always good.

    Raises:
      ConfigError: it cannot; names the key.
    """
    if not branches:
        return
    of_numbers = head_of(config).loss_to is not None
    wrong = {
        f"needs head = 'scalar', or loss = 'hl_gauss', got head = {config.head!r}": not of_numbers,
        "takes the best choice of each branch; leave munchausen out": config.munchausen,
        "averages targets over branches; leave value_rescaling out": config.value_rescaling,
        "explores by epsilon alone; leave boltzmann out": config.boltzmann,
        "needs a replay and a target network; leave rollout out": config.rollout > 0,
        f"needs one network, got chain = {config.chain}": config.chain > 1,
        "has no penalty on values; leave functional_weight, cql_weight and margin_weight out": any(
            map(config.is_built_with, ("functional_weight", "cql_weight", "margin_weight"))
        ),
        "gets its priorities from the learner; leave actor_priorities out": (
            config.loop == "remote" and config.actor_priorities
        ),
    }
    for why, is_wrong in wrong.items():
        if is_wrong:
            raise ConfigError(
                f"{config.env_id} has actions of {len(branches)} numbers (MultiDiscrete or "
                f"MultiBinary), and learning their branches {why}"
            )


# Live values that blend the target's values with the online network's.
_BLENDS = ("online_weight", "min_weight")
# What for -> conditions under which a network is called, with random numbers of their own.
InConditions = Callable[[str], Conditions]
# The mean of the values of several target networks.
Average = Callable[[list[Values]], Values]


class Regression(NamedTuple):
    """Distances of a batch's values from their targets."""

    td: TdLoss
    priority: Any  # [B] for a prioritized replay
    q_tm1: Any  # [B, A] of the online network; of sequences of L steps, [B L, A]
    own: BlockLosses = NO_BLOCK_LOSSES  # [B] each: losses that train one block alone


class Objective:
    """Builds the regression of a batch: Q-learning, or its soft form (Munchausen).

    The branches of an action have one target for all of them (`branching_loss`).

    The networks of a chain have a regression each, on the copy of the one before, and their losses
    are added up: Vincent et al. (2024), https://arxiv.org/abs/2403.02107.

    Args:
      config, keys: of the agent.
      networks: whose online values are regressed on their targets' values.
      live: what updates are fed.
      demonstrations: which rows are such.
    """

    def __init__(
        self,
        config: DqnConfig,
        keys: Keys,
        networks: Networks,
        live: LiveFeeds,
        demonstrations: Demonstrations,
    ) -> None:
        self._config, self._keys, self._live = config, keys, live
        self._networks, self._head = networks, head_of(config)
        self._demonstrations = demonstrations
        if config.munchausen and self._head.munchausen_loss is None:
            raise ConfigError(f"head = {config.head!r} has no loss of munchausen; leave one out")
        if self._head.blend is None and any(map(config.is_built_with, _BLENDS)):
            raise ConfigError(
                f"head = {config.head!r} has no blend of two networks' values; leave "
                f"{' and '.join(_BLENDS)} out"
            )
        if config.chain > 1 and self._head.own_losses:
            raise ConfigError(
                f"head = {config.head!r} trains a block by a loss of its own, and the blocks of a "
                f"chain are whole networks; leave chain out, got {config.chain}"
            )

    def __call__(self, batch: Transitions, counter: tf.Tensor) -> Regression:
        """Returns the regression of `batch`; `counter`, of updates, picks random numbers.

        Of a chain the TD errors and the target are those of the first network.
        """
        return self.regression_of(BatchValues(batch, *self.by(counter)))

    def by(self, counter: tf.Tensor) -> tuple[Networks, InConditions, Average]:
        """Returns what `BatchValues` needs beside the batch."""

        def conditions(purpose: str) -> Conditions:
            return Conditions(Draws(self._keys, purpose, counter), self._live, training=True)

        return self._networks, conditions, self._head.average

    def regression_of(self, values: BatchValues) -> Regression:
        """Returns the regression of a batch with these values."""
        links = [self._of_link(values, i) for i in range(self._config.chain)]
        if len(links) == 1:
            return links[0]
        loss = tf.add_n([of.td.loss for of in links])
        priority = tf.add_n([of.priority for of in links]) / len(links)
        return Regression(links[0].td._replace(loss=loss), priority, links[0].q_tm1)

    def _of_link(self, values: BatchValues, i: int) -> Regression:
        """The regression of one network of a chain, counted from 0."""
        online_tm1 = values.online_tm1[i]
        target_t = self._bootstrap_values(values, i)
        terms = LossInputs(self._config, self._live, values.batch, online_tm1, target_t)
        if branches := self._networks.branches:
            choice = self._choice(values, target_t, i)
            return Regression(*branching_loss(self._head, terms, choice, branches), online_tm1.q)
        if self._config.munchausen:
            assert self._head.munchausen_loss is not None  # see `__init__`
            td = self._head.munchausen_loss(terms, values.target_tm1[i])
        else:
            td = self._head.q_loss(terms, self._choice(values, target_t, i))
        priority = self._head.priority(td)
        if self._config.is_built_with("functional_weight"):
            td = td._replace(loss=td.loss + self._penalty(values, i))
        if self._config.is_built_with("cql_weight"):
            batch, weight = values.batch, self._live["cql_weight"]
            penalty = conservative_penalty(online_tm1.q, batch.a_tm1, weight, batch.legal_tm1)
            td = td._replace(loss=td.loss + penalty)
        if self._config.is_built_with("margin_weight"):
            td = td._replace(loss=td.loss + self._margin(values.batch, online_tm1))
        own = {
            block: BlockLoss(of.loss(terms), self._live[of.learning_rate])
            for block, of in self._head.own_losses.items()
        }
        return Regression(td, priority, online_tm1.q, own)

    def _bootstrap_values(self, values: BatchValues, i: int) -> Values:
        """The target's values of s_t, or a blend with the online network's."""
        target_t = values.target_t[i]
        if not any(map(self._config.is_built_with, _BLENDS)):
            return target_t
        weights = (self._live[of] if self._config.is_built_with(of) else 0.0 for of in _BLENDS)
        assert self._head.blend is not None  # see `__init__`
        return self._head.blend(target_t, values.online_t[i], *weights)

    def _penalty(self, values: BatchValues, i: int) -> tf.Tensor:
        """[B] of functional regularization."""
        a_tm1, weight = values.batch.a_tm1, self._live["functional_weight"]
        return functional_penalty(values.online_tm1[i].q, a_tm1, values.target_tm1[i].q, weight)

    def _margin(self, batch: Transitions, online_tm1: Values) -> tf.Tensor:
        """[B] of the large-margin loss of demonstrations."""
        margin, weight = self._live["margin"], self._live["margin_weight"]
        shown = self._demonstrations.among(batch.row)
        return large_margin(online_tm1.q, batch.a_tm1, margin, weight, shown, batch.legal_tm1)

    def _choice(self, values: BatchValues, target_t: Values, i: int) -> tf.Tensor:
        """Values by which the next action is chosen: [B, A]; illegal ones have the lowest float."""
        selector_t = values.selector_t[i] if self._config.double else target_t
        return legal_only(selector_t.q, values.batch.legal_t)


class BatchValues:
    """Values of a batch, built when they are first asked for: of each network of a chain, [K].

    Args:
      batch: of transitions.
      networks: of the agent.
      conditions, average: of the objective.
    """

    def __init__(
        self, batch: Transitions, networks: Networks, conditions: InConditions, average: Average
    ) -> None:
        self.batch, self._networks = batch, networks
        self._conditions, self._average = conditions, average

    @functools.cached_property
    def online_tm1(self) -> list[Values]:
        """The online network's at s_tm1; the gradient flows through them."""
        return self._networks.values(self.batch.s_tm1, self._conditions("now"))

    @functools.cached_property
    def target_t(self) -> list[Values]:
        """The target's at s_t."""
        return self._of_target(self.batch.s_t, "then")

    @functools.cached_property
    def target_tm1(self) -> list[Values]:
        """The target's at s_tm1."""
        return self._of_target(self.batch.s_tm1, "before")

    @functools.cached_property
    def online_t(self) -> list[Values]:
        """The online network's at s_t, by the draws of `then`: of the same fractions."""
        return self._networks.frozen_values(self.batch.s_t, self._conditions("then"))

    @functools.cached_property
    def selector_t(self) -> list[Values]:
        """The online network's at s_t, by draws of its own."""
        return self._networks.frozen_values(self.batch.s_t, self._conditions("chooser"))

    def _of_target(self, observation: tf.Tensor, purpose: str) -> list[Values]:
        """The means over the target network and its older copies, if there are any.

        Averaged-DQN, Anschel, Baram & Shimkin (2017), https://arxiv.org/abs/1611.01929.
        """
        target, *older = self._networks.each_target(observation, self._conditions(purpose))
        if not older:
            return target
        return [self._average(list(values)) for values in zip(target, *older, strict=True)]


def learned_rewards(live: LiveFeeds) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns the function from an env's rewards to those that are learned from.

        learned = min(max(reward * reward_scale, -reward_clip), reward_clip)

    Scale 1 and clip 1 are the clipping of Mnih et al. (2015),
    https://doi.org/10.1038/nature14236. Clip 0 does not clip: it is fed as infinity.
    """

    def learned(reward: tf.Tensor) -> tf.Tensor:
        limit = live["reward_clip"]
        # `-limit` would be a scalar that XLA makes before its loop and hands to every iteration.
        return -tf.minimum(-tf.minimum(reward * live["reward_scale"], limit), limit)

    return learned
