"""Keeps a run's trace: a checksum of every time step, taken from the replay or from chunks."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.loops.plain import TracedSteps
from targetnet.agents.saved.host import TracePosition
from targetnet.rl_core.control.records import TraceFile
from targetnet.rl_core.digest import checksums
from targetnet.rl_core.files import RetryLater
from targetnet.rl_core.replay import Rows

# (index of the first time step, its checksums [T], env steps after each [T]).
Compare = Callable[[int, np.ndarray, np.ndarray], None]

_CHUNKS_AT_ONCE = 4


class NullTracer:
    """The trace of a run that has no time steps, because it learns from a dataset."""

    due, crc = math.inf, None

    def position(self) -> TracePosition:
        """The length of the trace: none."""
        return TracePosition(0, 0)

    def update(self, tick: int, traced: TracedSteps | None = None) -> None:
        """Does nothing: no rows are new."""

    def close(self) -> None:
        """Does nothing: there is no file."""


class Tracer:
    """Writes the trace of one run.

    Args:
      agent: its replay has the time steps.
      path: of the trace file.
      warn: shows one line if the file cannot be written; what it lacks is kept in memory.
      compare: called with new checksums.
      position: where the trace goes on; what the file has beyond it is dropped.
      stride: most time steps between two calls of `update`.

    Attributes:
      due: the tick at which `update` has to be called, before rows are overwritten.
    """

    def __init__(
        self,
        agent: DqnAgent,
        path: Path,
        warn: Callable[[str], None],
        compare: Compare | None = None,
        position: TracePosition = TracePosition(0, 0),  # noqa: B008 - immutable
        stride: int = 1,
    ) -> None:
        self._agent, self._compare = agent, compare
        self._before = agent.config.demonstration_steps  # that the ring had before the first one
        # As rarely as possible: a rare call finds none of its code and data in the caches.
        contents, compiled = agent.state.contents, agent.chunks is not None
        most = 1 if compiled else agent.replay.steps - stride
        self._period = max(1, min(_CHUNKS_AT_ONCE * contents.chunk, most))
        self._done, self._env_step, crc = position
        self.due = self._done + self._period + 1
        self._file = TraceFile(path, self._done, crc)
        self._writing = RetryLater(warn)
        self._shown: np.ndarray | None = None  # [1] part of the newest row, where chunks trace
        if compiled and contents.written() > self._before:
            self._shown = self._newest_shown()

    def position(self) -> TracePosition:
        """The length of the trace on disk.

        Raises:
          RunDirError: the file lacks checksums, and cannot be written.
        """
        self._file.write()
        return TracePosition(self._done, self._env_step, self._file.crc)

    @property
    def crc(self) -> int:
        """CRC-32 of all checksums so far, written yet or not."""
        return self._file.crc

    def update(self, tick: int, traced: TracedSteps | None = None) -> None:
        """Takes in the time steps whose outcome is known; `tick` were made so far.

        Args:
          traced: of the chunk that made the last ones; None: the replay still has their rows.
        """
        if traced is not None:
            self._take(traced)
        while self._done < tick - 1:
            begin, end = self._done, min(self._done + self._period, tick - 1)
            rows = self._rows(begin, end)
            transitions = np.count_nonzero(~rows["autoreset"], axis=1)  # [T]
            env_steps = self._env_step + np.cumsum(transitions)
            self._add(checksums([*rows.values()]), env_steps)
        with self._writing.attempt():
            self._file.write()
        # One more: the outcome of the newest time step is not known.
        self.due = self._done + self._period + 1

    def _take(self, traced: TracedSteps) -> None:
        """Takes in a chunk, and the time step before it, whose outcome came with it."""
        parts, env_steps = traced
        if not len(parts):
            return
        shown, outcome = parts.T
        if self._shown is None:
            outcome, env_steps = outcome[1:], env_steps[1:]
        else:
            shown = np.concatenate([self._shown, shown])
        self._shown = shown[-1:]
        self._add(shown[:-1] + outcome, env_steps[:-1])

    def _newest_shown(self) -> np.ndarray:
        of_outcome = self._agent.replay.rows.ring.of_outcome
        rows = self._rows(self._done, self._done + 1).items()
        return checksums([np.zeros_like(c) if name in of_outcome else c for name, c in rows])

    def _rows(self, begin: int, end: int) -> Rows:
        contents = self._agent.state.contents
        return contents.time_steps(self._before + begin, self._before + end)

    def _add(self, new: np.ndarray, env_steps: np.ndarray) -> None:
        if not len(new):
            return
        self._file.append(new)
        begin, self._done = self._done, self._done + len(new)
        self._env_step = int(env_steps[-1])
        if self._compare:
            self._compare(begin, new, env_steps)

    def close(self) -> None:
        """Writes the checksums that the file lacks, and closes it.

        Raises:
          RunDirError: it cannot be written.
        """
        try:
            self._file.write()
        finally:
            self._file.close()
