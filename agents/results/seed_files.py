"""Finished seeds as JSON files. The page is made of them, so that runs may be deleted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, FiniteFloat

from targetnet.agents.config.combinations import without_replay_keys
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.results.scores import Row, Seed, read_row, run_seed
from targetnet.agents.results.table import versions
from targetnet.agents.saved.directory import write_file
from targetnet.agents.saved.machines import processor_of
from targetnet.rl_core.errors import RunDirError, quoted
from targetnet.rl_core.seal import sealed_row

# Settings that change no score.
_OF_THE_MACHINE = (
    "seed", "check_env", "checkpoint_seconds", "checkpoint_steps", "checkpoint_keep", "log_to",
)  # fmt: skip


class _SeedFile(BaseModel):
    """Contents of a file: one finished seed of our agent or of a peer's."""

    model_config = ConfigDict(extra="forbid")

    env_id: str
    seed: int
    env_steps: int
    updates: int
    mean: FiniteFloat
    std: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    curve: list[tuple[int, FiniteFloat]]
    seconds: float | None
    training: float | None
    returns: list[float] | None
    cut: int
    settings: dict[str, Any]
    source: str | None
    versions: dict[str, str]
    processor: str
    date: str
    training_curve: list[tuple[int, float]] = []  # files that are older have none


def keep(path: Path, run: Path, config: DqnConfig) -> None:
    """Writes the scores of a run to `path`, if the run is finished.

    Raises:
      RunDirError: the run's files are damaged, or `path` cannot be written.
    """
    seed = run_seed(run, config.seed)
    if seed is None:
        return
    kept = _SeedFile(
        env_id=config.env_id,
        **vars(seed)
        | {
            "curve": sorted(seed.curve.items()),
            "training_curve": sorted(seed.training_curve.items()),
        },
        settings=settings_of(config),
        source=None,
        versions=versions(),
        processor=processor_of(run),
        date=time.strftime("%Y-%m-%d"),
    )
    write_file(path, sealed_row(kept.model_dump()), make_parents=True)


def kept_row(env_id: str, name: str, files: Mapping[int, Path], *, peer: bool = False) -> Row:
    """Returns the row of the seeds that have a file; `files` maps seeds to their paths.

    Raises:
      RunDirError: a file is damaged, or has another seed or env.
    """
    kept = {seed: _read(path, env_id, seed) for seed, path in files.items() if path.exists()}
    seeds = [
        Seed(
            **of.model_dump(include=set(Seed.__annotations__))
            | {"curve": dict(of.curve), "training_curve": dict(of.training_curve)}
        )
        for of in kept.values()
    ]
    about = {}
    if kept:
        first = next(iter(kept.values()))
        about = first.model_dump(include={"versions", "settings", "source"})
        about["processors"] = sorted({of.processor for of in kept.values()})
        about["dates"] = sorted({of.date for of in kept.values()})
    return Row(env_id, name, seeds, peer=peer, about=about)


def require_same_config(path: Path, config: DqnConfig) -> None:
    """Checks that the seed in `path` was trained with `config`.

    A key that the file lacks is newer than the file. Its default is what was done before it was
    there.

    Raises:
      RunDirError: the file is damaged, or has another setting.
    """
    require_same_settings(path, _read(path, config.env_id, config.seed).settings, config)


def require_same_settings(path: Path, before: Mapping[str, Any], config: DqnConfig) -> None:
    """Checks that the settings in `path` are those of `config`, as `require_same_config` does.

    Raises:
      RunDirError: one is another.
    """
    now, default = settings_of(config), settings_of(DqnConfig())
    for name in without_replay_keys(now):
        there = before.get(name, default.get(name))
        if there != now[name]:
            raise RunDirError(
                f"{path} is of another config: {name} is {quoted(there)} there, not "
                f"{quoted(now[name])}. Delete it to train it again, or give another --rows"
            )


def settings_of(config: DqnConfig) -> dict[str, Any]:
    """Returns the settings on which a score depends, but for the seed."""
    settings = config.model_dump(mode="json", exclude_none=True)
    return {name: value for name, value in settings.items() if name not in _OF_THE_MACHINE}


def _read(path: Path, env_id: str, seed: int) -> _SeedFile:
    kept = read_row(path, _SeedFile)
    if (kept.env_id, kept.seed) != (env_id, seed):
        raise RunDirError(
            f"{path} has seed {kept.seed} of {kept.env_id}, not seed {seed} of {env_id}"
        )
    return kept
