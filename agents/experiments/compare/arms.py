"""The finished runs of a comparison's arms, and the scores of one run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.compare.plan import ComparedArm, LoadedPlan, RequestedRun
from targetnet.agents.experiments.store import FinishedRun, ResultStore, read_run, settings_of
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.timetable import RESUMED_ACTIONS, is_repeated
from targetnet.rl_core.errors import RlCoreError, RunDirError

_PLANNED = ("schedule", "controller")  # who may change a run whose config says so


class ArmRuns:
    """The finished runs of an arm on an env, and of those that are alike.

    Args:
      store: of all arms.
      name: of this one there.
      config: of the arm, with any seed.

    Raises:
      RunDirError: a finished run is damaged, or of another config.
    """

    def __init__(self, store: ResultStore, name: str, config: DqnConfig) -> None:
        self._store, self._name, self._config = store, name, config
        store.require_same_settings(name, config)
        for run in self.seeds.values():
            steps = [step for step, _ in run.curve]
            if not steps or steps != sorted(set(steps)) or not 0 < steps[-1] == run.env_steps:
                raise RunDirError(
                    f"cannot use {store.path}: it is damaged: the curve of {name}, seed "
                    f"{run.seed} does not lead to the end. Delete its line to train it again"
                )

    @property
    def seeds(self) -> Mapping[int, FinishedRun]:
        """The finished runs by their seeds."""
        return self._store.runs(self._name)

    def add(self, runs: Mapping[int, Path]) -> None:
        """Stores the scores of runs that have ended, and leaves the others out.

        Args:
          runs: seed -> run directory.

        Raises:
          RunDirError: a run's files are damaged, it is of another config or was steered, or the
            rows cannot be written.
        """
        found = []
        for seed, path in runs.items():
            config = self._config.model_copy(update={"seed": seed})
            run = read_run(path, self._name, config)
            if run is not None:
                _require_as_planned(path, config)
                found.append(run)
        self._store.add(*found)


class FinishedArms:
    """The finished runs of every arm on every env.

    Arms of the same settings have their runs in common, by the name of the first of them: hard-100,
    where one period for all envs may be 100 too.

    Args:
      loaded: the comparison.
      store: of its finished runs.

    Raises:
      RunDirError: a run is damaged, or of another config.
    """

    def __init__(self, loaded: LoadedPlan, store: ResultStore) -> None:
        self._arms: dict[tuple[str, ComparedArm], ArmRuns] = {}
        plan, alike = loaded.plan, dict[str, ArmRuns]()
        for (env, arm), config in loaded.configs.items():
            settings = f"{env} {json.dumps(settings_of(config), sort_keys=True)}"
            if settings not in alike:
                alike[settings] = ArmRuns(store, f"{env}/{plan.name(arm)}", config)
            self._arms[env, arm] = alike[settings]

    def __contains__(self, run: RequestedRun) -> bool:
        return run.seed in self._arms[run.env, run.arm].seeds

    def of(self, env: str, arm: ComparedArm) -> ArmRuns:
        """Returns what is finished of an arm on an env; arms that are alike have the same."""
        return self._arms[env, arm]

    def run(self, run: RequestedRun) -> FinishedRun:
        """Returns a run that is finished.

        Raises:
          KeyError: it is not.
        """
        return self._arms[run.env, run.arm].seeds[run.seed]

    def distinct(self, runs: Iterable[RequestedRun]) -> Iterator[RequestedRun]:
        """Yields some runs without those that an arm has in common with an earlier one."""
        seen = set()
        for run in runs:
            alike = self._arms[run.env, run.arm], run.seed
            if alike not in seen:
                seen.add(alike)
                yield run

    def require(self, wanted: Iterable[RequestedRun]) -> None:
        """Requires that runs are finished.

        Raises:
          RlCoreError: some are not; says how many.
        """
        missing = [run for run in self.distinct(wanted) if run not in self]
        if missing:
            raise RlCoreError(
                f"{len(missing):,} runs are not finished; without --finished they are trained"
            )


def _require_as_planned(run: Path, config: DqnConfig) -> None:
    """Checks that a run had this config from its beginning to its end.

    Raises:
      RunDirError: it had not.
    """
    before = RunDir.open(run).config()
    if before.seed != config.seed or settings_of(before) != settings_of(config):
        raise RunDirError(f"{run} is of another config. Delete it to train it again")
    log = [of for of in read_log(ControlFiles(run).log) if of.who not in _PLANNED]
    # To pause, stop or save changes no bit.
    steered = [of for of in log if is_repeated(of, RESUMED_ACTIONS)]
    if steered:
        raise RunDirError(
            f"{run} was steered ({steered[0].describe()}), so it is no run of this comparison. "
            "Delete it to train it again"
        )


# Scores of one run: areas under its greedy curve, and its final return.

Score = Callable[[FinishedRun], float]


def area(run: FinishedRun) -> float:
    """Returns the area under a run's greedy curve, divided by its length in env steps.

    The curve is straight between two evaluations, and before the first one as high as there.
    """
    return _stretch(run, 0, run.env_steps)


def quarter(number: int, run: FinishedRun) -> float:
    """Returns what `area` is of one quarter of the run, 0 to 3."""
    return _stretch(run, number * run.env_steps / 4, (number + 1) * run.env_steps / 4)


def second_half(run: FinishedRun) -> float:
    """Returns what `area` is of the second half of the run."""
    return _stretch(run, run.env_steps / 2, run.env_steps)


def _stretch(run: FinishedRun, begin: float, end: float) -> float:
    steps, values = zip(*run.curve, strict=True)
    at = [begin, *(step for step in steps if begin < step < end), end]
    return float(np.trapezoid(np.interp(at, steps, values), at) / (end - begin))


def final(run: FinishedRun) -> float:
    """Returns the mean return of a run's final greedy episodes."""
    return run.mean
