"""Acting without a call into the graph for each time step: rows wait until some are stored at once.

Imports: rl_core.random, rl_core.replay. Never envs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_core.random import Stream
from rl_core.replay import Rows

_DRAWN_AT_ONCE = 256  # time steps


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


class EpsilonDraws:
    """The random numbers of `rl_core.exploration.epsilon_greedy`, drawn for many time steps.

    Args:
      stream: that the graph draws [2, N] from at each time step: the same bits come of both.
      num_envs, num_actions: N, A.
    """

    def __init__(self, stream: Stream, num_envs: int, num_actions: int) -> None:
        self._stream, self._num_envs, self._num_actions = stream, num_envs, num_actions
        self._first = -_DRAWN_AT_ONCE
        self._coin = self._action = np.zeros(0)

    def at(self, time_step: int) -> tuple[np.ndarray, np.ndarray]:
        """([N] float32 coins in [0, 1), [N] int32 random actions)."""
        i = time_step - self._first
        if not 0 <= i < _DRAWN_AT_ONCE:
            i, self._first = 0, time_step
            drawn = self._stream.uniform_outside(time_step, _DRAWN_AT_ONCE, (2, self._num_envs))
            self._coin = drawn[:, 0]
            self._action = (drawn[:, 1] * np.float32(self._num_actions)).astype(np.int32)
        return self._coin[i], self._action[i]
