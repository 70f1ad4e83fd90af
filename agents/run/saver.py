"""The files that keep a run: checkpoints on its way, weights and digest at the end of training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.run.actors import actors_part, requested_weights
from targetnet.agents.run.checkpoints import Checkpoints
from targetnet.agents.run.clock import TrainingClock
from targetnet.agents.run.control import RunControl
from targetnet.agents.run.controller_runner import ControllerRunner
from targetnet.agents.run.curves import Reporter
from targetnet.agents.run.evaluations import Evaluations
from targetnet.agents.run.terminal import Display
from targetnet.agents.run.trace import NullTracer, Tracer
from targetnet.agents.saved.directory import EndDigest, RunDir
from targetnet.agents.saved.host import LogPart, LoopPart, RunHost
from targetnet.envs import Envs
from targetnet.rl_core.control.steering import Steering
from targetnet.rl_core.errors import RunDirError


@dataclass
class RunSaver:
    """Saves one run.

    Attributes:
      directory: where.
      checkpoints: writes them.
      weights: file that they were saved in; None before the end.
      all others: the parts of the run whose state a checkpoint keeps.
    """

    directory: RunDir
    checkpoints: Checkpoints
    agent: DqnAgent
    envs: Envs
    clock: TrainingClock
    control: RunControl
    steering: Steering
    evaluations: Evaluations
    reporter: Reporter
    display: Display
    tracer: Tracer | NullTracer
    controlling: ControllerRunner
    weights: Path | None = None

    def checkpoint(self, *, score: float | None = None, must: bool = False) -> None:
        """Takes a checkpoint now.

        Args:
          score: of an evaluation that was just made.
          must: waits for the one that is being written; else this one is left out then.
        """
        state = self.control.state
        self.tracer.update(state.tick)
        try:
            host = self._host()
        except RunDirError as error:
            self.checkpoints.put_off(state.env_step, error)
            return
        files = [self.directory.path / name for name in host.events]
        files += [self.directory.control.trace, self.directory.control.arrivals]
        there = [path for path in files if path.exists()]
        weights = requested_weights(self.envs)
        self.checkpoints.take(
            state.tick, state.env_step, host, there, weights, score=score, must=must
        )

    def end(self, *, whole: bool) -> str:
        """Saves the weights and the digest, and returns the digest.

        Args:
          whole: training ended between two time steps.
        """
        state, agent = self.control.state, self.agent
        # After an exception in a concurrent phase some time steps are not stored.
        stored = agent.state.contents.written() - agent.config.demonstration_steps
        self.tracer.update(min(state.tick, stored))
        self.weights = self.directory.save_weights(agent.state.weights())
        averaged = agent.state.averaged_weights()
        if averaged is not None:
            self.directory.save_weights(averaged, averaged=True)
        digest = agent.state.digest(**state.position())
        end = EndDigest(
            digest=digest, tick=state.tick, env_step=state.env_step, update=agent.updates,
            trace_crc=self.tracer.crc, whole=whole,
            live={name: agent.hyperparameters[name] for name in agent.config.live},
        )  # fmt: skip
        self.directory.save_digest(end)
        return digest

    def kept(self) -> str:
        """The end of an error's line: the files that are saved of a run that an env has ended."""
        self.checkpoints.finish()
        env_step = self.checkpoints.last_env_step
        weights = f"; saved: {self.weights} (update {self.agent.updates:,})"
        if env_step is None:
            return f"{weights}; there is no checkpoint: resume begins again"
        return f"{weights} and the checkpoint of env step {env_step:,}, where resume goes on"

    def _host(self) -> RunHost:
        """The host state now.

        Raises:
          RunDirError: a file cannot be written whose length it tells.
        """
        state = self.control.state
        # The log comes first: commands that it answers are shown in the curves.
        log = self.steering.log_state()
        self.reporter.flush_all()
        return RunHost(
            loop=LoopPart(**state.counts()),
            next_evaluation=self.evaluations.due,
            evaluations_asked=self.control.evaluations_asked,
            seconds=self.clock.seconds,
            snapshot_tick=self.control.snapshot_tick,
            recent_returns=list(self.display.recent_returns),
            trace=self.tracer.position(),
            log=LogPart(**log),
            events={p.name: p.stat().st_size for p in self.directory.event_files()},
            reporter=self.reporter.state(state.env_step),
            raw_rewards=True,
            # Before the first time step there is nothing to come back to.
            envs=self.envs.state() if state.tick else None,
            actors=actors_part(self.envs) if state.tick else None,
            controller=self.controlling.part(),
        )
