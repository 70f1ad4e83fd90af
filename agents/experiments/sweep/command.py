"""`targetnet sweep`: searches keys of a config, and trains the best again with fresh seeds."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from tyro.conf import Positional, UseAppendAction, arg

from targetnet.agents.experiments.jobs import JobOutcome, run_jobs
from targetnet.agents.experiments.options import require_at_least, require_ending, say_interrupted
from targetnet.agents.experiments.places import Place, place_for
from targetnet.agents.experiments.training_job import FIRST_FRESH_SEED
from targetnet.rl_core.console import say
from targetnet.rl_core.control.files import FileLock
from targetnet.rl_core.errors import RlCoreError, RunDirError
from targetnet.rl_core.files import clear_unfinished, is_unfinished, writing
from targetnet.rl_core.hyperparameters import as_text

if TYPE_CHECKING:
    from rich.console import Console

    from targetnet.agents.config.model import DqnConfig
    from targetnet.agents.experiments.sweep.fresh_seeds import FreshSeeds
    from targetnet.agents.experiments.sweep.plan import SweepPlan
    from targetnet.agents.experiments.sweep.study import Study

SWEEPS = Path("sweeps")
_PLAN, _STUDY, _LOCK = "sweep.toml", "study.log", "lock"
Groups = UseAppendAction[tuple[tuple[str, ...], ...]]


@dataclass(frozen=True)
class Sweep:
    """Search keys of a config; train the best again with seeds that chose nothing.

    Example: targetnet sweep cartpole --over sync_period=10..1000:log --trials 20
    """

    config: Annotated[Positional[str], arg(metavar="CONFIG")]
    """A shipped name (see `targetnet configs`), the path of a TOML file, or an env's id."""
    over: Annotated[Groups, arg(metavar="NAME=VALUES")] = ()
    """What to search: --over learning_rate=1e-4..1e-2:log batch_size=32,64,128"""
    set: Annotated[Groups, arg(metavar="NAME=VALUE")] = ()
    """Change keys of the config for all trials, in TOML's notation."""
    trials: Annotated[int, arg(metavar="N")] = 50
    """Number of trials. The same command with more of them goes on."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Number of processes at once, one core each. By default one for each core there is."""
    ray: Annotated[str | None, arg(metavar="ADDRESS", help_behavior_hint="")] = None
    """Train on a Ray cluster: HOST:PORT of its head, or auto. The runs come home to DIR."""
    dir: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """Directory for all files. By default sweeps/CONFIG. A sweep that is there goes on."""
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    """What proposes the values: Optuna's TPE, random values, or all combinations."""
    sampler_seed: Annotated[int, arg(metavar="S")] = 0
    """Seed of the sampler."""
    seeds: Annotated[int, arg(metavar="N")] = 1
    """Number of tuning seeds of each trial; they are all below 1,000."""
    together: Annotated[int, arg(metavar="N")] = 1
    """Number of trials that one process trains as a population, whose live values alone differ."""
    score: Literal["curve", "final"] = "curve"
    """A trial's score: the mean of all its greedy evaluations, or the final one alone."""
    prune: Annotated[bool, arg(help_behavior_hint="")] = True
    """Train each trial to its end. By default those below the median stop early."""
    best: Annotated[int, arg(metavar="N")] = 5
    """Number of the best trials that are trained again with fresh seeds."""
    fresh_seeds: Annotated[int, arg(metavar="N")] = 10
    """Number of fresh seeds."""
    first_fresh_seed: Annotated[int, arg(metavar="S")] = 4_000
    """The first fresh seed, at least 1,000; the others follow it."""
    page: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """The page, a .md file; its pictures go to a directory beside it. By default DIR/sweep.md."""
    verify: bool = False
    """Train the winner again, with its tuning seeds, and compare digests; search nothing."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.config.files import load_config
        from targetnet.agents.experiments.report import require_matplotlib
        from targetnet.agents.experiments.sweep.study import Study, require_optuna

        self._require_numbers()
        require_optuna()
        require_matplotlib()
        base = load_config(self.config, [*chain(*self.set)])
        with place_for(self.ray, self.jobs, [base], partial(say, console)) as (place, at_once):
            directory = self._directory()
            plan = self._plan(base, directory, at_once)
            with _held(directory, plan):
                study = Study(directory / _STUDY, plan)
                if self.verify:
                    return self._verified(plan, study, directory, place, console).exit_code
                return self._all(plan, study, directory, _Work(place, at_once, console)).exit_code

    def _all(self, plan: SweepPlan, study: Study, directory: Path, work: _Work) -> JobOutcome:
        """Searches, trains the best again, and writes the page."""
        ended = self._search(plan, study, directory, work)
        if not ended.signal and study.best():
            fresh = self._fresh(plan, study, directory)
            again = run_jobs(fresh.jobs(), work.at_once, work.console, place=work.place)
            ended = JobOutcome(ended.failed + again.failed, again.signal)
            if not ended.signal:
                self._write(plan, study, fresh, directory, work.console)
        if ended.signal:
            say_interrupted(work.console)
        return ended

    # The plan.

    def _require_numbers(self) -> None:
        for name in ("trials", "seeds", "jobs", "together", "best", "fresh_seeds", "sampler_seed"):
            least = int(name != "sampler_seed")
            require_at_least(f"--{name.replace('_', '-')}", getattr(self, name), least)
        if self.first_fresh_seed < FIRST_FRESH_SEED:
            raise RlCoreError(
                f"--first-fresh-seed must be at least {FIRST_FRESH_SEED:,}, got "
                f"{self.first_fresh_seed:,}; seeds below are for tuning"
            )
        if self.seeds > FIRST_FRESH_SEED:
            raise RlCoreError(f"--seeds must be at most {FIRST_FRESH_SEED:,}, got {self.seeds:,}")
        require_ending("--page", self.page, ".md")

    def _directory(self) -> Path:
        from targetnet.agents.config.files import config_name

        return self.dir or SWEEPS / config_name(self.config)

    def _plan(self, base: DqnConfig, directory: Path, at_once: int) -> SweepPlan:
        """Returns the plan, which is that of the sweep in the directory if there is one.

        Raises:
          RlCoreError: an argument cannot be used, or the directory holds another sweep.
        """
        from targetnet.agents.experiments.sweep.plan import SweepPlan, read_plan

        before = read_plan(directory / _PLAN) if (directory / _PLAN).exists() else None
        over = [*chain(*self.over)]
        if self.verify and before is None:
            raise RunDirError(f"{directory} holds no sweep: it has no {_PLAN}")
        if before is not None and self.verify and not over:
            return before
        base = base.with_shared_defaults(re.split("[.=]", text)[0].strip() for text in over)
        plan = SweepPlan(
            # As it is read back.
            config=json.loads(base.model_dump_json(exclude_none=True)),
            over=over,
            sampler=self.sampler,
            seed=self.sampler_seed,
            seeds=self.seeds,
            score=self.score,
            prune=self.prune,
            together=self.together,
            ahead=at_once,
        )
        plan.require_usable()
        if before is None:
            return plan
        for difference in before.differences(plan):
            raise RunDirError(f"{directory} holds another sweep: {difference}; name another --dir")
        return before

    # The search, and what comes after it.

    def _search(self, plan: SweepPlan, study: Study, directory: Path, work: _Work) -> JobOutcome:
        from targetnet.agents.experiments.sweep.trials import Trials

        most = plan.most_trials()
        wanted = -(-self.trials // plan.together) * plan.together
        wanted = wanted if most is None else min(wanted, most)
        trials = Trials(plan, study, wanted, directory / "trials", directory / "logs")
        ended = run_jobs(
            trials.jobs(), min(work.at_once, plan.ahead), work.console,
            total=len(trials), title=trials.title, place=work.place,
        )  # fmt: skip
        if not ended.signal and study.best() is None:
            raise RlCoreError(f"no trial of {directory} has a score: all failed")
        return ended

    def _fresh(self, plan: SweepPlan, study: Study, directory: Path) -> FreshSeeds:
        from targetnet.agents.experiments.sweep.fresh_seeds import FreshSeeds

        seeds = range(self.first_fresh_seed, self.first_fresh_seed + self.fresh_seeds)
        together = plan.together * plan.seeds  # as many runs of a process as in the search
        return FreshSeeds(plan, study.ranking()[: self.best], seeds, directory, together)

    def _verified(
        self, plan: SweepPlan, study: Study, directory: Path, place: Place, console: Console
    ) -> JobOutcome:
        """Trains the best trial again, with its tuning seeds, and compares digests."""
        from targetnet.agents.experiments.verify import StoredRun, train_again

        best = study.best()
        if best is None:
            raise RlCoreError(f"no trial of {directory} has ended: there is no winner")
        about, number = best.user_attrs, best.number
        digests = zip(plan.seeds_of(number), about.get("digests", []), strict=True)
        runs = []
        for seed, digest in digests:
            config = plan.space.config(best.params, {"seed": seed})
            name = f"trial {number}, seed {seed}"
            runs.append(StoredRun(name, config, digest, about.get("processor", "")))
        return train_again(runs, directory, plan.ahead, console, partial(say, console), place)

    def _write(
        self, plan: SweepPlan, study: Study, fresh: FreshSeeds, directory: Path, console: Console
    ) -> None:
        from targetnet.agents.experiments.sweep.fresh_seeds import WINNER
        from targetnet.agents.experiments.sweep.page import write_page

        page = self.page or directory / "sweep.md"
        with console.status("statistics and pictures"):
            fresh.keep_finished(lambda line: say(console, line))
            retrained = fresh.all()
            with writing(page):
                write_page(page, self._command(), plan, study, retrained, directory)
        best = retrained[0]
        found = ", ".join(f"{name} = {as_text(v)}" for name, v in best.trial.params.items())
        say(console, f"best trial: {best.trial.number} ({found}), score {best.trial.value:,.1f}")
        if best.summary:
            mean, count = best.summary.mean, len(best.summary.row.seeds)
            seeds = "seed" if count == 1 else "seeds"
            say(console, f"with {count} fresh {seeds}: mean {mean.value:,.1f}")
        say(console, f"its config: {directory / WINNER}")
        say(console, f"page: {page}")

    def _command(self) -> str:
        from targetnet.agents.experiments.report import command_line

        words = ["targetnet", "sweep", self.config, "--over", *chain(*self.over)]
        words += ["--set", *chain(*self.set)] if self.set else []
        machine = {"config", "over", "set", "ray", "page", "verify"}
        return command_line(words, self, machine, {"trials"})


class _Work(NamedTuple):
    """The place of jobs, how many are at work at once, and where their progress is shown."""

    place: Place
    at_once: int
    console: Console


def _has_other_files(directory: Path) -> bool:
    return not all(path.name == _LOCK or is_unfinished(path.name) for path in directory.iterdir())


@contextlib.contextmanager
def _held(directory: Path, plan: SweepPlan) -> Iterator[None]:
    """Holds the directory of a sweep, which is made if there is none.

    Raises:
      RunDirError: another process holds it, or it cannot be written, or holds something else.
    """
    from targetnet.agents.saved.directory import write_file

    path = directory / _PLAN
    with writing(directory):
        if directory.exists() and not path.exists() and _has_other_files(directory):
            raise RunDirError(f"{directory} holds something else: it has no {_PLAN}")
        directory.mkdir(parents=True, exist_ok=True)
    lock = FileLock(directory / _LOCK, f"another process is at work on {directory}")
    try:
        clear_unfinished(directory)  # what one that was killed has left
        if not path.exists():
            write_file(path, plan.text().encode())
        yield
    finally:
        lock.release()
