"""Carries out the commands that one run takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.sync_rule import next_sync
from targetnet.agents.loops.plain import LoopState
from targetnet.agents.run.process import StopRequest
from targetnet.rl_core.control.changes import Refused
from targetnet.rl_core.control.commands import words_of
from targetnet.rl_core.control.log import Entry
from targetnet.rl_core.control.log_writer import Position
from targetnet.rl_core.control.state import RunStatus
from targetnet.rl_core.control.timetable import PBT


@dataclass
class RunControl:
    """One run, as its `Steering` sees it (targetnet.rl_core.control.changes.SteerableRun).

    It knows the agent, the loop's counts and a few callables, not the run: several agents in one
    process can each have one, and are then steered one by one.

    Attributes:
      agent, state: what the commands act on.
      say: shows one line; called from any thread.
      show: draws a command that was answered into the curves.
      progress: gives the fields of RunState that come from the curves.
      checkpoint: takes a checkpoint now.
      copy: gives the agent what another member of its population has learned.
      interrupt: true once a signal has asked for the end.
      repeats: "repeats runs/cartpole-1"; None if the run is no repeat. A repeat takes no checkpoint
        and does not evaluate.
      evaluations_asked: evaluations that are still to be made; whoever makes one counts it down.
      snapshot_tick: time step of the last snapshot that a change has caused.
      paused, evaluating, stop_asked: the run stands still, evaluates, has to end.
      waits_for: the members for which it waits, in words; None if it does not wait.
      training_over: no command but `stop` is taken any more.
    """

    agent: DqnAgent
    state: LoopState
    say: Callable[[str], None]
    show: Callable[[Entry], None]
    progress: Callable[[], Mapping[str, Any]]
    checkpoint: Callable[[], None]
    copy: Callable[[Any], None]
    interrupt: StopRequest = field(default_factory=StopRequest)
    repeats: str | None = None
    evaluations_asked: int = 0
    snapshot_tick: int | None = None
    paused: bool = False
    evaluating: bool = False
    stop_asked: bool = False
    waits_for: str | None = None
    training_over: bool = False

    @property
    def stopped(self) -> bool:
        """True once a command or a signal has asked for the end."""
        return self.stop_asked or self.interrupt.signal > 0

    @property
    def position(self) -> Position:
        """The counts now."""
        return Position(self.state.tick, self.state.env_step, self.agent.updates)

    def do(self, action: str, value: Any = None) -> tuple[Any, Any]:
        """Carries out an action; returns what it changed, before and after.

        Raises:
          RlCoreError: it cannot be done now.
        """
        if self.training_over and action != "stop":
            raise Refused(f"cannot {action}: the training of this run is over")
        match action:
            case "sync":
                age = self.agent.learner.target_age
                self.agent.sync()
                return age, 0
            case "snapshot":
                self.agent.state.snapshot()
            case "rewind":
                return self.agent.updates, self.agent.state.rewind(value or 1)
            case "reset" | "perturb" | "recycle":
                return self._renew(action, value)
            case "copy":
                self.changed()
                self.copy(value)
            case "checkpoint" | "evaluate" if self.repeats:
                raise Refused(f"cannot {action}: this run repeats another one")
            case "checkpoint":
                self.checkpoint()
            case "evaluate":
                self.evaluations_asked += 1
            case "pause" | "resume":
                self._pause(action == "pause")
            case "stop":
                self.stop_asked = True
        return None, None

    def changed(self) -> None:
        """Takes a snapshot before a change is felt; one for several changes at a time step."""
        if self.agent.config.past_states and self.snapshot_tick != self.state.tick:
            self.snapshot_tick = self.state.tick
            self.agent.state.snapshot()

    def warn(self, text: str) -> None:
        """Shows one line; safe from any thread."""
        self.say(text)

    def answered(self, entry: Entry) -> None:
        """Shows a command that was answered, in the curves and on the terminal."""
        self.show(entry)
        if entry.who != PBT:  # all of an exchange is one line, of the population
            self.say(f"{entry.describe()}, by {entry.who}")

    def report(self) -> Mapping[str, Any]:
        """The fields of RunState that Steering does not know."""
        config, progress = self.agent.config, self.progress()
        speed = progress["env_steps_per_second"]
        left = max(0, config.env_steps - self.state.env_step)
        return {
            "status": self._status(),
            "env_id": config.env_id,
            "env_steps": config.env_steps,
            "eta_seconds": left / speed if speed else None,
            **self._target(),
            "note": self.repeats or self.waits_for,
            **progress,
        }

    def _target(self) -> dict[str, Any]:
        """The target's age, and what copies it next."""
        live, learner = dict(self.agent.hyperparameters), self.agent.learner
        if learner.watch is None:
            age = learner.target_age
            then = None if age is None else f"at age {live['sync_period']:,}"
            return {"target_age": age, "next_copy": then}
        reading = learner.watch.read()
        return {"target_age": reading.age, "next_copy": next_sync(live, reading)}

    def _renew(self, action: str, value: Any) -> tuple[Any, Any]:
        number, block = words_of(action, value)
        weight_resets = self.agent.weight_resets
        weight_resets.check(action, block)  # first: a refused one takes no snapshot
        self.changed()
        if action == "reset":
            weight_resets.reset(block)
            return None, None
        assert number is not None
        if action == "perturb":
            weight_resets.perturb(number, block)
            return None, None
        return weight_resets.recycle(number, block)

    def _pause(self, paused: bool) -> None:
        if paused == self.paused:
            raise Refused(f"the run is {'' if paused else 'not '}paused")
        self.paused = paused

    def _status(self) -> RunStatus:
        if self.evaluating:
            return "evaluating"
        return "paused" if self.paused else "running"
