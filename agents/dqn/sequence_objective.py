"""The objective of a network that remembers: sequences, unrolled from their stored states."""

from __future__ import annotations

import functools
from collections.abc import Callable

import tensorflow.compat.v1 as tf

from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.networks import Networks
from targetnet.agents.dqn.objective import Average, BatchValues, InConditions, Objective, Regression
from targetnet.rl_core.networks import Values
from targetnet.rl_core.replay import Sequences


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
        of = self._objective.of_seen(SequenceValues(batch, *self._objective.by(counter)))
        good = tf.reshape(batch.learned, [-1, *[1] * (of.td.td_error.shape.rank - 1)])
        td_error = tf.where_v2(good, of.td.td_error, 0.0)
        value = of.td.target - of.td.td_error
        td = of.td._replace(loss=batch.mean(of.td.loss), target=value + td_error, td_error=td_error)
        return Regression(td, self._priority(batch, of.priority), of.q_tm1)

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
    def now(self) -> list[Values]:
        """The online network's where the steps begin; the gradient flows through them."""
        features = self._at_source(self._features)
        return [self._built.on(self._networks.online, features, self._conditions("now"))]

    @functools.cached_property
    def then(self) -> list[Values]:
        """The target's where they lead."""
        return self._of_targets(self._at_destination, "then")

    @functools.cached_property
    def before(self) -> list[Values]:
        """The target's where they begin."""
        return self._of_targets(self._at_source, "before")

    @functools.cached_property
    def online_then(self) -> list[Values]:
        """The online network's where they lead, by the draws of `then`."""
        return self._frozen("then")

    @functools.cached_property
    def chooser(self) -> list[Values]:
        """The online network's where they lead, by draws of its own."""
        return self._frozen("chooser")

    # Features of all time steps, [B, T, U].

    @functools.cached_property
    def _features(self) -> tf.Tensor:
        now = self._conditions("now")
        return self._built.unroll(self._networks.online, self._sequences, now)

    @functools.cached_property
    def _features_of_targets(self) -> dict[str, tf.Tensor]:
        then = self._conditions("then")
        return {
            name: self._built.unroll(name, self._sequences, then) for name in self._built.targets
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
