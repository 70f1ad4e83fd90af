"""The result of a run, and the summary of its returns."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from targetnet.agents.loops.evaluation import Returns
from targetnet.agents.policy.load import LoadedPolicy, load_policy


@dataclass(frozen=True)
class RunOutcome:
    """The result of a run.

    Attributes:
      run: its directory.
      returns: of the final greedy evaluation; empty if the run was stopped before.
      env_steps, updates: how many were made.
      digest: of the agent when training ended.
      signal: the one that ended it early, SIGINT, SIGTERM or SIGHUP; 0 if none did.
    """

    run: Path
    returns: list[float]
    env_steps: int
    updates: int
    digest: str
    signal: int

    @functools.cached_property
    def policy(self) -> LoadedPolicy:
        """The greedy policy of its end, as `load_policy` loads it; made on first use."""
        return load_policy(self.run)

    @property
    def interrupted(self) -> bool:
        """True if a signal ended the run early."""
        return self.signal > 0


def summary(returns: list[float]) -> dict[str, float]:
    """Episodes, mean, std, min and max; how many of the episodes were cut off."""
    return {
        "episodes": len(returns),
        "mean": float(np.mean(returns)),
        "std": float(np.std(returns)),
        "min": float(np.min(returns)),
        "max": float(np.max(returns)),
        "cut": returns.cut if isinstance(returns, Returns) else 0,
    }
