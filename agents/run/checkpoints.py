"""Checkpoints, taken between two time steps and written by a thread; what a run's end saves.

Saved: the variables (`AgentState`), and with them the newest time step and the weights of actors'
requests; what Python knows (`RunHost`), and of the agent (`AgentPart`) its updates, the position in
the freeze schedule and the live values that were set; the rows of the replay, in files that
checkpoints share. Made again: Adam's moments in the form of loops, random keys, sums over
priorities, the queue of valid rows, the target's age in Python, a rollout's returns and its order.
In the run's directory alone: config, log, trace and curves, whose lengths are saved. Not kept: an
env's own state, as its actions are played again and a vector env begins anew; `pause`; what
`on_tick` or a network of the user's own remembers. A controller's `memory` is kept.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.state import SavedAgent
from targetnet.agents.remote.run_actors import actors_part, requested_weights, split_variables
from targetnet.agents.saved.directory import EndDigest
from targetnet.agents.saved.host import (
    NEWEST,
    LogPart,
    LoopPart,
    ResumeMoment,
    RunHost,
    read_host,
    split_newest,
)
from targetnet.rl_core.checkpoint.store import (
    Checkpoint,
    CheckpointError,
    CheckpointStore,
    FileRecord,
    chunk_end,
)
from targetnet.rl_core.control.steering import Due
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.files import RetryLater
from targetnet.rl_core.replay import Rows
from targetnet.rl_core.schedules import next_multiple

if TYPE_CHECKING:
    from targetnet.agents.run.run import RunParts

_CHUNK_BYTES = 1 << 26
_PENDING = "envs/reward"  # of envs in the graph: not in the replay yet
Columns = dict[str, np.ndarray]
_Rows = tuple[int, int, Columns]  # of the time steps begin to end


class Checkpoints:
    """Writes checkpoints of one agent.

    The training loop waits only until the small variables are copied. Another thread reads the
    new rows of the replay, hashes, writes and syncs. If a checkpoint cannot be written, a line says
    so and training goes on.

    Args:
      agent: whose state is kept.
      store: where.
      warn: shows one line about a checkpoint that could not be written.
      resumed: where the run goes on; None if it is new.
      stored_at_once: time steps that one call stores, at most.

    Attributes:
      due: when the next one is to be taken.
      last_env_step: env step of the last one on disk; None if there is none.
    """

    def __init__(
        self,
        agent: DqnAgent,
        store: CheckpointStore,
        warn: Callable[[str], None],
        resumed: ResumeMoment | None = None,
        stored_at_once: int = 1,
    ) -> None:
        self._agent, self._store, self._retried = agent, store, RetryLater(warn)
        # Asked for once: asking stores rows that wait, which only the loop's thread may do.
        self._contents, self._at_once = agent.state.contents, stored_at_once
        self._config: DqnConfig = agent.config
        self._chunks = dict(resumed.checkpoint.chunks) if resumed else {}
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[dict[str, FileRecord]] | None = None
        self.last_env_step = resumed.host.loop.env_step if resumed else None
        self._writing_env_step = 0
        self.due = self._after(self.last_env_step or 0)

    def is_due(self, env_step: int) -> bool:
        """Says if it is time for the next one."""
        return env_step >= self.due.env_step or time.monotonic() >= self.due.time

    def put_off(self, env_step: int, error: RunDirError) -> None:
        """Leaves out the one of `env_step`, of which a part cannot be written."""
        self.due = self._after(env_step)
        self._retried.failed(RunDirError(f"no checkpoint: {error}"))

    def take(
        self,
        tick: int,
        env_step: int,
        host: RunHost,
        files: Sequence[Path] = (),
        more: Mapping[str, np.ndarray] = MappingProxyType({}),
        *,
        score: float | None = None,
        must: bool = False,
    ) -> None:
        """Copies the state that will change, and leaves the rest to the thread.

        Args:
          host: kept beside the agent.
          files: synced first, because `host` tells their present lengths.
          more: arrays beside the agent's variables.
          score: of an evaluation that was just made.
          must: waits if the one before is still being written; without it, this one is left out.
        """
        self.due = self._after(env_step)
        if not must and self._writing is not None and not self._writing.done():
            return
        self._collect()
        state = self._agent.state.read()
        newest = {}
        written = self._contents.written()
        if written:
            columns = self._columns(written - 1, written)
            newest = {NEWEST + name: column for name, column in columns.items()}
        kept, begin = self._kept_chunks(written)
        rows = self._new_rows(begin, max(begin, written - 1))
        too_late = 2 * (written - begin + self._at_once) > self._agent.replay.steps
        # The ring would overwrite them before they are read; or others use the graph meanwhile.
        at_once = too_late or self._agent.takes_turns
        rows = iter(list(rows)) if at_once else self._while_there(rows)
        self._writing_env_step = env_step
        self._writing = self._writer.submit(
            self._write, files, tick, {**state.variables, **newest, **more},
            host.model_dump() | {"agent": state.host}, kept, rows, score,
        )  # fmt: skip

    def finish(self) -> None:
        """Waits until everything is on disk."""
        self._collect()
        self._writer.shutdown()

    def _write(self, files: Sequence[Path], *content: Any) -> dict[str, FileRecord]:
        for path in files:
            with path.open("rb") as file:
                os.fsync(file.fileno())
        return self._store.write(*content)

    def _collect(self) -> None:
        if self._writing is None:
            return
        try:
            self._chunks = self._writing.result()
            self.last_env_step = self._writing_env_step
            self._retried.failing = False
        except OSError as error:
            self._retried.failed(RunDirError(f"no checkpoint: {error}"))
        self._writing = None

    def _kept_chunks(self, written: int) -> tuple[dict[str, FileRecord], int]:
        """The chunks whose rows are still in the ring, and the time step where new rows begin."""
        oldest = max(0, written - self._agent.replay.steps)
        kept = {name: record for name, record in self._chunks.items() if chunk_end(name) > oldest}
        return kept, max(oldest, max(map(chunk_end, kept), default=0))

    def _new_rows(self, begin: int, end: int) -> Iterator[_Rows]:
        replay = self._agent.replay
        size = max(1, _CHUNK_BYTES * replay.steps // replay.nbytes)
        for first in range(begin, end, size):
            last = min(first + size, end)
            yield first, last, self._columns(first, last)

    def _while_there(self, rows: Iterator[_Rows]) -> Iterator[_Rows]:
        for first, last, columns in rows:
            # The call into the graph that now runs may have overwritten these rows already.
            if self._contents.written() + self._at_once - first > self._agent.replay.steps:
                raise CheckpointError("the disk is slower than the replay is overwritten")
            yield first, last, columns

    def _columns(self, begin: int, end: int) -> Columns:
        contents = self._contents
        pieces = [
            contents.time_steps(at, min(at + contents.chunk, end))
            for at in range(begin, end, contents.chunk)
        ]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def _after(self, env_step: int) -> Due:
        """The moment of the next one, if one was taken now at `env_step`."""
        period, seconds = self._config.checkpoint_steps, self._config.checkpoint_seconds
        at = next_multiple(env_step, period) if period else math.inf
        return Due(math.inf, at, time.monotonic() + seconds if seconds else math.inf)


def restore_agent(agent: DqnAgent, checkpoint: Checkpoint, store: CheckpointStore) -> None:
    """Brings an agent and its replay back.

    Raises:
      ScopeMismatch: the checkpoint comes from another network.
      CheckpointError: a chunk is not what it was, or the host state is damaged.
    """
    (variables, _), host = split_variables(checkpoint.variables), read_host(checkpoint)
    variables, newest = split_newest(variables)
    if not host.raw_rewards and _PENDING in variables:
        variables[_PENDING] = _as_paid(variables[_PENDING], agent)

    def pieces() -> Iterator[tuple[int, Rows]]:
        end = 0
        for name, record in checkpoint.chunks.items():
            begin, end, columns = store.rows(name, record)
            if not host.raw_rewards:
                columns["reward"] = _as_paid(columns["reward"], agent)
            yield begin, columns
        if newest:
            yield end, newest

    agent.state.restore(SavedAgent(variables, host.agent.model_dump()), pieces())


def _as_paid(reward: np.ndarray, agent: DqnAgent) -> np.ndarray:
    """Returns rewards that were stored scaled as the env paid them; what was clipped stays so."""
    return reward / np.float32(agent.hyperparameters.configured("reward_scale"))


@dataclass
class RunSaver:
    """Saves one run.

    Attributes:
      parts: of the run.
      checkpoints: writes them.
      weights: file that they were saved in; None before the end.
    """

    parts: RunParts
    checkpoints: Checkpoints
    weights: Path | None = None

    def checkpoint(self, *, score: float | None = None, must: bool = False) -> None:
        """Takes a checkpoint now.

        Args:
          score: of an evaluation that was just made.
          must: waits for the one that is being written; else this one is left out then.
        """
        state = self.parts.control.state
        self.parts.tracer.update(state.tick)
        try:
            host = self._host()
        except RunDirError as error:
            self.checkpoints.put_off(state.env_step, error)
            return
        files = [self.parts.directory.path / name for name in host.events]
        files += [self.parts.directory.control.trace, self.parts.directory.control.arrivals]
        there = [path for path in files if path.exists()]
        weights = requested_weights(self.parts.envs)
        self.checkpoints.take(
            state.tick, state.env_step, host, there, weights, score=score, must=must
        )

    def end(self, *, whole: bool) -> str:
        """Saves the weights and the digest, and returns the digest.

        Args:
          whole: training ended between two time steps.
        """
        state, agent = self.parts.control.state, self.parts.agent
        # After an exception in a concurrent phase some time steps are not stored.
        stored = agent.state.contents.written() - agent.config.demonstration_steps
        self.parts.tracer.update(min(state.tick, stored))
        self.weights = self.parts.directory.save_weights(agent.state.weights())
        averaged = agent.state.averaged_weights()
        if averaged is not None:
            self.parts.directory.save_weights(averaged, averaged=True)
        digest = agent.state.digest(**state.position())
        end = EndDigest(
            digest=digest, tick=state.tick, env_step=state.env_step, update=agent.updates,
            trace_crc=self.parts.tracer.crc, whole=whole,
            live={name: agent.hyperparameters[name] for name in agent.config.live},
        )  # fmt: skip
        self.parts.directory.save_digest(end)
        return digest

    def kept(self) -> str:
        """The end of an error's line: the files that are saved of a run that an env has ended."""
        self.checkpoints.finish()
        env_step = self.checkpoints.last_env_step
        weights = f"; saved: {self.weights} (update {self.parts.agent.updates:,})"
        if env_step is None:
            return f"{weights}; there is no checkpoint: resume begins again"
        return f"{weights} and the checkpoint of env step {env_step:,}, where resume goes on"

    def _host(self) -> RunHost:
        """The host state now.

        Raises:
          RunDirError: a file cannot be written whose length it tells.
        """
        state = self.parts.control.state
        # The log comes first: commands that it answers are shown in the curves.
        log = self.parts.steering.log_state()
        self.parts.reporter.flush_all()
        return RunHost(
            loop=LoopPart(**state.counts()),
            next_evaluation=self.parts.evaluations.due,
            evaluations_asked=self.parts.control.evaluations_asked,
            seconds=self.parts.clock.seconds,
            snapshot_tick=self.parts.control.snapshot_tick,
            recent_returns=list(self.parts.display.recent_returns),
            trace=self.parts.tracer.position(),
            log=LogPart(**log),
            events={p.name: p.stat().st_size for p in self.parts.directory.event_files()},
            reporter=self.parts.reporter.state(state.env_step),
            raw_rewards=True,
            # Before the first time step there is nothing to come back to.
            envs=self.parts.envs.state() if state.tick else None,
            actors=actors_part(self.parts.envs) if state.tick else None,
            controller=self.parts.controller.part(),
        )
