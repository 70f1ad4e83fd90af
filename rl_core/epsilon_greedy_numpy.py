"""Epsilon-greedy without the graph: the network is asked only where somebody does not explore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from targetnet.rl_core.philox import NumpyStream

LOWEST = np.finfo(np.float32).min  # of a choice that is none, or illegal
_DRAWN_AT_ONCE = 256  # time steps


class EpsilonGreedy:
    """The graph's epsilon-greedy with the same random numbers, drawn for many time steps.

    See `targetnet.rl_core.exploration.epsilon_greedy`, and with branches
    `branching_epsilon_greedy`.

    Args:
      stream: of [2, N] numbers at each time step, with branches [1 + D, N]. If the graph draws from
        it, the same bits come of both.
      num_envs, num_actions: N, A.
      branches: sizes of the branches, [D]; (): an action has none.
    """

    def __init__(
        self,
        stream: NumpyStream,
        num_envs: int,
        num_actions: int,
        branches: Sequence[int] = (),
    ) -> None:
        self._stream, self._num_envs, self._num_actions = stream, num_envs, num_actions
        self._branches = branches
        self._first = -_DRAWN_AT_ONCE

    def __call__(
        self,
        greedy: Callable[[np.ndarray], np.ndarray],
        observation: np.ndarray,
        epsilon: float,
        time_step: int,
        legal: np.ndarray | None = None,
    ) -> np.ndarray:
        """Chooses actions, [N] int32, or [N, D] with branches.

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
        anything = self._actions[i] if legal is None else self._any_legal(self._dice[i], legal)
        if self._largest_coin[i] < epsilon:
            return anything
        return np.where(self._explores[i] < epsilon, anything, greedy(observation))

    def _draw(self, time_step: int) -> None:
        shape = 1 + max(1, len(self._branches)), self._num_envs
        drawn = self._stream.uniform_in_numpy(time_step, _DRAWN_AT_ONCE, shape)
        self._first = time_step
        coins = self._explores = drawn[:, 0]  # [T, N]
        if self._branches:
            self._explores = coins[..., np.newaxis]  # [T, N, 1]
            self._dice = np.ascontiguousarray(drawn[:, 1:].transpose(0, 2, 1))  # [T, N, D]
            self._actions = (self._dice * np.array(self._branches, "f4")).astype(np.int32)
        else:
            self._dice = drawn[:, 1]  # [T, N]
            self._actions = (self._dice * np.float32(self._num_actions)).astype(np.int32)
        # Lists: to compare two of Python's numbers takes a tenth of the time of NumPy's.
        self._smallest_coin = coins.min(axis=1).tolist()
        self._largest_coin = coins.max(axis=1).tolist()

    def _any_legal(self, dice: np.ndarray, legal: np.ndarray) -> np.ndarray:
        if not self._branches:
            return _any_legal(dice, legal)
        apart = by_branch(legal, self._branches, fill=False)  # [N, D, n]
        return _any_legal(dice.reshape(-1), apart.reshape(-1, apart.shape[2])).reshape(dice.shape)


def by_branch(values: np.ndarray, sizes: Sequence[int], fill: Any) -> np.ndarray:
    """`targetnet.rl_core.branches.by_branch` of an array: [M, A] -> [M, D, n]."""
    apart = np.full((len(values), len(sizes), max(sizes)), fill, values.dtype)
    apart[:, np.arange(max(sizes)) < np.array(sizes)[:, np.newaxis]] = values
    return apart


def best(q: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Returns the best actions: [M, A] values -> [M] int32, or [M, D] with branches."""
    if not sizes:
        return q.argmax(axis=1).astype(np.int32)
    return by_branch(q, sizes, LOWEST).argmax(axis=2).astype(np.int32)


def _any_legal(die: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Returns the legal action number floor(die * legal actions): [N], [N, A] -> [N] int32."""
    seen = np.cumsum(legal, axis=1, dtype=np.int32)  # [N, A] legal actions up to here
    k = (die * seen[:, -1].astype(np.float32)).astype(np.int32)  # [N]
    before: np.ndarray = (seen <= k[:, None]).sum(axis=1, dtype=np.int32)  # [N]
    return np.minimum(before, np.int32(legal.shape[1] - 1), out=before)
