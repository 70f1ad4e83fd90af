"""Acrobot-v1 in the graph: two hanging links with a motor at the joint between them swing up."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.envs.in_graph.interface import EnvStep, InGraphEnv, float32_columns
from targetnet.envs.in_graph.trigonometry import cos_sin

GRAVITY = 9.8
SECONDS = 0.2  # between two steps
MAX_SPEED_1, MAX_SPEED_2 = 4 * math.pi, 9 * math.pi
START = 0.1  # each number of a first state is in [-START, START)


class AcrobotState(NamedTuple):
    """Angles and their speeds, each [N] float64, the precision of Gymnasium.

    theta1 is 0 if the first link hangs down; theta2 is the second link's angle to the first.
    """

    theta1: tf.Tensor
    theta2: tf.Tensor
    dtheta1: tf.Tensor
    dtheta2: tf.Tensor


class Acrobot(InGraphEnv):
    """Gymnasium's Acrobot-v1, with the equations of Sutton & Barto's book, not of the 1996 paper.

    Both links have mass, length and moment of inertia 1, and the centre of mass at 0.5:

        d1       = 3.5 + cos(theta2)
        d2       = 1.25 + cos(theta2) / 2
        phi2     = g sin(theta1 + theta2) / 2
        phi1     = -(dtheta2^2 / 2 + dtheta1 dtheta2) sin(theta2) + 1.5 g sin(theta1) + phi2
        ddtheta2 = (torque + phi1 d2 / d1 - dtheta1^2 sin(theta2) / 2 - phi2) / (1.25 - d2^2 / d1)
        ddtheta1 = -(d2 ddtheta2 + phi1) / d1

    A step integrates these equations over 0.2 s with one step of the fourth-order Runge-Kutta
    method. Then the angles are wrapped into [-pi, pi], and the speeds are clipped to 4 pi and
    9 pi. Actions 0, 1, 2 are torques -1, 0, 1. Each step pays -1, the last step 0. The episode
    terminates when the tip is more than one link above the first joint,
    -cos(theta1) - cos(theta1 + theta2) > 1.
    http://incompleteideas.net/book/the-book-2nd.html (example in section 11.3 of the 1st edition),
    https://gymnasium.farama.org/environments/classic_control/acrobot/
    """

    observation_shape = (6,)
    observation_dtype = np.float32
    num_actions = 3
    max_episode_steps = 500
    begin_draws = 4
    step_draws = 0

    def begin(self, uniform: tf.Tensor) -> AcrobotState:
        start = START * (2.0 * tf.cast(uniform, tf.float64) - 1.0)  # [N, 4]
        return AcrobotState(*tf.unstack(start, axis=1))

    def step(self, state: AcrobotState, action: tf.Tensor, uniform: tf.Tensor) -> EnvStep:
        torque = tf.cast(action, tf.float64) - 1.0  # [N]
        theta1, theta2, dtheta1, dtheta2 = _runge_kutta(state, torque)
        moved = AcrobotState(
            theta1=_wrap(theta1),
            theta2=_wrap(theta2),
            dtheta1=tf.clip_by_value(dtheta1, -MAX_SPEED_1, MAX_SPEED_1),
            dtheta2=tf.clip_by_value(dtheta2, -MAX_SPEED_2, MAX_SPEED_2),
        )
        (cos1, sin1), (cos2, sin2) = cos_sin(moved.theta1), cos_sin(moved.theta2)
        terminated = -cos1 - (cos1 * cos2 - sin1 * sin2) > 1.0
        return EnvStep(moved, tf.cast(terminated, tf.float32) - 1.0, terminated)

    def observe(self, state: AcrobotState) -> tf.Tensor:
        theta1, theta2, dtheta1, dtheta2 = state
        parts = [*cos_sin(theta1), *cos_sin(theta2), dtheta1, dtheta2]
        return float32_columns(parts)  # [N, 6]


def _runge_kutta(state: AcrobotState, torque: tf.Tensor) -> AcrobotState:
    k1 = _derivatives(state, torque)
    k2 = _derivatives(_along(state, k1, SECONDS / 2), torque)
    k3 = _derivatives(_along(state, k2, SECONDS / 2), torque)
    k4 = _derivatives(_along(state, k3, SECONDS), torque)
    mean = (a + 2.0 * b + 2.0 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
    return _along(state, mean, SECONDS / 6)


def _along(state: AcrobotState, slope: Iterable[tf.Tensor], seconds: float) -> AcrobotState:
    return AcrobotState(*(y + seconds * k for y, k in zip(state, slope, strict=True)))


def _derivatives(state: AcrobotState, torque: tf.Tensor) -> AcrobotState:
    theta1, theta2, dtheta1, dtheta2 = state
    (cos1, sin1), (cos2, sin2) = cos_sin(theta1), cos_sin(theta2)
    d1 = 3.5 + cos2
    d2 = 1.25 + 0.5 * cos2
    phi2 = 0.5 * GRAVITY * (sin1 * cos2 + cos1 * sin2)  # the sine of theta1 + theta2
    phi1 = phi2 + 1.5 * GRAVITY * sin1 - (0.5 * dtheta2 + dtheta1) * dtheta2 * sin2
    ddtheta2 = (torque + d2 / d1 * phi1 - 0.5 * tf.square(dtheta1) * sin2 - phi2) / (
        1.25 - tf.square(d2) / d1
    )
    ddtheta1 = -(d2 * ddtheta2 + phi1) / d1
    return AcrobotState(dtheta1, dtheta2, ddtheta1, ddtheta2)


def _wrap(angle: tf.Tensor) -> tf.Tensor:
    """Returns the angle in [-pi, pi]; a step may make several turns."""
    return angle - 2 * math.pi * tf.round(angle / (2 * math.pi))
