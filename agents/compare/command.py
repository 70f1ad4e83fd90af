"""`targetnet compare`: trains the arms of a comparison and writes its page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from targetnet.agents.results.choice import place_for
from targetnet.agents.results.command_parts import (
    held,
    require_at_least,
    require_page,
    say_interrupted,
)
from targetnet.agents.results.jobs import JobOutcome, run_jobs
from targetnet.rl_core.console import say
from targetnet.rl_core.files import writing

if TYPE_CHECKING:
    from rich.console import Console

    from targetnet.agents.compare.arm_results import Kept
    from targetnet.agents.compare.plan import LoadedPlan, RequestedRun


@dataclass(frozen=True)
class Compare:
    """Compare arms that differ in some keys, on several envs, by paired seeds; write a page.

    Example: targetnet compare periods.toml --jobs 4
    """

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """The comparison, a TOML file: envs, groups of arms, seeds and the sections of the page."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Number of processes at once, one core each. By default one for each core there is."""
    ray: Annotated[str | None, arg(metavar="ADDRESS", help_behavior_hint="")] = None
    """Train on a Ray cluster: HOST:PORT of its head, or auto. The runs come home to DIR."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("comparison")
    """Directory for runs and logs. Unfinished runs in it are resumed."""
    rows: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """Directory of finished seeds, which are not trained again. By default DIR/rows."""
    page: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """The page, a .md file; its pictures go to a directory beside it. By default DIR/page.md."""
    finished: bool = False
    """Train nothing; write the page again, of rows that are all there."""
    verify: Annotated[str, arg(metavar="ENV/ARM/SEED")] = ""
    """Train this run again, alone, and compare its digest; do nothing else."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.compare.arm_results import load_kept
        from targetnet.agents.compare.plan import LOCK, load_plan
        from targetnet.agents.compare.verify import wanted_run
        from targetnet.agents.results.differences import require_scipy
        from targetnet.agents.results.pictures import require_matplotlib

        require_at_least("--jobs", self.jobs)
        require_page(self.page)
        require_matplotlib()
        require_scipy()
        loaded = load_plan(self.file)
        rows = self.rows or self.out / "rows"
        if self.verify:
            run, kept = wanted_run(loaded, self.verify), load_kept(loaded, rows)
            return self._verified(loaded, kept, run, console).exit_code
        if self.finished:
            self._write(loaded, load_kept(loaded, rows), console)
            return 0
        with held(rows, LOCK):
            kept = load_kept(loaded, rows)
            ended = self._train(loaded, kept, console)
        if ended.signal:
            say_interrupted(console)
        elif not ended.failed:
            self._write(loaded, kept, console)
        return ended.exit_code

    def _verified(
        self, loaded: LoadedPlan, kept: Kept, run: RequestedRun, console: Console
    ) -> JobOutcome:
        from targetnet.agents.compare.verify import verify

        said, configs = partial(say, console), [loaded.config(*run)]
        with place_for(self.ray, self.jobs, configs, said) as (place, _):
            return verify(loaded, kept, run, self.out, console, said, place)

    def _train(self, loaded: LoadedPlan, kept: Kept, console: Console) -> JobOutcome:
        """Trains the tuning seeds, then, once arms are chosen, the fresh ones."""
        from targetnet.agents.compare.scores import Scores

        scores = Scores(loaded, kept)
        ended = self._run(loaded, kept, scores.choices.tuning(), console)
        if ended.signal or ended.failed:
            return ended
        scores.require(scores.choices.tuning())
        return self._run(loaded, kept, scores.fresh(), console)

    def _run(
        self, loaded: LoadedPlan, kept: Kept, wanted: Iterable[RequestedRun], console: Console
    ) -> JobOutcome:
        from targetnet.agents.compare.populations import jobs_for

        jobs = jobs_for(loaded, wanted, kept, self.out)
        configs = [*loaded.configs.values()]
        with place_for(self.ray, self.jobs, configs, partial(say, console)) as (place, at_once):
            return run_jobs(jobs, at_once, console, place=place)

    def _write(self, loaded: LoadedPlan, kept: Kept, console: Console) -> None:
        from targetnet.agents.compare.page import write_page
        from targetnet.agents.compare.scores import Scores

        scores = Scores(loaded, kept)
        scores.require(scores.choices.tuning())
        scores.require(scores.fresh())
        page = self.page or self.out / "page.md"
        with console.status("statistics and pictures"), writing(page):
            write_page(page, self._command(), loaded, kept)
        say(console, f"page: {page}")

    def _command(self) -> str:
        """Returns the command line, without the options that concern only this machine."""
        words = ["targetnet", "compare", str(self.file)]
        words += ["--rows", str(self.rows)] if self.rows else []
        words += ["--page", str(self.page)] if self.page else []
        return shlex.join(words)
