"""Scores of arms on fresh seeds, and their differences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from targetnet.agents.compare.areas import Score
from targetnet.agents.compare.arm_results import Kept, SeedResult
from targetnet.agents.compare.choices import ArmChoices
from targetnet.agents.compare.plan import ComparedArm, LoadedPlan, RequestedRun
from targetnet.agents.results.differences import Difference, mean, paired
from targetnet.agents.results.statistics import Estimate
from targetnet.rl_core.errors import RlCoreError


class Scores:
    """Scores of all arms of a comparison; each wants the runs that it is made of to be finished.

    Args:
      loaded: the comparison.
      kept: its finished seeds.

    Attributes:
      choices: the arms that are chosen on tuning seeds.
    """

    def __init__(self, loaded: LoadedPlan, kept: Kept) -> None:
        self._plan, self._kept = loaded.plan, kept
        self.choices = ArmChoices(loaded, kept)

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

    def require(self, wanted: Iterator[RequestedRun]) -> None:
        """Requires that runs are finished.

        Raises:
          RlCoreError: some are not; says how many.
        """
        arms = {(id(self._kept[of.env, of.arm]), of.seed): of for of in wanted}
        missing = [of for of in arms.values() if of.seed not in self._kept[of.env, of.arm].seeds]
        if missing:
            raise RlCoreError(
                f"{len(missing):,} runs are not finished; without --finished they are trained"
            )

    def trained(self, env: str) -> list[SeedResult]:
        """Returns all runs on an env that chose arms or are compared, each once."""
        wanted = [of for of in (*self.choices.tuning(), *self.fresh()) if of.env == env]
        runs = {(id(self._kept[of.env, of.arm]), of.seed): of for of in wanted}
        return [self._kept[of.env, of.arm].seeds[of.seed] for of in runs.values()]

    def of(self, env: str, arm: ComparedArm, score: Score) -> list[float]:
        """Returns the scores of an arm on an env, of the fresh seeds."""
        seeds = self._kept[env, arm].seeds
        return [score(seeds[n]) for n in self._plan.fresh(env)]

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
        if self._kept[env, arm] is self._kept[env, other]:
            return None
        return paired(*(self.of(env, one, score) for one in (arm, other)))

    def sign(self, env: str, arm: ComparedArm, tag: str, quarter: int) -> float | None:
        """Returns the mean over fresh seeds of a curve in a quarter of the run, 0 to 3.

        Returns:
          None if a seed has no number there.
        """
        kept = self._kept[env, arm].seeds
        # A row may be older than the curve, or damaged.
        signs = [kept[n].signs.get(tag) for n in self._plan.fresh(env)]
        values = [of[quarter] if of else None for of in signs]
        found = [value for value in values if value is not None]
        return float(np.mean(found)) if len(found) == len(values) else None
