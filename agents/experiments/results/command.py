"""`targetnet results`: trains configs with many seeds and writes a page of results."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from targetnet.agents.experiments.jobs import JobOutcome, run_jobs
from targetnet.agents.experiments.options import require_at_least, require_ending, say_interrupted
from targetnet.agents.experiments.places import Place, place_for
from targetnet.agents.experiments.results.seeds import ConfigSeeds, PeerSeeds
from targetnet.rl_core.console import say
from targetnet.rl_core.errors import RlCoreError, in_one_line
from targetnet.rl_core.files import write_whole, writing
from targetnet.rl_core.hyperparameters import LARGEST_INT64
from targetnet.rl_core.machine import cores

if TYPE_CHECKING:
    from rich.console import Console

    from targetnet.agents.experiments.results.table import Origin, Row, Summary
    from targetnet.agents.experiments.store import ResultStore

_MOST_SEEDS = 10_000


@dataclass(frozen=True)
class Results:
    """Train configs with many seeds and write a page with statistics and curves.

    Example: targetnet results cartpole acrobot --seeds 5
    """

    configs: Annotated[
        Positional[tuple[str, ...]], arg(metavar="CONFIG ...", help_behavior_hint="")
    ]
    """Shipped names (see `targetnet configs`), paths of TOML files, or ids of envs."""
    seeds: Annotated[int, arg(metavar="N")] = 10
    """Number of seeds for each config."""
    first_seed: Annotated[int, arg(metavar="S")] = 0
    """The first seed; the others follow it."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Number of processes at once, one core each. By default one for each core there is."""
    together: Annotated[int, arg(metavar="N")] = 1
    """Number of seeds that one process trains as a population: faster, and needs more memory."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("results")
    """Directory for runs, logs and table.json. Unfinished runs in it are resumed."""
    rows: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """File of finished seeds, which are not trained again. By default DIR/rows.jsonl."""
    peer: Annotated[
        Literal["sb3", "sb3-defaults"] | None,
        arg(metavar="sb3|sb3-defaults", help_behavior_hint=""),
    ] = None
    """Also train Stable-Baselines3's DQN, with rl-baselines3-zoo's settings or its defaults."""
    peer_python: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Python that has the peer installed. By default the peer is installed in DIR/venvs."""
    ray: Annotated[str | None, arg(metavar="ADDRESS", help_behavior_hint="")] = None
    """Train on a Ray cluster: HOST:PORT of its head, or auto. The runs come home to DIR."""
    page: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """The page, a .md file; its pictures go to a directory beside it. By default DIR/results.md."""
    title: Annotated[str, arg(metavar="TEXT")] = "Results"
    """The page's title."""
    training: bool = False
    """Add the mean return of the last 100 training episodes, and of those on the way."""
    finished: bool = False
    """Train nothing; write the page of the seeds that are finished."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.experiments.report import require_matplotlib
        from targetnet.agents.experiments.statistics import require_scipy
        from targetnet.agents.experiments.store import ResultStore

        self._require_usable()
        require_matplotlib()
        if self.peer:
            require_scipy()
        store = ResultStore(self._rows)
        ours, peers = self._plan(store)
        ended, at_once = JobOutcome(), self.jobs or cores()
        if not self.finished:
            configs = [seeds.config for seeds in ours]
            with (
                place_for(self.ray, self.jobs, configs, partial(say, console)) as (place, at_once),
                store.held(),
            ):
                ended = self._run(ours, peers, place, at_once, console)
        if ended.signal:
            say_interrupted(console)
            return ended.exit_code
        for seeds in ours:
            seeds.keep_finished(partial(say, console))
        rows = [of.row() for of in ours] + [of.row() for of in peers]
        rows = [row for row in rows if row.seeds]
        if rows:
            self._write(rows, at_once, console)
        elif self.finished:
            raise RlCoreError(f"no seed of these configs is finished in {self._rows}")
        return ended.exit_code

    # Plans the work.

    def _require_usable(self) -> None:
        if not self.configs:
            raise RlCoreError("name at least one config, such as: targetnet results cartpole")
        require_at_least("--seeds", self.seeds)
        require_at_least("--jobs", self.jobs)
        require_at_least("--together", self.together)
        require_at_least("--first-seed", self.first_seed, 0)
        if self.seeds > _MOST_SEEDS:
            raise RlCoreError(f"--seeds must be at most {_MOST_SEEDS:,}, got {self.seeds:,}")
        if self.first_seed + self.seeds - 1 > LARGEST_INT64:
            raise RlCoreError(f"--first-seed must leave room in int64, got {self.first_seed:,}")
        require_ending("--page", self.page, ".md")
        require_ending("--rows", self.rows, ".jsonl")
        if self.peer and self.ray:
            raise RlCoreError(
                "--peer trains on this machine alone: give --ray and --peer in two commands; what "
                "is finished is not trained again, and the second one's page has both"
            )
        if self.peer_python and not self.peer:
            raise RlCoreError("--peer-python needs --peer")
        if self.peer_python and not shutil.which(self.peer_python):
            raise RlCoreError(f"--peer-python: no program {str(self.peer_python)!r}")

    def _plan(self, store: ResultStore) -> tuple[list[ConfigSeeds], list[PeerSeeds]]:
        """Returns the seeds of each config, and the peer's on each env for which it has settings.

        Raises:
          RlCoreError: a config cannot be used, or what is finished is of another one.
        """
        from targetnet.agents.experiments.results.peer import is_known

        numbers = range(self.first_seed, self.first_seed + self.seeds)
        ours = [
            ConfigSeeds(config, numbers, self.out, store, self.together) for config in self.configs
        ]
        names = Counter(seeds.name for seeds in ours)
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            raise RlCoreError(
                f"two configs are called {twice[0]!r}: their runs would share a directory"
            )
        for seeds in ours:
            seeds.require_same_config()
        if not self.peer:
            return ours, []
        envs = {of.env_id: of.config for of in reversed(ours) if is_known(self.peer, of.env_id)}
        return ours, [
            PeerSeeds(self.peer, config, numbers, self.out, store)
            for config in reversed(envs.values())
        ]

    @property
    def _rows(self) -> Path:
        return self.rows or self.out / "rows.jsonl"

    def _run(
        self,
        ours: Sequence[ConfigSeeds],
        peers: Sequence[PeerSeeds],
        place: Place,
        at_once: int,
        console: Console,
    ) -> JobOutcome:
        from targetnet.agents.experiments.results.peer import venv_jobs, venv_python

        jobs = [job for seeds in ours for job in seeds.jobs()]
        for seeds_of_peer in peers:
            seeds_of_peer.keep_finished()
        missing = [seeds for seeds in peers if seeds.missing]
        python, made = self.peer_python, JobOutcome()
        if missing and python is None:
            venv = self.out / "venvs" / "sb3"
            python = venv_python(venv)
            for job in venv_jobs(venv, self.out / "logs"):
                made = run_jobs([job], 1, console)
                if made.signal:
                    return made
                if made.failed:  # the peer cannot train without its environment
                    missing = []
                    break
        if python:
            jobs += [job for seeds in missing for job in seeds.jobs(python)]
        ended = run_jobs(jobs, at_once, console, place=place)
        return JobOutcome(made.failed + ended.failed, ended.signal)

    def _write(self, rows: list[Row], at_once: int, console: Console) -> None:
        from targetnet.agents.experiments.results.table import made_by, summarize

        page = self.page or self.out / "results.md"
        with console.status("statistics and pictures"):
            summaries = [summarize(row) for row in rows]
            made = made_by(self._command(), at_once)
            with writing(page):
                self._write_files(summaries, made, page)
        for summary in summaries:
            say(console, _in_a_line(summary))
        say(console, f"page: {page}")

    def _write_files(self, summaries: list[Summary], made: Origin, page: Path) -> None:
        """Writes the pictures, the table and the page that shows both."""
        from targetnet.agents.experiments.results.page import as_markdown, draw, file_name
        from targetnet.agents.experiments.results.table import as_json, by_env

        # Where every seed was finished before, nothing has made it yet.
        self.out.mkdir(parents=True, exist_ok=True)
        beside, pictures = page.with_suffix(""), {}
        for env_id, of_env in by_env(summaries).items():
            draw(env_id, of_env, beside)
            pictures[env_id] = f"{beside.name}/{file_name(env_id)}.png"
        table = json.dumps(as_json(summaries, made), indent=1) + "\n"
        write_whole(self.out / "table.json", table.encode())
        text = as_markdown(
            summaries, made, pictures, title=in_one_line(self.title), training=self.training
        )
        write_whole(page, text.encode())

    def _command(self) -> str:
        """Returns the command line, without the options that concern only this machine."""
        from targetnet.agents.experiments.report import command_line

        told = replace(self, title=in_one_line(self.title))
        machine = {"configs", "jobs", "together", "out", "peer_python", "ray"}
        return command_line(["targetnet", "results", *self.configs], told, machine, {"seeds"})


def _in_a_line(summary: Summary) -> str:
    row = summary.row
    cut = sum(seed.cut for seed in row.seeds)
    return (
        f"{row.env_id}, {row.name}: mean {summary.mean.value:,.1f}, IQM {summary.iqm.value:,.1f} "
        f"({len(row.seeds)} seeds, {summary.worst.mean:,.1f} to {summary.best.mean:,.1f}"
        f"{f'; {cut:,} episodes cut at eval_max_steps' if cut else ''})"
    )
