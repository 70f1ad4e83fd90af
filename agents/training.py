"""One whole run: make everything, train, evaluate, save.

Imports: agents, envs, rl_core. Not the command line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from agents.config import DqnConfig
from agents.display import Display
from agents.dqn import DqnAgent
from agents.evaluation import evaluate
from agents.interrupts import StopRequest, stop_on_interrupt
from agents.reporting import Reporter
from agents.rundir import RunDir, require_free
from agents.runner import Tick, training_loop
from envs import Envs, make_envs
from rl_core.events import EventWriter
from rl_core.replay import format_bytes


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Attributes:
      run: its directory.
      returns: of the final greedy evaluation; empty if the run was interrupted.
      env_steps, updates: how far it came.
      interrupted: by Ctrl-C.
    """

    run: Path
    returns: list[float]
    env_steps: int
    updates: int
    interrupted: bool


def train(
    config: DqnConfig,
    run: Path | str | None = None,
    *,
    name: str = "run",
    console: Console | None = None,
    on_start: Callable[[RunDir], None] | None = None,
) -> Outcome:
    """Trains one agent and leaves config, curves, weights and result in a run directory.

    Args:
      run: its directory; None takes the next number of `runs/<name>-<number>`.
      console: shows progress; None is silent.
      on_start: called once the directory exists and everything is built.

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
            return _Training(agent, directory, console or Console(quiet=True), stop).run(envs)
    finally:
        envs.close()


class _Training:
    def __init__(
        self, agent: DqnAgent, directory: RunDir, console: Console, stop: StopRequest
    ) -> None:
        self.agent, self.config = agent, agent.config
        self.directory, self.stop = directory, stop
        self.display = Display(agent, console)
        self.env_step = 0

    def run(self, envs: Envs) -> Outcome:
        rows = self.agent.replay
        self.display.line(
            f"{self.directory.path}: {self.config.env_id}, replay of {rows.capacity:,} rows "
            f"({format_bytes(rows.nbytes)} once full)"
        )
        with EventWriter(self.directory.path) as events:
            reporter = Reporter(events, self.agent)
            try:
                with self.display:
                    self._train(envs, reporter)
            finally:
                # Whatever ended the loop, an env's exception too, what was learned is kept.
                saved = self.directory.save_weights(self.agent.weights())
                self.display.line(f"weights saved: {saved}")
            returns = self._final_evaluation(reporter)
        return Outcome(
            self.directory.path, returns, self.env_step, self.agent.updates, bool(self.stop)
        )

    def _train(self, envs: Envs, reporter: Reporter) -> None:
        next_evaluation = self.config.eval_period
        for tick in training_loop(self.agent, envs):
            self._show(tick, reporter)
            if tick.env_step >= next_evaluation and tick.env_step < self.config.env_steps:
                next_evaluation += self.config.eval_period
                self._evaluate(self.config.eval_episodes, reporter)
            if self.stop:
                self.display.line(f"interrupted at env step {tick.env_step:,}")
                return

    def _show(self, tick: Tick, reporter: Reporter) -> None:
        self.env_step = tick.env_step
        reporter.tick(tick)
        self.display.tick(tick, reporter.env_steps_per_second)

    def _evaluate(self, episodes: int, reporter: Reporter) -> list[float]:
        begin = time.perf_counter()
        returns = evaluate(self.agent, self.config, episodes, stop=self.stop)
        reporter.pause_clock(time.perf_counter() - begin)
        if self.stop:
            return []
        reporter.evaluation(returns, self.env_step)
        self.display.line(
            f"env step {self.env_step:,}: greedy return {np.mean(returns):,.1f} "
            f"(mean of {episodes} episodes, {min(returns):,.1f} to {max(returns):,.1f})"
        )
        return returns

    def _final_evaluation(self, reporter: Reporter) -> list[float]:
        if self.stop:
            return []
        returns = self._evaluate(self.config.final_eval_episodes, reporter)
        if returns:
            self.directory.save_result(
                {"env_steps": self.env_step, "updates": self.agent.updates, **summary(returns)}
            )
        return returns


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


def summary(returns: list[float]) -> dict[str, float]:
    """Episodes, mean, std, min and max."""
    return {
        "episodes": len(returns),
        "mean": float(np.mean(returns)),
        "std": float(np.std(returns)),
        "min": float(np.min(returns)),
        "max": float(np.max(returns)),
    }
