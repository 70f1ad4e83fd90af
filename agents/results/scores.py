"""What became of one seed, ours or a peer's, and a row of seeds."""

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

TRAINING_EPISODES = 100  # at the end of training, whose mean return `--training` shows
_EVALUATION, _EPISODE = "evaluation/return", "episode/return"
_MOST_BYTES = 1 << 24  # of a result; one of a hundred episodes has a few thousand


# Evaluations of two seeds this share of the run apart are one point of the curve: where time
# passes in phases or chunks, none is made at the very env step.
_SAME_POINT = 0.02


@dataclass(frozen=True)
class Seed:
    """One finished seed.

    Attributes:
      mean, std, low, high: of the undiscounted returns of its final greedy episodes.
      curve: env step -> mean greedy return during training, the final one included.
      seconds: of training, evaluations left out; None if it was not written down.
      training: mean return of the last training episodes; None if not known.
      returns: of the final greedy episodes, where they were written down.
      cut: how many of these were cut off at the config's `eval_max_steps`.
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
      name: the config's, or the peer's.
      about: versions, settings and source of a peer; empty for ours.
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
        """Env step of the first seed -> one value a seed, where all seeds have one close by."""
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
    """`result.json` of a run."""

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
    """What a peer's worker writes."""

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
    """A run's scores; None if it is not finished.

    Args:
      training: also the mean return of its last training episodes.

    Raises:
      RunDirError: its files are damaged.
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
    """The finished ones of some runs, by their seeds."""
    seeds = [run_seed(run, number, training=training) for number, run in runs.items()]
    return Row(env_id, name, [seed for seed in seeds if seed])


def peer_row(env_id: str, name: str, files: Sequence[Path]) -> Row:
    """Those of a peer's results that exist.

    Raises:
      RunDirError: one is damaged.
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
        raise RunDirError(f"{path} is damaged: it is no result of a run") from None
