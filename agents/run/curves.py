"""From the loop's ticks to TensorBoard curves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from agents.config.files import dump_config
from agents.dqn.agent import DqnAgent
from agents.loops.plain import Tick
from rl_core.control.log import Entry
from rl_core.control.retry import Retried
from rl_core.events import EventWriter
from rl_core.tags import control_tag


class Reporter:
    """Writes one agent's curves.

    Episodes are written as they end; everything else once every `log_period` env steps, and
    changes when they are made.

    Args:
      run: directory for the events.
      agent: whose.
      warn: is told, once, that the event file cannot be written; the curves wait in memory.
      state: of the reporter of the run that is resumed.

    Attributes:
      due: env step at which the state is to be logged.
      env_steps_per_second: since the last logging.
      episodes: finished so far.
      recent: tag -> (env step, value), the last point of every curve.

    Raises:
      RunDirError: the event file cannot be made.
    """

    def __init__(
        self,
        run: Path,
        agent: DqnAgent,
        warn: Callable[[str], None],
        state: Mapping[str, Any] | None = None,
    ) -> None:
        knobs = agent.hyperparameters.knobs.values()
        self._agent = agent
        tags = [control_tag(knob.name, knob.unit) for knob in knobs]
        after = state["env_step"] if state else -1
        self._writing = Retried(warn)
        self._events = events = EventWriter(
            run, more_tags=tags, after=after, on_failure=self._writing.failed
        )
        self._changed: set[str] = set()
        self.episodes = 0
        self.recent: dict[str, tuple[int, float]] = {}
        self.due = agent.config.log_period
        self.env_steps_per_second = 0.0
        env_step = 0
        if state:
            env_step, self.due, self.episodes = (
                state["env_step"], state["next_log"], state["episodes"],
            )  # fmt: skip
            self.recent = {tag: tuple(point) for tag, point in state["recent"].items()}
            self._changed = set(state["changed"])
        self._last = (env_step, time.perf_counter())
        if state:
            return
        events.hparams(agent.config.model_dump(mode="json"))
        events.text("run/config", f"```toml\n{dump_config(agent.config)}```", 0)

    def tick(self, tick: Tick) -> None:
        for episode, env_step in zip(tick.episodes, tick.ended_at, strict=True):
            self.episodes += 1
            self._scalars(
                {"episode/return": episode.episode_return, "episode/length": episode.length},
                env_step,
            )
        if tick.stats is not None:
            self._write_learning(tick)
        if tick.env_step >= self.due:
            self.due += self._agent.config.log_period
            self._write_state(tick.env_step)

    def evaluation(self, returns: list[float], averaged: list[float], env_step: int) -> None:
        """`averaged`: of the averaged weights, if there are any."""
        values = {"evaluation/return": float(np.mean(returns))}
        if averaged:
            values["evaluation/return_ema"] = float(np.mean(averaged))
        self._scalars(values, env_step)

    def control(self, entry: Entry) -> None:
        """What was changed or done: a text, and a step in the value's own curve."""
        if not entry.taken:
            return
        self._events.text("control/changes", f"{entry.describe()}, by {entry.who}", entry.env_step)
        if entry.kind == "set":
            self._step_in_curve(entry)
        self.flush()

    def state(self, env_step: int) -> dict[str, Any]:
        """What another one needs to go on from here, as JSON has it."""
        return {
            "env_step": env_step,
            "next_log": self.due,
            "episodes": self.episodes,
            # A copy: a thread writes it while the next points come.
            "recent": dict(self.recent),
            "changed": sorted(self._changed),
        }

    def flush(self) -> None:
        """What was written so far can be seen, unless the disk is full."""
        with self._writing.attempt():
            self._events.flush()

    def flush_all(self) -> None:
        """As `flush`, for who must know how long the file is.

        Raises:
          RunDirError: the file cannot be written.
        """
        self._events.flush()

    def close(self) -> None:
        """Brings every changed value's curve to the end of the run, and closes the file.

        Raises:
          RunDirError: the file cannot be written, and lacks points.
        """
        for name in sorted(self._changed):
            value = self._agent.hyperparameters[name]
            env_step = self._agent.hyperparameters.env_step
            self._events.scalar(f"control/{name}", as_number(value), env_step)
        self._events.close()

    def pause_clock(self, seconds: float) -> None:
        """Leaves `seconds` (of evaluation, say) out of the speed."""
        self._last = (self._last[0], self._last[1] + seconds)

    def _step_in_curve(self, entry: Entry) -> None:
        tag = f"control/{entry.name}"
        self._changed.add(entry.name)
        self._events.scalar(tag, as_number(entry.old), entry.env_step)
        self._events.scalar(tag, as_number(entry.new), entry.env_step)

    def _scalars(self, values: dict[str, float], env_step: int) -> None:
        self._events.scalars(values, env_step)
        self.recent.update({tag: (env_step, value) for tag, value in values.items()})

    def _write_learning(self, tick: Tick) -> None:
        stats = tick.stats
        assert stats is not None
        self._scalars(
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
        self._scalars(
            {
                "speed/env_steps_per_second": self.env_steps_per_second,
                "learn/updates": agent.updates,
                "live/epsilon": live["epsilon"],
                "live/learning_rate": live["learning_rate"],
                "live/sync_period": live["sync_period"],
                "live/arm": agent.learner.freeze.arm,
                "target/age": state.target_age,
                "target/distance": state.divergence,
            },
            env_step,
        )


def as_number(value: Any) -> float:
    """A live value as a point of a curve; of a set, how many it has."""
    return float(len(value)) if isinstance(value, list | frozenset) else float(value)
