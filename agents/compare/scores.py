"""Scores of arms: the area under a greedy curve, the best arm of a group, paired differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from agents.compare.kept import KeptSeed
from agents.compare.plan import Arm, Loaded
from agents.compare.populations import Kept, Wanted
from agents.results.statistics import stratified_bootstrap
from agents.results.table import Estimate, estimate

Score = Callable[[KeptSeed], float]


def area(seed: KeptSeed) -> float:
    """Returns the mean of a seed's greedy evaluations, which are at equal distances."""
    return float(np.mean([value for _, value in seed.curve]))


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
            yield from (
                [self.chosen(group)]
                if self._plan.groups[group].choose
                else (self._plan.arms(group))
            )

    def missing(self, wanted: Iterator[Wanted]) -> int:
        """Returns how many runs are not finished."""
        return sum(of.seed not in self._kept[of.env, of.arm].seeds for of in wanted)

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

    def difference(self, env: str, arm: Arm, score: Score) -> Estimate:
        """Returns the mean over fresh seeds of the difference from the best constant's same seed.

        Runs of one seed have the same first weights and the same first episodes: they are pairs.
        """
        return paired(*(self.of(env, one, score) for one in (arm, self.best_constant(env))))

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
