"""Training and evaluating from end to end: make everything, and let a `Run` go through it.

Imports: agents, envs, rl_core. Not the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from rich.console import Console

from agents.config import DqnConfig
from agents.dqn import DqnAgent
from agents.evaluation import evaluate
from agents.interrupts import stop_on_interrupt
from agents.run import Outcome, Repeat, Run
from agents.rundir import RunDir, require_free
from agents.runner import Tick
from envs import Envs, make_envs


def train(
    config: DqnConfig,
    run: Path | str | None = None,
    *,
    name: str = "run",
    console: Console | None = None,
    on_start: Callable[[RunDir], None] | None = None,
    on_tick: Callable[[DqnAgent, Tick], None] | None = None,
    repeat: Repeat | None = None,
) -> Outcome:
    """Trains one agent and leaves config, curves, weights and result in a run directory.

    While it runs, `targetnet set`, the Steer tab and `on_tick` may change live values; every
    change is logged.

    Args:
      run: its directory; None takes the next number of `runs/<name>-<number>`.
      console: shows progress; None is silent.
      on_start: called once the directory exists and everything is built.
      on_tick: called after every time step of all envs; what it sets is logged.
      repeat: applies a recorded run's changes instead of new ones, without evaluating.

    Raises:
      RlCoreError: anything the user can mend, before anything is left on disk.
    """
    path = None if run is None else Path(run)
    if path is not None:
        require_free(path)
    envs = make_envs(
        config.env_id,
        config.num_envs,
        vectorization=config.vectorization,
        seed=config.seed,
        env_kwargs=config.env_kwargs,
    )
    try:
        agent = _agent_for(config, envs)
        directory = RunDir.create(path, name, config)
        if on_start:
            on_start(directory)
        with stop_on_interrupt() as stop:
            shown = console or Console(quiet=True)
            return Run(agent, directory, shown, stop, on_tick, repeat).go(envs)
    finally:
        envs.close()


def evaluate_weights(
    config: DqnConfig,
    weights: Mapping[str, np.ndarray],
    episodes: int,
    *,
    seed: int | None = None,
) -> list[float]:
    """Returns of a greedy policy given by its weights.

    Raises:
      ScopeMismatch: the weights are not of the config's network.
    """
    envs = make_envs(config.env_id, seed=config.seed, env_kwargs=config.env_kwargs)
    envs.close()
    agent = _agent_for(config, envs)
    agent.load_weights(weights)
    return evaluate(agent, config, episodes, seed=seed)


def _agent_for(config: DqnConfig, envs: Envs) -> DqnAgent:
    return DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
