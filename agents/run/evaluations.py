"""The greedy evaluations of a run, each made between two time steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.policy import Policy
from targetnet.agents.loops.evaluation import EvaluationEnvs, Returns, cut_note, play_episodes
from targetnet.agents.run.clock import TrainingClock
from targetnet.agents.run.control import RunControl
from targetnet.agents.run.curves import Reporter
from targetnet.agents.run.display import Display
from targetnet.agents.saved.host import RunHost
from targetnet.rl_core.errors import EnvFault, RlCoreError
from targetnet.rl_core.schedules import next_multiple


def due_from(host: RunHost, config: DqnConfig, env_step: int) -> int:
    """Returns the env step of a resumed run's next evaluation; one that is overdue stays so."""
    due = host.next_evaluation
    return due if due <= env_step else next_due(config, env_step)


def next_due(config: DqnConfig, env_step: int) -> int:
    """Returns the first env step after `env_step` at which an evaluation is due."""
    return next_multiple(env_step, config.eval_period)


@dataclass
class Evaluations:
    """Evaluates one run's agent, and reports the returns.

    Attributes:
      agent, control, clock: of the run.
      envs: they are played on these.
      reporter, display: report the returns.
      safe_point: takes commands; called between two steps of an evaluation, which is as safe as
        between two time steps of training.
      give_turn: lets other runs of this thread go on; called there too.
      due: env step of the next evaluation.
      check_is_due: the first one also checks if the episodes of these envs come back.
      failed: an env failed in an evaluation. The envs of the training are not touched by that.
    """

    agent: DqnAgent
    control: RunControl
    clock: TrainingClock
    envs: EvaluationEnvs
    reporter: Reporter
    display: Display
    safe_point: Callable[[], None]
    give_turn: Callable[[], None]
    due: int
    check_is_due: bool
    failed: bool = False

    def make(self, episodes: int) -> Returns:
        """Evaluates now; the returns are empty if the run was stopped meanwhile."""
        env_step = self.control.state.env_step
        self.control.evaluating = True
        try:
            with self.clock.stopped():
                if self.check_is_due and (line := self.envs.of(episodes).check()):
                    self.display.line(line)
                self.check_is_due = False
                returns = self._returns_of(self.agent.greedy, episodes)
                averaged = Returns()
                if self.agent.acting.greedy_averaged:
                    averaged = self._returns_of(self.agent.acting.greedy_averaged, episodes)
        except RlCoreError as error:
            if isinstance(error, EnvFault):
                error.add(before=f"at env step {env_step:,}, ")
            self.failed = True  # and the training's own envs are as they were
            raise
        finally:
            self.control.evaluating = False
        if self.control.stopped:
            return Returns()
        self.reporter.evaluation(returns, averaged, env_step)
        self.display.line(f"env step {env_step:,}: {self._described(returns, averaged)}")
        return returns

    def _returns_of(self, policy: Policy, episodes: int) -> Returns:
        with self.display.evaluating(episodes) as watch:
            return play_episodes(policy, self.envs, episodes, self._stopped_meanwhile, watch)

    def _stopped_meanwhile(self) -> bool:
        self.give_turn()
        self.safe_point()
        return self.control.stopped

    def _described(self, returns: Returns, averaged: Returns) -> str:
        config, ema = self.agent.config, ""
        if averaged:
            cut = cut_note(averaged.cut, config)
            ema = f"; averaged weights {np.mean(averaged):,.1f}{cut}"
        return (
            f"greedy return {np.mean(returns):,.1f} "
            f"({returns.counted()}{cut_note(returns.cut, config)}){ema}"
        )
