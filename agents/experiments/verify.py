"""Trains runs again, each alone, and compares the digests of their ends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from targetnet.agents.experiments.jobs import JobOutcome, run_jobs
from targetnet.agents.experiments.places import HERE, Place
from targetnet.agents.experiments.training_job import training_job
from targetnet.rl_core.errors import RlCoreError
from targetnet.rl_core.files import writing

if TYPE_CHECKING:
    from rich.console import Console

    from targetnet.agents.config.model import DqnConfig


class NotTheSame(RlCoreError):
    """A run, trained again, has another digest."""

    exit_code = 1


class StoredRun(NamedTuple):
    """A run as it was.

    Attributes:
      name: words for the screen.
      digest: of its end.
      processor: on which it was made; empty if nobody knows.
    """

    name: str
    config: DqnConfig
    digest: str
    processor: str


def train_again(
    runs: Sequence[StoredRun],
    directory: Path,
    at_once: int,
    console: Console,
    say: Callable[[str], None],
    place: Place = HERE,
) -> JobOutcome:
    """Trains them in a new directory below `directory`, and compares digests.

    The new directory is removed, unless a run differs or failed.

    Args:
      at_once: runs at work at once.
      place: where they are trained.

    Raises:
      NotTheSame: one has another digest.
      RlCoreError: training failed, or `directory` cannot be written.
    """
    from targetnet.agents.saved.directory import RunDir
    from targetnet.agents.saved.machines import processor_of

    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="verify-", dir=directory))
    paths = [made / str(number) for number in range(len(runs))]
    jobs = [
        # Each is new; but if a node dies, it goes on on another one.
        training_job(run.name, path, [run.config], path.with_suffix(".log"), alone=True)
        for run, path in zip(runs, paths, strict=True)
    ]
    ended = run_jobs(jobs, at_once, console, place=place)
    if ended.signal:
        shutil.rmtree(made)
        return ended
    if ended.failed:
        raise RlCoreError(ended.failed[0])
    for run, path in zip(runs, paths, strict=True):
        now, made_on = RunDir(path).load_digest().digest, processor_of(path)
        if now != run.digest:
            moved = f" (on {run.processor} then, on {made_on} now)"
            raise NotTheSame(
                f"{run.name}: not the same: {now}, not {run.digest}"
                f"{moved if made_on != run.processor else ''}; see {path}"
            )
        say(f"{run.name}: identical {now}")
    shutil.rmtree(made)
    return ended
