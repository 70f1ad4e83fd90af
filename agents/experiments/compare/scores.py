"""Scores of arms on fresh seeds, and their differences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from targetnet.agents.experiments.compare.arms import FinishedArms, Score
from targetnet.agents.experiments.compare.choices import ArmChoices
from targetnet.agents.experiments.compare.plan import ComparedArm, ComparisonPlan, RequestedRun
from targetnet.agents.experiments.statistics import Difference, Estimate, mean, paired
from targetnet.agents.experiments.store import FinishedRun


class Scores:
    """Scores of all arms of a comparison; each wants the runs that it is made of to be finished.

    Args:
      plan: of the comparison.
      finished: its finished runs.

    Attributes:
      choices: the arms that are chosen on tuning seeds.
    """

    def __init__(self, plan: ComparisonPlan, finished: FinishedArms) -> None:
        self._plan, self._finished = plan, finished
        self.choices = ArmChoices(plan, finished)

    def fresh(self) -> Iterator[RequestedRun]:
        """Yields the runs that are compared; all of `tuning` are finished."""
        for env in self._plan.envs:
            for arm in self.compared(env):
                yield from (RequestedRun(env, arm, seed) for seed in self._plan.fresh(env))

    def compared(self, env: str) -> Iterator[ComparedArm]:
        """Yields the arms that are trained with fresh seeds on an env."""
        arms = [arm for group in self._plan.groups_on(env) for arm in self.shown(group)]
        if self._plan.constants:
            arms.append(self.choices.best_of_constants(env))
        yield from dict.fromkeys(arms)

    def shown(self, group: str) -> list[ComparedArm]:
        """Returns the arms of a group that have fresh seeds: all, or the chosen one."""
        return (
            [self.choices.chosen(group)]
            if self._plan.groups[group].choose
            else self._plan.arms(group)
        )

    def trained(self, env: str) -> list[FinishedRun]:
        """Returns all runs on an env that chose arms or are compared, each once."""
        wanted = [of for of in (*self.choices.tuning(), *self.fresh()) if of.env == env]
        return [self._finished.run(of) for of in self._finished.distinct(wanted)]

    def of(self, env: str, arm: ComparedArm, score: Score) -> list[float]:
        """Returns the scores of an arm on an env, of the fresh seeds."""
        return [score(run) for run in self._of_fresh_seeds(env, arm)]

    def estimate(self, env: str, arm: ComparedArm, score: Score) -> Estimate:
        """Returns the mean over fresh seeds, with its interval."""
        return mean(self.of(env, arm, score))

    def difference(
        self, env: str, arm: ComparedArm, other: ComparedArm, score: Score
    ) -> Difference | None:
        """Returns the mean over fresh seeds of the difference from another arm's same seed.

        Runs of one seed are pairs: their envs have the same seeds, and networks of one shape have
        the same first weights.

        Returns:
          None if both arms are alike: they are the same runs.
        """
        if self._finished.of(env, arm) is self._finished.of(env, other):
            return None
        return paired(*(self.of(env, one, score) for one in (arm, other)))

    def sign(self, env: str, arm: ComparedArm, tag: str, quarter: int) -> float | None:
        """Returns the mean over fresh seeds of a curve in a quarter of the run, 0 to 3.

        Returns:
          None if a seed has no number there.
        """
        # A row may be older than the curve, or damaged.
        signs = [run.signs.get(tag) for run in self._of_fresh_seeds(env, arm)]
        values = [of[quarter] if of else None for of in signs]
        found = [value for value in values if value is not None]
        return float(np.mean(found)) if len(found) == len(values) else None

    def _of_fresh_seeds(self, env: str, arm: ComparedArm) -> list[FinishedRun]:
        runs = self._finished.of(env, arm).seeds
        return [runs[seed] for seed in self._plan.fresh(env)]
