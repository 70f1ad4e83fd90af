"""Groups of trials: those that one process trains, as a run or as a population."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from targetnet.agents.cluster.messages import JobInputs
from targetnet.agents.config.files import dump_config
from targetnet.agents.config.members import names_for, population_text
from targetnet.agents.results.jobs_display import Progressed
from targetnet.agents.results.seeds import TRAIN, env_steps_of_all, portable
from targetnet.agents.saved.directory import write_file
from targetnet.agents.sweep.plan import SweepPlan
from targetnet.agents.sweep.trial import Trial
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


class TrialGroup:
    """The trials of one process.

    Args:
      number: the group's.
      trials: they have begun.
      path: of the run, or of the population that holds all runs.
      config: of what is trained, a TOML file.
      portable: what its process needs on another machine; None if there is nothing to train.
    """

    def __init__(
        self,
        number: int,
        trials: Sequence[Trial],
        path: Path,
        config: Path,
        portable: JobInputs | None,
    ) -> None:
        self.number, self.trials, self.path, self._config = number, trials, path, config
        self.portable = portable
        self.runs = [run for trial in trials for run in trial.runs]
        first, last = trials[0].number, trials[-1].number
        self.name = f"trial {first}" if len(trials) == 1 else f"trials {first} to {last}"

    @property
    def is_over(self) -> bool:
        return all(trial.is_over for trial in self.trials)

    def command(self) -> list[str]:
        return [*TRAIN, str(self._config), "--run", str(self.path), "--resume"]

    def wait_for_another(self) -> None:
        """Waits while a process that outlived an earlier sweep still saves its runs."""
        until = time.monotonic() + _SAVING_SECONDS
        while any(is_alive(ControlFiles(run)) for run in self.runs) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def progress(self) -> Progressed | None:
        """Returns the env steps of all runs together."""
        return env_steps_of_all(self.runs)

    def stop(self, trial: Trial) -> None:
        """Stops the runs of a trial, while others of the process go on."""
        if not is_population(self.path):
            return
        for run in trial.runs:
            with contextlib.suppress(NotRunning, RunDirError):
                RunClient(run).send([do_command("stop", "api")])


def make_group(
    plan: SweepPlan, number: int, proposed: Sequence[FrozenTrial], directory: Path
) -> TrialGroup:
    """Returns a group, and writes the config of what it trains.

    Args:
      plan: the sweep's.
      number: the group's.
      proposed: its trials.
      directory: of all runs.

    Raises:
      RunDirError: the config cannot be written.
    """
    path, file = directory / f"{number:03}", directory / f"{number:03}.toml"
    trials = [
        Trial(of.number, told=of.state.is_finished(), pruned=of.state.name == "PRUNED")
        for of in proposed
    ]
    configs: dict[int, list[DqnConfig]] = {}
    for trial, of in zip(trials, proposed, strict=True):
        seeds = plan.seeds_of(of.number)
        try:
            configs[of.number] = [plan.space.config(of.params, {"seed": seed}) for seed in seeds]
        except ConfigError as error:  # values that no config has together
            trial.error = str(error)
    members = [config for own in configs.values() for config in own]
    alone = plan.together * plan.seeds == 1
    paths = iter([path] if alone else [path / name for name in names_for(len(members))])
    for trial in trials:
        trial.runs = {next(paths): config.env_steps for config in configs.get(trial.number, [])}
    travelling = None
    if members:
        text = dump_config(members[0]) if alone else population_text(members)
        write_file(file, text.encode(), make_parents=True)
        runs = [run for trial in trials for run in trial.runs]
        travelling = portable(members[0], path, runs, {str(file): text.encode()})
    return TrialGroup(number, trials, path, file, travelling)
