"""CartPole-v1 in the graph: pushes of a cart keep the pole on it upright."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.envs.in_graph.interface import EnvStep, InGraphEnv, float32_columns
from targetnet.envs.in_graph.trigonometry import cos_sin

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.0 + POLE_MASS
HALF_LENGTH = 0.5  # of the pole
POLE_MASS_LENGTH = POLE_MASS * HALF_LENGTH
FORCE = 10.0
SECONDS = 0.02  # between two steps
X_LIMIT = 2.4
THETA_LIMIT = 12 * 2 * math.pi / 360
START = 0.05  # each number of a first state is in [-START, START)


class CartPoleState(NamedTuple):
    """Position and angle with their speeds, each [N] float64, the precision of Gymnasium."""

    x: tf.Tensor
    x_dot: tf.Tensor
    theta: tf.Tensor  # radians from upright
    theta_dot: tf.Tensor


class CartPole(InGraphEnv):
    """Gymnasium's CartPole-v1, after Barto, Sutton & Anderson (1983).

        temp      = (force + m l theta_dot^2 sin(theta)) / M
        theta_acc = (g sin(theta) - cos(theta) temp) / (l (4/3 - m cos(theta)^2 / M))
        x_acc     = temp - m l theta_acc cos(theta) / M

    m is the pole's mass, M the total mass and l half the pole's length. Integration is by Euler's
    method: positions change by the speeds before the step. Action 0 pushes to the left, 1 to the
    right. Each step pays 1, also the last step. The episode terminates when |x| > 2.4 or
    |theta| > 12 degrees. https://doi.org/10.1109/TSMC.1983.6313077,
    https://gymnasium.farama.org/environments/classic_control/cart_pole/
    """

    observation_shape = (4,)
    observation_dtype = np.float32
    num_actions = 2
    max_episode_steps = 500
    begin_draws = 4
    step_draws = 0

    def begin(self, uniform: tf.Tensor) -> CartPoleState:
        start = START * (2.0 * tf.cast(uniform, tf.float64) - 1.0)  # [N, 4]
        return CartPoleState(*tf.unstack(start, axis=1))

    def step(self, state: CartPoleState, action: tf.Tensor, uniform: tf.Tensor) -> EnvStep:
        x, x_dot, theta, theta_dot = state
        force = FORCE * (2.0 * tf.cast(action, tf.float64) - 1.0)  # [N]
        cos, sin = cos_sin(theta)
        temp = (force + POLE_MASS_LENGTH * tf.square(theta_dot) * sin) / TOTAL_MASS
        theta_acc = (GRAVITY * sin - cos * temp) / (
            HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * tf.square(cos) / TOTAL_MASS)
        )
        x_acc = temp - POLE_MASS_LENGTH * theta_acc * cos / TOTAL_MASS
        moved = CartPoleState(
            x=x + SECONDS * x_dot,
            x_dot=x_dot + SECONDS * x_acc,
            theta=theta + SECONDS * theta_dot,
            theta_dot=theta_dot + SECONDS * theta_acc,
        )
        terminated = (tf.abs(moved.x) > X_LIMIT) | (tf.abs(moved.theta) > THETA_LIMIT)
        return EnvStep(moved, tf.ones_like(action, tf.float32), terminated)

    def observe(self, state: CartPoleState) -> tf.Tensor:
        return float32_columns(state)  # [N, 4]
