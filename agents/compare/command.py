"""`targetnet compare`: trains the arms of a comparison and writes its page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from agents.results.choice import place_for
from agents.results.jobs import Ended, run_jobs
from rl_core.errors import RlCoreError, RunDirError

if TYPE_CHECKING:
    from rich.console import Console

    from agents.compare.kept import KeptArm
    from agents.compare.plan import Arm, Loaded
    from agents.compare.populations import Kept, Wanted

FAILED = 1


@dataclass(frozen=True)
class Compare:
    """Compare arms that differ in some keys, on several envs, by paired seeds; write a page."""

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """The comparison, a TOML file: envs, groups of arms, seeds and the sections of the page."""
    jobs: Annotated[int | None, arg(metavar="N")] = None
    """Number of processes at once, one core each. By default the number of cores; with --ray the
    number of CPUs of the cluster."""
    ray: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """Train on the nodes of a Ray cluster: HOST:PORT of its head, or auto for the cluster that this
    machine belongs to. The runs come home to DIR."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("comparison")
    """Directory for runs and logs. Unfinished runs in it are resumed."""
    rows: Annotated[Path | None, arg(metavar="DIR")] = None
    """Directory for a JSON file per arm and env, with its finished seeds. A seed that is there is
    not trained again, and its run may be deleted. By default DIR/rows."""
    page: Annotated[Path | None, arg(metavar="FILE")] = None
    """The page, a .md file; its pictures go to a directory beside it. By default DIR/page.md."""
    finished: bool = False
    """Train nothing; write the page of the seeds that are finished."""
    verify: Annotated[str, arg(metavar="ENV/ARM/SEED")] = ""
    """Train this run again, alone, and compare its digest; do nothing else."""

    def __call__(self, console: Console) -> int:
        from agents.compare.plan import load_plan
        from agents.compare.verify import verify, wanted_run
        from agents.results.pictures import require_matplotlib

        if self.jobs is not None and self.jobs < 1:
            raise RlCoreError(f"--jobs must be at least 1, got {self.jobs}")
        if self.page and self.page.suffix != ".md":
            raise RlCoreError(f"--page must be a .md file, got {str(self.page)!r}")
        require_matplotlib()
        loaded = load_plan(self.file)
        kept, say = self._kept(loaded), partial(_say, console)
        if self.verify:
            run = wanted_run(loaded, self.verify)
            return _code(verify(loaded, kept, run, self.out, console, say))
        ended = Ended() if self.finished else self._train(loaded, kept, console)
        if ended.signal:
            say("interrupted; run the same command again to continue")
        elif not ended.failed:
            self._write(loaded, kept, console)
        return _code(ended)

    def _kept(self, loaded: Loaded) -> dict[tuple[str, Arm], KeptArm]:
        from agents.compare.kept import KeptArm

        rows, plan = self.rows or self.out / "rows", loaded.plan
        first = plan.tuning.first
        return {
            (env, arm): KeptArm(
                rows / env / f"{plan.name(arm)}.json", loaded.config(env, arm, first)
            )
            for env in plan.envs
            for group in plan.groups_on(env)
            for arm in plan.arms(group)
        }

    def _train(self, loaded: Loaded, kept: Kept, console: Console) -> Ended:
        """Trains the tuning seeds, then, once arms are chosen, the fresh ones."""
        from agents.compare.scores import Scores

        scores = Scores(loaded, kept)
        ended = self._run(loaded, kept, scores.tuning(), console)
        if ended.signal or ended.failed:
            return ended
        return self._run(loaded, kept, scores.fresh(), console)

    def _run(self, loaded: Loaded, kept: Kept, wanted: Iterable[Wanted], console: Console) -> Ended:
        from agents.compare.populations import jobs_for

        jobs = jobs_for(loaded, wanted, kept, self.out)
        first = next(iter(loaded.plan.envs))
        config = loaded.config(first, loaded.plan.arms(loaded.plan.baseline)[0], 0)
        with place_for(self.ray, self.jobs, [config], partial(_say, console)) as (place, at_once):
            return run_jobs(jobs, at_once, console, place=place)

    def _write(self, loaded: Loaded, kept: Kept, console: Console) -> None:
        from agents.compare.page import write_page
        from agents.compare.scores import Scores

        scores = Scores(loaded, kept)
        missing = scores.missing(scores.tuning()) or scores.missing(scores.fresh())
        if missing:
            raise RlCoreError(
                f"{missing:,} runs are not finished; the command without --finished trains them"
            )
        page = self.page or self.out / "page.md"
        with console.status("statistics and pictures"):
            try:
                write_page(page, self._command(), loaded, kept)
            except OSError as error:
                raise RunDirError(f"cannot write {page}: {error.strerror}") from None
        _say(console, f"page: {page}")

    def _command(self) -> str:
        """Returns the command line, without the options that concern only this machine."""
        words = ["targetnet", "compare", str(self.file)]
        words += ["--rows", str(self.rows)] if self.rows else []
        words += ["--page", str(self.page)] if self.page else []
        return shlex.join(words)


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)


def _code(ended: Ended) -> int:
    if ended.signal:
        return 128 + ended.signal
    return FAILED if ended.failed else 0
