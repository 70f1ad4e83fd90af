"""Episodes of a dataset side by side, as several envs would have shown them."""

from __future__ import annotations

import numpy as np

Columns = dict[str, np.ndarray]


class EpisodeStreams:
    """Deals episodes out whole to streams of rows, one for each env.

    Each goes to the stream that is shortest so far, and of several such to the first. What a stream
    has beyond the shortest one is never taken: its last episode is cut off there.

    Args:
      num_envs: N.

    Attributes:
      lengths: rows that each stream was dealt.
    """

    def __init__(self, num_envs: int) -> None:
        self.lengths = [0] * num_envs
        self._waiting: list[Columns] = [{} for _ in range(num_envs)]

    @property
    def time_steps(self) -> int:
        """Rows of each stream, cut to the length of the shortest one."""
        return min(self.lengths)

    def deal(self, length: int) -> int:
        """Counts an episode of so many rows, and returns the number of its stream."""
        shortest = self.lengths.index(self.time_steps)
        self.lengths[shortest] += length
        return shortest

    def put(self, rows: Columns) -> None:
        """Deals out the rows of an episode, arrays [L, ...]."""
        stream = self.deal(len(rows["action"]))
        before = self._waiting[stream]
        self._waiting[stream] = (
            {name: np.concatenate([before[name], column]) for name, column in rows.items()}
            if before
            else rows
        )

    def waiting(self) -> int:
        """Time steps that can be taken."""
        return min(len(rows["action"]) if rows else 0 for rows in self._waiting)

    def take(self, time_steps: int) -> Columns:
        """Returns the next time steps of all streams, arrays [time_steps, N, ...]."""
        taken = [{n: c[:time_steps] for n, c in rows.items()} for rows in self._waiting]
        self._waiting = [{n: c[time_steps:] for n, c in rows.items()} for rows in self._waiting]
        return {name: np.stack([rows[name] for rows in taken], axis=1) for name in taken[0]}
