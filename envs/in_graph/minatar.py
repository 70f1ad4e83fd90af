"""What the MinAtar games in the graph share: the sticky action, draws as whole numbers, cells."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from envs.in_graph.interface import InGraphEnv
from envs.minatar import MAX_EPISODE_STEPS

SIDE = 10  # rows, and columns
LANES = 8  # rows 1 .. 8, where things cross the board from one side to the other
STICKY_ACTION_PROB = 0.1


class MinAtarGame(InGraphEnv):
    """One of the five games of MinAtar, Young & Tian (2019), https://arxiv.org/abs/1903.03176.

    By the rules of the package MinAtar 1.0.15, in its order of events within a step, with the
    actions that have an effect in the game, difficulty ramping, and sticky actions: where the
    first draw of a step is below 0.1 the action before is taken again, which before the first
    action of an episode was to do nothing. The same as MinAtar/<game>-v1 of envs.minatar.

    Observations are planes [10, 10, C], row, column and kind of thing, in the package's order.
    """

    observation_dtype = np.bool_
    max_episode_steps = MAX_EPISODE_STEPS


def sticky(last_action: tf.Tensor, action: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """[N] int32: the action taken."""
    return tf.where_v2(uniform < STICKY_ACTION_PROB, last_action, action)


def whole(uniform: tf.Tensor, count: int | tf.Tensor) -> tf.Tensor:
    """int32 in [0, count), each equally often."""
    # Rounding never reaches `count`: a float32 below 1 is at most 1 - 2^-24, and its product with
    # a whole number is nearer to the float32 below that number than to the number.
    return tf.cast(uniform * tf.cast(count, tf.float32), tf.int32)


def filled(uniform: tf.Tensor, value: int | bool, *shape: int) -> tf.Tensor:
    """[N, *shape] of one value, int32 or bool, for the N of `uniform`, [N, draws]."""
    return tf.fill(tf.concat([tf.shape(uniform)[:1], shape], 0), value)


def count(flags: tf.Tensor) -> tf.Tensor:
    """0 and 1, int32, of bool."""
    return tf.cast(flags, tf.int32)


def one_hot(index: tf.Tensor, depth: int = SIDE) -> tf.Tensor:
    """[..., depth] bool; all False where the index is outside."""
    return tf.equal(index[..., tf.newaxis], tf.range(depth))


def cell(row: tf.Tensor, column: tf.Tensor) -> tf.Tensor:
    """[..., 10, 10] bool, True at one cell."""
    return one_hot(row)[..., :, tf.newaxis] & one_hot(column)[..., tf.newaxis, :]


def on_board(lanes: tf.Tensor) -> tf.Tensor:
    """[N, 10, 10] of [N, 8, 10]: the rows above and below are empty."""
    return tf.pad(lanes, [[0, 0], [1, 1], [0, 0]])


def inside(column: tf.Tensor) -> tf.Tensor:
    return (column >= 0) & (column < SIDE)


def moved(column: tf.Tensor, right: tf.Tensor, left: tf.Tensor) -> tf.Tensor:
    """A row or column of the board one further, stopped by the edges."""
    return tf.clip_by_value(column + count(right) - count(left), 0, SIDE - 1)
