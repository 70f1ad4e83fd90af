"""Finished seeds as JSON files, one for each arm on an env. The page is made of them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from agents.config.model import DqnConfig
from agents.results.kept import require_same_settings, settings_of
from agents.results.scores import Seed, read_result, run_seed
from agents.results.table import versions
from agents.saved.directory import RunDir
from agents.saved.machines import processor_of
from rl_core.control.files import write_whole
from rl_core.errors import RunDirError


class KeptSeed(BaseModel):
    """One finished seed.

    Attributes:
      curve: (env step, mean greedy return), with the final one.
      digest: of the end of its training.
    """

    model_config = ConfigDict(extra="forbid")

    env_steps: int
    updates: int
    mean: float
    curve: list[tuple[int, float]]
    seconds: float | None
    digest: str
    processor: str
    date: str


class _KeptArm(BaseModel):
    model_config = ConfigDict(extra="forbid")

    env_id: str
    settings: dict[str, Any]
    versions: dict[str, str]
    seeds: dict[int, KeptSeed]


class KeptArm:
    """The finished seeds of an arm on an env.

    Args:
      path: of their file.
      config: of the arm, with any seed.

    Attributes:
      seeds: by number.

    Raises:
      RunDirError: the file is damaged, or of another config.
    """

    def __init__(self, path: Path, config: DqnConfig) -> None:
        self._path, self._config = path, config
        self.seeds: dict[int, KeptSeed] = {}
        if path.exists():
            kept = read_result(path, _KeptArm)
            require_same_settings(path, kept.settings, config)
            self.seeds = kept.seeds

    def add(self, runs: Mapping[int, Path]) -> None:
        """Keeps the scores of runs that have ended, and leaves the others out.

        Args:
          runs: seed -> run directory.

        Raises:
          RunDirError: a run's files are damaged, or the file cannot be written.
        """
        found = {seed: run_seed(run, seed) for seed, run in runs.items()}
        new = {seed: _kept(runs[seed], of) for seed, of in found.items() if of is not None}
        if not new:
            return
        self.seeds = dict(sorted((self.seeds | new).items()))
        kept = _KeptArm(
            env_id=self._config.env_id,
            settings=settings_of(self._config),
            versions=versions(),
            seeds=self.seeds,
        )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, (json.dumps(kept.model_dump()) + "\n").encode())
        except OSError as error:
            raise RunDirError(f"cannot write {self._path}: {error.strerror}") from None


def _kept(run: Path, seed: Seed) -> KeptSeed:
    return KeptSeed(
        env_steps=seed.env_steps,
        updates=seed.updates,
        mean=seed.mean,
        curve=sorted(seed.curve.items()),
        seconds=seed.seconds,
        digest=RunDir(run).load_digest().digest,
        processor=processor_of(run),
        date=time.strftime("%Y-%m-%d"),
    )
