"""Trains the winner of a sweep again, and compares digests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agents.config.files import dump_config
from agents.results.jobs import Ended, Job, run_jobs
from agents.results.seeds import TRAIN, env_steps_of
from agents.saved.directory import RunDir, write_file
from agents.sweep.plan import Plan
from agents.sweep.study import Study
from rl_core.control.files import ControlFiles
from rl_core.errors import RlCoreError
from rl_core.machine import processor

if TYPE_CHECKING:
    from rich.console import Console


class NotTheSame(RlCoreError):
    """The winner, trained again, has another digest."""

    exit_code = 1


def verify(
    plan: Plan, study: Study, directory: Path, console: Console, say: Callable[[str], None]
) -> Ended:
    """Trains the best trial again, with its tuning seeds, and compares digests.

    Raises:
      NotTheSame: one is another.
      RlCoreError: no trial has ended, or training failed.
    """
    best = study.best()
    if best is None:
        raise RlCoreError(f"no trial of {directory} has ended: there is no winner")
    seeds, place = plan.seeds_of(best.number), directory / "verify"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    jobs = []
    for seed in seeds:
        config = place / f"{seed}.toml"
        write_file(config, dump_config(plan.space.config(best.params, {"seed": seed})).encode())
        jobs.append(_job(config, place / str(seed), f"trial {best.number} seed {seed}"))
    ended = run_jobs(jobs, plan.ahead, console)
    if ended.signal:
        return ended
    if ended.failed:
        raise RlCoreError(ended.failed[0])
    made_on = best.user_attrs.get("processor", "")
    for seed, before in zip(seeds, best.user_attrs.get("digests", []), strict=True):
        now = RunDir(place / str(seed)).load_digest().digest
        if now != before:
            where = f" (on {made_on} then, on {processor()} now)" if made_on != processor() else ""
            raise NotTheSame(
                f"trial {best.number}, seed {seed}: not the same: {now}, not {before}{where}"
            )
        say(f"trial {best.number}, seed {seed}: identical {now}")
    return ended


def _job(config: Path, run: Path, name: str) -> Job:
    return Job(
        name,
        [*TRAIN, str(config), "--run", str(run)],
        run.with_suffix(".log"),
        lambda: env_steps_of(ControlFiles(run)),
    )
