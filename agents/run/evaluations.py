"""The greedy evaluations of a run, each made between two time steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.policy import Policy
from targetnet.agents.loops.evaluation import EvaluationEnvs, Returns, cut_note, play_episodes
from targetnet.agents.saved.host import RunHost
from targetnet.rl_core.errors import EnvFault, RlCoreError
from targetnet.rl_core.schedules import next_multiple

if TYPE_CHECKING:
    from targetnet.agents.run.run import RunParts


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
      parts: of the run.
      envs: they are played on these.
      due: env step of the next evaluation.
      check_is_due: the first one also checks if the episodes of these envs come back.
      failed: an env failed in an evaluation. The envs of the training are not touched by that.
    """

    parts: RunParts
    envs: EvaluationEnvs
    due: int
    check_is_due: bool
    failed: bool = False

    def make(self, episodes: int) -> Returns:
        """Evaluates now; the returns are empty if the run was stopped meanwhile."""
        env_step = self.parts.control.state.env_step
        self.parts.control.evaluating = True
        try:
            with self.parts.clock.stopped():
                if self.check_is_due and (line := self.envs.of(episodes).check()):
                    self.parts.display.line(line)
                self.check_is_due = False
                returns = self._returns_of(self.parts.agent.greedy, episodes)
                averaged = Returns()
                if self.parts.agent.acting.greedy_averaged:
                    averaged = self._returns_of(self.parts.agent.acting.greedy_averaged, episodes)
        except RlCoreError as error:
            if isinstance(error, EnvFault):
                error.add(before=f"at env step {env_step:,}, ")
            self.failed = True  # and the training's own envs are as they were
            raise
        finally:
            self.parts.control.evaluating = False
        if self.parts.control.stopped:
            return Returns()
        self.parts.reporter.evaluation(returns, averaged, env_step)
        self.parts.display.line(f"env step {env_step:,}: {self._described(returns, averaged)}")
        return returns

    def _returns_of(self, policy: Policy, episodes: int) -> Returns:
        with self.parts.display.evaluating(episodes) as watch:
            return play_episodes(policy, self.envs, episodes, self._stopped_meanwhile, watch)

    def _stopped_meanwhile(self) -> bool:
        self.parts.scheduler.give()
        self.parts.steering.safe_point()
        return self.parts.control.stopped

    def _described(self, returns: Returns, averaged: Returns) -> str:
        config, ema = self.parts.agent.config, ""
        if averaged:
            cut = cut_note(averaged.cut, config)
            ema = f"; averaged weights {np.mean(averaged):,.1f}{cut}"
        return (
            f"greedy return {np.mean(returns):,.1f} "
            f"({returns.counted()}{cut_note(returns.cut, config)}){ema}"
        )
