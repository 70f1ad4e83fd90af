"""CartPole with observations of several parts; a process that steps it imports no TensorFlow."""

import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.wrappers import FlattenObservation, TransformObservation


def in_two(env):
    """CartPole's numbers as a dict: where things are, and how fast they move."""
    space = Dict({"at": Box(-np.inf, np.inf, (2,)), "speed": Box(-np.inf, np.inf, (2,))})
    return TransformObservation(env, lambda o: {"at": o[[0, 2]], "speed": o[[1, 3]]}, space)


def in_one(env):
    """The same numbers, flat."""
    return FlattenObservation(in_two(env))


def within(env):
    """CartPole's numbers within a dict within a dict."""
    space = Dict({"outer": Dict({"inner": env.observation_space})})
    return TransformObservation(env, lambda o: {"outer": {"inner": o}}, space)


def with_picture(env):
    """CartPole's numbers, and a picture of the cart's place."""
    camera = Box(0, 255, (10, 10, 2), np.uint8)
    space = Dict({"numbers": env.observation_space, "camera": camera, "on": Box(0, 1, (3,), bool)})

    def shown(o):
        picture = np.zeros((10, 10, 2), np.uint8)
        picture[int(np.clip(4 * o[0] + 5, 0, 9)), :, 0] = 200
        return {"numbers": o, "camera": picture, "on": o[:3] > 0}

    return TransformObservation(env, shown, space)
