"""Scores of one finished seed, ours or a peer's, and of a row of seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from agents.results.curves import read_curves
from rl_core.errors import RunDirError, reason_of
from rl_core.regular_file import read_regular
from rl_core.seal import unsealed_json

TRAINING_EPISODES = 100  # last training episodes that `--training` averages
_EVALUATION, _EPISODE = "evaluation/return", "episode/return"
_MOST_BYTES = 1 << 24  # largest result file; one of a hundred episodes has a few thousand


# Evaluations of two seeds at most this share of the run apart are one point of the curve: with
# phases or chunks, seeds are not evaluated at exactly the same env step.
_SAME_POINT = 0.02


@dataclass(frozen=True)
class Seed:
    """One finished seed.

    Attributes:
      mean, std, low, high: statistics of the undiscounted returns of the final greedy episodes.
      curve: mean greedy return by env step during training, with the final one.
      seconds: time of training without evaluations; None if it was not recorded.
      training: mean return of the last training episodes; None if unknown.
      returns: returns of the final greedy episodes; None if they were not recorded.
      cut: number of final greedy episodes that were cut off at the config's `eval_max_steps`.
    """

    seed: int
    env_steps: int
    updates: int
    mean: float
    std: float
    low: float
    high: float
    curve: dict[int, float]
    seconds: float | None = None
    training: float | None = None
    returns: list[float] | None = None
    cut: int = 0


@dataclass(frozen=True)
class Row:
    """All finished seeds of one agent on one env.

    Attributes:
      name: name of the config or of the peer.
      about: versions, settings and source of a peer; empty for our agents.
    """

    env_id: str
    name: str
    seeds: list[Seed]
    peer: bool = False
    about: dict[str, object] = field(default_factory=dict)

    @property
    def means(self) -> list[float]:
        return [seed.mean for seed in self.seeds]

    @property
    def curves(self) -> dict[int, list[float]]:
        """Returns the values of all seeds by the first seed's env steps.

        A step at which another seed has no evaluation near is left out.
        """
        first, *others = (seed.curve for seed in self.seeds)
        apart = max(first) * _SAME_POINT
        curves = {}
        for step, value in sorted(first.items()):
            near = [min(curve, key=lambda other: abs(other - step)) for curve in others]
            if all(abs(other - step) <= apart for other in near):
                found = [curve[other] for curve, other in zip(others, near, strict=True)]
                curves[step] = [value, *found]
        return curves


class _RunResult(BaseModel):
    """Contents of a run's `result.json`."""

    env_steps: int
    updates: int
    mean: float
    std: float
    min: float
    max: float
    returns: list[float] | None = None
    seconds: float | None = None
    cut: int = 0


class _PeerResult(BaseModel):
    """Contents of the file that a peer's worker writes."""

    model_config = ConfigDict(extra="forbid")

    env_id: str
    seed: int
    env_steps: int
    updates: int
    evaluation: list[float]
    curve: list[tuple[int, float]]
    train_seconds: float
    versions: dict[str, str]
    settings: dict[str, float]
    source: str


def run_seed(run: Path, seed: int, *, training: bool = False) -> Seed | None:
    """Reads a run's scores; returns None if the run is not finished.

    Args:
      run: the run directory.
      seed: its seed.
      training: also reads the mean return of the last training episodes.

    Raises:
      RunDirError: the run's files are damaged.
    """
    if not (run / "result.json").exists():
        return None
    result = _read(run / "result.json", _RunResult)
    curves = read_curves(run, [_EVALUATION, _EPISODE] if training else [_EVALUATION])
    episodes = [value for _, value in curves.get(_EPISODE, [])][-TRAINING_EPISODES:]
    return Seed(
        seed=seed,
        env_steps=result.env_steps,
        updates=result.updates,
        mean=result.mean,
        std=result.std,
        low=result.min,
        high=result.max,
        curve=dict(curves[_EVALUATION]) | {result.env_steps: result.mean},
        seconds=result.seconds,
        training=float(np.mean(episodes)) if episodes else None,
        returns=result.returns,
        cut=result.cut,
    )


def run_row(env_id: str, name: str, runs: Mapping[int, Path], *, training: bool = False) -> Row:
    """Returns the row of the finished runs; `runs` maps seeds to run directories."""
    seeds = [run_seed(run, number, training=training) for number, run in runs.items()]
    return Row(env_id, name, [seed for seed in seeds if seed])


def peer_row(env_id: str, name: str, files: Sequence[Path]) -> Row:
    """Returns the row of the peer's result files that exist.

    Raises:
      RunDirError: a file is damaged.
    """
    found = [_read(path, _PeerResult) for path in files if path.exists()]
    about = found[0].model_dump(include={"versions", "settings", "source"}) if found else {}
    return Row(env_id, name, [_peer_seed(result) for result in found], peer=True, about=about)


def _peer_seed(result: _PeerResult) -> Seed:
    mean = float(np.mean(result.evaluation))
    return Seed(
        seed=result.seed,
        env_steps=result.env_steps,
        updates=result.updates,
        mean=mean,
        std=float(np.std(result.evaluation)),
        low=min(result.evaluation),
        high=max(result.evaluation),
        curve=dict(result.curve) | {result.env_steps: mean},
        seconds=result.train_seconds,
        returns=result.evaluation,
    )


_Result = TypeVar("_Result", bound=BaseModel)


def _read(path: Path, model: type[_Result]) -> _Result:
    try:
        data = read_regular(path, most=_MOST_BYTES)
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None
    try:
        return model.model_validate(unsealed_json(data))
    except ValueError:
        raise RunDirError(f"{path} is damaged: it is not the result of a run") from None
