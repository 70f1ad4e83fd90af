"""Syncs that follow the run: a period that grows, and syncs by what was learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.sync_keys import SyncKeys
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.finite import where
from targetnet.rl_core.graph.scopes import MemberPart
from targetnet.rl_core.graph.xla import sum_of_squares

_LONGEST = 1e15  # updates; a period that grows stays a number of float32 and of int64


class RuleNumbers(NamedTuple):
    """Float32 scalars that a rule keeps."""

    error: Any  # mean squared TD error of the latest updates
    error_after: Any  # that mean right after the last sync
    period: Any  # updates; it has grown


class RuleCounts(NamedTuple):
    """Int64 scalars that a rule keeps."""

    grown_from: Any  # sync_period from which it has grown
    syncs: Any  # made by an update
    update: Any  # that made the last one
    age: Any  # of the target then


class SyncDecision(NamedTuple):
    """A rule's word on one update."""

    due: tf.Tensor  # [] bool: the target is to be synced
    numbers: RuleNumbers  # after it, but for a sync
    counts: RuleCounts


class RuleState(NamedTuple):
    """All that a rule keeps and measures, as Python reads it."""

    age: int  # updates since the last sync
    numbers: RuleNumbers
    counts: RuleCounts
    distance: float  # norm of online - target over the target's


class SyncCursor(NamedTuple):
    """A look for syncs: env steps, updates and syncs until then."""

    env_step: int
    updates: int
    syncs: int


class SyncWatch(MemberPart):
    """Reads what a rule keeps, and finds the syncs that it had made.

    Args:
      engine: of the agent, while the graph is being built.
      rule: of its clock.
      age: the target's, a variable.
    """

    def __init__(self, engine: Engine, rule: SyncRule, age: tf.Variable) -> None:
        kept = [of.read_value() for of in (age, rule.numbers, rule.counts)]
        self._call = engine.callable([*kept, rule.distance])

    def read(self) -> RuleState:
        """Reads it from the graph."""
        age, numbers, counts, distance = (value.tolist() for value in self._call())
        return RuleState(age, RuleNumbers(*numbers), RuleCounts(*counts), distance)

    def look(
        self, env_step: int, updates: int, before: SyncCursor | None
    ) -> tuple[SyncCursor, tuple[int, int] | None]:
        """Looks for the last sync since the look before; returns its env step and age, or None.

        The graph knows the update of the sync; its env step is as if the updates in between had
        been made at equal distances.

        Args:
          env_step, updates: so many were made.
          before: None finds no sync.
        """
        counts, found = self.read().counts, None
        if before and counts.syncs > before.syncs and updates > before.updates:
            share = (counts.update - before.updates) / (updates - before.updates)
            found = before.env_step + round(share * (env_step - before.env_step)), counts.age
        return SyncCursor(env_step, updates, counts.syncs), found


class SyncRule:
    """Says when the target is synced, where more than `sync_period` says so.

    The target is synced at an age: `sync_period`, which grows by the share `sync_growth` at each
    sync. It is synced before, at `min_target_age` or later, as soon as

    - the mean squared TD error is below `sync_fit` times what it was after the last sync. It is a
      plain mean over the first N = `sync_fit_updates` updates since the sync, and an exponential
      mean of length N after that. What it was after the sync is the plain mean of all N.
    - or the norm of online - target is at least `sync_distance` times the target's.

    Each is off at 0. What needs a value that the config does not hold is not built.

    The growth is after Weissmann et al. (2026), https://arxiv.org/abs/2602.03911, in whose tabular
    setting the period grows by a share of discount ** (-2 / 3) - 1 at each sync. The other two are
    rules of this project.

    Args:
      config, live, networks: of the agent.

    Attributes:
      numbers, counts: variables, float32 [3] and int64 [4].
      distance: [] norm of online - target over the target's.
    """

    def __init__(self, config: DqnConfig, live: LiveFeeds, networks: Networks) -> None:
        self._config, self._live = config, live
        self._pairs = networks.ops.target_pairs()
        with tf.variable_scope("counters"):
            self.numbers, self.counts = (
                tf.get_variable(name, [size], dtype, tf.zeros_initializer(), trainable=False)
                for name, size, dtype in (
                    ("copy_numbers", len(RuleNumbers._fields), tf.float32),
                    ("copy_counts", len(RuleCounts._fields), tf.int64),
                )
            )
        self.distance = tf.sqrt(tf.divide(*self._squares()))

    def decide(self, age: tf.Tensor, update: tf.Tensor, td_error: tf.Tensor) -> SyncDecision:
        """Builds the decision on one update.

        Args:
          age: int64 scalar: the target's after it, >= 1.
          update: int64 scalar: its number, from 1 on.
          td_error: [B] of its batch, or [B, D] with branches.
        """
        numbers = RuleNumbers(*tf.unstack(self.numbers.read_value()))
        counts = RuleCounts(*tf.unstack(self.counts.read_value()))
        numbers, counts, due = self._by_age(age, numbers, counts)
        triggers = []
        if self._config.is_built_with("sync_fit"):
            numbers, fits = self._fit(age, numbers, td_error)
            triggers.append(fits)
        if self._config.is_built_with("sync_distance"):
            triggers.append(self._far())
        if triggers:
            old_enough = age >= self._live["min_target_age"]
            due = tf.logical_or(due, tf.logical_and(old_enough, tf.reduce_any(triggers)))
        return SyncDecision(due, numbers, counts._replace(update=update, age=age))

    def store(
        self, decision: SyncDecision, synced: tf.Tensor, made: tf.Tensor | None
    ) -> tf.Operation:
        """Builds the op that stores a decision.

        Args:
          synced: bool scalar: whether the target was.
          made: as for `TargetClock.advance`.
        """
        numbers, counts, before = decision.numbers, decision.counts, self.counts.read_value()
        if self._config.is_built_with("sync_growth"):
            grown = tf.minimum(numbers.period * (1.0 + self._live["sync_growth"]), _LONGEST)
            numbers = numbers._replace(period=tf.where_v2(synced, grown, numbers.period))
        _, *last = tf.unstack(before)
        after = RuleCounts(counts.grown_from, last[0] + 1, counts.update, counts.age)
        counts = RuleCounts(
            counts.grown_from,
            *(tf.where_v2(synced, new, old) for new, old in zip(after[1:], last, strict=True)),
        )
        return tf.group(
            self.numbers.assign(
                where(made, tf.stack(numbers), self.numbers.read_value()), read_value=False
            ),
            self.counts.assign(where(made, tf.stack(counts), before), read_value=False),
        )

    def _by_age(
        self, age: tf.Tensor, numbers: RuleNumbers, counts: RuleCounts
    ) -> tuple[RuleNumbers, RuleCounts, tf.Tensor]:
        """The period as it is now, and whether the target has that age."""
        configured, most = self._live["sync_period"], self._live["max_target_age"]
        period = configured
        if self._config.is_built_with("sync_growth"):
            anew = tf.logical_or(
                tf.not_equal(counts.grown_from, configured),
                tf.equal(self._live["sync_growth"], 0.0),
            )
            grown = tf.where_v2(anew, tf.cast(configured, tf.float32), numbers.period)
            # Not by way of float32 where nothing has grown: it has not every whole number.
            period = tf.where_v2(anew, configured, tf.cast(tf.round(grown), tf.int64))
            numbers = numbers._replace(period=grown)
            counts = counts._replace(grown_from=configured)
        limited = tf.where_v2(most > 0, tf.minimum(period, most), period)
        return numbers, counts, age >= limited

    def _fit(
        self, age: tf.Tensor, numbers: RuleNumbers, td_error: tf.Tensor
    ) -> tuple[RuleNumbers, tf.Tensor]:
        window = np.int64(self._config.sync_fit_updates)
        share = 1.0 / tf.cast(tf.minimum(age, window), tf.float32)
        error = numbers.error + share * (tf.reduce_mean(tf.square(td_error)) - numbers.error)
        after = tf.where_v2(age <= window, error, numbers.error_after)
        # Never up to then, as no share is above 1.
        fits = error < self._live["sync_fit"] * after
        return numbers._replace(error=error, error_after=after), fits

    def _far(self) -> tf.Tensor:
        wanted = self._live["sync_distance"]
        apart, target = self._squares()
        return tf.logical_and(wanted > 0.0, apart >= tf.square(wanted) * target)

    def _squares(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Squared norms of online - target, and of the target."""
        values = [(of.read_value(), to.read_value()) for of, to in self._pairs]
        apart = sum_of_squares([of - to for of, to in values])
        return apart, sum_of_squares([to for _, to in values])


def sync_rule(config: DqnConfig, live: LiveFeeds, networks: Networks) -> SyncRule | None:
    """Returns the rule of a config; None if the target is synced at the age `sync_period` alone."""
    if not any(map(config.is_built_with, SyncKeys.switches("sync"))):
        return None
    return SyncRule(config, live, networks)


def next_sync(live: Mapping[str, Any], reading: RuleState) -> str:
    """Says when the target will be synced, such as "at age 500, or when the TD error has ..."."""
    numbers, growth = reading.numbers, live.get("sync_growth", 0.0)
    period = live["sync_period"]
    if growth and reading.counts.grown_from == period:
        period = round(float(numbers.period))
    if live.get("max_target_age"):
        period = min(period, live["max_target_age"])
    ways = [f"at age {period:,}"]
    if share := live.get("sync_fit", 0.0):
        now = numbers.error / numbers.error_after if numbers.error_after else 1.0
        ways.append(f"when the squared TD error is below {share:g} times its first (now {now:.2f})")
    if distance := live.get("sync_distance", 0.0):
        ways.append(f"when the distance is {distance:g} (now {reading.distance:.3g})")
    if len(ways) > 1 and reading.age < (least := live["min_target_age"]):
        ways[0] += f", before that from age {least:,} on"
    return ", or ".join(ways)
