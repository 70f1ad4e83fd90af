"""The plain loop: step the envs, say when to learn. One item per time step, for whoever watches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from agents.dqn.agent import DqnAgent, LearnStats
from envs import Envs, Episode, Step
from rl_core.errors import EnvFault


class Tick(NamedTuple):
    """What came between two safe points: one time step of all envs, or several.

    Several in loops that learn meanwhile (agents.loops.concurrent) or have no Python between their
    steps (agents.loops.compiled).
    """

    env_step: int  # transitions so far, over all envs
    episodes: tuple[Episode, ...]  # finished since the last tick
    ended_at: tuple[int, ...]  # env step after the time step that ended each episode
    stats: LearnStats | None  # of the last update, every `log_period` env steps
    actions: np.ndarray  # [N] taken in the last time step
    step: Step | None  # what came of them; its arrays hold until the next tick; None if compiled


def training_loop(agent: DqnAgent, envs: Envs, state: LoopState | None = None) -> Iterator[Tick]:
    """Trains `agent` on `envs` for `config.env_steps` env steps, and counts in `state`.

    Between two items the run is at a safe point: live values may be set, the agent evaluated,
    the loop left for good.
    """
    config, live = agent.config, agent.hyperparameters
    state = state or LoopState(next_log=config.log_period)
    live.env_step = state.env_step
    with telling_env_step(state):
        step = state.step or envs.reset()
        while state.env_step < config.env_steps:
            actions = agent.step(
                step.observation, step.reward, step.terminated, step.autoreset, legal=step.legal
            )
            # Learning comes after storing, so a phase sees every env step that it counts.
            phases = state.clock.phases_due(state.new_steps, live["learn_period"])
            stats = None
            if phases and state.env_step >= config.learn_start:
                log_due = state.env_step >= state.next_log
                stats = agent.learn(phases * live["updates_per_learn"], stats=log_due)
                state.next_log += log_due * config.log_period
            step = envs.step(actions)
            state.count(envs.num_envs - int(np.count_nonzero(step.autoreset)))
            live.env_step = state.env_step
            at = (state.env_step,) * len(step.episodes)
            yield Tick(state.env_step, step.episodes, at, stats, actions, step)


@contextmanager
def telling_env_step(state: LoopState) -> Iterator[None]:
    """Adds the run's env step to an env's fault within."""
    try:
        yield
    except EnvFault as fault:
        fault.add(before=f"at env step {state.env_step + fault.env_steps:,}, ")
        raise


@dataclass
class LoopState:
    """How far a loop is: all that it knows beside the agent and the envs."""

    tick: int = 0  # time steps of all envs; the reset after an episode's end is one too
    env_step: int = 0  # transitions, over all envs
    new_steps: int = 0  # transitions of the last time step
    next_log: int = 0  # env step from which on statistics are asked for
    due_updates: int = 0  # of a concurrent loop: to be made beside the next time steps
    clock: LearnClock = field(default_factory=lambda: LearnClock())
    step: Step | None = None  # to begin with; None resets the envs

    def position(self) -> dict[str, int]:
        """What of it decides how the run goes on."""
        counts = {"tick": self.tick, "env_step": self.env_step, "new_steps": self.new_steps}
        due = {"due_updates": self.due_updates} if self.due_updates else {}
        return counts | {"learn_age": self.clock.age} | due

    def counts(self) -> dict[str, Any]:
        """All of it as JSON has it; `step` is the envs' to bring back."""
        return self.position() | {"next_log": self.next_log}

    @classmethod
    def of(cls, counts: Mapping[str, Any], step: Step | None = None) -> LoopState:
        """From `counts`."""
        rest = {name: count for name, count in counts.items() if name != "learn_age"}
        return cls(**rest, clock=LearnClock(counts["learn_age"]), step=step)

    def count(self, new_steps: int) -> None:
        self.tick += 1
        self.new_steps = new_steps
        self.env_step += new_steps


class LearnClock:
    """Says how many learning phases are due, `learn_period` env steps apart.

    With many envs a time step may be several periods long; each of them is a phase.
    """

    def __init__(self, age: int = 0) -> None:
        self.age = age  # env steps since the last phase

    def phases_due(self, new_steps: int, period: int) -> int:
        # A period shortened below the present age makes one phase due, not a backlog of them.
        phases, self.age = divmod(min(self.age, period - 1) + new_steps, period)
        return phases
