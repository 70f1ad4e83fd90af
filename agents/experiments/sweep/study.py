"""The study of a sweep: what was tried, with which score, and what to try next. Made by Optuna."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from targetnet.agents.experiments.sweep.plan import SweepPlan
from targetnet.agents.experiments.sweep.space import Axis, Range
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.extras import require_package

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial, TrialState

_NAME = "sweep"
_DAMAGE = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError),
    RecursionError,  # lists in lists in lists
)
_STARTUP = 5  # complete trials before one may be stopped: Optuna's own number


def require_optuna() -> None:
    """Checks that Optuna is installed.

    Raises:
      RlCoreError: it is not; the message says how to install it.
    """
    require_package("optuna", "a sweep needs Optuna", "sweep")


class Study:
    """The study in a file. Who makes it holds the sweep's lock: nobody else writes there.

    The file is a journal of Optuna's, which its own tools read too.

    Args:
      path: the file; made if there is none.
      plan: the sweep's.

    Raises:
      RunDirError: the file is damaged, or cannot be read or written.
    """

    def __init__(self, path: Path, plan: SweepPlan) -> None:
        optuna = _optuna()
        from optuna.storages import JournalStorage

        from targetnet.agents.experiments.sweep.journal import Journal

        self._plan = plan
        self._axes = {name: _distribution(axis) for name, axis in plan.space.axes.items()}
        try:
            self._study = optuna.create_study(
                storage=JournalStorage(Journal(path)),
                sampler=optuna.samplers.RandomSampler(),  # never asked: see `ask`
                study_name=_NAME,
                direction="maximize",
                load_if_exists=True,
            )
            self._require_same_axes()
        except RunDirError:
            raise
        except _DAMAGE:
            raise RunDirError(f"{path} is damaged: it is not the study of a sweep") from None

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials, by their numbers."""
        return self._study.get_trials(deepcopy=False)

    def best(self) -> FrozenTrial | None:
        """Returns the trial with the best score, the older of two."""
        ranking = self.ranking()
        return ranking[0] if ranking else None

    def ranking(self) -> list[FrozenTrial]:
        """Returns the trials that have a score, the best first, of equal ones the older."""
        whole = [trial for trial in self.trials if trial.state.name == "COMPLETE"]
        return sorted(whole, key=lambda trial: (-(trial.value or 0.0), trial.number))

    def ask(self, count: int, known: int) -> None:
        """Adds so many trials.

        Args:
          known: number of the trials that they are proposed from, the first ones; all others
            count as running, whether they have ended or not.
        """
        optuna = _optuna()
        aside = optuna.create_study(direction="maximize")
        aside.add_trials([*self.trials[:known], *map(_running, self.trials[known:])])
        for _ in range(count):
            number = len(self.trials)
            # Each trial has a sampler of its own: what a sampler draws is not kept in the file.
            aside.sampler = self._sampler(number)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                aside.ask(self._axes)
            # In one piece: a trial that is asked in the file itself may be left without its values.
            self._study.add_trial(_running(aside.get_trials(deepcopy=False)[number]))

    def tell(
        self, number: int, curve: Sequence[float], score: float | None, about: Mapping[str, Any]
    ) -> None:
        """Ends a trial.

        Args:
          curve: of its evaluations.
          score: its score; None if it was stopped early, or failed where the curve is empty.
          about: what else is kept of it.
        """
        from optuna.trial import Trial, TrialState

        trial = self.trials[number]
        told = Trial(self._study, trial._trial_id)
        for name, value in about.items():
            told.set_user_attr(name, value)
        for step, value in enumerate(curve):
            if step not in trial.intermediate_values:
                told.report(value, step)
        state: TrialState = TrialState.COMPLETE
        if score is None:
            state = TrialState.PRUNED if curve else TrialState.FAIL
        self._study.tell(told, score, state=state)

    def is_worse(self, curve: Sequence[float], known: int) -> bool:
        """Says whether a trial is worse than the median of earlier ones.

        Args:
          curve: of its evaluations so far.
          known: number of the trials that it is compared with, the first ones.
        """
        optuna = _optuna()
        before = optuna.create_study(direction="maximize")
        before.add_trials(self.trials[:known])
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState.RUNNING,
            intermediate_values=dict(enumerate(curve)),
        )
        return optuna.pruners.MedianPruner(n_startup_trials=_STARTUP).prune(before, trial)

    def importances(self) -> dict[str, float]:
        """Returns each key's share in the differences of scores; empty while they are too few."""
        from optuna.importance import get_param_importances

        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                shares = get_param_importances(self._study)
            except (ValueError, RuntimeError):
                return {}
        too_few = any("too small" in str(of.message) for of in told)
        return {} if too_few else shares

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        samplers = _optuna().samplers
        if self._plan.sampler == "grid":  # its seed shuffles the grid, and so is one for all
            return samplers.GridSampler(self._plan.grid(), seed=self._plan.seed)
        seed = int(np.random.SeedSequence([self._plan.seed, number]).generate_state(1)[0])
        if self._plan.sampler == "random":
            return samplers.RandomSampler(seed=seed)
        return samplers.TPESampler(seed=seed)

    def _require_same_axes(self) -> None:
        for trial in self.trials:
            if trial.distributions != self._axes or not trial.params.keys() == self._axes.keys():
                raise ValueError


def _running(trial: FrozenTrial) -> FrozenTrial:
    """Returns a trial as it was when it began."""
    made = _optuna().trial
    running: FrozenTrial = made.create_trial(
        state=made.TrialState.RUNNING,
        params=trial.params,
        distributions=trial.distributions,
        system_attrs=trial.system_attrs,
    )
    return running


def _optuna() -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _distribution(axis: Axis) -> Any:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if not isinstance(axis, Range):
        return CategoricalDistribution(list(axis.values))
    if axis.whole:
        return IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)
