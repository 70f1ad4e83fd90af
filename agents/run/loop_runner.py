"""The loop of a run, and the work that is due between its time steps."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.loops.choice import loop_of
from targetnet.agents.loops.compiled import DivergedInLoop
from targetnet.agents.loops.plain import Tick
from targetnet.agents.run.display import Look
from targetnet.agents.run.evaluations import next_due
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.log import Entry
from targetnet.rl_core.control.records import Arrival
from targetnet.rl_core.control.steering import Due

if TYPE_CHECKING:
    from targetnet.agents.run.run import RunParts

OnTick = Callable[[DqnAgent, Tick], bool | None]  # False stops the run
_PAUSE_SECONDS = 0.05  # between two looks into the inbox while paused
_MEETING_SECONDS = 0.005  # between two looks for the others of an exchange


class Repeat(Protocol):
    """A recorded run that is run again."""

    directory: RunDir
    note: str  # "repeats runs/cartpole-1"
    script: list[Entry]
    arrivals: list[Arrival]  # in whose order actors that ran freely delivered
    end_tick: int  # where it ended
    failed: bool  # an env or diverging learning ended it

    def compare(self, first: int, checksums: np.ndarray, env_steps: np.ndarray) -> None:
        """Takes in the trace of some time steps, from index `first` on."""

    @property
    def is_over(self) -> bool:
        """True once the rest of the repeat cannot change the verdict."""


class Scheduler(Protocol):
    """Lets several runs go on in one thread."""

    def give(self) -> None:
        """Lets the others go on; returns when it is this run's turn again."""

    def rest(self, seconds: float) -> None:
        """Leaves so many seconds to the others."""


class NoScheduler:
    """The turns of a run that has its thread to itself."""

    rest = staticmethod(time.sleep)

    def give(self) -> None:
        pass


@dataclass
class LoopRunner:
    """Runs the loop until the run ends, is stopped, or fails.

    Attributes:
      look: asked for a line about ticks, see `Display.watched`.
      on_tick: called after every tick of the loop; False stops the run there.
      repeat: a recorded run that is run again, without checkpoints and evaluations.
      parts: of the run.
    """

    parts: RunParts
    look: Look
    on_tick: OnTick | None
    repeat: Repeat | None
    _news: deque[Tick] = field(default_factory=deque)  # not shown yet

    def run(self) -> None:
        """Trains, and shows what was made, whatever ends it."""
        try:
            self._run()
        except DivergedInLoop as error:
            self._news.append(error.tick)
            self.parts.tracer.update(self.parts.state.tick, error.tick.traced)
            raise
        finally:
            self.parts.exchanges.leave()
            self._show_news()

    def _run(self) -> None:
        if not self._safe_point():
            return
        self._do_what_is_due()  # a checkpoint may have been taken before it was done
        self._serve_while_halted()  # a command may have come meanwhile
        self._let_others_act()
        if self.parts.control.stopped:
            return
        next_tick, next_env_step, next_time = self._next_due()
        agent, state, on_tick = self.parts.agent, self.parts.state, self.on_tick
        news, control, interrupt = self._news, self.parts.control, self.parts.control.interrupt
        now, give_turn = time.monotonic, self.parts.scheduler.give
        ticks = loop_of(agent.config)(agent, self.parts.envs, state)
        for tick in self.parts.display.watched(ticks, self.look):
            # Asking every part at each time step, even by one call, costs some percent. Therefore
            # they say beforehand when they have something to do, and finished episodes wait until
            # then too: each point by itself would find nothing in the caches.
            is_due = state.tick >= next_tick or tick.env_step >= next_env_step or now() >= next_time
            if is_due or tick.episodes or tick.stats is not None:
                news.append(tick)
            if is_due:
                if state.tick >= self.parts.tracer.due:
                    self.parts.tracer.update(state.tick, tick.traced)
                self._show_news()
            goes_on = not is_due or self._safe_point()
            # After the safe point: the log puts values set here behind the commands taken there.
            if on_tick:
                answer = on_tick(agent, tick)
                # A comparison of NumPy's numbers gives NumPy's own False.
                if answer is False or answer is np.False_:
                    self.parts.steering.stop()
                    goes_on = False
            if not goes_on:
                if self.repeat:  # the run that it repeats may have ended right after them
                    self._let_others_act()
                return
            if is_due:
                self._do_what_is_due()
                self._serve_while_halted()
                self._let_others_act()
                next_tick, next_env_step, next_time = self._next_due()
            # A stop may have come meanwhile, say during an evaluation.
            if interrupt.signal or (is_due and control.stop_asked):
                return
            give_turn()

    def _next_due(self) -> Due:
        """The moment at which the first of all parts has something to do."""
        steering, checkpoints = self.parts.steering.due, self.parts.saver.checkpoints.due
        exchange = self.parts.exchanges.due
        shown = min(self.parts.reporter.due, self.parts.display.due, exchange.env_step)
        if self.repeat:
            end = min(self.parts.tracer.due, self.repeat.end_tick, exchange.tick)
            return Due(min(steering.tick, end), min(steering.env_step, shown), steering.time)
        return Due(
            min(steering.tick, self.parts.tracer.due),
            min(
                steering.env_step,
                shown,
                checkpoints.env_step,
                self.parts.evaluations.due,
                self.parts.controller.due,
            ),
            min(steering.time, checkpoints.time),
        )

    def _do_what_is_due(self) -> None:
        """Evaluates or takes a checkpoint, if it is time."""
        env_step, config = self.parts.state.env_step, self.parts.agent.config
        if self.repeat:
            return
        if self.parts.evaluations.due <= env_step < config.env_steps:
            returns = self.parts.evaluations.make(config.eval_episodes)
            if returns:
                # Only now: an interrupted evaluation is made again after a resume.
                self.parts.evaluations.due = next_due(config, env_step)
                self.parts.saver.checkpoint(score=float(np.mean(returns)), must=True)
        elif self.parts.saver.checkpoints.is_due(env_step):
            self.parts.saver.checkpoint()

    def _let_others_act(self) -> None:
        """Asks the controller and takes part in an exchange, if these are due here or recorded."""
        parts = self.parts
        if parts.control.stopped:
            return
        if parts.controller.due <= parts.state.env_step < parts.agent.config.env_steps:
            parts.steering.apply_decisions(parts.controller.decide())
            self._serve_while_halted()
        self._exchange()

    def _exchange(self) -> None:
        """Takes part in an exchange with other members, if one is due here, or is recorded."""
        control = self.parts.control
        if control.stopped:
            return
        if self.parts.exchanges.arrive():
            self.parts.reporter.flush()
            while self.parts.exchanges.waits():
                with self.parts.clock.stopped():
                    self.parts.scheduler.rest(_MEETING_SECONDS)
                    self.parts.steering.safe_point()
                self._serve_while_halted()
                if control.stopped:
                    return
        if self.parts.steering.due.tick <= self.parts.state.tick:
            self.parts.steering.exchange()
            self._serve_while_halted()

    def _show_news(self) -> None:
        while self._news:
            tick = self._news.popleft()
            self.parts.reporter.tick(tick)
            self.parts.display.tick(tick, self.parts.reporter.speed)

    def _safe_point(self) -> bool:
        """Takes commands at a safe point, and waits while paused; False if the run is over."""
        self.parts.steering.safe_point()
        self._serve_while_halted()
        if self.parts.control.stopped:
            return False
        if self.repeat:
            return self.parts.state.tick < self.repeat.end_tick and not self.repeat.is_over
        return True

    def _serve_while_halted(self) -> None:
        """Makes the evaluations that were asked for, and takes commands while paused."""
        control = self.parts.control
        if control.paused or control.evaluations_asked:
            self.parts.reporter.flush()
        while (control.paused or control.evaluations_asked) and not control.stopped:
            if control.evaluations_asked:
                # Only a finished one counts: an interrupted one is made after a resume.
                returns = self.parts.evaluations.make(self.parts.agent.config.eval_episodes)
                control.evaluations_asked -= bool(returns)
                continue
            with self.parts.clock.stopped():
                self.parts.scheduler.rest(_PAUSE_SECONDS)
                self.parts.steering.poll()
