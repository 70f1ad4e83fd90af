"""From the loop's ticks to TensorBoard curves.

Imports: agents.dqn, agents.runner, rl_core.events. Never envs.
"""

from __future__ import annotations

import time

import numpy as np

from agents.config_files import dump_config
from agents.dqn import DqnAgent
from agents.runner import Tick
from rl_core.events import EventWriter


class Reporter:
    """Writes one agent's curves.

    Episodes are written as they end; everything else once every `log_period` env steps.
    """

    def __init__(self, events: EventWriter, agent: DqnAgent) -> None:
        self._events, self._agent = events, agent
        self._next_log = agent.config.log_period
        self._last = (0, time.perf_counter())
        self.env_steps_per_second = 0.0
        events.hparams(agent.config.model_dump(mode="json"))
        events.text("run/config", f"```toml\n{dump_config(agent.config)}```", 0)

    def tick(self, tick: Tick) -> None:
        for episode in tick.episodes:
            self._events.scalars(
                {"episode/return": episode.episode_return, "episode/length": episode.length},
                tick.env_step,
            )
        if tick.stats is not None:
            self._write_learning(tick)
        if tick.env_step >= self._next_log:
            self._next_log += self._agent.config.log_period
            self._write_state(tick.env_step)

    def evaluation(self, returns: list[float], env_step: int) -> None:
        self._events.scalar("evaluation/return", float(np.mean(returns)), env_step)

    def pause_clock(self, seconds: float) -> None:
        """Leaves `seconds` (of evaluation, say) out of the speed."""
        self._last = (self._last[0], self._last[1] + seconds)

    def _write_learning(self, tick: Tick) -> None:
        stats = tick.stats
        assert stats is not None
        self._events.scalars(
            {
                "learn/loss": float(stats.loss),
                "learn/td_error_mean_abs": float(np.mean(np.abs(stats.td_error))),
                "learn/q_mean": float(stats.q_mean),
                "learn/q_max": float(stats.q_max),
                "learn/gradient_norm": float(stats.grad_norm),
            },
            tick.env_step,
        )
        self._events.histogram("learn/td_error", stats.td_error, tick.env_step)

    def _write_state(self, env_step: int) -> None:
        agent, live = self._agent, self._agent.hyperparameters
        state = agent.inspect()
        now = time.perf_counter()
        steps, seconds = env_step - self._last[0], now - self._last[1]
        self._last = (env_step, now)
        self.env_steps_per_second = steps / max(seconds, 1e-9)
        self._events.scalars(
            {
                "speed/env_steps_per_second": self.env_steps_per_second,
                "learn/updates": agent.updates,
                "live/epsilon": live["epsilon"],
                "live/learning_rate": live["learning_rate"],
                "live/sync_period": live["sync_period"],
                "live/arm": agent.freeze.arm,
                "target/age": state.target_age,
                "target/distance": state.divergence,
            },
            env_step,
        )
