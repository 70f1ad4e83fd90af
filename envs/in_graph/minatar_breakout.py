"""MinAtar's Breakout in the graph: a ball, a paddle and three rows of bricks."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from targetnet.envs.in_graph.interface import EnvStep
from targetnet.envs.in_graph.minatar import (
    SIDE,
    MinAtarGame,
    cell,
    filled,
    moved,
    one_hot,
    sticky,
    whole,
)

STAY, LEFT, RIGHT = range(3)
BRICK_ROWS = 3  # rows 1 .. 3


class BreakoutState(NamedTuple):
    """State of the game, [N] int32 unless noted."""

    last_action: tf.Tensor
    paddle: tf.Tensor  # column of the paddle, which is in the last row
    x: tf.Tensor  # the ball's column
    y: tf.Tensor  # the ball's row
    last_x: tf.Tensor  # the ball's column before the last step
    last_y: tf.Tensor  # the ball's row before the last step
    way_x: tf.Tensor  # direction of the ball, -1 or 1
    way_y: tf.Tensor
    bricks: tf.Tensor  # [N, 3, 10] bool
    in_brick: tf.Tensor  # bool: the last step met a brick, so the ball passes through the next


class Breakout(MinAtarGame):
    """MinAtar's Breakout.

    The ball moves by one cell along a diagonal. Walls, ceiling, bricks and paddle reflect the
    ball. The ball breaks a brick, which pays 1; but if the previous step met a brick too, the ball
    passes through. The paddle reflects a ball from above upwards, and sends a ball from the side
    back where it came from. Three new rows of bricks appear when no brick is left and the ball is
    in the paddle's row. The episode terminates when the paddle misses the ball.

    Actions: stay, left, right. Channels: paddle, ball, trail of the ball, bricks.

    Draws of `begin`: 0: the ball starts at the left edge if below 1/2, otherwise at the right edge.
    Draws of `step`: 0: sticky action.
    """

    observation_shape = (SIDE, SIDE, 4)
    num_actions = 3
    begin_draws = 1
    step_draws = 1

    def begin(self, uniform: tf.Tensor) -> BreakoutState:
        side = whole(uniform[:, 0], 2)  # [N]
        x, y = side * (SIDE - 1), filled(uniform, 3)
        return BreakoutState(
            last_action=filled(uniform, STAY),
            paddle=filled(uniform, 4),
            x=x,
            y=y,
            last_x=x,
            last_y=y,
            way_x=1 - 2 * side,
            way_y=filled(uniform, 1),
            bricks=filled(uniform, True, BRICK_ROWS, SIDE),
            in_brick=filled(uniform, False),
        )

    def step(self, state: BreakoutState, action: tf.Tensor, uniform: tf.Tensor) -> EnvStep:
        action = sticky(state.last_action, action, uniform[:, 0])  # [N]
        paddle = moved(state.paddle, tf.equal(action, RIGHT), tf.equal(action, LEFT))

        ahead = state.x + state.way_x
        x = tf.clip_by_value(ahead, 0, SIDE - 1)
        way_x = tf.where_v2(tf.equal(x, ahead), state.way_x, -state.way_x)
        y = state.y + state.way_y

        at_ceiling = y < 0
        at_ball = one_hot(y - 1, BRICK_ROWS)[:, :, tf.newaxis] & one_hot(x)[:, tf.newaxis, :]
        in_brick = tf.reduce_any(state.bricks & at_ball, axis=[1, 2])  # [N]
        broken = in_brick & ~state.in_brick
        bricks = state.bricks & ~(at_ball & broken[:, tf.newaxis, tf.newaxis])

        at_paddle = tf.equal(y, SIDE - 1)
        cleared = at_paddle & ~tf.reduce_any(bricks, axis=[1, 2])
        from_above = at_paddle & tf.equal(state.x, paddle)
        from_side = at_paddle & ~from_above & tf.equal(x, paddle)
        returned = from_above | from_side

        after = BreakoutState(
            last_action=action,
            paddle=paddle,
            x=x,
            y=tf.where_v2(at_ceiling | broken | returned, state.y, y),
            last_x=state.x,
            last_y=state.y,
            way_x=tf.where_v2(from_side, -way_x, way_x),
            way_y=tf.where_v2(at_ceiling | broken | returned, -state.way_y, state.way_y),
            bricks=bricks | cleared[:, tf.newaxis, tf.newaxis],
            in_brick=in_brick,
        )
        return EnvStep(after, tf.cast(broken, tf.float32), at_paddle & ~returned)

    def observe(self, state: BreakoutState) -> tf.Tensor:
        paddle = cell(tf.constant([SIDE - 1]), state.paddle)
        bricks = tf.pad(state.bricks, [[0, 0], [1, SIDE - 1 - BRICK_ROWS], [0, 0]])
        ball, trail = cell(state.y, state.x), cell(state.last_y, state.last_x)
        return tf.stack([paddle, ball, trail, bricks], axis=-1)  # [N, 10, 10, 4]
