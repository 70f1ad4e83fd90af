"""Turns the loop's ticks into curves, and gives them to the sinks; copies and histograms too."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from targetnet.agents.config.files import dump_config
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.sync_rule import SyncCursor
from targetnet.agents.dqn.target import SyncEvent
from targetnet.agents.loops.evaluation import Returns
from targetnet.agents.loops.plain import Tick
from targetnet.agents.run.clock import Speed, TrainingClock
from targetnet.agents.saved.host import ReporterPart
from targetnet.agents.sinks.choice import open_sinks
from targetnet.agents.sinks.group import SinkGroup
from targetnet.agents.sinks.interface import OwnSink, SinkStart
from targetnet.rl_core.board.tags import TAGS, Tag, gradients_tag, live_tag, weights_tag
from targetnet.rl_core.control.log import Entry
from targetnet.rl_core.control.population import copy_of
from targetnet.rl_core.graph.picture import picture
from targetnet.rl_core.hyperparameters import Hyperparameters
from targetnet.rl_core.schedules import next_multiple


class Histograms:
    """Reports histograms of one agent's weights and gradients.

    It reads both and changes nothing: the gradients are of the batch that the next update draws,
    and numbers that are drawn for an update do not depend on how often they are.

    Args:
      agent: whose weights and gradients these are.
      points: take them.
    """

    def __init__(self, agent: DqnAgent, points: SinkGroup) -> None:
        self._agent, self._points = agent, points

    def write_if_due(self, before: int, due: int, env_step: int) -> None:
        """Reports them if their period ends between two points of the curves.

        Args:
          before, due: env steps at which the point before and this one were due.
          env_step: env step now.
        """
        period = self._agent.hyperparameters["histograms"]
        # Periods are counted from env step 0, so a resumed run needs to know nothing else.
        if period and due // period > before // period:
            self._write(env_step)

    def _write(self, env_step: int) -> None:
        agent = self._agent
        for name, weights in agent.state.weights().items():
            self._points.histogram(weights_tag(name).name, weights, env_step)
        if agent.updates:
            agent.acting.flush()  # the next update's batch may have rows that still wait
            for name, gradient in agent.learner.gradients.read().items():
                self._points.histogram(gradients_tag(name).name, gradient, env_step)


def histogram_tags(agent: DqnAgent) -> tuple[Tag, ...]:
    """Returns the tags of all histograms of weights and gradients."""
    names = agent.learner.gradients.names
    return (*map(weights_tag, names), *map(gradients_tag, names))


_PER_POINT = 10  # copies that are drawn for each point of other curves


class CopyCurves:
    """Draws the age of the target at each copy, unless the last one is too near.

    Args:
      agent: whose target it is.
      points: take the curves.
      looked: of the one before, if the run is resumed.

    Attributes:
      looked: when a rule's copies were last looked for; None without a rule.
    """

    def __init__(
        self, agent: DqnAgent, points: SinkGroup, looked: SyncCursor | None = None
    ) -> None:
        self._learner, self._points = agent.learner, points
        self._apart = max(1, agent.config.log_period // _PER_POINT)
        self.looked = looked

    @property
    def due(self) -> float:
        """Env step of the next look for a rule's copies."""
        if self._learner.watch is None:
            return math.inf
        return self.looked.env_step + self._apart if self.looked else 0

    def tick(self, env_step: int) -> None:
        """Draws the copies that were made up to this env step, at which the agent is now if due."""
        if env_step >= self.due:
            # Of a copy that a rule has made Python is not told.
            watch = self._learner.watch
            assert watch is not None
            self.looked, found = watch.look(env_step, self._learner.updates, self.looked)
            if found:
                self._learner.clock.syncs.append(SyncEvent(*found))
        self.draw()

    def draw(self) -> None:
        """Draws the copies of which Python knows."""
        copies, tag = self._learner.clock.syncs, "target/age"
        while copies:
            env_step, age = copies.popleft()
            if env_step >= self._points.last.get(tag, (-self._apart, 0.0))[0] + self._apart:
                self._points.scalars({tag: age}, env_step)

    def state(self, live: dict[str, float]) -> dict[str, float]:
        """Returns what the present point of other curves has besides: tag -> value.

        Args:
          live: `sync_growth` and `sync_fit`, as far as they have an effect.
        """
        watch = self._learner.watch
        if watch is None:
            return {}
        numbers, values = watch.read().numbers, {}
        if live.get("sync_growth"):
            values["target/period"] = numbers.period
        if live.get("sync_fit") and numbers.error_after:
            values["target/fit"] = numbers.error / numbers.error_after
        return values


_ALWAYS = ("epsilon", "learning_rate", "sync_period")  # live values whose curves are always there


class Reporter:
    """Reports one agent's curves to the sinks of its run.

    Episodes are reported as they end; everything else once every `log_period` env steps, and
    changes when they are made.

    Args:
      run: directory of the run.
      agent: whose curves these are.
      warn: shows one line, when a sink begins to fail.
      state: of the reporter before, if the run is resumed.
      clock: of the training; by default a new one.
      sinks: of the program's own, beside those of the config.

    Attributes:
      episodes: finished so far.

    Raises:
      RunDirError: the event file cannot be made.
    """

    def __init__(
        self,
        run: Path,
        agent: DqnAgent,
        warn: Callable[[str], None],
        state: ReporterPart | None = None,
        clock: TrainingClock | None = None,
        sinks: Sequence[OwnSink] = (),
    ) -> None:
        knobs = agent.hyperparameters.knobs
        always = {tag.name for tag in TAGS}
        tags = tuple(live_tag(knob.name, knob.unit) for knob in knobs.values())
        tags = tuple(tag for tag in tags if tag.name not in always) + histogram_tags(agent)
        after = state.env_step if state else -1
        drawing = functools.partial(picture, [*agent.acting.drawn, *agent.learner.drawn])
        self._agent = agent
        opened = open_sinks(SinkStart(run, agent.config, tags, after, warn, drawing), sinks)
        self._points = SinkGroup(opened, state.recent if state else None)
        self._histograms = Histograms(agent, self._points)
        looked = SyncCursor(*state.looked) if state and state.looked else None
        self._copies = CopyCurves(agent, self._points, looked)
        self._scheduled = _scheduled(agent.hyperparameters)
        self._changed: set[str] = set()
        self.episodes = 0
        self._next_log = agent.config.log_period
        env_step = 0
        if state:
            env_step, self._next_log, self.episodes = state.env_step, state.next_log, state.episodes
            self._changed = set(state.changed)
        self._speed = Speed(clock or TrainingClock(), env_step, agent.updates)
        if not state:
            self._points.text("run/config", f"```toml\n{dump_config(agent.config)}```", 0)

    @property
    def due(self) -> float:
        """Env step of the next tick that has to be reported at once: it reads the agent."""
        return min(self._next_log, self._copies.due)

    @property
    def recent(self) -> dict[str, tuple[int, float]]:
        """Tag -> (env step, value): the last point of every curve."""
        return self._points.last

    def speed(self, env_step: int) -> float:
        """Returns the env steps per second up to this env step, at which the run is now."""
        return self._speed.at(env_step)

    def tick(self, tick: Tick) -> None:
        """Reports one tick of the loop."""
        self._copies.tick(tick.env_step)
        for episode, env_step in zip(tick.episodes, tick.ended_at, strict=True):
            self.episodes += 1
            self._points.scalars(
                {"episode/return": episode.episode_return, "episode/length": episode.length},
                env_step,
            )
        if tick.stats is not None:
            self._write_learning(tick)
        if tick.env_step >= self._next_log:
            # A tick may have more env steps than a period.
            period, before = self._agent.config.log_period, self._next_log
            self._next_log = next_multiple(tick.env_step, period)
            self._write_state(tick.env_step)
            self._histograms.write_if_due(before - period, self._next_log - period, tick.env_step)

    def evaluation(self, returns: Returns, averaged: Returns, env_step: int) -> None:
        """Reports mean returns; `averaged` are those of the averaged weights, if there are any."""
        values = {
            "evaluation/return": float(np.mean(returns)),
            "evaluation/length": float(np.mean(returns.lengths)),
        }
        if averaged:
            values["evaluation/return_ema"] = float(np.mean(averaged))
        self._points.scalars(values, env_step)

    def result(self, values: Mapping[str, float], env_step: int) -> None:
        """Reports the result of a run that came to its end."""
        self._points.result(values, env_step)

    def control(self, entry: Entry) -> None:
        """Reports a command that was taken: a text, and a step in the value's curve."""
        if not entry.taken:
            return
        self._points.text("control/changes", f"{entry.describe()}, by {entry.who}", entry.env_step)
        if entry.kind == "do" and entry.name == "copy":
            copied = copy_of(entry.value).member
            self._points.scalars({"population/copied": float(copied[1:])}, entry.env_step)
        # A schedule's way is in its curve already.
        if entry.kind == "set" and entry.who != "schedule":
            self._step_in_curve(entry)
        self.flush()

    def state(self, env_step: int) -> ReporterPart:
        """The state from which another reporter goes on here."""
        return ReporterPart(
            env_step=env_step,
            next_log=self._next_log,
            episodes=self.episodes,
            recent=self.recent,
            changed=sorted(self._changed),
            looked=self._copies.looked,
        )

    def flush(self) -> None:
        """Shows what was reported so far, unless the disk is full."""
        self._points.flush()

    def flush_all(self) -> None:
        """Flushes before a checkpoint is taken, which tells the length of the event file.

        Raises:
          RunDirError: the event file cannot be written.
        """
        self._copies.draw()  # a command may have made one since the last tick
        self._points.flush_all()

    def close(self) -> None:
        """Brings every changed value's curve to the end of the run, and closes the sinks.

        Raises:
          RunDirError: the event file cannot be written, and lacks points.
        """
        live = self._agent.hyperparameters
        for name in sorted(self._changed):
            self._points.extend(f"live/{name}", live.env_step, plotted_number(live[name]))
        self._points.close()

    def _step_in_curve(self, entry: Entry) -> None:
        tag, live = f"live/{entry.name}", self._agent.hyperparameters
        old, new = plotted_number(entry.old), plotted_number(entry.new)
        if entry.name not in self._changed and not live.is_scheduled(entry.name):
            self._points.extend(tag, 0, old)
        self._changed.add(entry.name)
        # Where the curve has a point here already, its next one shows the change: of two points at
        # one env step TensorBoard shows the second, and a slope before it.
        self._points.extend(tag, entry.env_step - 1, old)
        self._points.extend(tag, entry.env_step, new)

    def _write_learning(self, tick: Tick) -> None:
        stats = tick.stats
        assert stats is not None
        self._points.scalars(
            {
                "learn/loss": float(stats.loss),
                "learn/td_error_mean_abs": float(np.mean(np.abs(stats.td_error))),
                "learn/q_mean": float(stats.q_mean),
                "learn/q_max": float(stats.q_max),
                "learn/gradient_norm": float(stats.grad_norm),
            },
            tick.env_step,
        )
        self._points.histogram("learn/td_error", stats.td_error, tick.env_step)

    def _write_state(self, env_step: int) -> None:
        agent, live, state = self._agent, self._agent.hyperparameters, self._agent.inspect()
        env_steps, updates = self._speed.point(env_step, agent.updates)
        values = {
            "speed/env_steps_per_second": env_steps,
            "speed/updates_per_second": updates,
            "learn/updates": agent.updates,
            "live/arm": agent.learner.freeze.arm,
        } | self._copies.state(dict(live))
        drawn = {*_ALWAYS, *self._scheduled, *self._changed}
        if state.target_age is None:  # there is no target network
            drawn.discard("sync_period")
        else:
            values["target/distance"] = state.divergence
        for name in sorted(drawn & live.keys()):
            if self._points.ends_before(f"live/{name}", env_step):
                values[f"live/{name}"] = plotted_number(live[name])
        self._points.scalars(values, env_step)


def _scheduled(live: Hyperparameters) -> tuple[str, ...]:
    """Returns the live values with a schedule; the curve of `exempt` is live/arm."""
    return tuple(name for name in live if live.is_scheduled(name) and name != "exempt")


def plotted_number(value: Any) -> float:
    """A live value as a point of a curve: a number, or the size of a set."""
    return float(len(value)) if isinstance(value, list | frozenset) else float(value)
