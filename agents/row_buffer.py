"""Rows that wait until some are stored at once.

Imports: rl_core.replay. Never envs.
"""

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
        self._columns: list[list[bytes]] = [[] for _ in Rows._fields]

    def put(self, *row: np.ndarray | None) -> None:
        """One time step: the columns of `Rows`, [N, ...] each; all of them like the first."""
        self._last = row
        self.count += 1
        # Copies: the envs write the next step into the same arrays.
        for column, values in zip(self._columns, row, strict=False):
            if values is not None:
                column.append(values.tobytes())

    def rows(self) -> Rows:
        """What is in it, [count, N, ...]."""
        columns = (
            None
            if values is None
            else np.frombuffer(b"".join(column), values.dtype).reshape(-1, *values.shape)
            for column, values in zip(self._columns, self._last, strict=False)
        )
        return Rows(*columns)
