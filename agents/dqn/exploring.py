"""Epsilon-greedy without the graph: the network is asked only where somebody does not explore."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rl_core.philox import OutsideStream

_DRAWN_AT_ONCE = 256  # time steps


class EpsilonGreedy:
    """`rl_core.exploration.epsilon_greedy` with the same random numbers, drawn for many time steps.

    Args:
      stream: of [2, N] numbers at each time step. If the graph draws from it, the same bits come of
        both.
      num_envs, num_actions: N, A.
    """

    def __init__(self, stream: OutsideStream, num_envs: int, num_actions: int) -> None:
        self._stream, self._num_envs, self._num_actions = stream, num_envs, num_actions
        self._first = -_DRAWN_AT_ONCE

    def __call__(
        self,
        greedy: Callable[[np.ndarray], np.ndarray],
        observation: np.ndarray,
        epsilon: float,
        time_step: int,
        legal: np.ndarray | None = None,
    ) -> np.ndarray:
        """Chooses actions, [N] int32.

        Args:
          greedy: from observations to the best legal actions.
          observation: [N, ...].
          epsilon: has the value of a float32.
          time_step: picks the random numbers.
          legal: [N, A] bool; None: every action is legal.
        """
        i = time_step - self._first
        if not 0 <= i < _DRAWN_AT_ONCE:
            self._draw(time_step)
            i = 0
        if self._smallest_coin[i] >= epsilon:
            return greedy(observation)
        anything = self._actions[i] if legal is None else _any_legal(self._dice[i], legal)
        if self._largest_coin[i] < epsilon:
            return anything
        return np.where(self._coins[i] < epsilon, anything, greedy(observation))

    def _draw(self, time_step: int) -> None:
        drawn = self._stream.uniform_outside(time_step, _DRAWN_AT_ONCE, (2, self._num_envs))
        self._first = time_step
        self._coins, self._dice = drawn[:, 0], drawn[:, 1]  # [T, N]
        self._actions = (self._dice * np.float32(self._num_actions)).astype(np.int32)  # [T, N]
        # Lists: to compare two of Python's numbers takes a tenth of the time of NumPy's.
        self._smallest_coin = self._coins.min(axis=1).tolist()
        self._largest_coin = self._coins.max(axis=1).tolist()


def _any_legal(die: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Returns the legal action number floor(die * legal actions): [N], [N, A] -> [N] int32."""
    seen = np.cumsum(legal, axis=1, dtype=np.int32)  # [N, A] legal actions up to here
    k = (die * seen[:, -1].astype(np.float32)).astype(np.int32)  # [N]
    before: np.ndarray = (seen <= k[:, None]).sum(axis=1, dtype=np.int32)  # [N]
    return np.minimum(before, np.int32(legal.shape[1] - 1), out=before)
