"""Catch in the graph: a ball falls, and a paddle must catch it in the last row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.envs.in_graph.interface import EnvStep, InGraphEnv

ROWS, COLUMNS = 10, 5


class CatchState(NamedTuple):
    """Positions of ball and paddle, each [N] int32; the paddle is in the last row."""

    ball_row: tf.Tensor
    ball_column: tf.Tensor
    paddle_column: tf.Tensor


class Catch(InGraphEnv):
    """Catch as in bsuite, Osband et al. (2020), https://arxiv.org/abs/1908.03568.

    The ball begins in the first row, in a uniformly drawn column. The paddle begins in the middle
    of the last row. A step first moves the paddle (action 0 to the left, 1 not at all, 2 to the
    right; the edges stop the paddle) and then the ball down by one row. The episode terminates
    when the ball is in the last row, after 9 steps. The last step pays 1 if the paddle is at the
    ball and -1 otherwise; earlier steps pay 0. The board marks the cells of ball and paddle in one
    plane, as bool; bsuite uses 0.0 and 1.0.
    """

    observation_shape = (ROWS, COLUMNS)
    observation_dtype = np.bool_
    num_actions = 3
    max_episode_steps = None
    begin_draws = 1
    step_draws = 0

    def begin(self, uniform: tf.Tensor) -> CatchState:
        column = tf.cast(COLUMNS * uniform[:, 0], tf.int32)  # [N]
        return CatchState(tf.zeros_like(column), column, tf.fill(tf.shape(column), COLUMNS // 2))

    def step(self, state: CatchState, action: tf.Tensor, uniform: tf.Tensor) -> EnvStep:
        paddle = tf.clip_by_value(state.paddle_column + action - 1, 0, COLUMNS - 1)  # [N]
        moved = CatchState(state.ball_row + 1, state.ball_column, paddle)
        terminated = tf.equal(moved.ball_row, ROWS - 1)
        caught = tf.where_v2(tf.equal(paddle, moved.ball_column), 1.0, -1.0)
        return EnvStep(moved, tf.where_v2(terminated, caught, 0.0), terminated)

    def observe(self, state: CatchState) -> tf.Tensor:
        cells = tf.range(ROWS * COLUMNS)  # numbered row by row
        ball = state.ball_row * COLUMNS + state.ball_column  # [N]
        paddle = (ROWS - 1) * COLUMNS + state.paddle_column  # [N]
        seen = tf.equal(cells, ball[:, tf.newaxis]) | tf.equal(cells, paddle[:, tf.newaxis])
        return tf.reshape(seen, [-1, ROWS, COLUMNS])  # [N, 10, 5]
