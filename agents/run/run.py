"""One run's life: it is put together, trains, is saved, is evaluated, and ends."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.loops.choice import longest_tick
from targetnet.agents.loops.evaluation import EvaluationEnvs, Returns
from targetnet.agents.loops.plain import LoopState
from targetnet.agents.remote.run_actors import keep_order
from targetnet.agents.run.announcements import announce, bytes_outside
from targetnet.agents.run.checkpoints import Checkpoints, RunSaver
from targetnet.agents.run.clock import TrainingClock
from targetnet.agents.run.control import RunControl
from targetnet.agents.run.controller_runner import ControllerRunner
from targetnet.agents.run.curves import Reporter
from targetnet.agents.run.display import Display
from targetnet.agents.run.evaluations import Evaluations, due_from
from targetnet.agents.run.exchanges import Exchanges, NoExchanges
from targetnet.agents.run.loop_runner import LoopRunner, NoScheduler, OnTick, Repeat, Scheduler
from targetnet.agents.run.outcome import RunOutcome, summary
from targetnet.agents.run.process import StopRequest
from targetnet.agents.run.trace import NullTracer, Tracer
from targetnet.agents.saved.directory import RunDir, RunResult
from targetnet.agents.saved.host import ResumeMoment, new_host
from targetnet.agents.saved.spaces import save_spaces
from targetnet.agents.sinks.interface import OwnSink
from targetnet.envs import Envs
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.control.files import RunLock
from targetnet.rl_core.control.log import entries_to_do
from targetnet.rl_core.control.population import copy_of
from targetnet.rl_core.control.state import RunStatus
from targetnet.rl_core.control.steering import Steering
from targetnet.rl_core.control.timetable import PersistentOrders, standing_orders
from targetnet.rl_core.errors import ControllerFault, Diverged, EnvFault


@dataclass
class RunParts:
    """The parts of one run: each is made once, and reaches the others by this.

    Attributes:
      agent, envs, directory: of the run.
      state: the loop's counts.
      display, clock, reporter, tracer: what is shown, timed, reported and traced of it.
      scheduler, exchanges: the runs beside it.
      control, steering: its commands.
      evaluations, controller, saver: the work between two time steps.
    """

    agent: DqnAgent
    envs: Envs
    directory: RunDir
    state: LoopState
    display: Display
    clock: TrainingClock
    reporter: Reporter
    tracer: Tracer | NullTracer
    scheduler: Scheduler
    exchanges: Exchanges
    control: RunControl = field(init=False)
    steering: Steering = field(init=False)
    evaluations: Evaluations = field(init=False)
    controller: ControllerRunner = field(init=False)
    saver: RunSaver = field(init=False)


class Run:
    """One agent's training in a run directory.

    Args:
      agent, envs: new, or brought back; whoever made the envs closes them.
      directory: of the run.
      display: shows its progress.
      interrupt: true once Ctrl-C was pressed.
      evaluation_envs: for its evaluations; whoever made them closes them after `envs`.
      on_tick: called after every tick of the loop; False stops the run there.
      repeat: a recorded run that is run again; takes no other changes, and does not evaluate.
      resumed: the moment that agent, envs and files were brought back to; None if the run is new.
      lock: of the directory, if it is held already.
      sinks: of the program's own.
      scheduler: shared with other runs that take turns in this thread; None: the run is alone.
      exchanges: those between it and other members of its population; None: it has no others.
    """

    def __init__(
        self,
        agent: DqnAgent,
        envs: Envs,
        directory: RunDir,
        display: Display,
        interrupt: StopRequest,
        evaluation_envs: EvaluationEnvs,
        on_tick: OnTick | None = None,
        repeat: Repeat | None = None,
        resumed: ResumeMoment | None = None,
        lock: RunLock | None = None,
        sinks: Sequence[OwnSink] = (),
        scheduler: Scheduler | None = None,
        exchanges: Exchanges | None = None,
    ) -> None:
        config, files = agent.config, directory.control
        host = resumed.host if resumed else new_host(config)
        state = LoopState.of(host.loop.model_dump(), resumed.step if resumed else None)
        agent.hyperparameters.env_step = state.env_step
        self._repeat, self._interrupt, self._digest = repeat, interrupt, ""
        display.recent_returns.extend(host.recent_returns)
        clock = TrainingClock(host.seconds)
        reporter = Reporter(directory.path, agent, display.line, host.reporter, clock, sinks)
        files.make()
        save_spaces(directory, envs.spaces)
        keep_order(envs, config, files, host, repeat.arrivals if repeat else None, display.line)
        stride = longest_tick(agent)
        compare = repeat.compare if repeat else None
        tracer = NullTracer() if config.offline else Tracer(
            agent, files.trace, display.line, compare, host.trace, stride
        )  # fmt: skip
        exchanges = exchanges or NoExchanges(repeat.directory if repeat else directory)
        self._parts = parts = RunParts(
            agent, envs, directory, state, display, clock, reporter, tracer,
            scheduler or NoScheduler(), exchanges,
        )  # fmt: skip
        standing = PersistentOrders() if repeat else standing_orders(files)
        parts.control = RunControl(
            agent, state, say=display.line, show=reporter.control, progress=self._progress,
            checkpoint=lambda: parts.saver.checkpoint(must=True), copy=self._copy,
            interrupt=interrupt, repeats=repeat.note if repeat else None,
            evaluations_asked=host.evaluations_asked, snapshot_tick=host.snapshot_tick,
            paused=standing.paused,
        )  # fmt: skip
        to_do = [] if repeat else entries_to_do(files.log, host.log.model_dump())
        script = repeat.script if repeat else [*to_do, *exchanges.missing]
        parts.steering = Steering(
            agent.hyperparameters, files, parts.control, script, repeats=repeat is not None,
            lock=lock, planned=[action.planned for action in config.actions],
            orders=standing.stops,
        )  # fmt: skip
        exchanges.begin(parts)
        store = CheckpointStore(directory.checkpoints, config.checkpoint_keep)
        checkpoints = Checkpoints(
            agent, store, display.line, resumed, max(stride, agent.acting.waiting_at_most)
        )
        parts.evaluations = Evaluations(
            parts, evaluation_envs, due_from(host, config, state.env_step), envs.check_is_due
        )
        parts.controller = ControllerRunner.of(parts, host.controller, repeats=bool(repeat))
        parts.saver = RunSaver(parts, checkpoints)
        self._loop = LoopRunner(parts, partial(bytes_outside, config, envs), on_tick, repeat)

    def go(self) -> RunOutcome:
        """Trains, saves, evaluates."""
        parts = self._parts
        announce(parts.display, parts.agent, parts.envs, parts.directory, self._repeat)
        ended: RunStatus = "failed"
        returns = Returns()
        try:
            self._train()
            returns = self._final_evaluation()
            ended = self._how_it_ended()
        except (EnvFault, Diverged, ControllerFault) as fault:
            if self._repeat is None:
                if not isinstance(fault, Diverged):
                    fault.add(after=self._parts.saver.kept())
                raise
            if not self._repeat.failed:  # else it came to the same end
                raise
        except KeyboardInterrupt:
            ended = "interrupted"
            raise
        finally:
            self._close(ended)
        return RunOutcome(
            self._parts.directory.path,
            returns,
            self._parts.state.env_step,
            self._parts.agent.updates,
            self._digest,
            self._interrupt.signal,
        )

    def _train(self) -> None:
        """Runs the loop, and keeps what was learned, whatever ends it."""
        whole = False  # whether training ended between two time steps
        try:
            with self._parts.display:
                self._loop.run()
                if self._parts.control.stopped:
                    by = "interrupted" if self._interrupt else "stopped"
                    self._parts.display.line(f"{by} at env step {self._parts.state.env_step:,}")
            whole = True
        except ControllerFault:
            whole = True  # it is called between two time steps
            raise
        finally:
            self._digest = self._keep(whole or self._parts.evaluations.failed)

    def _keep(self, whole: bool) -> str:
        """Takes a last checkpoint and saves the weights; returns the digest."""
        try:
            # An exception may come in the middle of a time step: then rows are stored and updates
            # made that the envs know nothing of, and no checkpoint could go on from there.
            if whole and not self._repeat:
                self._parts.saver.checkpoint(must=True)
        finally:
            self._parts.control.training_over = True
            self._parts.steering.refuse("the training of this run is over")
            digest = self._parts.saver.end(whole=whole)
            if not self._repeat:
                self._parts.display.detail(f"weights saved: {self._parts.saver.weights}")
        return digest

    def _final_evaluation(self) -> Returns:
        parts = self._parts
        if parts.control.stopped or self._repeat:
            return Returns()
        returns = parts.evaluations.make(parts.agent.config.final_eval_episodes)
        if returns:
            counts = {"env_steps": parts.state.env_step, "updates": parts.agent.updates}
            numbers = counts | {"seconds": round(parts.clock.seconds, 1)} | summary(returns)
            result = RunResult.model_validate(numbers | {"returns": returns})
            parts.directory.save_result(result)
            parts.reporter.result(numbers, parts.state.env_step)
        return returns

    def _how_it_ended(self) -> RunStatus:
        if self._interrupt:
            return "interrupted"
        return "stopped" if self._parts.control.stop_asked else "finished"

    def _close(self, ended: RunStatus) -> None:
        """Closes all parts, even if one of them fails; the lock is released last."""
        with contextlib.ExitStack() as last:
            last.callback(self._parts.steering.close)
            last.callback(lambda: self._parts.steering.publish(ended))
            last.callback(self._parts.tracer.close)
            last.callback(self._parts.reporter.close)
            last.callback(self._parts.saver.checkpoints.finish)

    def _copy(self, value: Any) -> None:
        """Carries out an entry `copy` of the log; episodes of before say nothing of it."""
        self._parts.exchanges.copy(copy_of(value))
        self._parts.display.recent_returns.clear()

    def _progress(self) -> Mapping[str, Any]:
        """The fields of RunState that come from the curves."""
        reporter = self._parts.reporter
        return {
            "env_steps_per_second": reporter.speed(self._parts.state.env_step),
            "episodes": reporter.episodes,
            "mean_return": self._parts.display.mean_return,
            "recent": reporter.recent,
        }
