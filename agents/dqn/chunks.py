"""Chunks of time steps that the loop in the graph makes in one call: what goes in and comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf


class LoopCounts(NamedTuple):
    """Counts of a loop between two time steps; int64 scalars."""

    env_step: Any
    new_steps: Any  # transitions of the last time step
    learn_age: Any  # as `targetnet.agents.loops.plain.LearnClock.age`


class Chunk(NamedTuple):
    """The outcome of T time steps; rows after the last one that was made mean nothing."""

    counts: LoopCounts  # after it
    arm: Any  # [2] int64 position in the freeze schedule after it
    time_steps: Any  # how many were made
    updates: Any  # of the agent, when it ended
    env_steps: Any  # [T] after each time step
    lengths: Any  # [T, N] int32 of the episodes that ended with it, negative if truncated; else 0
    returns: Any  # [T, N] float64 of these
    finished: Any  # [N] int64, episodes of each env, when it ended
    stats: Any  # of the last update in the chunk
    signs: Any  # of the last one tried; if not finite, it was not made, and ended the chunk

    # By hand: TensorFlow's functions for any nest take longer than a short chunk.
    def flat(self) -> list[Any]:
        """Returns all values in one list."""
        *before, stats, signs = self[1:]
        return [*self.counts, *before, *stats, signs]

    def filled(self, values: Sequence[Any]) -> Chunk:
        """Returns a chunk of the same form with other values, listed as by `flat`."""
        first, last = len(self.counts), len(values) - 1 - len(self.stats)
        stats = self.stats._make(values[last:-1])
        counts = LoopCounts._make(values[:first])
        return Chunk._make([counts, *values[first:last], stats, values[-1]])


class ChunkFeeds(NamedTuple):
    """Everything that a chunk is fed, beside the live values that updates read."""

    counts: LoopCounts
    time_steps: Any  # [] int64: how many to make, at most T
    env_steps: Any  # [] int64: of the whole run
    arm: Any  # [2] int64 position in the freeze schedule
    arm_lengths: Any  # [arms] int64, in updates
    follow_arms: Any  # [] bool: whether the schedule says what is trained
    trained: Any  # [blocks] bool: what is trained if it does not
    knobs: Any  # [n] float32, as `Exploration.knobs` has them
    learn_period: Any  # [] int64, in env steps; of rollouts in time steps
    updates_per_learn: Any  # [] int64

    def flat(self) -> list[Any]:
        """Returns all values in one list."""
        return [*self.counts, *self[1:]]


def chunk_placeholders(blocks: int, arms: int, knobs: int) -> ChunkFeeds:
    """Returns placeholders for all of it."""
    feed = tf.placeholder
    return ChunkFeeds(
        counts=LoopCounts(*(feed(tf.int64, [], name) for name in LoopCounts._fields)),
        time_steps=feed(tf.int64, [], "time_steps"),
        env_steps=feed(tf.int64, [], "env_steps"),
        arm=feed(tf.int64, [2], "arm"),
        arm_lengths=feed(tf.int64, [arms], "arm_lengths"),
        follow_arms=feed(tf.bool, [], "follow_arms"),
        trained=feed(tf.bool, [blocks], "trained"),
        knobs=feed(tf.float32, [knobs], "knobs"),
        learn_period=feed(tf.int64, [], "learn_period"),
        updates_per_learn=feed(tf.int64, [], "updates_per_learn"),
    )
