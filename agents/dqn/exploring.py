"""Epsilon-greedy without the graph: the network is asked only where somebody does not explore."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rl_core.random import Stream

_DRAWN_AT_ONCE = 256  # time steps


class EpsilonGreedy:
    """`rl_core.exploration.epsilon_greedy` with the same random numbers, drawn for many time steps.

    Args:
      stream: that the graph draws [2, N] from at each time step: the same bits come of both.
      num_envs, num_actions: N, A.
    """

    def __init__(self, stream: Stream, num_envs: int, num_actions: int) -> None:
        self._stream, self._num_envs, self._num_actions = stream, num_envs, num_actions
        self._first = -_DRAWN_AT_ONCE

    def __call__(
        self,
        greedy: Callable[[np.ndarray], np.ndarray],
        observation: np.ndarray,
        epsilon: float,
        time_step: int,
    ) -> np.ndarray:
        """Actions [N] int32 for observations [N, ...]; `epsilon` has the value of a float32."""
        i = time_step - self._first
        if not 0 <= i < _DRAWN_AT_ONCE:
            self._draw(time_step)
            i = 0
        if self._largest_coin[i] < epsilon:
            return self._actions[i]
        best = greedy(observation)
        if self._smallest_coin[i] >= epsilon:
            return best
        return np.where(self._coins[i] < epsilon, self._actions[i], best)

    def _draw(self, time_step: int) -> None:
        drawn = self._stream.uniform_outside(time_step, _DRAWN_AT_ONCE, (2, self._num_envs))
        self._first = time_step
        self._coins = drawn[:, 0]  # [T, N]
        self._actions = (drawn[:, 1] * np.float32(self._num_actions)).astype(np.int32)  # [T, N]
        # Lists: to compare two of Python's numbers takes a tenth of the time of NumPy's.
        self._smallest_coin = self._coins.min(axis=1).tolist()
        self._largest_coin = self._coins.max(axis=1).tolist()
