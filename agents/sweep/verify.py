"""Trains the winner of a sweep again, and compares digests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agents.cluster.portable import Portable
from agents.config.files import dump_config
from agents.results.jobs import Ended, Job, run_jobs
from agents.results.places import Place
from agents.results.seeds import TRAIN, env_steps_of, portable
from agents.saved.directory import RunDir, write_file
from agents.saved.machines import processor_of
from agents.sweep.plan import Plan
from agents.sweep.study import Study
from rl_core.control.files import ControlFiles
from rl_core.errors import RlCoreError

if TYPE_CHECKING:
    from rich.console import Console


class NotTheSame(RlCoreError):
    """The winner, trained again, has another digest."""

    exit_code = 1


def verify(
    plan: Plan,
    study: Study,
    directory: Path,
    console: Console,
    say: Callable[[str], None],
    where: Place,
) -> Ended:
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
    seeds, place = plan.seeds_of(best.number), directory / "verify"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    jobs = []
    for seed in seeds:
        config = plan.space.config(best.params, {"seed": seed})
        file, text = place / f"{seed}.toml", dump_config(config).encode()
        write_file(file, text)
        run = place / str(seed)
        travelling = portable(config, run, [run], {str(file): text})
        jobs.append(_job(file, run, f"trial {best.number} seed {seed}", travelling))
    ended = run_jobs(jobs, plan.ahead, console, place=where)
    if ended.signal:
        return ended
    if ended.failed:
        raise RlCoreError(ended.failed[0])
    made_on = best.user_attrs.get("processor", "")
    for seed, before in zip(seeds, best.user_attrs.get("digests", []), strict=True):
        now = RunDir(place / str(seed)).load_digest().digest
        if now != before:
            made_now = processor_of(place / str(seed))
            moved = f" (on {made_on} then, on {made_now} now)" if made_on != made_now else ""
            raise NotTheSame(
                f"trial {best.number}, seed {seed}: not the same: {now}, not {before}{moved}"
            )
        say(f"trial {best.number}, seed {seed}: identical {now}")
    return ended


def _job(config: Path, run: Path, name: str, travelling: Portable) -> Job:
    return Job(
        name,
        # It is new; but if a node dies, it goes on on another one.
        [*TRAIN, str(config), "--run", str(run), "--resume"],
        run.with_suffix(".log"),
        lambda: env_steps_of(ControlFiles(run)),
        portable=travelling,
    )
