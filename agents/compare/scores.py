"""Scores of arms: the area under a greedy curve, the best arm of a group, paired differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from agents.compare.kept import Kept, KeptSeed
from agents.compare.plan import Arm, Loaded, Wanted
from agents.results.statistics import stratified_bootstrap
from agents.results.table import Estimate, estimate
from rl_core.errors import RlCoreError

Score = Callable[[KeptSeed], float]


def area(seed: KeptSeed) -> float:
    """Returns the area under a seed's greedy curve, divided by its length in env steps.

    The curve is straight between two evaluations, and before the first one as high as there.
    """
    steps, values = zip(*seed.curve, strict=True)
    return float(np.trapezoid([values[0], *values], [0, *steps]) / steps[-1])


def final(seed: KeptSeed) -> float:
    """Returns the mean return of a seed's final greedy episodes."""
    return seed.mean


class Scores:
    """Scores of all arms of a comparison; each wants the runs that it is made of to be finished.

    Args:
      loaded: the comparison.
      kept: its finished seeds.
    """

    def __init__(self, loaded: Loaded, kept: Kept) -> None:
        self._plan, self._kept = loaded.plan, kept

    # What has to be trained.

    def tuning(self) -> Iterator[Wanted]:
        """Yields the runs by which arms are chosen."""
        plan = self._plan
        for env in plan.envs:
            for group in plan.groups_on(env):
                chosen = plan.groups[group].choose and env in plan.choosing
                if group == plan.baseline or chosen:
                    for arm in plan.arms(group):
                        yield from (Wanted(env, arm, seed) for seed in plan.tuned(env))

    def fresh(self) -> Iterator[Wanted]:
        """Yields the runs that are compared; all of `tuning` are finished."""
        for env in self._plan.envs:
            for arm in self.compared(env):
                yield from (Wanted(env, arm, seed) for seed in self._plan.fresh(env))

    def compared(self, env: str) -> Iterator[Arm]:
        """Yields the arms that are trained with fresh seeds on an env."""
        for group in self._plan.groups_on(env):
            yield from self.shown(group)

    def shown(self, group: str) -> list[Arm]:
        """Returns the arms of a group that have fresh seeds: all, or the chosen one."""
        return [self.chosen(group)] if self._plan.groups[group].choose else self._plan.arms(group)

    def require(self, wanted: Iterator[Wanted]) -> None:
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

    def trained(self, env: str) -> list[KeptSeed]:
        """Returns all runs on an env that chose arms or are compared, each once."""
        wanted = [of for of in (*self.tuning(), *self.fresh()) if of.env == env]
        runs = {(id(self._kept[of.env, of.arm]), of.seed): of for of in wanted}
        return [self._kept[of.env, of.arm].seeds[of.seed] for of in runs.values()]

    # What they come to.

    def best_constant(self, env: str) -> Arm:
        """Returns the baseline's arm with the largest area on an env, by tuning seeds."""
        return max(self._plan.arms(self._plan.baseline), key=lambda arm: self._tuned(env, arm))

    def chosen(self, group: str) -> Arm:
        """Returns the arm of a group that is the best over all envs, by tuning seeds.

        Envs that are held out do not count. On each other env its area is compared with that of
        the best constant, in units of the distance between the best and the worst constant there;
        the mean over envs decides.
        """
        return max(self._plan.arms(group), key=self._standing)

    def of(self, env: str, arm: Arm, score: Score) -> list[float]:
        """Returns the scores of an arm on an env, of the fresh seeds."""
        seeds = self._kept[env, arm].seeds
        return [score(seeds[n]) for n in self._plan.fresh(env)]

    def estimate(self, env: str, arm: Arm, score: Score) -> Estimate:
        """Returns the mean over fresh seeds, with its interval."""
        return estimate(self.of(env, arm, score), np.mean)

    def difference(self, env: str, arm: Arm, other: Arm, score: Score) -> Estimate | None:
        """Returns the mean over fresh seeds of the difference from another arm's same seed.

        Runs of one seed are pairs: their envs have the same seeds, and networks of one shape have
        the same first weights.

        Returns:
          None if both arms are alike: they are the same runs.
        """
        if self._kept[env, arm] is self._kept[env, other]:
            return None
        return paired(*(self.of(env, one, score) for one in (arm, other)))

    def sign(self, env: str, arm: Arm, tag: str, quarter: int) -> float | None:
        """Returns the mean over fresh seeds of a curve in a quarter of the run, 0 to 3.

        Returns:
          None if a seed has no number there.
        """
        kept = self._kept[env, arm].seeds
        values = [kept[n].signs[tag][quarter] for n in self._plan.fresh(env)]
        found = [value for value in values if value is not None]
        return float(np.mean(found)) if len(found) == len(values) else None

    def _tuned(self, env: str, arm: Arm) -> float:
        seeds = self._kept[env, arm].seeds
        return float(np.mean([area(seeds[n]) for n in self._plan.tuned(env)]))

    def _standing(self, arm: Arm) -> float:
        plan, standings = self._plan, []
        for env in plan.choosing:
            if arm.group in plan.groups_on(env):
                constants = [self._tuned(env, of) for of in plan.arms(plan.baseline)]
                spread = max(constants) - min(constants) or 1.0
                standings.append((self._tuned(env, arm) - max(constants)) / spread)
        return float(np.mean(standings))


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """Returns the mean of the differences of pairs; its interval resamples pairs."""
    differences = np.subtract(ours, theirs)
    interval = stratified_bootstrap([differences], np.mean) if differences.size > 1 else None
    return Estimate(float(np.mean(differences)), interval)
