"""Rows that wait until some are stored at once.

Imports: rl_core.replay. Never envs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_core.replay import Rows


class RowBuffer:
    """Time steps of N envs on their way into the replay.

    Args:
      size: how many fit.
      num_envs: N.
      observation_shape, observation_dtype: of one env.

    Attributes:
      count: how many are in it.
    """

    def __init__(
        self, size: int, num_envs: int, observation_shape: tuple[int, ...], observation_dtype: Any
    ) -> None:
        self.count, self.size = 0, size
        lead = (size, num_envs)
        self._rows = Rows(
            np.zeros((*lead, *observation_shape), observation_dtype),
            np.zeros(lead, np.int32),
            np.zeros(lead, np.float32),
            np.zeros(lead, np.bool_),
            np.zeros(lead, np.bool_),
        )

    def put(
        self,
        observation: np.ndarray,
        actions: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
    ) -> None:
        """One time step, [N, ...] each."""
        i, rows = self.count, self._rows
        rows.observation[i] = observation
        rows.action[i] = actions
        rows.reward[i] = reward
        rows.terminated[i] = terminated
        rows.autoreset[i] = autoreset
        self.count = i + 1

    def rows(self) -> Rows:
        """What is in it, [count, N, ...]."""
        return Rows(*(column[: self.count] for column in self._rows[:5]))
