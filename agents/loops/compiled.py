"""The compiled loop: one call into the graph makes a chunk of many time steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from targetnet.agents.dqn.agent import DqnAgent, LearnStats
from targetnet.agents.dqn.compiled import Chunk, DivergedInChunk, LoopCounts
from targetnet.agents.loops.plain import NO_ACTIONS, LoopState, Tick, TracedSteps
from targetnet.envs import Envs, Episode


class DivergedInLoop(DivergedInChunk):
    """The same error for whoever watches the loop.

    Attributes:
      tick: of what was made before.
    """

    def __init__(self, error: DivergedInChunk, tick: Tick) -> None:
        super().__init__(str(error), error.chunk)
        self.tick = tick


def compiled_loop(agent: DqnAgent, envs: Envs, state: LoopState | None = None) -> Iterator[Tick]:
    """Trains like `training_loop`, but yields one tick per chunk of `chunk` time steps.

    A chunk ends where the count of time steps is a multiple of `chunk`. Live values and schedules
    are read only when a chunk begins, so a resumed or replayed run sees the same values.
    """
    config, live = agent.config, agent.hyperparameters
    state = LoopState.of_run(config, state)
    longest = longest_chunk(agent)
    assert agent.chunks is not None
    while state.env_step < config.env_steps:
        live.env_step = state.env_step
        updates = agent.updates
        try:
            chunk = agent.chunks.run(_counts(state), longest - state.tick % longest)
        except DivergedInChunk as error:
            raise DivergedInLoop(error, _tick(error.chunk, state, None)) from error
        logs = agent.updates > updates and state.takes_stats(config.log_period)
        stats = LearnStats(*chunk.stats) if logs else None
        tick = _tick(chunk, state, stats)
        live.env_step = state.env_step
        yield tick


def _tick(chunk: Chunk, state: LoopState, stats: LearnStats | None) -> Tick:
    """Adds a chunk to the counts in `state` and returns its tick."""
    made = int(chunk.time_steps)
    env_steps = np.concatenate([[state.env_step], chunk.env_steps[:made]])
    state.tick += made
    state.env_step, state.new_steps = int(chunk.counts.env_step), int(chunk.counts.new_steps)
    state.clock.age = int(chunk.counts.learn_age)
    traced = TracedSteps(chunk.checksums[:made], env_steps)
    return Tick(state.env_step, *_episodes(chunk), stats, NO_ACTIONS, None, traced)


def _episodes(chunk: Chunk) -> tuple[tuple[Episode, ...], tuple[int, ...]]:
    """Returns the episodes that ended in a chunk, and the env step after the end of each."""
    lengths = chunk.lengths[: int(chunk.time_steps)]
    when, where = np.nonzero(lengths)
    ended = lengths[when, where]
    columns = (where, _numbers(chunk, where), chunk.returns[when, where], np.abs(ended), ended > 0)
    # Many envs end thousands of episodes per second, and lists are faster than arrays here.
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(Episode(*row) for row in rows), tuple(chunk.env_steps[when].tolist())


def _numbers(chunk: Chunk, where: np.ndarray) -> np.ndarray:
    """Returns the number of each episode within its env; `where` has their envs, in time order."""
    order = np.argsort(where, kind="stable")
    envs = where[order]
    numbers = np.empty_like(where)
    # Counted from the first of the same env, then from the last, whose number is known.
    numbers[order] = np.arange(len(where)) - np.searchsorted(envs, envs)
    return numbers + (chunk.finished - np.bincount(where, minlength=len(chunk.finished)))[where]


def longest_chunk(agent: DqnAgent) -> int:
    """Returns the number of time steps of a full chunk."""
    assert agent.chunks is not None
    return agent.chunks.longest


def _counts(state: LoopState) -> LoopCounts:
    return LoopCounts(*map(np.int64, (state.env_step, state.new_steps, state.clock.age)))
