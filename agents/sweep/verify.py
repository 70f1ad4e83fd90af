"""Trains the winner of a sweep again, and compares digests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from targetnet.agents.results.jobs import JobOutcome
from targetnet.agents.results.places import Place
from targetnet.agents.results.verify import StoredRun, train_again
from targetnet.agents.sweep.plan import SweepPlan
from targetnet.agents.sweep.study import Study
from targetnet.rl_core.errors import RlCoreError

if TYPE_CHECKING:
    from rich.console import Console


def verify(
    plan: SweepPlan,
    study: Study,
    directory: Path,
    console: Console,
    say: Callable[[str], None],
    where: Place,
) -> JobOutcome:
    """Trains the best trial again, with its tuning seeds, and compares digests.

    Args:
      where: the place where it is trained.

    Raises:
      NotTheSame: one is another.
      RlCoreError: no trial has ended, or training failed.
    """
    best = study.best()
    if best is None:
        raise RlCoreError(f"no trial of {directory} has ended: there is no winner")
    about = best.user_attrs
    seeds = zip(plan.seeds_of(best.number), about.get("digests", []), strict=True)
    runs = [
        StoredRun(
            f"trial {best.number}, seed {seed}",
            plan.space.config(best.params, {"seed": seed}),
            digest,
            about.get("processor", ""),
        )
        for seed, digest in seeds
    ]
    return train_again(runs, directory, plan.ahead, console, say, where)
