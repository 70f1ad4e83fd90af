"""MinAtar's Space Invaders in the graph: a cannon shoots at aliens, which come down and shoot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.envs.in_graph.interface import EnvStep
from targetnet.envs.in_graph.minatar import (
    SIDE,
    MinAtarGame,
    cell,
    count,
    filled,
    moved,
    one_hot,
    sticky,
)

STAY, LEFT, RIGHT, FIRE = range(4)
GROUND = SIDE - 1  # the cannon's row
RELOAD = 5  # steps between two shots of the cannon
ENEMY_RELOAD = 10  # steps between two shots of the aliens
# Steps between two moves of many aliens: at first, and after 6 waves.
MOVE_STEPS, FEWEST_MOVE_STEPS = 12, 6
WAVE = np.pad(np.ones((4, 6), bool), [(0, 6), (2, 2)])  # [10, 10]
FAR = 2 * SIDE


class SpaceInvadersState(NamedTuple):
    """State of the game, [N] int32 unless noted; a plane is [N, 10, 10] bool."""

    last_action: tf.Tensor
    cannon: tf.Tensor  # the cannon's column
    shot_timer: tf.Tensor
    aliens: tf.Tensor  # plane
    to_right: tf.Tensor  # [N] bool: the aliens move to the right
    move_steps: tf.Tensor  # steps between two moves of many aliens
    move_timer: tf.Tensor
    enemy_shot_timer: tf.Tensor
    bullets: tf.Tensor  # plane of the cannon's shots
    enemy_bullets: tf.Tensor  # plane of the aliens' shots


class SpaceInvaders(MinAtarGame):
    """MinAtar's Space Invaders.

    The cannon fires at most every fifth step; each shot alien pays 1. The aliens move sideways. If
    an alien is at the edge ahead, they move down one row instead and turn round. The number of
    steps between two moves is the number of aliens, but at most 12 in the first wave; this maximum
    decreases by one after every wave, down to 6. Every tenth step, the lowest alien in the column
    nearest to the cannon shoots; of two equally near columns, the left one. The episode terminates
    when an alien or a shot is at the cannon, or when aliens on the ground would move down.

    Order within a step: the cannon moves, its shots move, the aliens' shots move, the aliens move,
    an alien shoots, hit aliens vanish.

    Actions: stay, left, right, fire. Channels: cannon, aliens, aliens that move to the left,
    aliens that move to the right, the cannon's shots, the aliens' shots.

    Draws of `step`: 0: sticky action.
    """

    observation_shape = (SIDE, SIDE, 6)
    num_actions = 4
    begin_draws = 0
    step_draws = 1

    def begin(self, uniform: tf.Tensor) -> SpaceInvadersState:
        nothing = filled(uniform, False, SIDE, SIDE)
        return SpaceInvadersState(
            last_action=filled(uniform, STAY),
            cannon=filled(uniform, 5),
            shot_timer=filled(uniform, 0),
            aliens=nothing | WAVE,
            to_right=filled(uniform, False),
            move_steps=filled(uniform, MOVE_STEPS),
            move_timer=filled(uniform, MOVE_STEPS),
            enemy_shot_timer=filled(uniform, ENEMY_RELOAD),
            bullets=nothing,
            enemy_bullets=nothing,
        )

    def step(self, state: SpaceInvadersState, action: tf.Tensor, uniform: tf.Tensor) -> EnvStep:
        action = sticky(state.last_action, action, uniform[:, 0])  # [N]
        firing = tf.equal(action, FIRE) & tf.equal(state.shot_timer, 0)
        cannon = moved(state.cannon, tf.equal(action, RIGHT), tf.equal(action, LEFT))
        at_cannon = one_hot(cannon)  # [N, 10]

        shot = at_cannon & firing[:, tf.newaxis]
        nothing = tf.zeros_like(state.bullets[:, :1])  # [N, 1, 10]
        bullets = tf.concat([state.bullets[:, 1:-1], shot[:, tf.newaxis], nothing], axis=1)
        enemy_bullets = tf.concat([nothing, state.enemy_bullets[:, :-1]], axis=1)
        # Aliens on the ground stay there, and are dangerous, until their next move.
        dangers = enemy_bullets[:, GROUND] | state.aliens[:, GROUND]  # [N, 10]

        aliens, to_right, landed = _march(state)
        dangers |= aliens[:, GROUND]
        terminated = landed | tf.reduce_any(dangers & at_cannon, axis=1)

        enemy_firing = tf.equal(state.enemy_shot_timer, 0)
        muzzle = _nearest_alien(aliens, cannon) & enemy_firing[:, tf.newaxis, tf.newaxis]
        hit = aliens & bullets  # [N, 10, 10]
        aliens &= ~hit
        cleared = ~tf.reduce_any(aliens, axis=[1, 2])
        reload = tf.where_v2(firing, RELOAD, state.shot_timer)
        enemy_reload = tf.where_v2(enemy_firing, ENEMY_RELOAD, state.enemy_shot_timer)
        after = SpaceInvadersState(
            last_action=action,
            cannon=cannon,
            shot_timer=tf.maximum(reload - 1, 0),
            aliens=aliens | (cleared[:, tf.newaxis, tf.newaxis] & WAVE),
            to_right=to_right,
            move_steps=tf.maximum(state.move_steps - count(cleared), FEWEST_MOVE_STEPS),
            move_timer=_move_timer(state) - 1,
            enemy_shot_timer=enemy_reload - 1,
            bullets=bullets & ~hit,
            enemy_bullets=enemy_bullets | muzzle,
        )
        reward = tf.reduce_sum(tf.cast(hit, tf.float32), axis=[1, 2])
        return EnvStep(after, reward, terminated)

    def observe(self, state: SpaceInvadersState) -> tf.Tensor:
        cannon = cell(tf.constant([GROUND]), state.cannon)
        to_right = state.to_right[:, tf.newaxis, tf.newaxis]
        lefts, rights = state.aliens & ~to_right, state.aliens & to_right
        planes = [cannon, state.aliens, lefts, rights, state.bullets, state.enemy_bullets]
        return tf.stack(planes, axis=-1)  # [N, 10, 10, 6]


def _march(state: SpaceInvadersState) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Moves the aliens if it is time.

    Returns:
      (aliens, to_right, landed): landed is [N] bool, True if aliens on the ground had to move down.
    """
    aliens, to_right = state.aliens, state.to_right
    moving = tf.equal(state.move_timer, 0)
    at_edge = tf.reduce_any(
        tf.where_v2(to_right[:, tf.newaxis], aliens[:, :, -1], aliens[:, :, 0]), axis=1
    )
    turning = moving & at_edge
    # The row that leaves the board re-enters at the top, but the episode ends with this step.
    below = tf.concat([aliens[:, -1:], aliens[:, :-1]], axis=1)
    left = tf.pad(aliens[:, :, 1:], [[0, 0], [0, 0], [0, 1]])
    right = tf.pad(aliens[:, :, :-1], [[0, 0], [0, 0], [1, 0]])
    aside = tf.where_v2(to_right[:, tf.newaxis, tf.newaxis], right, left)
    gone = tf.where_v2(turning[:, tf.newaxis, tf.newaxis], below, aside)
    return (
        tf.where_v2(moving[:, tf.newaxis, tf.newaxis], gone, aliens),
        to_right ^ turning,
        turning & tf.reduce_any(aliens[:, GROUND], axis=1),
    )


def _move_timer(state: SpaceInvadersState) -> tf.Tensor:
    number = tf.reduce_sum(count(state.aliens), axis=[1, 2])  # [N]
    again = tf.minimum(number, state.move_steps)
    return tf.where_v2(tf.equal(state.move_timer, 0), again, state.move_timer)


def _nearest_alien(aliens: tf.Tensor, cannon: tf.Tensor) -> tf.Tensor:
    """Returns [N, 10, 10], True at the lowest alien of the column nearest to the cannon."""
    apart = tf.range(SIDE) - cannon[:, tf.newaxis]  # [N, 10]
    distance = 2 * tf.abs(apart) + count(apart > 0)  # of two equally near columns, the left one
    distance = tf.where_v2(tf.reduce_any(aliens, axis=1), distance, FAR)
    nearest = tf.equal(distance, tf.reduce_min(distance, axis=1, keepdims=True))
    rows = tf.reduce_any(aliens & nearest[:, tf.newaxis, :], axis=2)  # [N, 10]
    lowest = tf.reduce_max(tf.where_v2(rows, tf.range(SIDE), -1), axis=1)  # [N]
    return one_hot(lowest)[:, :, tf.newaxis] & nearest[:, tf.newaxis, :]
