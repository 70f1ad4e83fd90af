"""A run's checkpoints: taken between two time steps, written by a thread, and brought back.

Imports: agents.dqn, agents.rundir, rl_core.checkpoint, rl_core.replay.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from agents.config import DqnConfig
from agents.dqn import AgentState, DqnAgent
from rl_core.checkpoint.store import Checkpoint, CheckpointError, CheckpointStore, FileRecord
from rl_core.replay import Rows

_CHUNK_BYTES = 1 << 26
_NEWEST = "newest/"  # the newest time step, whose outcome is not known yet
Columns = dict[str, np.ndarray]


class Checkpoints:
    """Writes checkpoints of one agent.

    The training loop waits only for the copy of what is new; hashing, writing and syncing are
    another thread's. A checkpoint that cannot be written is a warning, and training goes on.

    Args:
      agent, store: whose, and where.
      warn: is told of a checkpoint that could not be written.
      resumed: the checkpoint that the agent was brought back from.
    """

    def __init__(
        self,
        agent: DqnAgent,
        store: CheckpointStore,
        warn: Callable[[str], None],
        resumed: Checkpoint | None = None,
    ) -> None:
        self._agent, self._store, self._warn = agent, store, warn
        self._config: DqnConfig = agent.config
        self._chunks = dict(resumed.chunks) if resumed else {}
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[dict[str, FileRecord]] | None = None
        self._next_time = self._after(self._config.checkpoint_seconds)
        env_step = resumed.host["loop"]["env_step"] if resumed else 0
        self._next_env_step = self._next_count(env_step)

    def due(self, env_step: int) -> bool:
        """Whether it is time for one."""
        return env_step >= self._next_env_step or time.monotonic() >= self._next_time

    def take(self, tick: int, env_step: int, host: Mapping[str, Any]) -> None:
        """Copies what is new and leaves the rest to the thread.

        If the one before is still being written, this one is left out.
        """
        self._next_time = self._after(self._config.checkpoint_seconds)
        self._next_env_step = self._next_count(env_step)
        if self._writing is not None and not self._writing.done():
            return
        self._collect()
        state = self._agent.state()
        chunks, rows, newest = self._new_rows()
        variables = state.variables | {_NEWEST + name: column for name, column in newest.items()}
        content = dict(host) | {"agent": state.host}
        self._writing = self._writer.submit(
            self._store.write, tick, variables, content, chunks, rows
        )

    def finish(self) -> None:
        """Waits until everything is on disk."""
        self._collect()
        self._writer.shutdown()

    def _collect(self) -> None:
        if self._writing is None:
            return
        try:
            self._chunks = self._writing.result()
        except CheckpointError as error:
            self._warn(f"no checkpoint: {error}")
        self._writing = None

    def _new_rows(self) -> tuple[dict[str, FileRecord], list[tuple[int, int, Columns]], Columns]:
        """Chunks that are still in the ring, those to be written, and the newest time step."""
        contents, replay = self._agent.contents, self._agent.replay
        written = contents.written()
        if not written:
            return {}, [], {}
        oldest = max(0, written - replay.steps)
        kept = {name: record for name, record in self._chunks.items() if _end(name) > oldest}
        begin = max(oldest, max(map(_end, kept), default=0))
        size = max(1, _CHUNK_BYTES * replay.steps // replay.nbytes)
        rows = []
        while begin < written - 1:
            end = min(begin + size, written - 1)
            rows.append((begin, end, self._columns(begin, end)))
            begin = end
        return kept, rows, self._columns(written - 1, written)

    def _columns(self, begin: int, end: int) -> Columns:
        contents = self._agent.contents
        pieces = [
            contents.time_steps(at, min(at + contents.chunk, end))
            for at in range(begin, end, contents.chunk)
        ]
        return {name: np.concatenate(c) for name, *c in zip(Rows._fields, *pieces, strict=True)}

    def _after(self, seconds: float) -> float:
        return time.monotonic() + seconds if seconds else math.inf

    def _next_count(self, env_step: int) -> float:
        period = self._config.checkpoint_steps
        return (env_step // period + 1) * period if period else math.inf


def restore_agent(agent: DqnAgent, checkpoint: Checkpoint, store: CheckpointStore) -> None:
    """Brings an agent back, its replay too.

    Raises:
      ScopeMismatch: the checkpoint is of another network.
      CheckpointError: a chunk is not what it was.
    """
    variables = dict(checkpoint.variables)
    newest = {n.removeprefix(_NEWEST): variables.pop(n) for n in [*variables] if _NEWEST in n}

    def pieces() -> Iterator[tuple[int, Rows]]:
        end = 0
        for name, record in checkpoint.chunks.items():
            begin, end, columns = store.rows(name, record)
            yield begin, Rows(**columns)
        if newest:
            yield end, Rows(**newest)

    agent.restore(AgentState(variables, checkpoint.host["agent"]), pieces())


def _end(chunk: str) -> int:
    return int(chunk.removesuffix(".safetensors").split("-")[1])
