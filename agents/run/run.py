"""One run in progress: the loop, its evaluations and files, and what may be asked of it."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console

from agents.config.model import DqnConfig
from agents.dqn.agent import DqnAgent
from agents.dqn.choosing import Policy
from agents.dqn.diverging import DivergedInChunk
from agents.loops.choice import LOOPS, longest_tick
from agents.loops.evaluation import Returns, cut_note, evaluate
from agents.loops.plain import LoopState, Tick
from agents.run.checkpoints import Checkpoints
from agents.run.curves import Reporter
from agents.run.directory import EndDigest, RunDir
from agents.run.quiet import Startup
from agents.run.signals import StopRequest
from agents.run.terminal import Display
from agents.run.trace import Tracer
from envs import Envs, Step
from rl_core.checkpoint.store import Checkpoint, CheckpointStore
from rl_core.control.files import RunLock
from rl_core.control.log import Entry, entries_to_do
from rl_core.control.state import Status
from rl_core.control.steering import Due, Position, Refused, Steering
from rl_core.errors import Diverged, EnvFault, RunDirError
from rl_core.replay import format_bytes

_PAUSE_SECONDS = 0.05  # between two looks into the inbox while paused


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Attributes:
      run: its directory.
      returns: of the final greedy evaluation; empty if the run was stopped before.
      env_steps, updates: how far it came.
      digest: of the agent when training ended.
      signal: that ended it early, SIGINT or SIGTERM; 0 if none did.
    """

    run: Path
    returns: list[float]
    env_steps: int
    updates: int
    digest: str
    signal: int

    @property
    def interrupted(self) -> bool:
        return self.signal > 0


class Repeat(Protocol):
    """A recorded run that is to be run again."""

    note: str  # "repeats runs/cartpole-1"
    script: list[Entry]
    end_tick: int  # where it ended
    failed: bool  # whether an env or diverging learning ended it

    def compare(self, first: int, checksums: np.ndarray, env_steps: np.ndarray) -> None:
        """Takes in the trace of some time steps, from index `first` on."""

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to find out."""


class Run:
    """One agent's training; also what its `Steering` acts on.

    Args:
      agent, envs: new, or brought back; whoever made the envs closes them.
      directory: of the run.
      console: shows progress.
      interrupt: true once Ctrl-C was pressed.
      on_tick: called after every time step of all envs.
      repeat: a recorded run to be run again; takes no other changes, and does not evaluate.
      resumed: the checkpoint that agent and files were brought back from.
      step: where the envs are then.
      lock: of the directory, if it is held already.
      startup: what it took to get here, to be shown.
    """

    def __init__(
        self,
        agent: DqnAgent,
        envs: Envs,
        directory: RunDir,
        console: Console,
        interrupt: StopRequest,
        on_tick: Callable[[DqnAgent, Tick], None] | None = None,
        repeat: Repeat | None = None,
        resumed: Checkpoint | None = None,
        step: Step | None = None,
        lock: RunLock | None = None,
        startup: Startup | None = None,
    ) -> None:
        self._agent, self._envs, self._config = agent, envs, agent.config
        self._directory, self._interrupt = directory, interrupt
        self._on_tick, self._repeat = on_tick, repeat
        self._display = Display(agent, console, startup)
        host = resumed.host if resumed else _new_host(self._config)
        self._state = LoopState.of(host["loop"], step)
        agent.hyperparameters.env_step = self._state.env_step
        self._next_evaluation = host["next_evaluation"]
        self._snapshot_tick = host["snapshot_tick"]
        self._display.recent_returns.extend(host["recent_returns"])
        self._paused = self._evaluating = self._stop_asked = self._training_over = False
        self._whole = False  # whether training ended between two time steps
        self._evaluations_asked = host.get("evaluations_asked", 0)
        self._seconds_before, self._began = host.get("seconds", 0.0), time.perf_counter()
        self._reporter = Reporter(directory.path, agent, self.warn, host["reporter"])
        self._news: deque[Tick] = deque()  # not shown yet
        files = directory.control
        files.make()
        compare = None if repeat is None else repeat.compare
        stride = longest_tick(agent)
        self._tracer = Tracer(agent, files.trace, self.warn, compare, host["trace"], stride)
        script = entries_to_do(files.log, host["log"]) if repeat is None else repeat.script
        self._steering = Steering(
            agent.hyperparameters, files, self, script, repeats=repeat is not None, lock=lock
        )
        store = CheckpointStore(directory.checkpoints, self._config.checkpoint_keep)
        self._checkpoints = Checkpoints(
            agent, store, self.warn, resumed, max(stride, agent.acting.waiting_at_most)
        )

    def go(self) -> Outcome:
        """Trains, saves, evaluates."""
        rows = self._agent.replay
        what = self._repeat.note if self._repeat else self._directory.path
        self._display.line(
            f"{what}: {self._config.env_id}, replay of {rows.capacity:,} rows "
            f"({format_bytes(rows.nbytes)} once full)"
        )
        if not self._envs.has_time_limit and not self._repeat:
            self._display.line(
                f"{self._config.env_id} is registered without a time limit: an episode may last "
                f"for ever; an evaluation cuts it after {self._config.eval_max_steps:,} env steps "
                "(eval_max_steps); for a limit: --set env_kwargs={max_episode_steps=1000}"
            )
        ended: Status = "failed"
        returns: list[float] = []
        try:
            try:
                with self._display:
                    try:
                        self._train()
                    except DivergedInChunk as error:
                        self._news.append(error.tick)
                        raise
                    finally:
                        self._show_news()
                    if self._stopped():
                        by = "interrupted" if self._interrupt else "stopped"
                        self._display.line(f"{by} at env step {self._state.env_step:,}")
                self._whole = True
            finally:
                # Whatever ended the loop, an env's exception too, what was learned is kept.
                digest = self._keep()
            returns = self._final_evaluation()
            ended = self._how_it_ended()
        except (EnvFault, Diverged) as fault:
            if self._repeat is None:
                if isinstance(fault, EnvFault):
                    fault.add(after=self._what_is_kept())
                raise
            if not self._repeat.failed:  # else it came to the same end
                raise
        finally:
            # Each of them, also when one before cannot write: last of all the lock is let go of.
            with contextlib.ExitStack() as last:
                last.callback(self._steering.close)
                last.callback(lambda: self._steering.publish(ended))
                last.callback(self._tracer.close)
                last.callback(self._reporter.close)
                last.callback(self._checkpoints.finish)
        return Outcome(
            self._directory.path,
            returns,
            self._state.env_step,
            self._agent.updates,
            digest,
            self._interrupt.signal,
        )

    # The loop.

    def _train(self) -> None:
        if not self._goes_on():
            return
        self._do_what_is_due()  # a checkpoint may have been taken before it was done
        next_tick, next_env_step, next_time = self._next_due()
        agent, state, on_tick = self._agent, self._state, self._on_tick
        news, interrupt, now = self._news, self._interrupt, time.monotonic
        for tick in self._display.watched(LOOPS[self._config.loop](agent, self._envs, state)):
            # To ask everybody at each time step, and be it by one call more, costs some percent.
            # So do episodes, each of whose points finds nothing in the caches: they wait.
            is_due = state.tick >= next_tick or tick.env_step >= next_env_step or now() >= next_time
            if is_due or tick.episodes or tick.stats is not None:
                news.append(tick)
            if is_due:
                if state.tick >= self._tracer.due:
                    self._tracer.update(state.tick)
                self._show_news()
            goes_on = not is_due or self._goes_on()
            # After the safe point: what is set here comes after what is taken there.
            if on_tick:
                on_tick(agent, tick)
            if not goes_on:
                return
            if is_due:
                self._do_what_is_due()
                next_tick, next_env_step, next_time = self._next_due()
            # While it evaluated, say: the evaluation is made when it goes on.
            if interrupt.signal or (is_due and self._stop_asked):
                return

    def _next_due(self) -> Due:
        """When any of all that go by time steps, env steps or the clock has something to do."""
        steering, checkpoints = self._steering.due, self._checkpoints.due
        shown = min(self._reporter.due, self._display.due)
        if self._repeat:
            end = min(self._tracer.due, self._repeat.end_tick)
            return Due(min(steering.tick, end), min(steering.env_step, shown), steering.time)
        return Due(
            min(steering.tick, self._tracer.due),
            min(steering.env_step, shown, checkpoints.env_step, self._next_evaluation),
            min(steering.time, checkpoints.time),
        )

    def _do_what_is_due(self) -> None:
        env_step = self._state.env_step
        if self._repeat:
            return
        if self._next_evaluation <= env_step < self._config.env_steps:
            returns = self._evaluate(self._config.eval_episodes)
            if returns:
                # Not before: a run that is left meanwhile evaluates when it goes on.
                self._next_evaluation += self._config.eval_period
                self._take_checkpoint(score=float(np.mean(returns)), must=True)
        elif self._checkpoints.is_due(env_step):
            self._take_checkpoint()

    def _show_news(self) -> None:
        while self._news:
            tick = self._news.popleft()
            self._reporter.tick(tick)
            self._display.tick(tick, self._reporter.env_steps_per_second)

    def _goes_on(self) -> bool:
        """At a safe point: takes commands, waits while paused. False to leave the loop."""
        state = self._state
        self._steering.safe_point()
        if self._paused or self._evaluations_asked:
            self._serve_while_halted()
        if self._stopped():
            return False
        if self._repeat:
            return state.tick < self._repeat.end_tick and not self._repeat.is_over
        return True

    def _serve_while_halted(self) -> None:
        self._reporter.flush()
        while (self._paused or self._evaluations_asked) and not self._stopped():
            if self._evaluations_asked:
                # Counted only when it is made: one that is interrupted is made after a resume.
                self._evaluations_asked -= bool(self._evaluate(self._config.eval_episodes))
                continue
            begin = time.perf_counter()
            time.sleep(_PAUSE_SECONDS)
            self._steering.poll()
            self._leave_out(time.perf_counter() - begin)

    def _stopped(self) -> bool:
        return self._stop_asked or self._interrupt.signal > 0

    def _how_it_ended(self) -> Status:
        if self._interrupt:
            return "interrupted"
        return "stopped" if self._stop_asked else "finished"

    def _keep(self) -> str:
        """A checkpoint and the weights."""
        try:
            # An exception may have come in the middle of a time step: rows are stored and updates
            # made of which the envs know nothing, and no checkpoint could go on from there.
            if self._whole:
                self._take_checkpoint(must=True)
        finally:
            digest = self._save()
        return digest

    def _what_is_kept(self) -> str:
        """What there is of a run that an env has ended."""
        self._checkpoints.finish()
        env_step = self._checkpoints.last_env_step
        weights = f"; saved: {self._weights_saved} (update {self._agent.updates:,})"
        if env_step is None:
            return f"{weights}; there is no checkpoint: resume begins again"
        return f"{weights} and the checkpoint of env step {env_step:,}, where resume goes on"

    def _save(self) -> str:
        state, updates = self._state, self._agent.updates
        self._training_over = True
        self._steering.refusal = "the training of this run is over"
        # After an exception in the midst of a concurrent phase some time steps are not stored.
        self._tracer.update(min(state.tick, self._agent.state.contents.written()))
        saved = self._weights_saved = self._directory.save_weights(self._agent.state.weights())
        averaged = self._agent.state.averaged_weights()
        if averaged is not None:
            self._directory.save_weights(averaged, averaged=True)
        digest = self._agent.state.digest(**state.position())
        end = EndDigest(
            digest=digest, tick=state.tick, env_step=state.env_step, update=updates,
            trace_crc=self._tracer.crc, whole=self._whole,
        )  # fmt: skip
        self._directory.save_digest(end)
        if not self._repeat:
            self._display.line(f"weights saved: {saved}")
        return digest

    def _seconds(self) -> float:
        """Spent training so far, also before a resume; not evaluating, not paused."""
        return self._seconds_before + time.perf_counter() - self._began

    def _take_checkpoint(self, *, score: float | None = None, must: bool = False) -> None:
        if self._repeat:
            return
        state = self._state
        self._tracer.update(state.tick)
        try:
            host = self._host()
        except RunDirError as error:
            self.warn(f"no checkpoint: {error}")
            return
        control = self._directory.control
        files = [*(self._directory.path / name for name in host["events"]), control.trace]
        self._checkpoints.take(
            state.tick, state.env_step, host,
            [path for path in files if path.exists()], score=score, must=must,
        )  # fmt: skip

    def _host(self) -> dict[str, Any]:
        """What is kept beside the agent; nothing in it changes any more.

        Raises:
          RunDirError: a file that it tells the length of cannot be written.
        """
        state = self._state
        # First, as what it answers is shown in the curves.
        log = self._steering.log_state()
        self._reporter.flush_all()
        return {
            "loop": state.counts(),
            "next_evaluation": self._next_evaluation,
            "evaluations_asked": self._evaluations_asked,
            "seconds": self._seconds(),
            "snapshot_tick": self._snapshot_tick,
            "recent_returns": list(self._display.recent_returns),
            "trace": self._tracer.position(),
            "log": log,
            "events": self._directory.event_files(),
            "reporter": self._reporter.state(state.env_step),
            # Before the first time step there is nothing to come back to.
            "envs": self._envs.state() if state.tick else None,
        }

    # Evaluation.

    def _evaluate(self, episodes: int) -> Returns:
        if self._repeat:
            return Returns()
        begin, self._evaluating = time.perf_counter(), True
        agent = self._agent
        try:
            returns = self._returns_of(agent.greedy, episodes)
            averaged = Returns()
            if agent.acting.greedy_averaged:
                averaged = self._returns_of(agent.acting.greedy_averaged, episodes)
        except EnvFault as fault:
            fault.add(before=f"at env step {self._state.env_step:,}, ")
            self._whole = True  # the envs that are trained on know nothing of it
            raise
        self._evaluating = False
        self._leave_out(time.perf_counter() - begin)
        if self._stopped():
            return Returns()
        self._reporter.evaluation(returns, averaged, self._state.env_step)
        ema = ""
        if averaged:
            cut = cut_note(averaged.cut, self._config)
            ema = f"; averaged weights {np.mean(averaged):,.1f}{cut}"
        self._display.line(
            f"env step {self._state.env_step:,}: greedy return {np.mean(returns):,.1f} "
            f"(mean of {episodes} episodes, {min(returns):,.1f} to {max(returns):,.1f}"
            f"{cut_note(returns.cut, self._config)}){ema}"
        )
        return returns

    def _returns_of(self, policy: Policy, episodes: int) -> Returns:
        stop = self._stopped_meanwhile
        with self._display.evaluating(episodes) as watch:
            return evaluate(
                self._agent, self._config, episodes, policy=policy, stop=stop, watch=watch
            )

    def _leave_out(self, seconds: float) -> None:
        """Of speed and training time."""
        self._began += seconds
        self._reporter.pause_clock(seconds)

    def _stopped_meanwhile(self) -> bool:
        """Between two steps of an evaluation, which is as safe as between two of training."""
        self._steering.safe_point()
        return self._stopped()

    def _final_evaluation(self) -> Returns:
        if self._stopped():
            return Returns()
        returns = self._evaluate(self._config.final_eval_episodes)
        if returns:
            steps, updates = self._state.env_step, self._agent.updates
            result = {
                "env_steps": steps,
                "updates": updates,
                "seconds": round(self._seconds(), 1),  # of training, all its sessions
                **summary(returns),
                "returns": returns,
            }
            self._directory.save_result(result)
        return returns

    # What `Steering` asks of a run.

    @property
    def position(self) -> Position:
        """Its counts now."""
        return Position(self._state.tick, self._state.env_step, self._agent.updates)

    def do(self, action: str, value: int | None = None) -> tuple[Any, Any]:
        """Carries out an action; what it changed, before and after."""
        if self._training_over and action != "stop":
            raise Refused(f"cannot {action}: the training of this run is over")
        match action:
            case "sync":
                age = self._agent.learner.target_age
                self._agent.sync()
                return age, 0
            case "snapshot":
                self._agent.state.snapshot()
            case "rewind":
                return self._agent.updates, self._agent.state.rewind(value or 1)
            case "checkpoint" | "evaluate" if self._repeat:
                raise Refused(f"cannot {action}: this run repeats another one")
            case "checkpoint":
                self._take_checkpoint(must=True)
            case "pause" | "resume":
                paused = action == "pause"
                if paused == self._paused:
                    raise Refused(f"the run is {'' if paused else 'not '}paused")
                self._paused = paused
            case "stop":
                self._stop_asked = True
            case "evaluate":
                self._evaluations_asked += 1
        return None, None

    def changed(self) -> None:
        """Keeps what was learned before a change is felt; once for several at one time step."""
        if self._config.past_states and self._snapshot_tick != self._state.tick:
            self._snapshot_tick = self._state.tick
            self._agent.state.snapshot()

    def warn(self, text: str) -> None:
        """Shows one line; safe from any thread."""
        self._display.line(text)

    def answered(self, entry: Entry) -> None:
        """Shows an answered command where the run shows things."""
        self._reporter.control(entry)
        self._display.line(f"{entry.describe()}, by {entry.who}")

    def report(self) -> Mapping[str, Any]:
        """Everything of RunState that Steering does not know."""
        reporter, config = self._reporter, self._config
        speed = reporter.env_steps_per_second
        left = max(0, config.env_steps - self._state.env_step)
        returns = self._display.recent_returns
        return {
            "status": self._status(),
            "env_id": config.env_id,
            "env_steps": config.env_steps,
            "env_steps_per_second": speed,
            "eta_seconds": left / speed if speed else None,
            "episodes": reporter.episodes,
            "mean_return": float(np.mean(returns)) if returns else None,
            "target_age": self._agent.learner.target_age,
            "recent": reporter.recent,
            "note": self._repeat.note if self._repeat else None,
        }

    def _status(self) -> Status:
        if self._evaluating:
            return "evaluating"
        return "paused" if self._paused else "running"


def _new_host(config: DqnConfig) -> dict[str, Any]:
    """What a checkpoint would say before the first time step."""
    return {
        "loop": {"learn_age": 0, "next_log": config.log_period},
        "next_evaluation": config.eval_period,
        "snapshot_tick": None,
        "recent_returns": [],
        "reporter": None,
        "trace": (0, 0),
        "log": {"bytes": 0, "to_do": []},
    }


def summary(returns: list[float]) -> dict[str, float]:
    """Episodes, mean, std, min and max; how many of the episodes were cut off."""
    return {
        "episodes": len(returns),
        "mean": float(np.mean(returns)),
        "std": float(np.std(returns)),
        "min": float(np.min(returns)),
        "max": float(np.max(returns)),
        "cut": returns.cut if isinstance(returns, Returns) else 0,
    }
