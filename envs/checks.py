"""Checks of an env's spaces and first observation, made once before the run.

Gymnasium's checker wraps every step instead. Later observations, rewards and flags are checked by
envs.observations and envs.outcomes.
"""

import json
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from targetnet.envs.observations import as_array, can_store, finite_in_float32, what_came
from targetnet.rl_core.errors import EnvError, in_one_line, quoted

ArraySpaces = (
    gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary
)


def require_array_observations(
    env_id: str, space: gym.Space[Any], name: str = "", others: Sequence[str] = ()
) -> ArraySpaces:
    """Returns `space` if its observations are single arrays or numbers.

    Args:
      name: of a part of an observation; others: keys of parts that are arrays. For messages.

    Raises:
      EnvError: the space is no Box, Discrete, MultiDiscrete or MultiBinary.
    """
    if isinstance(space, ArraySpaces):
        return space
    where = f" at {name!r}" if name else ""
    if others:
        advice = f"leave it out: observation_keys = {json.dumps(list(others))}"
    else:
        advice = "put a wrapper around it (env_wrapper) that turns its observation into a Box"
    raise EnvError(
        f"env {quoted(env_id)} has{where} the observation space {text_of(space)}, but the agent "
        f"learns from arrays and numbers: Box, Discrete, MultiDiscrete and MultiBinary; {advice}"
    )


def text_of(space: Any) -> str:
    """Returns a space in one line."""
    try:
        return in_one_line(space)
    except Exception:  # the __repr__ of a custom Space class may fail
        return type(space).__name__


def require_matching_observation(
    env_id: str, space: gym.Space[Any], stored_dtype: np.dtype, observation: Any, name: str = ""
) -> None:
    """Raises EnvError unless the `observation` of a reset fits `space` and can be stored.

    The bounds of a Box are not checked: many envs slightly exceed them, and only the scaling of
    bytes uses them.
    """
    array = as_array(observation)
    problem = ""
    if array.dtype == object:
        problem = what_came(observation)
    elif array.shape != space.shape:
        problem = f"one of shape {array.shape}"
    elif not isinstance(space, gym.spaces.Box):
        problem = "" if space.contains(array) else in_one_line(array)
    elif not can_store(stored_dtype, array.dtype):
        problem = f"one of dtype {array.dtype}"
    elif not finite_in_float32(array).all():
        problem = "one with NaN or infinite numbers, or numbers beyond float32"
    if problem:
        where = f" at {name!r}" if name else ""
        raise EnvError(
            f"env {quoted(env_id)}: reset must give{where} an observation of its observation space "
            f"{in_one_line(space)}, got {problem}; correct the env or its observation_space"
        )
