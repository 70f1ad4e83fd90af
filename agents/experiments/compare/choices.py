"""The arms of a comparison that tuning seeds choose, and how firmly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from targetnet.agents.experiments.compare.arms import FinishedArms, area
from targetnet.agents.experiments.compare.plan import ComparedArm, ComparisonPlan, RequestedRun

_DRAWS = 2_000  # of tuning seeds, for how firm a choice is
# Env -> numbers of tuning seeds [R, n], of R choices: the seeds themselves, or draws of them.
_Drawn = Mapping[str, NDArray[np.int64]]


class ArmChoices:
    """Arms that tuning seeds choose; all but `tuning` wants these to be finished.

    Args:
      plan: of the comparison.
      finished: its finished runs.
    """

    def __init__(self, plan: ComparisonPlan, finished: FinishedArms) -> None:
        self._plan, self._finished = plan, finished

    def tuning(self) -> Iterator[RequestedRun]:
        """Yields the runs by which arms are chosen."""
        for env in self._plan.envs:
            for group in self.tuned_on(env):
                for arm in self._plan.arms(group):
                    yield from (RequestedRun(env, arm, seed) for seed in self._plan.tuned(env))

    def tuned_on(self, env: str) -> list[str]:
        """Returns the groups whose arms are all trained with tuning seeds on an env."""
        plan = self._plan
        own = [plan.baseline, *plan.constants]  # what is chosen for this env alone
        of = plan.tuned_groups if env in plan.choosing else own
        return [group for group in plan.groups_on(env) if group in of]

    def best_of_baseline(self, env: str) -> ComparedArm:
        """Returns the baseline's arm with the largest area on an env, by tuning seeds."""
        (best,) = self._best_of_baseline(env, self._seeds)
        return best

    def best_of_constants(self, env: str) -> ComparedArm:
        """Returns the arm with the largest area on an env of all constants, by tuning seeds."""
        constants = {self._plan.baseline, *self._plan.constants}
        groups = [group for group in self.tuned_on(env) if group in constants]
        arms = [arm for group in groups for arm in self._plan.arms(group)]
        return arms[int(self._areas(env, arms, self._seeds).argmax())]

    def chosen(self, group: str) -> ComparedArm:
        """Returns the arm of a group that is the best over all envs, by tuning seeds.

        Envs that are held out do not count. On each other env its area is compared with that of
        the baseline's best arm, in units of the distance between its best and its worst arm there;
        the mean over envs decides.
        """
        (best,) = self._choices(group, self._seeds)
        return best

    def firmness(self, group: str) -> list[tuple[ComparedArm, float]]:
        """Returns how often each arm of a group would be chosen if tuning seeds were drawn anew.

        Bootstrap: each draw takes as many seeds of each env, with replacement.

        Returns:
          Pairs of an arm and a share in (0, 1], the largest first; none where an env has a single
          tuning seed, of which nothing can be drawn.
        """
        envs = [env for env in self._plan.choosing if group in self._plan.groups_on(env)]
        return self._shares(envs, lambda drawn: self._choices(group, drawn))

    def firmness_of_baseline(self, env: str) -> list[tuple[ComparedArm, float]]:
        """Returns the same of the baseline's arm on an env."""
        return self._shares([env], lambda drawn: self._best_of_baseline(env, drawn))

    def promised(self, env: str, arm: ComparedArm) -> float | None:
        """Returns how far an arm's area lay from that of the baseline's best on tuning seeds.

        Returns:
          None if it has no tuning seeds.
        """
        if arm.group not in self.tuned_on(env):
            return None
        ours, best = self._areas(env, [arm, self.best_of_baseline(env)], self._seeds)[:, 0]
        return float(ours - best)

    def _shares(
        self, envs: Sequence[str], choose: Callable[[_Drawn], list[ComparedArm]]
    ) -> list[tuple[ComparedArm, float]]:
        seeds = self._seeds
        if any(seeds[env].size == 1 for env in envs):
            return []
        rng = np.random.Generator(np.random.Philox(0))
        drawn = {name: rng.integers(of.size, size=(_DRAWS, of.size)) for name, of in seeds.items()}
        return [(arm, count / _DRAWS) for arm, count in Counter(choose(drawn)).most_common()]

    def _best_of_baseline(self, env: str, drawn: _Drawn) -> list[ComparedArm]:
        arms = self._plan.arms(self._plan.baseline)
        return [arms[i] for i in self._areas(env, arms, drawn).argmax(axis=0)]

    def _choices(self, group: str, drawn: _Drawn) -> list[ComparedArm]:
        arms = self._plan.arms(group)
        return [arms[i] for i in self._standings(group, drawn).argmax(axis=0)]

    def _standings(self, group: str, drawn: _Drawn) -> NDArray[np.float64]:
        """Returns the standing [arm, choice] over all envs."""
        plan, standings = self._plan, []
        for env in plan.choosing:
            if group in plan.groups_on(env):
                constants = self._areas(env, plan.arms(plan.baseline), drawn)
                best, worst = constants.max(axis=0), constants.min(axis=0)
                spread = np.where(best > worst, best - worst, 1.0)
                standings.append((self._areas(env, plan.arms(group), drawn) - best) / spread)
        return np.mean(standings, axis=0)

    def _areas(self, env: str, arms: Sequence[ComparedArm], drawn: _Drawn) -> NDArray[np.float64]:
        """Returns the mean area [arm, choice] of the tuning seeds."""
        runs = [self._finished.of(env, arm).seeds for arm in arms]
        areas = np.array([[area(of[seed]) for seed in self._plan.tuned(env)] for of in runs])
        return areas[:, drawn[env]].mean(axis=-1)

    @property
    def _seeds(self) -> _Drawn:
        """The tuning seeds themselves."""
        return {env: np.arange(len(self._plan.tuned(env)))[None] for env in self._plan.envs}
