"""From seeds to the numbers of the page, and the same as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from agents.results.scores import Row, Seed
from agents.results.statistics import Interval, Statistic, iqm, stratified_bootstrap


@dataclass(frozen=True)
class Estimate:
    """A statistic over seeds, and its 95 % interval; None for a single seed."""

    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Summary:
    """A row of the table.

    Attributes:
      mean, iqm: over seeds, of the seeds' mean greedy return.
      worst, best: seeds.
      seconds: median over the seeds that have it.
      training: mean over seeds of the return of the last training episodes, if asked for.
      curve: [(env step, IQM over seeds)].
    """

    row: Row
    mean: Estimate
    iqm: Estimate
    worst: Seed
    best: Seed
    seconds: float | None
    training: Estimate | None
    curve: list[tuple[int, Estimate]]


@dataclass(frozen=True)
class Made:
    """How the page came to be.

    Attributes:
      command: that makes it again.
      jobs: how many seeds trained at once.
    """

    command: str
    jobs: int
    cores: int
    versions: dict[str, str]


def made_by(command: str, jobs: int) -> Made:
    """By this installation, on this machine."""
    names = ("targetnet", "tensorflow", "gymnasium", "numpy")
    versions = {"python": platform.python_version()} | {name: version(name) for name in names}
    return Made(command, jobs, os.cpu_count() or 1, versions)


def estimate(scores: Sequence[float], statistic: Statistic) -> Estimate:
    """Of one score a seed."""
    value = float(statistic(np.asarray(scores), axis=0))
    return Estimate(value, stratified_bootstrap([scores], statistic) if scores[1:] else None)


def summarize(row: Row) -> Summary:
    """`row` has at least one seed."""
    seconds = [seed.seconds for seed in row.seeds if seed.seconds is not None]
    training = [seed.training for seed in row.seeds if seed.training is not None]
    return Summary(
        row=row,
        mean=estimate(row.means, np.mean),
        iqm=estimate(row.means, iqm),
        worst=min(row.seeds, key=lambda seed: seed.mean),
        best=max(row.seeds, key=lambda seed: seed.mean),
        seconds=float(np.median(seconds)) if seconds else None,
        training=estimate(training, np.mean) if training else None,
        curve=[(step, estimate(values, iqm)) for step, values in row.curves.items()],
    )


def by_env(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    """Ours first, then the peers', in the order of the envs' first rows."""
    envs: dict[str, list[Summary]] = {}
    for summary in sorted(summaries, key=lambda summary: summary.row.peer):
        envs.setdefault(summary.row.env_id, []).append(summary)
    return envs


def as_json(summaries: Sequence[Summary], made: Made) -> dict[str, Any]:
    """Everything the page shows, and every seed."""
    return {"made": asdict(made), "rows": [_row(summary) for summary in summaries]}


def _row(summary: Summary) -> dict[str, Any]:
    row = summary.row
    training = summary.training
    return {
        "env_id": row.env_id,
        "name": row.name,
        "peer": row.peer,
        "mean": _estimate(summary.mean),
        "iqm": _estimate(summary.iqm),
        "worst": {"seed": summary.worst.seed, "mean": summary.worst.mean},
        "best": {"seed": summary.best.seed, "mean": summary.best.mean},
        "seconds_median": summary.seconds,
        "training": _estimate(training) if training else None,
        "curve": [{"env_step": step} | _estimate(value) for step, value in summary.curve],
        "seeds": [asdict(seed) for seed in row.seeds],
        **row.about,
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    ends = estimate.interval._asdict() if estimate.interval else {"low": None, "high": None}
    return {"value": estimate.value} | ends
