"""The seeds of a config and of a peer: their runs, and the jobs that train what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from targetnet.agents.experiments.jobs import Job
from targetnet.agents.experiments.training_job import training_job
from targetnet.rl_core.errors import RlCoreError

if TYPE_CHECKING:
    from targetnet.agents.config.model import DqnConfig
    from targetnet.agents.experiments.results.table import Row
    from targetnet.agents.experiments.store import FinishedRun, ResultStore


class ConfigSeeds:
    """The seeds of one config of ours.

    Args:
      config: shipped name, path of a TOML file, or an env's id.
      seeds: their numbers.
      out: directory of runs and logs.
      store: of the finished ones.
      together: seeds of one process, which trains them as a population; 1 trains runs.

    Attributes:
      name: the config's name.
      env_id: the config's env.
      config: as it is now, with its own seed.
    """

    def __init__(
        self, config: str, seeds: range, out: Path, store: ResultStore, together: int = 1
    ) -> None:
        from targetnet.agents.config.files import config_name, load_config

        self._seeds, self._out, self._store, self._together = seeds, out, store, together
        self.name, self.config = config_name(config), load_config(config)
        self.env_id = self.config.env_id

    def require_same_config(self) -> None:
        """Checks that the finished seeds were trained with the config as it is now.

        Raises:
          RunDirError: one was not.
        """
        self._store.require_same_settings(self.name, self.config, self._seeds)

    def jobs(self) -> list[Job]:
        """Returns the jobs that train the seeds that are not finished."""
        # Each child process checks whether its run is finished, is of this config, or is resumed.
        missing = {seed for seed in self._seeds if seed not in self._finished}
        jobs = []
        for population, runs in self._populations().items():
            if missing & runs.keys():
                jobs.append(self._job(population, list(runs)))
                missing -= runs.keys()
        alone = {seed for seed in missing if self._together == 1 or self._run(seed).exists()}
        jobs += [self._job(self._run(seed), [seed], alone=True) for seed in sorted(alone)]
        rest = sorted(missing - alone)
        for first in range(0, len(rest), self._together):
            seeds = rest[first : first + self._together]
            jobs.append(self._job(self._runs / f"population-{seeds[0]}", seeds))
        return jobs

    def keep_finished(self, say: Callable[[str], None]) -> None:
        """Stores the runs that have ended since, but for those that another config made."""
        from targetnet.agents.config.files import require_can_go_on
        from targetnet.agents.saved.directory import RunDir

        runs, ended = self._all_runs(), {}
        for seed in self._seeds:
            run = runs[seed]
            if seed in self._finished or not RunDir(run).has_result():
                continue
            try:
                require_can_go_on(RunDir.open(run).config(), self._with_seed(seed))
            except RlCoreError as error:
                say(f"{run} is left out: {error}")
                continue
            ended[seed] = run
        if ended:
            with self._store.held():
                self._keep(ended)

    def row(self) -> Row:
        """Returns the row of the finished seeds."""
        from targetnet.agents.experiments.results.table import Row

        runs = [self._finished[seed] for seed in self._seeds if seed in self._finished]
        return Row(self.env_id, self.name, runs)

    @property
    def _finished(self) -> Mapping[int, FinishedRun]:
        return self._store.runs(self.name)

    @property
    def _runs(self) -> Path:
        return self._out / "runs" / self.name

    def _run(self, seed: int) -> Path:
        """Returns the directory of a seed that has a process to itself."""
        return self._runs / str(seed)

    def _all_runs(self) -> dict[int, Path]:
        """Returns the run of each seed, which may be a member of a population."""
        runs = {seed: self._run(seed) for seed in self._seeds}
        for members in self._populations().values():
            runs |= members
        return runs

    def _populations(self) -> dict[Path, dict[int, Path]]:
        """Returns the directories of the populations that there are, with the run of each seed."""
        from targetnet.agents.config.members import read_members
        from targetnet.rl_core.control.population import POPULATION, is_population

        found = {}
        for path in sorted(self._runs.glob("population-*")):
            if is_population(path):
                configs = read_members(path / POPULATION).configs
                found[path] = {config.seed: path / name for name, config in configs.items()}
        return found

    def _with_seed(self, seed: int) -> DqnConfig:
        return self.config.model_copy(update={"seed": seed})

    def _job(self, path: Path, seeds: Sequence[int], *, alone: bool = False) -> Job:
        from targetnet.agents.experiments.training_job import run_paths

        runs = dict(zip(seeds, run_paths(path, len(seeds), alone=alone), strict=True))
        return training_job(
            f"{self.name} seed{'' if alone else 's'} {', '.join(map(str, seeds))}",
            path,
            [self._with_seed(seed) for seed in seeds],
            self._out / "logs" / self.name / f"{path.name}.log",
            alone=alone,
            finish=partial(self._keep, runs),
        )

    def _keep(self, runs: dict[int, Path]) -> None:
        """Stores those of some runs that are finished, if their seeds are wanted."""
        from targetnet.agents.experiments.store import read_run

        found = [
            read_run(run, self.name, self._with_seed(seed))
            for seed, run in runs.items()
            if seed in self._seeds and seed not in self._finished
        ]
        self._store.add(*(run for run in found if run))


class PeerSeeds:
    """The seeds of a peer on one env.

    Args:
      peer: one of targetnet.agents.experiments.results.peer.NAMES.
      config: of ours, whose env it is.
      seeds, out, store: as for `ConfigSeeds`.
    """

    def __init__(
        self, peer: str, config: DqnConfig, seeds: range, out: Path, store: ResultStore
    ) -> None:
        self._peer, self._config, self._seeds, self._store = peer, config, seeds, store
        self._agent = f"{peer}-{config.env_id}"
        self._logs = out / "logs" / peer / config.env_id

    def keep_finished(self) -> None:
        """Stores what processes of the peer have written since."""
        for seed in self.missing:
            if self._file(seed).exists():
                self._keep(seed)

    @property
    def missing(self) -> list[int]:
        """The seeds that are not finished."""
        return [seed for seed in self._seeds if seed not in self._store.runs(self._agent)]

    def jobs(self, python: Path) -> list[Job]:
        """Returns the jobs that train the missing seeds, with the peer's interpreter."""
        from targetnet.agents.experiments.results.peer import peer_job

        return [
            peer_job(python, self._peer, self._config, seed, self._file(seed), self._keep)
            for seed in self.missing
        ]

    def row(self) -> Row:
        """Returns the row of the finished seeds."""
        from targetnet.agents.experiments.results.peer import NAMES
        from targetnet.agents.experiments.results.table import Row

        runs = self._store.runs(self._agent)
        found = [runs[seed] for seed in self._seeds if seed in runs]
        return Row(self._config.env_id, NAMES[self._peer], found, peer=True)

    def _file(self, seed: int) -> Path:
        """Returns the file that the peer's process writes."""
        return self._logs / f"{seed}.json"

    def _keep(self, seed: int) -> None:
        from targetnet.agents.experiments.store import read_row

        self._store.add(read_row(self._file(seed), self._agent))
