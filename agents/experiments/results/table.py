"""Numbers of the page, computed from finished runs; also as JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from targetnet.agents.experiments.report import versions
from targetnet.agents.experiments.statistics import (
    Difference,
    Estimate,
    Statistic,
    independent,
    iqm,
    stratified_bootstrap,
)
from targetnet.agents.experiments.store import FinishedRun

# Evaluations of two seeds at most this share of the run apart are one point of the curve: with
# phases or chunks, seeds are not evaluated at exactly the same env step.
_SAME_POINT = 0.02


@dataclass(frozen=True)
class Row:
    """All finished seeds of one agent on one env.

    Attributes:
      name: name of the config or of the peer.
    """

    env_id: str
    name: str
    seeds: list[FinishedRun]
    peer: bool = False

    @property
    def means(self) -> list[float]:
        return [seed.mean for seed in self.seeds]

    @property
    def curves(self) -> dict[int, list[float]]:
        """Returns the greedy returns of all seeds by the first seed's env steps.

        A step at which another seed has no evaluation near is left out.
        """
        return _together([dict(seed.curve) for seed in self.seeds])

    @property
    def training_curves(self) -> dict[int, list[float]]:
        """Returns the training returns of all seeds in the same way; {} if a seed has none."""
        curves = [dict(seed.training_curve) for seed in self.seeds]
        return _together(curves) if all(curves) else {}

    @property
    def processors(self) -> list[str]:
        return sorted({seed.processor for seed in self.seeds})

    @property
    def dates(self) -> list[str]:
        return sorted({seed.date for seed in self.seeds})


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


@dataclass(frozen=True)
class Summary:
    """Row of the table.

    Attributes:
      row: the seeds.
      mean, iqm: mean and IQM over seeds of each seed's mean greedy return.
      worst, best: the seeds with the lowest and the highest mean greedy return.
      seconds: median training time over the seeds that recorded it; None if no seed did.
      training: mean over seeds of the return of the last training episodes; None if not read.
      curve: pairs of an env step and the IQM over seeds there.
    """

    row: Row
    mean: Estimate
    iqm: Estimate
    worst: FinishedRun
    best: FinishedRun
    seconds: float | None
    training: Estimate | None
    curve: list[tuple[int, Estimate]]


@dataclass(frozen=True)
class Origin:
    """Origin of the page.

    Attributes:
      command: command that makes the page again.
      jobs: number of seeds that trained at once.
      cores: number of cores of the machine.
      versions: version of each package.
    """

    command: str
    jobs: int
    cores: int
    versions: dict[str, str]


def made_by(command: str, jobs: int) -> Origin:
    """Returns the origin of a page made by this installation on this machine."""
    return Origin(command, jobs, os.cpu_count() or 1, versions())


def estimate(scores: Sequence[float], statistic: Statistic) -> Estimate:
    """Returns the estimate of a statistic from one score per seed."""
    value = float(statistic(np.asarray(scores), axis=0))
    return Estimate(value, stratified_bootstrap([scores], statistic) if scores[1:] else None)


def summarize(row: Row) -> Summary:
    """Computes the statistics of a row with at least one seed."""
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


def differences(summaries: Sequence[Summary]) -> list[tuple[Summary, Summary, Difference]]:
    """Returns (ours, peer, difference of the means) for each of our rows beside each peer.

    Rows of a single seed have none.

    Args:
      summaries: rows of one env.
    """
    peers = [summary for summary in summaries if summary.row.peer and summary.row.means[1:]]
    return [
        (ours, peer, independent(ours.row.means, peer.row.means))
        for ours in summaries
        for peer in peers
        if not ours.row.peer and ours.row.means[1:]
    ]


def by_env(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    """Groups summaries by env: our rows first, then the peers'."""
    envs: dict[str, list[Summary]] = {}
    for summary in sorted(summaries, key=lambda summary: summary.row.peer):
        envs.setdefault(summary.row.env_id, []).append(summary)
    return envs


def as_json(summaries: Sequence[Summary], made: Origin) -> dict[str, Any]:
    """Returns all numbers of the page, and all seeds, ready for JSON."""
    return {"made": asdict(made), "rows": [_row(summary) for summary in summaries]}


def _row(summary: Summary) -> dict[str, Any]:
    row, first = summary.row, summary.row.seeds[0]
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
        "seeds": [seed.model_dump(exclude={"agent", "settings", "source"}) for seed in row.seeds],
        **first.model_dump(include={"versions", "settings", "source"}),
        "processors": row.processors,
        "dates": row.dates,
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    ends = estimate.interval._asdict() if estimate.interval else {"low": None, "high": None}
    return {"value": estimate.value} | ends
