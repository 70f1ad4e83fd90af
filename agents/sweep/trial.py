"""One trial of a sweep: its runs, their greedy curves and its score, as their files have them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from targetnet.agents.results.curves import read_curves
from targetnet.agents.results.scores import EVALUATION, read_result
from targetnet.agents.saved.directory import EVENTS, RESULT, RunDir, RunResult
from targetnet.agents.saved.machines import processor_of
from targetnet.rl_core.control.files import ControlFiles, is_alive


@dataclass
class Trial:
    """A trial that has begun.

    Args:
      number: the trial's.
      runs: the run directory of each tuning seed -> env steps of the whole run.
      told: whether the study knows its end.
      pruned: whether the study knows that it was stopped early.
      stopped: number of evaluations after which it was stopped early; None if it was not.
      error: one line, if a run of it failed.
    """

    number: int
    runs: Mapping[Path, int] = field(default_factory=dict)
    told: bool = False
    pruned: bool = False
    stopped: int | None = None
    error: str = ""
    _lengths: dict[Path, int] = field(default_factory=dict)
    _points: dict[Path, list[float]] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """True if its end is known from something else than the runs' results."""
        return self.told or self.stopped is not None or bool(self.error)

    @property
    def is_over(self) -> bool:
        return self.is_known or all((run / RESULT).exists() for run in self.runs)

    @property
    def is_stopped_in_vain(self) -> bool:
        """True if it was stopped early and a run of it goes on: a resumed sweep began it again."""
        if self.stopped is None and not self.pruned:
            return False
        return any(is_alive(ControlFiles(r)) and not (r / RESULT).exists() for r in self.runs)

    def curve(self) -> list[float]:
        """Returns the mean greedy return over the runs at each evaluation before the last.

        Raises:
          RunDirError: a run's files are damaged.
        """
        return [float(np.mean(points)) for points in zip(*map(self._of, self.runs), strict=False)]

    def whole_curve(self) -> list[float]:
        """Returns the curve with the runs' final evaluations; all runs have ended.

        Raises:
          RunDirError: a run's files are damaged.
        """
        results = [read_result(run / RESULT, RunResult).mean for run in self.runs]
        return [*self.curve(), float(np.mean(results))]

    def score(self, of: Literal["curve", "final"]) -> float:
        """Returns the score of a trial whose runs have ended."""
        curve = self.whole_curve()
        return float(np.mean(curve)) if of == "curve" else curve[-1]

    def said(self, of: Literal["curve", "final"]) -> str:
        """Returns how the trial ended, in words."""
        if self.error:
            return "failed"
        if self.stopped is not None:
            return f"stopped after {self.stopped} of its evaluations"
        return f"{self.score(of):,.1f}"

    def about(self, seeds: Sequence[int]) -> dict[str, Any]:
        """Returns what is kept of a trial beside its curve."""
        if self.error:
            return {"error": self.error}
        if self.stopped is not None:
            return {"seeds": list(seeds)}
        results = [read_result(run / RESULT, RunResult) for run in self.runs]
        return {
            "seeds": list(seeds),
            "digests": [RunDir(run).load_digest().digest for run in self.runs],
            "seconds": sum(result.seconds or 0.0 for result in results),
            "processor": " and ".join(dict.fromkeys(map(processor_of, self.runs))),
        }

    def _of(self, run: Path) -> list[float]:
        """Returns a run's evaluations; its files are read again only once they have grown."""
        length = 0
        for path in run.glob(EVENTS):
            with contextlib.suppress(FileNotFoundError):  # a run that is resumed removes some
                length += path.stat().st_size
        if self._lengths.get(run) != length:
            points = dict(read_curves(run, [EVALUATION])[EVALUATION])
            # One at the end is replaced by the final evaluation, which has more episodes.
            self._points[run] = [v for step, v in sorted(points.items()) if step < self.runs[run]]
            self._lengths[run] = length
        return self._points[run]
