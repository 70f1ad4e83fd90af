"""Observations of which only some elements are shown: a task that asks for memory."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from targetnet.rl_core.errors import EnvError, quoted


class SelectedElements(
    gym.ObservationWrapper[np.ndarray, Any, np.ndarray], gym.utils.RecordConstructorArgs
):
    """Shows some elements of a vector, in the order in which they are named.

        env_wrapper = "elements"
        env_wrapper_kwargs = { keep = [0, 2] }    # of CartPole: where, and at which angle

    Args:
      env: its observations are a Box of rank 1.
      keep: numbers of the elements, from 0 on, each once.

    Raises:
      EnvError: the observations are no vector, or have no such element.
    """

    def __init__(self, env: gym.Env[Any, Any], keep: Sequence[int] = ()) -> None:
        # First, as in Gymnasium's own wrappers: so that the env's spec tells how to make it again.
        gym.utils.RecordConstructorArgs.__init__(self, keep=keep)
        gym.ObservationWrapper.__init__(self, env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise EnvError(f"env_wrapper 'elements' needs observations of a vector, got {space}")
        self._keep = list(keep) if isinstance(keep, list | tuple) else []
        known = range(space.shape[0])
        wrong = [of for of in self._keep if type(of) is not int or of not in known]
        if wrong or not self._keep or len(set(self._keep)) < len(self._keep):
            raise EnvError(
                f"env_wrapper 'elements': keep must be a list of elements of an observation, 0 to "
                f"{known[-1]}, each once, got {quoted(keep)}"
            )
        low, high = space.low[self._keep], space.high[self._keep]
        self.observation_space = gym.spaces.Box(low, high, dtype=space.dtype.type)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """[n] -> [len(keep)]."""
        return observation[self._keep]
