"""MinAtar's Asterix in the graph: the player collects gold and avoids enemies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.envs.in_graph.interface import EnvStep
from targetnet.envs.in_graph.minatar import (
    LANES,
    SIDE,
    MinAtarGame,
    cell,
    count,
    filled,
    inside,
    on_board,
    one_hot,
    sticky,
    whole,
)

STAY, LEFT, UP, RIGHT, DOWN = range(5)
RAMP_STEPS = 102  # steps per level of difficulty
LAST_LEVEL = 9
SPAWN_STEPS, MOVE_STEPS = 10, 5  # at level 0
ABOVE = np.tri(LANES, k=-1, dtype=bool)  # [lane, other lane]: the other lane is above


class AsterixState(NamedTuple):
    """State of the game, [N] int32 unless noted. Each lane, rows 1 .. 8, has at most one thing."""

    last_action: tf.Tensor
    x: tf.Tensor  # the player's column
    y: tf.Tensor  # the player's row
    steps: tf.Tensor  # steps of the episode so far
    spawn_timer: tf.Tensor
    move_timer: tf.Tensor
    thing: tf.Tensor  # [N, 8] bool: the lane holds a thing
    gold: tf.Tensor  # [N, 8] bool: the thing is gold, otherwise an enemy
    thing_x: tf.Tensor  # [N, 8]
    way: tf.Tensor  # [N, 8], -1 or 1


class Asterix(MinAtarGame):
    """MinAtar's Asterix.

    Things (enemies and gold) enter at the sides, each in a free lane, and cross the board. A
    meeting with gold pays 1; a meeting with an enemy terminates the episode. The game becomes
    harder nine times, every 102 steps: the time between two new things decreases by one step, from
    10 steps to 1. With every second increase, the time between two moves of the things also
    decreases by one step, from 5 steps to 1.

    Actions: stay, left, up, right, down. Channels: player, enemies, trails, gold.

    Draws of `step`: 0: sticky action. 1: a new thing enters at the left if below 1/2, otherwise at
    the right. 2: the thing is gold if below 1/3, otherwise an enemy. 3: choice of the free lane,
    counted from above.
    """

    observation_shape = (SIDE, SIDE, 4)
    num_actions = 5
    begin_draws = 0
    step_draws = 4

    def begin(self, uniform: tf.Tensor) -> AsterixState:
        return AsterixState(
            last_action=filled(uniform, STAY),
            x=filled(uniform, 5),
            y=filled(uniform, 5),
            steps=filled(uniform, 0),
            spawn_timer=filled(uniform, SPAWN_STEPS),
            move_timer=filled(uniform, MOVE_STEPS),
            thing=filled(uniform, False, LANES),
            gold=filled(uniform, False, LANES),
            thing_x=filled(uniform, 0, LANES),
            way=filled(uniform, 1, LANES),
        )

    def step(self, state: AsterixState, action: tf.Tensor, uniform: tf.Tensor) -> EnvStep:
        level = tf.minimum(state.steps // RAMP_STEPS, LAST_LEVEL)  # [N]
        spawning, moving = tf.equal(state.spawn_timer, 0), tf.equal(state.move_timer, 0)
        state = _spawn(state, spawning, uniform)

        action = sticky(state.last_action, action, uniform[:, 0])
        right, left = count(tf.equal(action, RIGHT)), count(tf.equal(action, LEFT))
        down, up = count(tf.equal(action, DOWN)), count(tf.equal(action, UP))
        x = tf.clip_by_value(state.x + right - left, 0, SIDE - 1)
        y = tf.clip_by_value(state.y + down - up, 1, LANES)

        thing_x = tf.where_v2(moving[:, tf.newaxis], state.thing_x + state.way, state.thing_x)
        here = tf.equal(state.thing_x, x[:, tf.newaxis]) | tf.equal(thing_x, x[:, tf.newaxis])
        met = state.thing & here & one_hot(y - 1, LANES)  # [N, 8]; at most one is True
        after = state._replace(
            last_action=action,
            x=x,
            y=y,
            steps=state.steps + 1,
            spawn_timer=tf.where_v2(spawning, SPAWN_STEPS - level, state.spawn_timer) - 1,
            move_timer=tf.where_v2(moving, MOVE_STEPS - level // 2, state.move_timer) - 1,
            thing=state.thing & ~(met & state.gold) & inside(thing_x),
            thing_x=thing_x,
        )
        found = tf.reduce_any(met & state.gold, axis=1)
        return EnvStep(after, tf.cast(found, tf.float32), tf.reduce_any(met & ~state.gold, axis=1))

    def observe(self, state: AsterixState) -> tf.Tensor:
        there, behind = one_hot(state.thing_x), one_hot(state.thing_x - state.way)  # [N, 8, 10]
        enemy, gold = state.thing & ~state.gold, state.thing & state.gold
        enemies = on_board(there & enemy[:, :, tf.newaxis])
        trails = on_board(behind & state.thing[:, :, tf.newaxis])
        treasures = on_board(there & gold[:, :, tf.newaxis])
        player = cell(state.y, state.x)
        return tf.stack([player, enemies, trails, treasures], axis=-1)  # [N, 10, 10, 4]


def _spawn(state: AsterixState, spawning: tf.Tensor, uniform: tf.Tensor) -> AsterixState:
    """Adds a new thing in one of the free lanes; adds none if no lane is free."""
    free = ~state.thing  # [N, 8]
    free_above = tf.reduce_sum(count(free[:, tf.newaxis, :] & ABOVE), axis=2)  # [N, 8]
    choice = whole(uniform[:, 3], tf.reduce_sum(count(free), axis=1))  # [N]
    new = free & tf.equal(free_above, choice[:, tf.newaxis]) & spawning[:, tf.newaxis]
    from_left = uniform[:, 1:2] < 1 / 2  # [N, 1]
    return state._replace(
        thing=state.thing | new,
        gold=tf.where_v2(new, uniform[:, 2:3] < 1 / 3, state.gold),
        thing_x=tf.where_v2(new, tf.where_v2(from_left, 0, SIDE - 1), state.thing_x),
        way=tf.where_v2(new, tf.where_v2(from_left, 1, -1), state.way),
    )
