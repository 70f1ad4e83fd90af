"""Trials of a sweep: their runs, curves and scores; and groups, each trained by one process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from targetnet.agents.experiments.jobs import Job
from targetnet.agents.experiments.store import EVALUATION
from targetnet.agents.experiments.sweep.plan import SweepPlan
from targetnet.agents.experiments.training_job import run_paths, training_job
from targetnet.agents.saved.directory import EVENTS, RunDir, read_result
from targetnet.agents.saved.machines import processor_of
from targetnet.rl_core.board.read_events import read_curves
from targetnet.rl_core.control.client import NotRunning, RunClient
from targetnet.rl_core.control.commands import do_command
from targetnet.rl_core.control.files import ControlFiles, is_alive
from targetnet.rl_core.control.population import is_population
from targetnet.rl_core.errors import ConfigError, RunDirError

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from targetnet.agents.config.model import DqnConfig

_SAVING_SECONDS = 60.0
_LOOK_SECONDS = 0.1


@dataclass
class Trial:
    """A trial that has begun.

    Args:
      number: the trial's.
      runs: the run directory of each tuning seed -> env steps of the whole run.
      told: whether the study knows its end.
      pruned: whether the study knows that it was stopped early.
      stopped: number of evaluations after which it was stopped early; None if it was not.
      error: one line, if a run of it failed.
    """

    number: int
    runs: Mapping[Path, int] = field(default_factory=dict)
    told: bool = False
    pruned: bool = False
    stopped: int | None = None
    error: str = ""
    _lengths: dict[Path, int] = field(default_factory=dict)
    _points: dict[Path, list[float]] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """True if its end is known from something else than the runs' results."""
        return self.told or self.stopped is not None or bool(self.error)

    @property
    def is_over(self) -> bool:
        return self.is_known or all(RunDir(run).has_result() for run in self.runs)

    @property
    def is_stopped_in_vain(self) -> bool:
        """True if it was stopped early and a run of it goes on: a resumed sweep began it again."""
        if self.stopped is None and not self.pruned:
            return False
        return any(is_alive(ControlFiles(r)) and not RunDir(r).has_result() for r in self.runs)

    def curve(self) -> list[float]:
        """Returns the mean greedy return over the runs at each evaluation before the last.

        Raises:
          RunDirError: a run's files are damaged.
        """
        return [float(np.mean(points)) for points in zip(*map(self._of, self.runs), strict=False)]

    def whole_curve(self) -> list[float]:
        """Returns the curve with the runs' final evaluations; all runs have ended.

        Raises:
          RunDirError: a run's files are damaged.
        """
        results = [read_result(run).mean for run in self.runs]
        return [*self.curve(), float(np.mean(results))]

    def score(self, of: Literal["curve", "final"]) -> float:
        """Returns the score of a trial whose runs have ended."""
        curve = self.whole_curve()
        return float(np.mean(curve)) if of == "curve" else curve[-1]

    def said(self, of: Literal["curve", "final"]) -> str:
        """Returns how the trial ended, in words."""
        if self.error:
            return "failed"
        if self.stopped is not None:
            return f"stopped after {self.stopped} of its evaluations"
        return f"{self.score(of):,.1f}"

    def about(self, seeds: Sequence[int]) -> dict[str, Any]:
        """Returns what is kept of a trial beside its curve."""
        if self.error:
            return {"error": self.error}
        if self.stopped is not None:
            return {"seeds": list(seeds)}
        results = [read_result(run) for run in self.runs]
        return {
            "seeds": list(seeds),
            "digests": [RunDir(run).load_digest().digest for run in self.runs],
            "seconds": sum(result.seconds or 0.0 for result in results),
            "processor": " and ".join(dict.fromkeys(map(processor_of, self.runs))),
        }

    def _of(self, run: Path) -> list[float]:
        """Returns a run's evaluations; its files are read again only once they have grown."""
        length = 0
        for path in run.glob(EVENTS):
            with contextlib.suppress(FileNotFoundError):  # a run that is resumed removes some
                length += path.stat().st_size
        if self._lengths.get(run) != length:
            points = dict(read_curves(run, [EVALUATION])[EVALUATION])
            # One at the end is replaced by the final evaluation, which has more episodes.
            self._points[run] = [v for step, v in sorted(points.items()) if step < self.runs[run]]
            self._lengths[run] = length
        return self._points[run]


class TrialGroup:
    """The trials of one process.

    Args:
      plan: the sweep's.
      number: the group's.
      proposed: its trials.
      directory: of all runs.

    Attributes:
      number: the same.
      trials: they have begun; those that no config can have have failed.
      name: words for the screen.
    """

    def __init__(
        self, plan: SweepPlan, number: int, proposed: Sequence[FrozenTrial], directory: Path
    ) -> None:
        self.number, self._path = number, directory / f"{number:03}"
        self._alone = plan.together * plan.seeds == 1
        self.trials = [
            Trial(of.number, told=of.state.is_finished(), pruned=of.state.name == "PRUNED")
            for of in proposed
        ]
        configs: dict[int, list[DqnConfig]] = {}
        for trial, of in zip(self.trials, proposed, strict=True):
            seeds = plan.seeds_of(of.number)
            try:
                configs[of.number] = [plan.space.config(of.params, {"seed": n}) for n in seeds]
            except ConfigError as error:  # values that no config has together
                trial.error = str(error)
        self._configs = [config for own in configs.values() for config in own]
        paths = iter(run_paths(self._path, len(self._configs), alone=self._alone))
        for trial in self.trials:
            own = configs.get(trial.number, [])
            trial.runs = {next(paths): config.env_steps for config in own}
        first, last = self.trials[0].number, self.trials[-1].number
        self.name = f"trial {first}" if first == last else f"trials {first} to {last}"

    @property
    def is_over(self) -> bool:
        return all(trial.is_over for trial in self.trials)

    def job(self, log: Path, **more: Any) -> Job:
        """Returns the job that trains the group; `more` are further fields of it.

        Raises:
          RunDirError: the file that it reads cannot be written.
        """
        return training_job(self.name, self._path, self._configs, log, alone=self._alone, **more)

    def wait_for_another(self) -> None:
        """Waits while a process that outlived an earlier sweep still saves its runs."""
        until = time.monotonic() + _SAVING_SECONDS
        runs = [ControlFiles(run) for trial in self.trials for run in trial.runs]
        while any(map(is_alive, runs)) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def stop(self, trial: Trial) -> None:
        """Stops the runs of a trial, while others of the process go on."""
        if not is_population(self._path):
            return
        for run in trial.runs:
            with contextlib.suppress(NotRunning, RunDirError):
                RunClient(run).send([do_command("stop", "api")])
