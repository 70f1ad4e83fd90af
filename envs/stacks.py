"""Stacks of frames: an observation is what an env shows now and what it showed before.

As Mnih et al. (2015), https://doi.org/10.1038/nature14236, with zeros before an episode's first
frame, as Castro et al. (2018), https://arxiv.org/abs/1812.06110; Gymnasium's
FrameStackObservation repeats the first frame there unless it is told otherwise.
"""

from typing import Any

import gymnasium as gym
import numpy as np

from targetnet.envs.env_recipe import EnvRecipe
from targetnet.envs.nests import at, put_at
from targetnet.envs.observations import Write
from targetnet.envs.spaces import Spaces, read_spaces
from targetnet.rl_core.errors import EnvError, quoted


def frame_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of a frame whose last axis the frames lie along: [H, W] -> [H, W, 1]."""
    return shape if len(shape) not in (0, 2) else (*shape, 1)


def spaces_for(
    env_id: str, observation_space: gym.Space[Any], action_space: gym.Space[Any], making: EnvRecipe
) -> Spaces:
    """Returns the agent's form of an env's spaces, with the parts and frames that are wanted.

    Raises:
      EnvError: the agent cannot be trained with these spaces.
    """
    spaces = read_spaces(
        env_id, observation_space, action_space, making.observation_keys, making.action_masks
    )
    if spaces.parts and making.frame_stack > 1:
        names = ", ".join(part.name for part in spaces.parts)
        raise EnvError(
            f"frame_stack = {making.frame_stack} needs observations of one array, and those of "
            f"{quoted(env_id)} have the parts {names}; name one in observation_keys, or leave "
            "frame_stack out"
        )
    return stacked(spaces, making.frame_stack)


def stacked(spaces: Spaces, stack: int) -> Spaces:
    """Returns the spaces of an env whose observations are `stack` frames, the newest one last.

    Frames [..., C] become [..., k * C]; [H, W] become [H, W, k], and single numbers [k]. A row
    must be all zeros when an episode begins.
    """
    if stack == 1:
        return spaces
    shape = frame_shape(spaces.observation_shape)
    channels = shape[-1]
    whole = (*shape[:-1], stack * channels)

    def writer(rows: np.ndarray) -> Write:
        lead = rows.shape[: rows.ndim - len(whole)]
        frame = np.zeros((*lead, *spaces.observation_shape), spaces.observation_dtype)
        write, newest = spaces.writer(frame), frame.reshape(*lead, *shape)

        def push(observation: Any) -> None:
            write(observation)  # raises before the row is changed
            rows[..., :-channels] = rows[..., channels:]
            rows[..., -channels:] = newest

        return push

    def complete(rows: np.ndarray) -> Write:
        push, axis = writer(rows), rows.ndim - len(whole)
        (path,) = spaces.paths

        def write(observations: Any) -> None:
            for frame in np.moveaxis(np.asarray(at(observations, path)), axis, 0):
                push(put_at(path, frame))

        return write

    bounds = spaces.byte_bounds
    if bounds is not None and bounds[0].ndim:
        low, high = (np.concatenate([of.reshape(shape)] * stack, axis=-1) for of in bounds)
        bounds = low, high
    return spaces._replace(
        observation_shape=whole, writer=writer, byte_bounds=bounds, stack=stack,
        given_shape=(stack, *spaces.given_shape), complete=complete,
    )  # fmt: skip
