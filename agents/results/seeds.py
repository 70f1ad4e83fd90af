"""The seeds of a config and of a peer: their runs, their files, and the jobs that train them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agents.results.jobs import Job
from agents.results.jobs_display import Progressed
from rl_core.control.files import ControlFiles
from rl_core.control.state import read_state
from rl_core.errors import RlCoreError, RunDirError

if TYPE_CHECKING:
    from agents.config.model import DqnConfig
    from agents.results.scores import Row

TRAIN = [sys.executable, "-m", "agents.cli", "train"]


class ConfigSeeds:
    """The seeds of one config of ours.

    Args:
      config: shipped name, or path of a TOML file.
      seeds: their numbers.
      out: directory of runs and logs.
      rows: directory of the files of finished seeds.

    Attributes:
      name: the config's name.
      env_id: the config's env.
    """

    def __init__(self, config: str, seeds: range, out: Path, rows: Path) -> None:
        from agents.config.files import config_name, load_config

        self._config, self._seeds, self._out = config, seeds, out
        self.name, self.env_id = config_name(config), load_config(config).env_id
        self._files = {seed: rows / self.name / f"{seed}.json" for seed in seeds}

    def require_same_config(self) -> None:
        """Checks that the seeds with a file were trained with the config as it is now.

        Raises:
          RunDirError: one was not.
        """
        from agents.results.kept import require_same_config

        for seed, path in self._files.items():
            if path.exists():
                require_same_config(path, self._with_seed(seed))

    def jobs(self) -> list[Job]:
        """Returns the jobs that train the seeds without a file."""
        # Each child process checks whether its run is finished, is of this config, or is resumed.
        return [self._job(seed) for seed, path in self._files.items() if not path.exists()]

    def keep_finished(self, say: Callable[[str], None]) -> None:
        """Keeps the finished runs that have no file yet, but for those that another config made."""
        from agents.config.files import require_can_go_on
        from agents.saved.directory import RunDir

        for seed, path in self._files.items():
            run = self._run(seed)
            if path.exists() or not (run / "result.json").exists():
                continue
            try:
                require_can_go_on(RunDir.open(run).config(), self._with_seed(seed))
            except RlCoreError as error:
                say(f"{run} is left out: {error}")
                continue
            self._keep(seed)

    def row(self) -> Row:
        """Returns the row of the seeds with a file."""
        from agents.results.kept import kept_row

        return kept_row(self.env_id, self.name, self._files)

    def _run(self, seed: int) -> Path:
        return self._out / "runs" / self.name / str(seed)

    def _with_seed(self, seed: int) -> DqnConfig:
        from agents.config.files import load_config

        return load_config(self._config, [f"seed={seed}"])

    def _job(self, seed: int) -> Job:
        run = self._run(seed)
        return Job(
            f"{self.name} seed {seed}",
            [*TRAIN, self._config, "--seed", str(seed), "--run", str(run), "--resume"],
            self._out / "logs" / self.name / f"{seed}.log",
            partial(env_steps_of, ControlFiles(run)),
            partial(self._keep, seed),
        )

    def _keep(self, seed: int) -> None:
        from agents.results.kept import keep

        keep(self._files[seed], self._run(seed), self._with_seed(seed))


class PeerSeeds:
    """The seeds of the peer on one env.

    Args:
      env_id: the env.
      seeds, out, rows: as for `ConfigSeeds`.
    """

    def __init__(self, env_id: str, seeds: range, out: Path, rows: Path) -> None:
        from agents.results.page import file_name

        self._env_id, self._logs = env_id, out / "logs" / "sb3" / env_id
        self._files = {seed: rows / f"sb3-{file_name(env_id)}" / f"{seed}.json" for seed in seeds}

    @property
    def missing(self) -> dict[int, Path]:
        """The files that there are not yet, by seed."""
        return {seed: path for seed, path in self._files.items() if not path.exists()}

    def jobs(self, python: Path) -> list[Job]:
        """Returns the jobs that train the seeds without a file, with the peer's interpreter."""
        from agents.results.peer import peer_job

        return [
            peer_job(python, self._env_id, seed, path, self._logs / f"{seed}.log")
            for seed, path in self.missing.items()
        ]

    def row(self) -> Row:
        """Returns the row of the seeds with a file."""
        from agents.results.kept import kept_row
        from agents.results.peer import NAME

        return kept_row(self._env_id, NAME, self._files, peer=True)


def env_steps_of(files: ControlFiles) -> Progressed | None:
    """Returns the env steps that a run has made, and all it will make; None if it just began."""
    try:
        state, _ = read_state(files)
    except RunDirError:
        return None
    return state.env_step, state.env_steps
