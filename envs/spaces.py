"""Conversion of an env's spaces for the agent: rows of one stored dtype, and actions from 0."""

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from envs.checks import require_array_observations, require_discrete_actions
from envs.observations import Writer, box_writer, channels_last_writer, one_hot_writer

# Stored without conversion: in a replay they take a quarter of the memory of float32.
KEPT_DTYPES = (np.dtype(np.uint8), np.dtype(np.bool_))


class Spaces(NamedTuple):
    """One env's observations and actions in the agent's form."""

    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype  # as stored
    writer: Writer  # of what the env shows next
    num_actions: int
    first_action: int  # the env's own number for the agent's action 0
    given_shape: tuple[int, ...]  # of an observation as the env gives it; () if Discrete
    byte_bounds: tuple[np.ndarray, np.ndarray] | None = None  # None: 0 and 255, or no bytes
    stack: int = 1  # frames of an observation; `given_shape` begins with them if there are several
    complete: Writer | None = None  # of whole observations, of all frames; None: `writer`


def read_spaces(
    env_id: str, observation_space: gym.Space[Any], action_space: gym.Space[Any]
) -> Spaces:
    """Returns the agent's form of an env's spaces.

    A Box of uint8 or bool keeps its dtype, any other Box becomes float32, and a Discrete space
    becomes one-hot float32. Images with channels or stacked frames first, uint8 [C, H, W] with C
    at most half of H and W, become [H, W, C], the form that the networks expect.

    Raises:
      EnvError: the agent cannot be trained with these spaces.
    """
    actions = require_discrete_actions(env_id, action_space)
    observations = require_array_observations(env_id, observation_space)
    num_actions, first_action = int(actions.n), int(actions.start)
    float32 = np.dtype(np.float32)
    if isinstance(observations, gym.spaces.Discrete):
        writer = one_hot_writer(observations)
        return Spaces((int(observations.n),), float32, writer, num_actions, first_action, ())
    dtype = observations.dtype if observations.dtype in KEPT_DTYPES else float32
    shape, bounds = observations.shape, _byte_bounds(observations)
    if _is_image_with_channels_first(observations):
        writer = channels_last_writer(shape, dtype)
        if bounds is not None and bounds[0].ndim:
            bounds = np.moveaxis(bounds[0], 0, -1), np.moveaxis(bounds[1], 0, -1)
        last = (*shape[1:], shape[0])
        return Spaces(last, dtype, writer, num_actions, first_action, shape, bounds)
    return Spaces(shape, dtype, box_writer(shape, dtype), num_actions, first_action, shape, bounds)


def _byte_bounds(space: gym.spaces.Box) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns low and high of uint8 observations, as scalars if all elements have equal bounds."""
    low, high = space.low, space.high
    if space.dtype != np.uint8 or (not low.any() and (high == 255).all()):
        return None
    if (low == low.flat[0]).all() and (high == high.flat[0]).all():
        return np.array(low.flat[0]), np.array(high.flat[0])
    return low, high


class _QuickDiscrete(gym.spaces.Discrete):
    """A Discrete space with a fast `contains` for plain ints."""

    members: range

    def contains(self, x: Any) -> bool:
        return (type(x) is int and x in self.members) or super().contains(x)


def make_contains_quick(space: gym.Space[Any] | None) -> None:
    """Makes `space.contains` fast if `space` is Discrete; its answers stay the same.

    Some envs call `contains` at every step. Gymnasium's version asks NumPy for the bounds of int64
    on each call, which takes a third of a step of CartPole.
    """
    if type(space) is not gym.spaces.Discrete:
        return
    members = range(int(space.start), int(space.start) + int(space.n))
    if space.contains(members[-1]):  # False if the space's dtype is too small for this number
        # Change the class and keep the object: it has a random state, and wrappers may share it.
        space.__class__ = _QuickDiscrete
        assert isinstance(space, _QuickDiscrete)
        space.members = members


def _is_image_with_channels_first(space: gym.spaces.Box) -> bool:
    shape = space.shape
    return space.dtype == np.uint8 and len(shape) == 3 and 2 * shape[0] <= min(shape[1:])
