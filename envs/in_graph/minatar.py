"""Shared parts of the MinAtar games in the graph: sticky action, whole random numbers, cells."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.envs.in_graph.interface import InGraphEnv
from targetnet.envs.minatar import MAX_EPISODE_STEPS

SIDE = 10  # rows, and columns
LANES = 8  # rows 1 .. 8, in which objects cross the board from one side to the other
STICKY_ACTION_PROB = 0.1


class MinAtarGame(InGraphEnv):
    """One of the five games of MinAtar, Young & Tian (2019), https://arxiv.org/abs/1903.03176.

    The rules are those of the package MinAtar 1.0.15, with its order of events in a step, and equal
    MinAtar/<game>-v1 of targetnet.envs.minatar: only the actions with an effect in the game,
    difficulty ramping, and sticky actions. If the first draw of a step is below 0.1, the previous
    action is repeated; before the first action of an episode, the previous action is "do nothing".

    Observations are planes [10, 10, C]: row, column and kind of object, in the package's order.
    """

    observation_dtype = np.bool_
    max_episode_steps = MAX_EPISODE_STEPS


def sticky(last_action: tf.Tensor, action: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Returns the action to take, [N] int32: the last action with the sticky probability."""
    return tf.where_v2(uniform < STICKY_ACTION_PROB, last_action, action)


def whole(uniform: tf.Tensor, count: int | tf.Tensor) -> tf.Tensor:
    """Returns int32 in [0, count), uniformly distributed."""
    # Rounding never gives `count`: a float32 below 1 is at most 1 - 2^-24, and the product of that
    # with `count` is nearer to the float32 just below `count` than to `count`.
    return tf.cast(uniform * tf.cast(count, tf.float32), tf.int32)


def filled(uniform: tf.Tensor, value: int | bool, *shape: int) -> tf.Tensor:
    """Returns a tensor [N, *shape] of one value, int32 or bool, with the N of `uniform`."""
    return tf.fill(tf.concat([tf.shape(uniform)[:1], shape], 0), value)


def count(flags: tf.Tensor) -> tf.Tensor:
    """Returns bool flags as int32, 0 or 1."""
    return tf.cast(flags, tf.int32)


def one_hot(index: tf.Tensor, depth: int = SIDE) -> tf.Tensor:
    """Returns [..., depth] bool; all False if the index is outside."""
    return tf.equal(index[..., tf.newaxis], tf.range(depth))


def cell(row: tf.Tensor, column: tf.Tensor) -> tf.Tensor:
    """Returns [..., 10, 10] bool, True at one cell."""
    return one_hot(row)[..., :, tf.newaxis] & one_hot(column)[..., tf.newaxis, :]


def on_board(lanes: tf.Tensor) -> tf.Tensor:
    """Pads lanes with an empty row above and below: [N, 8, 10] -> [N, 10, 10]."""
    return tf.pad(lanes, [[0, 0], [1, 1], [0, 0]])


def inside(column: tf.Tensor) -> tf.Tensor:
    """Returns True where a row or column number is on the board."""
    return (column >= 0) & (column < SIDE)


def moved(column: tf.Tensor, right: tf.Tensor, left: tf.Tensor) -> tf.Tensor:
    """Returns a row or column number moved by one to either side; the edges stop it."""
    return tf.clip_by_value(column + count(right) - count(left), 0, SIDE - 1)
