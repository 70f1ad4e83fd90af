"""A buffer of time steps that wait to be stored together."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from targetnet.rl_core.replay import Rows

_NAMES = ("observation", "action", "reward", "terminated", "autoreset", "legal")


class RowBuffer:
    """Time steps of N envs that wait to be stored together.

    Attributes:
      count: time steps that wait.
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
        more: Mapping[str, np.ndarray] = MappingProxyType({}),
    ) -> None:
        """Adds one time step: columns [N, ...], each with the dtype and shape of the first.

        Args:
          more: columns that not every replay has.
        """
        # Copies: the envs write the next step into the same arrays. Each column by its name: a
        # loop over them takes three times as long.
        self._kept += (
            observation.tobytes(), action.tobytes(), reward.tobytes(), terminated.tobytes(),
            autoreset.tobytes(),
        )  # fmt: skip
        if legal is not None:
            self._kept.append(legal.tobytes())
        for column in more.values():
            self._kept.append(column.tobytes())
        self._last, self._more = (observation, action, reward, terminated, autoreset, legal), more
        self.count += 1

    def rows(self) -> Rows:
        """Returns all that wait, [count, N, ...]."""
        last = {name: c for name, c in zip(_NAMES, self._last, strict=True) if c is not None}
        last |= self._more
        return {
            name: np.frombuffer(b"".join(self._kept[i :: len(last)]), column.dtype).reshape(
                self.count, *column.shape
            )
            for i, (name, column) in enumerate(last.items())
        }
