"""MountainCar-v0 in the graph: a car too weak for the hill must gain speed by swinging."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.envs.in_graph.interface import EnvStep, InGraphEnv, float32_columns
from targetnet.envs.in_graph.trigonometry import cos_sin

FORCE = 0.001
GRAVITY = 0.0025
MAX_SPEED = 0.07
LEFT_WALL, RIGHT_END = -1.2, 0.6
GOAL = 0.5
START_LOW, START_HIGH = -0.6, -0.4


class MountainCarState(NamedTuple):
    """Position and velocity, each [N] float64, the precision of Gymnasium."""

    position: tf.Tensor
    velocity: tf.Tensor


class MountainCar(InGraphEnv):
    """Gymnasium's MountainCar-v0, after Moore (1990).

        velocity += (action - 1) * 0.001 - 0.0025 cos(3 position),  clipped to [-0.07, 0.07]
        position += velocity,  clipped to [-1.2, 0.6]

    Action 0 accelerates to the left, 1 not at all, 2 to the right. The wall on the left stops the
    car. Each step pays -1. The episode terminates when position >= 0.5 and velocity >= 0.
    https://www.cl.cam.ac.uk/techreports/UCAM-CL-TR-209.pdf,
    https://gymnasium.farama.org/environments/classic_control/mountain_car/
    """

    observation_shape = (2,)
    observation_dtype = np.float32
    num_actions = 3
    max_episode_steps = 200
    begin_draws = 1
    step_draws = 0

    def begin(self, uniform: tf.Tensor) -> MountainCarState:
        share = tf.cast(uniform[:, 0], tf.float64)  # [N]
        return MountainCarState(START_LOW + (START_HIGH - START_LOW) * share, tf.zeros_like(share))

    def step(self, state: MountainCarState, action: tf.Tensor, uniform: tf.Tensor) -> EnvStep:
        thrust = FORCE * (tf.cast(action, tf.float64) - 1.0)  # [N]
        slope, _ = cos_sin(3.0 * state.position)
        velocity = state.velocity + (thrust - GRAVITY * slope)
        velocity = tf.clip_by_value(velocity, -MAX_SPEED, MAX_SPEED)
        position = tf.clip_by_value(state.position + velocity, LEFT_WALL, RIGHT_END)
        at_wall = (position <= LEFT_WALL) & (velocity < 0.0)
        velocity = tf.where(at_wall, tf.zeros_like(velocity), velocity)
        terminated = (position >= GOAL) & (velocity >= 0.0)
        return EnvStep(
            MountainCarState(position, velocity), -tf.ones_like(action, tf.float32), terminated
        )

    def observe(self, state: MountainCarState) -> tf.Tensor:
        return float32_columns(state)  # [N, 2]
