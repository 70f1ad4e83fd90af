"""Stored rows turned back into observations as the env gives them: the inverse of the writers.

Numbers of a Box that is neither float32 nor uint8 were rounded to float32 when they were stored.
"""

from typing import Any

import gymnasium as gym
import numpy as np

from targetnet.envs.arrays import array_space
from targetnet.envs.nests import Path, leaves, nest_of
from targetnet.envs.spaces import Spaces
from targetnet.rl_core.errors import EnvError, quoted


def wanted_space(env_id: str, spaces: Spaces) -> gym.Space[Any]:
    """Returns the space of the parts of an env's observations that a network sees.

    Args:
      spaces: of the env. Of a tuple all parts must be wanted, because they are known by their
        places alone.

    Raises:
      EnvError: only some parts of a tuple are wanted.
    """
    assert spaces.own is not None
    if len(spaces.leaves) == len(leaves(env_id, spaces.own[0])):
        return spaces.own[0]
    return _only(env_id, spaces.own[0], (), {*spaces.paths})


def _only(env_id: str, space: gym.Space[Any], path: Path, wanted: set[Path]) -> gym.Space[Any]:
    def has_wanted(key: Any) -> bool:
        within = (*path, key)
        return any(of[: len(within)] == within for of in wanted)

    if isinstance(space, gym.spaces.Dict):
        # Pairs keep their order, in which rows have the parts; gymnasium sorts a plain dict's.
        inside = [(k, of) for k, of in space.spaces.items() if has_wanted(k)]
        return gym.spaces.Dict([(k, _only(env_id, of, (*path, k), wanted)) for k, of in inside])
    if isinstance(space, gym.spaces.Tuple):
        if not all(map(has_wanted, range(len(space.spaces)))):
            raise EnvError(
                f"env {quoted(env_id)} has tuple observations, and parts of a tuple cannot be left "
                "out (observation_keys, action_masks); use all parts, or make a dict of them with "
                "a wrapper (env_wrapper)"
            )
        each = enumerate(space.spaces)
        return gym.spaces.Tuple([_only(env_id, of, (*path, i), wanted) for i, of in each])
    return space


def given_back(env_id: str, space: gym.Space[Any], rows: np.ndarray) -> Any:
    """Returns observations as an env with this space gives them.

    Args:
      space: of one observation; all of it was stored.
      rows: [T, ...] as they were stored, of single frames.

    Returns:
      [T, ...], or a dict or tuple of such.
    """
    found = leaves(env_id, space)
    if len(found) == 1:
        (leaf,) = found
        shape = array_space(env_id, leaf.space, leaf.name).shape
        stored = {leaf.path: rows.reshape(len(rows), *shape)}
    else:
        parts = nest_of(env_id, found).parts
        stored = {leaf.path: part.of(rows) for leaf, part in zip(found, parts, strict=True)}
    return _assembled(env_id, space, (), stored)


def _assembled(
    env_id: str, space: gym.Space[Any], path: Path, stored: dict[Path, np.ndarray]
) -> Any:
    if isinstance(space, gym.spaces.Dict):
        inside = space.spaces.items()
        return {key: _assembled(env_id, of, (*path, key), stored) for key, of in inside}
    if isinstance(space, gym.spaces.Tuple):
        each = enumerate(space.spaces)
        return tuple(_assembled(env_id, of, (*path, i), stored) for i, of in each)
    return _array(env_id, space, stored[path])


def _array(env_id: str, space: gym.Space[Any], stored: np.ndarray) -> np.ndarray:
    """[T, ...] as `targetnet.envs.spaces.array_space` says -> [T, ...] of an array's space."""
    if isinstance(space, gym.spaces.Discrete):
        return np.argmax(stored, axis=-1) + space.start
    if isinstance(space, gym.spaces.MultiDiscrete):
        ends = np.cumsum(space.nvec.reshape(-1))[:-1]
        ones = np.split(stored, ends, axis=-1)
        numbers = np.stack([np.argmax(one, axis=-1) for one in ones], axis=-1)
        return (numbers.reshape(len(stored), *space.shape) + space.start).astype(space.dtype)
    array = array_space(env_id, space)
    if array.shape != array.given:  # its channels were first
        stored = np.moveaxis(stored, -1, 1)
    return np.ascontiguousarray(stored, space.dtype)
