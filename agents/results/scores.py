"""Scores of one finished seed, and of a row of seeds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel

from targetnet.agents.results.curves import Curve, read_curves
from targetnet.agents.saved.directory import RESULT, RunResult
from targetnet.rl_core.errors import RunDirError, reason_of
from targetnet.rl_core.files import read_regular
from targetnet.rl_core.seal import SealError, unsealed_json, unsealed_row

TRAINING_EPISODES = 100  # last training episodes that `--training` averages
EVALUATION, _EPISODE = "evaluation/return", "episode/return"
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
      training_curve: at the same env steps, the mean return of the training episodes that ended
        since the point before; without points between which none ended.
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
    training_curve: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """All finished seeds of one agent on one env.

    Attributes:
      name: name of the config or of the peer.
      about: versions, settings, source, processors and dates of the seeds; empty without seeds.
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
        """Returns the greedy returns of all seeds by the first seed's env steps.

        A step at which another seed has no evaluation near is left out.
        """
        return _together([seed.curve for seed in self.seeds])

    @property
    def training_curves(self) -> dict[int, list[float]]:
        """Returns the training returns of all seeds in the same way; {} if a seed has none."""
        curves = [seed.training_curve for seed in self.seeds]
        return _together(curves) if all(curves) else {}


def _together(curves: Sequence[Mapping[int, float]]) -> dict[int, list[float]]:
    first, *others = curves
    if not first:
        return {}
    apart = max(first) * _SAME_POINT
    found = {}
    for step, value in sorted(first.items()):
        near = [min(curve, key=lambda other: abs(other - step)) for curve in others]
        if all(abs(other - step) <= apart for other in near):
            values = [curve[other] for curve, other in zip(others, near, strict=True)]
            found[step] = [value, *values]
    return found


def run_seed(run: Path, seed: int) -> Seed | None:
    """Reads a run's scores; returns None if the run is not finished.

    Args:
      run: the run directory.
      seed: its seed.

    Raises:
      RunDirError: the run's files are damaged.
    """
    if not (run / RESULT).exists():
        return None
    result = read_result(run / RESULT, RunResult)
    curves = read_curves(run, [EVALUATION, _EPISODE])
    curve = dict(curves[EVALUATION]) | {result.env_steps: result.mean}
    episodes = [value for _, value in curves[_EPISODE]][-TRAINING_EPISODES:]
    return Seed(
        seed=seed,
        env_steps=result.env_steps,
        updates=result.updates,
        mean=result.mean,
        std=result.std,
        low=result.min,
        high=result.max,
        curve=curve,
        seconds=result.seconds,
        training=float(np.mean(episodes)) if episodes else None,
        returns=result.returns,
        cut=result.cut,
        training_curve=_means_up_to(sorted(curve), curves[_EPISODE]),
    )


def _means_up_to(points: Sequence[int], curve: Curve) -> dict[int, float]:
    """Returns the mean of a curve's values between one point and the next, by the latter."""
    values: dict[int, list[float]] = {}
    for step, value in curve:
        at = bisect_left(points, step)
        if at < len(points):
            values.setdefault(points[at], []).append(value)
    return {point: float(np.mean(of)) for point, of in values.items()}


_Result = TypeVar("_Result", bound=BaseModel)


def read_result(path: Path, model: type[_Result]) -> _Result:
    """Reads a JSON file of results.

    Raises:
      RunDirError: it cannot be read, is not what was written, or is not of this model.
    """
    return _read(path, model, unsealed_json)


def read_row(path: Path, model: type[_Result]) -> _Result:
    """Reads the file of a row, which has a seal.

    Raises:
      RunDirError: it cannot be read, is not what was written, or is not of this model.
    """
    return _read(path, model, unsealed_row, ". Delete it to train it again")


def _read(
    path: Path,
    model: type[_Result],
    unsealed: Callable[[bytes], dict[str, Any]],
    advice: str = "",
) -> _Result:
    try:
        data = read_regular(path, most=_MOST_BYTES)
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {path}: {reason_of(error)}") from None
    try:
        return model.model_validate(unsealed(data))
    except SealError as error:
        raise RunDirError(f"cannot use {path}: {error}{advice}") from None
    except ValueError:
        problem = "it is not the result of a run"
        raise RunDirError(f"{path} is damaged: {problem}{advice}") from None
