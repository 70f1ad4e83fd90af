"""The offline loop: it makes updates from rows that are there, and steps no env."""

from __future__ import annotations

from collections.abc import Iterator

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.loops.plain import NO_ACTIONS, LoopState, Tick
from targetnet.envs import Envs


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
