"""Finished seeds as JSON files, one for each arm on an env. The page is made of them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from targetnet.agents.compare.plan import ComparedArm, LoadedPlan
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.results.curves import Curve, read_curves
from targetnet.agents.results.scores import Seed, read_row, run_seed
from targetnet.agents.results.seed_files import require_same_settings, settings_of
from targetnet.agents.results.table import versions
from targetnet.agents.saved.directory import RunDir, write_file
from targetnet.agents.saved.machines import processor_of
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.timetable import RESUMED_ACTIONS, is_repeated
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.seal import sealed_row

# Curves that somebody who looks at a run sees, and may go by.
SIGNS = (
    "learn/loss", "learn/td_error_mean_abs", "learn/q_mean", "learn/q_max", "learn/gradient_norm",
    "target/distance",
)  # fmt: skip
_PLANNED = ("schedule", "controller")  # who may change a run whose config says so
_Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Quarters = Annotated[list[FiniteFloat | None], Field(min_length=4, max_length=4)]


class SeedResult(BaseModel):
    """One finished seed.

    Attributes:
      curve: (env step, mean greedy return), with the final one, at `env_steps`.
      digest: of the end of its training.
      signs: tag of a curve in TensorBoard -> its mean in each quarter of the run; None where it
        has no point, or numbers without end.
      versions: of Python and of the packages that decide a result.
    """

    model_config = ConfigDict(extra="forbid")

    env_steps: _Count
    updates: _Count
    mean: FiniteFloat
    curve: list[tuple[_Count, FiniteFloat]] = Field(min_length=1)
    signs: dict[str, Quarters]
    seconds: FiniteFloat | None
    digest: str
    processor: str
    versions: dict[str, str]
    date: str

    @model_validator(mode="after")
    def _check_steps(self) -> SeedResult:
        steps = [step for step, _ in self.curve]
        if steps != sorted(set(steps)) or not 0 < steps[-1] == self.env_steps:
            raise ValueError("the curve does not lead to the end")
        return self


class _ArmFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    env_id: str
    settings: dict[str, Any]
    seeds: dict[int, SeedResult]


class ArmResults:
    """The finished seeds of an arm on an env, and of those that are alike.

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
        self.seeds: dict[int, SeedResult] = {}
        if path.exists():
            kept = read_row(path, _ArmFile)
            require_same_settings(path, kept.settings, config)
            self.seeds = kept.seeds

    def add(self, runs: Mapping[int, Path]) -> None:
        """Keeps the scores of runs that have ended, and leaves the others out.

        Args:
          runs: seed -> run directory.

        Raises:
          RunDirError: a run's files are damaged, it is of another config or was steered, or the
            file cannot be written.
        """
        found = {seed: run_seed(run, seed) for seed, run in runs.items()}
        for seed in [seed for seed, of in found.items() if of is not None]:
            _require_as_planned(runs[seed], self._config.model_copy(update={"seed": seed}))
        new = {seed: _kept(runs[seed], of) for seed, of in found.items() if of is not None}
        if not new:
            return
        self.seeds = dict(sorted((self.seeds | new).items()))
        kept = _ArmFile(
            env_id=self._config.env_id,
            settings=settings_of(self._config),
            seeds=self.seeds,
        )
        write_file(self._path, sealed_row(kept.model_dump()), make_parents=True)


def quarters_of(curves: Mapping[str, Curve], env_steps: int) -> dict[str, list[float | None]]:
    """Returns the mean of each curve in each quarter of a run of this length."""
    found = {}
    for tag, curve in curves.items():
        parts: list[list[float]] = [[], [], [], []]
        for step, value in curve:
            parts[min(4 * step // env_steps, 3)].append(value)
        found[tag] = [_mean(part) for part in parts]
    return found


Kept = Mapping[tuple[str, ComparedArm], ArmResults]


def load_kept(loaded: LoadedPlan, rows: Path) -> Kept:
    """Loads what is finished of every arm on every env.

    Arms of the same settings share one file, that of the first of them: hard-100, where one period
    for all envs may be 100 too.

    Raises:
      RunDirError: a file is damaged, or of another config.
    """
    plan, kept, alike = loaded.plan, {}, dict[str, ArmResults]()
    for env in plan.envs:
        for arm in [arm for group in plan.groups_on(env) for arm in plan.arms(group)]:
            config = loaded.config(env, arm, plan.tuning.first)
            settings = f"{env} {json.dumps(settings_of(config), sort_keys=True)}"
            if settings not in alike:
                alike[settings] = ArmResults(rows / env / f"{plan.name(arm)}.json", config)
            kept[env, arm] = alike[settings]
    return kept


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


def _mean(values: Sequence[float]) -> float | None:
    mean = float(np.mean(values)) if values else math.nan
    return mean if math.isfinite(mean) else None


def _kept(run: Path, seed: Seed) -> SeedResult:
    return SeedResult(
        env_steps=seed.env_steps,
        updates=seed.updates,
        mean=seed.mean,
        curve=sorted(seed.curve.items()),
        signs=quarters_of(read_curves(run, SIGNS), seed.env_steps),
        seconds=seed.seconds,
        digest=RunDir(run).load_digest().digest,
        processor=processor_of(run),
        versions=versions(),
        date=time.strftime("%Y-%m-%d"),
    )
