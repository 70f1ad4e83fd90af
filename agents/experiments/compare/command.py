"""`targetnet compare`: trains the arms of a comparison and writes its page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from targetnet.agents.experiments.jobs import JobOutcome, run_jobs
from targetnet.agents.experiments.options import require_at_least, require_ending, say_interrupted
from targetnet.agents.experiments.places import place_for
from targetnet.rl_core.console import say
from targetnet.rl_core.errors import RlCoreError
from targetnet.rl_core.files import writing

if TYPE_CHECKING:
    from rich.console import Console

    from targetnet.agents.experiments.compare.arms import FinishedArms
    from targetnet.agents.experiments.compare.plan import LoadedPlan, RequestedRun


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
    rows: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """File of finished seeds, which are not trained again. By default DIR/rows.jsonl."""
    page: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """The page, a .md file; its pictures go to a directory beside it. By default DIR/page.md."""
    finished: bool = False
    """Train nothing; write the page again, of rows that are all there."""
    verify: Annotated[str, arg(metavar="ENV/ARM/SEED")] = ""
    """Train this run again, alone, and compare its digest; do nothing else."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.experiments.compare.arms import FinishedArms
        from targetnet.agents.experiments.compare.plan import load_plan
        from targetnet.agents.experiments.report import require_matplotlib
        from targetnet.agents.experiments.statistics import require_scipy
        from targetnet.agents.experiments.store import ResultStore

        require_at_least("--jobs", self.jobs)
        require_ending("--page", self.page, ".md")
        require_ending("--rows", self.rows, ".jsonl")
        require_matplotlib()
        require_scipy()
        loaded = load_plan(self.file)
        run = loaded.run_named(self.verify) if self.verify else None
        store = ResultStore(self.rows or self.out / "rows.jsonl")
        finished = FinishedArms(loaded, store)
        if run:
            return self._verified(loaded, finished, run, console).exit_code
        if self.finished:
            self._write(loaded, finished, console)
            return 0
        with store.held():
            ended = self._train(loaded, finished, console)
        if ended.signal:
            say_interrupted(console)
        elif not ended.failed:
            self._write(loaded, finished, console)
        return ended.exit_code

    def _verified(
        self, loaded: LoadedPlan, finished: FinishedArms, run: RequestedRun, console: Console
    ) -> JobOutcome:
        from targetnet.agents.experiments.verify import StoredRun, train_again

        name, config, say_here = loaded.name(run), loaded.config(*run), partial(say, console)
        if run not in finished:
            raise RlCoreError(f"{name} is not finished: there is nothing to compare with")
        before = finished.run(run)
        stored = StoredRun(name, config, before.digest, before.processor)
        with place_for(self.ray, self.jobs, [config], say_here) as (place, _):
            return train_again([stored], self.out, 1, console, say_here, place)

    def _train(self, loaded: LoadedPlan, finished: FinishedArms, console: Console) -> JobOutcome:
        """Trains the tuning seeds, then, once arms are chosen, the fresh ones."""
        from targetnet.agents.experiments.compare.scores import Scores

        scores = Scores(loaded.plan, finished)
        ended = self._run(loaded, finished, scores.choices.tuning(), console)
        if ended.signal or ended.failed:
            return ended
        finished.require(scores.choices.tuning())
        return self._run(loaded, finished, scores.fresh(), console)

    def _run(
        self,
        loaded: LoadedPlan,
        finished: FinishedArms,
        wanted: Iterable[RequestedRun],
        console: Console,
    ) -> JobOutcome:
        from targetnet.agents.experiments.compare.population_jobs import jobs_for

        jobs = jobs_for(loaded, wanted, finished, self.out)
        configs = [*loaded.configs.values()]
        with place_for(self.ray, self.jobs, configs, partial(say, console)) as (place, at_once):
            return run_jobs(jobs, at_once, console, place=place)

    def _write(self, loaded: LoadedPlan, finished: FinishedArms, console: Console) -> None:
        from targetnet.agents.experiments.compare.page import write_page
        from targetnet.agents.experiments.compare.scores import Scores
        from targetnet.agents.experiments.report import command_line

        scores = Scores(loaded.plan, finished)
        finished.require(scores.choices.tuning())
        finished.require(scores.fresh())
        page = self.page or self.out / "page.md"
        machine = {"file", "jobs", "ray", "out", "finished", "verify"}
        command = command_line(["targetnet", "compare", str(self.file)], self, machine)
        with console.status("statistics and pictures"), writing(page):
            write_page(page, command, loaded.plan, scores)
        say(console, f"page: {page}")
