"""The seeds of a config and of a peer: their runs, their files, and the jobs that train them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from targetnet.agents.cluster.messages import JobInputs
from targetnet.agents.results.jobs import Job
from targetnet.agents.results.jobs_display import Progressed
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import RlCoreError, RunDirError

if TYPE_CHECKING:
    from targetnet.agents.config.model import DqnConfig
    from targetnet.agents.results.scores import Row

# Seeds below are for tuning, those from here on for scores that nothing was chosen by.
FIRST_FRESH_SEED = 1_000
# -P: a package of the user's in the current directory must not come before ours.
TRAIN = [sys.executable, "-P", "-m", "targetnet.agents.cli", "train"]


class ConfigSeeds:
    """The seeds of one config of ours.

    Args:
      config: shipped name, or path of a TOML file.
      seeds: their numbers.
      out: directory of runs and logs.
      rows: directory of the files of finished seeds.
      together: seeds of one process, which trains them as a population; 1 trains runs.

    Attributes:
      name: the config's name.
      env_id: the config's env.
      config: as it is now, with its own seed.
    """

    def __init__(self, config: str, seeds: range, out: Path, rows: Path, together: int = 1) -> None:
        from targetnet.agents.config.files import config_name, load_config

        self._config, self._seeds, self._out, self._together = config, seeds, out, together
        self.name, self.config = config_name(config), load_config(config)
        self.env_id = self.config.env_id
        self._files = {seed: rows / self.name / f"{seed}.json" for seed in seeds}

    def require_same_config(self) -> None:
        """Checks that the seeds with a file were trained with the config as it is now.

        Raises:
          RunDirError: one was not.
        """
        from targetnet.agents.results.seed_files import require_same_config

        for seed, path in self._files.items():
            if path.exists():
                require_same_config(path, self._with_seed(seed))

    def jobs(self) -> list[Job]:
        """Returns the jobs that train the seeds without a file."""
        # Each child process checks whether its run is finished, is of this config, or is resumed.
        missing = {seed for seed, path in self._files.items() if not path.exists()}
        jobs = []
        for population, runs in self._populations().items():
            if missing & runs.keys():
                jobs.append(self._population_job(population, list(runs)))
                missing -= runs.keys()
        alone = {seed for seed in missing if self._together == 1 or self._run(seed).exists()}
        jobs += [self._job(seed) for seed in sorted(alone)]
        rest = sorted(missing - alone)
        for first in range(0, len(rest), self._together):
            seeds = rest[first : first + self._together]
            jobs.append(self._population_job(self._runs / f"population-{seeds[0]}", seeds))
        return jobs

    def keep_finished(self, say: Callable[[str], None]) -> None:
        """Keeps the finished runs that have no file yet, but for those that another config made."""
        from targetnet.agents.config.files import require_can_go_on
        from targetnet.agents.saved.directory import RunDir

        runs = self._all_runs()
        for seed, path in self._files.items():
            run = runs[seed]
            if path.exists() or not RunDir(run).has_result():
                continue
            try:
                require_can_go_on(RunDir.open(run).config(), self._with_seed(seed))
            except RlCoreError as error:
                say(f"{run} is left out: {error}")
                continue
            self._keep(seed, run)

    def row(self) -> Row:
        """Returns the row of the seeds with a file."""
        from targetnet.agents.results.seed_files import kept_row

        return kept_row(self.env_id, self.name, self._files)

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
        from targetnet.agents.config.files import load_config

        return load_config(self._config, [f"seed={seed}"])

    def _job(self, seed: int) -> Job:
        from targetnet.agents.config.files import dump_config

        run = self._run(seed)
        return Job(
            f"{self.name} seed {seed}",
            [*TRAIN, self._config, "--seed", str(seed), "--run", str(run), "--resume"],
            self._out / "logs" / self.name / f"{seed}.log",
            partial(env_steps_of, ControlFiles(run)),
            partial(self._keep, seed, run),
            portable=portable(
                self.config, run, [run], {self._config: dump_config(self.config).encode()}
            ),
        )

    def _population_job(self, path: Path, seeds: Sequence[int]) -> Job:
        """Returns the job of a population, and writes its config."""
        from targetnet.agents.config.files import load_config
        from targetnet.agents.config.members import members_text, with_seeds
        from targetnet.agents.saved.directory import write_file

        members, file = with_seeds(load_config(self._config), seeds), path.with_suffix(".toml")
        runs = dict(zip(seeds, (path / name for name in members.configs), strict=True))
        path.parent.mkdir(parents=True, exist_ok=True)
        # As the config is now: a population of another one is refused by the child process.
        text = members_text(members).encode()
        write_file(file, text)

        def keep() -> None:
            for seed in runs.keys() & self._files.keys():
                self._keep(seed, runs[seed])

        return Job(
            f"{self.name} seeds {', '.join(map(str, seeds))}",
            [*TRAIN, str(file), "--run", str(path), "--resume"],
            self._out / "logs" / self.name / f"{path.name}.log",
            partial(env_steps_of_all, runs.values()),
            keep,
            portable=portable(self.config, path, [*runs.values()], {str(file): text}),
        )

    def _keep(self, seed: int, run: Path) -> None:
        from targetnet.agents.results.seed_files import keep

        if not self._files[seed].exists():
            keep(self._files[seed], run, self._with_seed(seed))


class PeerSeeds:
    """The seeds of a peer on one env.

    Args:
      peer: one of targetnet.agents.results.peer.NAMES.
      config: of ours, whose env it is.
      seeds, out, rows: as for `ConfigSeeds`.
    """

    def __init__(self, peer: str, config: DqnConfig, seeds: range, out: Path, rows: Path) -> None:
        from targetnet.agents.results.page import file_name

        self._peer, self._config = peer, config
        self._logs = out / "logs" / peer / config.env_id
        directory = rows / f"{peer}-{file_name(config.env_id)}"
        self._files = {seed: directory / f"{seed}.json" for seed in seeds}

    @property
    def missing(self) -> dict[int, Path]:
        """The files that there are not yet, by seed."""
        return {seed: path for seed, path in self._files.items() if not path.exists()}

    def jobs(self, python: Path) -> list[Job]:
        """Returns the jobs that train the seeds without a file, with the peer's interpreter."""
        from targetnet.agents.results.peer import peer_job

        return [
            peer_job(python, self._peer, self._config, seed, path, self._logs / f"{seed}.log")
            for seed, path in self.missing.items()
        ]

    def row(self) -> Row:
        """Returns the row of the seeds with a file."""
        from targetnet.agents.results.peer import NAMES
        from targetnet.agents.results.seed_files import kept_row

        return kept_row(self._config.env_id, NAMES[self._peer], self._files, peer=True)


def portable(
    config: DqnConfig, tree: Path, runs: Sequence[Path], files: Mapping[str, bytes]
) -> JobInputs:
    """Returns what a job of `targetnet train` needs to run on another machine.

    Args:
      config: of its runs, which may differ in live values and seeds.
      tree, runs, files: as for `JobInputs`.
    """
    return JobInputs(tree, runs, files, config.threads, config.checkpoint_keep)


def env_steps_of(files: ControlFiles) -> Progressed | None:
    """Returns the env steps that a run has made, and all it will make; None if it just began."""
    try:
        state, _ = read_state(files)
    except RunDirError:
        return None
    return state.env_step, state.env_steps


def env_steps_of_all(runs: Iterable[Path]) -> Progressed | None:
    """Returns the env steps of several runs together; None while one of them is unknown."""
    found = [env_steps_of(ControlFiles(run)) for run in runs]
    if None in found:
        return None
    done, total = (sum(of) for of in zip(*filter(None, found), strict=True))
    return done, total
