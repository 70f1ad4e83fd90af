"""Rows that wait until some are stored at once."""

from __future__ import annotations

import numpy as np

from rl_core.replay import Rows


class RowBuffer:
    """Time steps of N envs on their way into the replay, as many as are put into it.

    Attributes:
      count: how many are in it.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.count = 0
        self._kept: list[bytes] = []  # column by column, time step after time step

    def put(
        self,
        observation: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
        legal: np.ndarray | None = None,
    ) -> None:
        """One time step: the columns of `Rows`, [N, ...] each; all of them like the first."""
        # Copies: the envs write the next step into the same arrays. Each column by its name: a
        # loop over them takes three times as long.
        self._kept += (
            observation.tobytes(), action.tobytes(), reward.tobytes(), terminated.tobytes(),
            autoreset.tobytes(),
        )  # fmt: skip
        if legal is not None:
            self._kept.append(legal.tobytes())
        self._last = observation, action, reward, terminated, autoreset, legal
        self.count += 1

    def rows(self) -> Rows:
        """What is in it, [count, N, ...]."""
        columns = [values for values in self._last if values is not None]
        width = len(columns)
        return Rows(
            *(
                np.frombuffer(b"".join(self._kept[i::width]), values.dtype).reshape(
                    self.count, *values.shape
                )
                for i, values in enumerate(columns)
            )
        )
