"""MinAtar's Freeway in the graph: a chicken crosses a road of eight lanes."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from targetnet.envs.in_graph.interface import EnvStep
from targetnet.envs.in_graph.minatar import (
    LANES,
    SIDE,
    MinAtarGame,
    cell,
    filled,
    moved,
    one_hot,
    sticky,
    whole,
)

STAY, UP, DOWN = range(3)
COLUMN = 4  # the chicken's column
START = SIDE - 1  # the chicken's first row
REST = 3  # steps from one move of the chicken to the next
STEPS = 2500
SPEEDS = 5


class FreewayState(NamedTuple):
    """State of the game, [N] int32 unless noted. Each lane, rows 1 .. 8, has one car."""

    last_action: tf.Tensor
    row: tf.Tensor  # the chicken's row
    rest: tf.Tensor  # steps until the chicken can move
    steps_left: tf.Tensor
    car_x: tf.Tensor  # [N, 8]
    car_speed: tf.Tensor  # [N, 8]; steps of rest between two moves, negative to the left
    car_timer: tf.Tensor  # [N, 8]


class Freeway(MinAtarGame):
    """MinAtar's Freeway.

    The chicken moves up or down, at most every third step. A car that leaves the board re-enters at
    the other side. A car that meets the chicken sends the chicken back to the start. An arrival at
    the top pays 1, also sends the chicken back, and draws new speeds and directions for all cars.
    The episode terminates after 2501 steps.

    Actions: stay, up, down. Channels: chicken, cars, then the trails of the cars with a rest of
    1, 2, 3, 4 and 5 steps between two moves.

    Draws of `begin`: 0 .. 7: one draw u per car, from above. If u is below 1/2, the car drives to
    the left with a rest of 1 + floor(10 u), otherwise to the right with a rest of floor(10 u) - 4.
    Draws of `step`: 0: sticky action. 1 .. 8: one draw per car, used when the chicken arrives.
    """

    observation_shape = (SIDE, SIDE, 2 + SPEEDS)
    num_actions = 3
    begin_draws = LANES
    step_draws = 1 + LANES

    def begin(self, uniform: tf.Tensor) -> FreewayState:
        speed = _speeds(uniform)
        return FreewayState(
            last_action=filled(uniform, STAY),
            row=filled(uniform, START),
            rest=filled(uniform, REST),
            steps_left=filled(uniform, STEPS),
            car_x=filled(uniform, 0, LANES),
            car_speed=speed,
            car_timer=tf.abs(speed),
        )

    def step(self, state: FreewayState, action: tf.Tensor, uniform: tf.Tensor) -> EnvStep:
        action = sticky(state.last_action, action, uniform[:, 0])  # [N]
        rested = tf.equal(state.rest, 0)
        down, up = rested & tf.equal(action, DOWN), rested & tf.equal(action, UP)
        row = moved(state.row, down, up)
        arrived = tf.equal(row, 0)
        row = tf.where_v2(arrived, START, row)

        new = arrived[:, tf.newaxis]  # [N, 1]
        speed = tf.where_v2(new, _speeds(uniform[:, 1:]), state.car_speed)  # [N, 8]
        timer = tf.where_v2(new, tf.abs(speed), state.car_timer)
        driving = tf.equal(timer, 0)
        car_x = tf.where_v2(driving, _round(state.car_x + tf.sign(speed)), state.car_x)
        passes = tf.equal(state.car_x, COLUMN) | tf.equal(car_x, COLUMN)
        hit = tf.reduce_any(passes & one_hot(row - 1, LANES), axis=1)  # [N]

        after = FreewayState(
            last_action=action,
            row=tf.where_v2(hit, START, row),
            rest=tf.maximum(tf.where_v2(down | up, REST, state.rest) - 1, 0),
            steps_left=state.steps_left - 1,
            car_x=car_x,
            car_speed=speed,
            car_timer=tf.where_v2(driving, tf.abs(speed), timer - 1),
        )
        return EnvStep(after, tf.cast(arrived, tf.float32), after.steps_left < 0)

    def observe(self, state: FreewayState) -> tf.Tensor:
        cars = one_hot(state.car_x)  # [N, 8, 10]
        behind = one_hot(_round(state.car_x - tf.sign(state.car_speed)))
        speed = one_hot(tf.abs(state.car_speed) - 1, SPEEDS)  # [N, 8, 5]
        trails = behind[:, :, :, tf.newaxis] & speed[:, :, tf.newaxis, :]  # [N, 8, 10, 5]
        road = tf.concat([cars[:, :, :, tf.newaxis], trails], axis=-1)
        chicken = cell(state.row, tf.constant([COLUMN]))
        board = tf.pad(road, [[0, 0], [1, 1], [0, 0], [0, 0]])
        return tf.concat([chicken[:, :, :, tf.newaxis], board], axis=-1)  # [N, 10, 10, 7]


def _speeds(uniform: tf.Tensor) -> tf.Tensor:
    """Returns the cars' speeds [N, 8], uniformly distributed over -5 .. -1 and 1 .. 5."""
    choice = whole(uniform, 2 * SPEEDS)
    return tf.where_v2(choice < SPEEDS, -1 - choice, choice - SPEEDS + 1)


def _round(column: tf.Tensor) -> tf.Tensor:
    """Returns the column, where one beyond an edge becomes the opposite edge."""
    # Not a remainder: XLA would compute it again for every cell of the observation.
    return tf.where_v2(column < 0, SIDE - 1, tf.where_v2(column < SIDE, column, 0))
