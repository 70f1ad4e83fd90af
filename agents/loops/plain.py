"""The plain loop: one thread steps envs and makes updates in turn. Offline, updates alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent, LearnStats
from targetnet.envs import Envs, Episode, Step
from targetnet.rl_core.arguments import require_a
from targetnet.rl_core.errors import EnvFault
from targetnet.rl_core.schedules import next_multiple

NO_ACTIONS = np.zeros(0, np.int32)  # of a tick, where Python steps no envs


class TracedSteps(NamedTuple):
    """Trace of T time steps that a chunk has made."""

    parts: np.ndarray  # [T, 2] uint32 of their checksums, as `Chunk.checksums` has them
    env_steps: np.ndarray  # [T + 1] int64, before the first and after each


class Tick(NamedTuple):
    """Results of the time steps between two safe points.

    The plain loop has one time step per tick; the others may have several.
    """

    env_step: int  # transitions so far, over all envs
    episodes: tuple[Episode, ...]  # finished since the last tick
    ended_at: tuple[int, ...]  # env step after the time step that ended each episode
    stats: LearnStats | None  # statistics of the last update, once every `log_period` env steps
    actions: np.ndarray  # [N], of the last time step; empty where Python steps no envs
    step: Step | None  # result of `actions`, valid until the next tick; None if they are empty
    traced: TracedSteps | None = None  # of a chunk; None: the replay still has the rows


def training_loop(agent: DqnAgent, envs: Envs, state: LoopState | None = None) -> Iterator[Tick]:
    """Trains `agent` on `envs` for `config.env_steps` env steps; yields one tick per time step.

    At each tick the run is at a safe point: the caller may set live values, evaluate the agent or
    leave the loop.

    Args:
      agent: the agent.
      envs: the envs to train on.
      state: where to begin; the loop keeps its counts there. None begins a new run.
    """
    _require_agent_and_envs(agent, envs)
    config, live = agent.config, agent.hyperparameters
    state = LoopState.of_run(config, state)
    live.env_step = state.env_step
    with telling_env_step(state):
        step = state.step or envs.reset()
        while state.env_step < config.env_steps:
            actions = agent.step(
                step.observation, step.reward, step.terminated, step.autoreset, legal=step.legal
            )
            # Learn after storing, so that a phase can sample every env step that it counts.
            stats = state.learn(agent, state.updates_due(config, live))
            step = envs.step(actions)
            state.count(envs.num_envs - int(np.count_nonzero(step.autoreset)))
            live.env_step = state.env_step
            at = (state.env_step,) * len(step.episodes)
            yield Tick(state.env_step, step.episodes, at, stats, actions, step)


def _require_agent_and_envs(agent: DqnAgent, envs: Envs) -> None:
    # By an attribute and not by the class: any agent and envs with the same methods will do.
    if not hasattr(agent, "hyperparameters"):
        require_a(DqnAgent, "agent", agent, "a DqnAgent")
    if not hasattr(envs, "num_envs"):
        require_a(Envs, "envs", envs, "what make_envs returns")


@contextmanager
def telling_env_step(state: LoopState) -> Iterator[None]:
    """Adds the run's env step to the message of an env's fault."""
    try:
        yield
    except EnvFault as fault:
        fault.add(before=f"at env step {state.env_step + fault.env_steps:,}, ")
        raise


@dataclass
class LoopState:
    """Progress of a loop: all its state outside the agent and the envs."""

    tick: int = 0  # time steps of all envs; a reset after an episode's end counts as one
    env_step: int = 0  # transitions so far, over all envs
    new_steps: int = 0  # transitions of the last time step
    next_log: int = 0  # env step at which the next statistics are due
    due_updates: int = 0  # updates of the next phase, where they are made while the envs step
    clock: LearnClock = field(default_factory=lambda: LearnClock())
    step: Step | None = None  # result of the last env step; None: the loop resets the envs

    @classmethod
    def of_run(cls, config: DqnConfig, state: LoopState | None) -> LoopState:
        """Returns `state`; for None, that of a run that begins."""
        return state or cls(next_log=config.log_period)

    def position(self) -> dict[str, int]:
        """Returns the counts that decide how the run continues."""
        counts = {"tick": self.tick, "env_step": self.env_step, "new_steps": self.new_steps}
        due = {"due_updates": self.due_updates} if self.due_updates else {}
        return counts | {"learn_age": self.clock.age} | due

    def counts(self) -> dict[str, Any]:
        """Returns all counts, ready for JSON; the envs restore `step` themselves."""
        return self.position() | {"next_log": self.next_log}

    @classmethod
    def of(cls, counts: Mapping[str, Any], step: Step | None = None) -> LoopState:
        """Builds the state from the result of `counts`."""
        rest = {name: count for name, count in counts.items() if name != "learn_age"}
        return cls(**rest, clock=LearnClock(counts["learn_age"]), step=step)

    def updates_due(self, config: DqnConfig, live: Mapping[str, Any]) -> int:
        """Returns how many updates are due; asks the clock, so call it once at each time step."""
        if config.rollout:
            # The first time step only shows where the envs begin.
            rollouts = self.clock.phases_due(min(self.tick, 1), config.rollout)
            return rollouts * config.updates_per_rollout
        phases = self.clock.phases_due(self.new_steps, live["learn_period"])
        return updates_of(phases, self.env_step, config, live)

    def learn(self, agent: DqnAgent, due: int) -> LearnStats | None:
        """Makes the updates that are due; returns statistics where a point of the curves is due."""
        if not due:
            return None
        return agent.learn(due, stats=self.takes_stats(agent.config.log_period))

    def takes_stats(self, log_period: int) -> bool:
        """Says whether updates that are made now give statistics; then the next are a period on."""
        due = self.env_step >= self.next_log
        if due:
            self.next_log = next_multiple(self.env_step, log_period)
        return due

    def count(self, new_steps: int) -> None:
        """Adds one time step, which had `new_steps` transitions."""
        self.tick += 1
        self.new_steps = new_steps
        self.env_step += new_steps


def updates_of(phases: int, env_step: int, config: DqnConfig, live: Mapping[str, Any]) -> int:
    """Returns the updates of so many learning phases at an env step; 0 before `learn_start`."""
    if not phases or env_step < config.learn_start:
        return 0
    return phases * int(live["updates_per_learn"])


class LearnClock:
    """Counts env steps, or with rollouts time steps, and tells how many learning phases are due.

    Phases are `learn_period` env steps apart. With many envs one time step may be several periods
    long; then several phases are due.
    """

    def __init__(self, age: int = 0) -> None:
        self.age = age  # env steps since the last phase

    def phases_due(self, new_steps: int, period: int) -> int:
        """Adds `new_steps` env steps; returns how many phases are due now."""
        # If the period is shortened below the age, one phase is due, not a backlog.
        phases, self.age = divmod(min(self.age, period - 1) + new_steps, period)
        return phases


def offline_loop(agent: DqnAgent, envs: Envs, state: LoopState | None = None) -> Iterator[Tick]:
    """Trains like `training_loop`, but its env steps are only a clock.

    Nothing is acted on and nothing is stored. After each env step of the clock the updates are made
    that would be due then, so `learn_period`, `updates_per_learn`, schedules, and all periods in
    env steps mean what they mean in other loops.
    """
    config, live = agent.config, agent.hyperparameters
    state = LoopState.of_run(config, state)
    live.env_step = state.env_step
    while state.env_step < config.env_steps:
        stats = state.learn(agent, state.updates_due(config, live))
        state.count(1)
        live.env_step = state.env_step
        yield Tick(state.env_step, (), (), stats, NO_ACTIONS, None)
