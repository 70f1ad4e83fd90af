"""The loop: step the envs, say when to learn. One item per time step, for whoever watches.

Imports: agents.dqn, envs. Never the command line, the event files or the run directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from agents.dqn import DqnAgent, LearnStats
from envs import Envs, Episode, Step


class Tick(NamedTuple):
    """What one time step of all envs brought."""

    env_step: int  # transitions so far, over all envs
    episodes: tuple[Episode, ...]  # finished with this step
    stats: LearnStats | None  # of the last update, every `log_period` env steps
    actions: np.ndarray  # [N] taken
    step: Step  # what came of them; its arrays hold until the next tick


def training_loop(agent: DqnAgent, envs: Envs, state: LoopState | None = None) -> Iterator[Tick]:
    """Trains `agent` on `envs` for `config.env_steps` env steps, and counts in `state`.

    Between two items the run is at a safe point: live values may be set, the agent evaluated,
    the loop left for good.
    """
    config, live = agent.config, agent.hyperparameters
    state = state or LoopState()
    next_log = config.log_period
    step = envs.reset()
    while state.env_step < config.env_steps:
        actions = agent.step(step.observation, step.reward, step.terminated, step.autoreset)
        # Learning comes after storing, so a phase sees every env step that it counts.
        phases = state.clock.phases_due(state.new_steps, live["learn_period"])
        stats = None
        if phases and state.env_step >= config.learn_start:
            log_due = state.env_step >= next_log
            stats = agent.learn(phases * live["updates_per_learn"], stats=log_due)
            next_log += log_due * config.log_period
        step = envs.step(actions)
        state.count(envs.num_envs - int(np.count_nonzero(step.autoreset)))
        live.env_step = state.env_step
        yield Tick(state.env_step, step.episodes, stats, actions, step)


@dataclass
class LoopState:
    """How far a loop is: all that it knows beside the agent and the envs."""

    tick: int = 0  # time steps of all envs; the reset after an episode's end is one too
    env_step: int = 0  # transitions, over all envs
    new_steps: int = 0  # transitions of the last time step
    clock: LearnClock = field(default_factory=lambda: LearnClock())

    def count(self, new_steps: int) -> None:
        self.tick += 1
        self.new_steps = new_steps
        self.env_step += new_steps


class LearnClock:
    """Says how many learning phases are due, `learn_period` env steps apart.

    With many envs a time step may be several periods long; each of them is a phase.
    """

    def __init__(self) -> None:
        self.age = 0  # env steps since the last phase

    def phases_due(self, new_steps: int, period: int) -> int:
        # A period shortened below the present age makes one phase due, not a backlog of them.
        phases, self.age = divmod(min(self.age, period - 1) + new_steps, period)
        return phases
