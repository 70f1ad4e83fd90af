"""`targetnet results`: trains configs with many seeds and writes a page of results."""

from __future__ import annotations

import json
import shlex
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from targetnet.agents.results.choice import place_for
from targetnet.agents.results.command_parts import require_at_least, require_page, say_interrupted
from targetnet.agents.results.jobs import JobOutcome, run_jobs
from targetnet.agents.results.places import Place
from targetnet.agents.results.seeds import ConfigSeeds, PeerSeeds
from targetnet.rl_core.console import say
from targetnet.rl_core.errors import RlCoreError, in_one_line
from targetnet.rl_core.files import write_whole, writing
from targetnet.rl_core.hyperparameters import LARGEST_INT64
from targetnet.rl_core.machine import cores

if TYPE_CHECKING:
    from rich.console import Console

    from targetnet.agents.results.scores import Row
    from targetnet.agents.results.table import Origin, Summary

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
    rows: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """Directory of finished seeds, which are not trained again. By default DIR/rows."""
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
        from targetnet.agents.results.differences import require_scipy
        from targetnet.agents.results.pictures import require_matplotlib

        ours = self._ours()
        require_matplotlib()
        if self.peer:
            require_scipy()
        peers = self._peers(ours)
        for seeds in ours:
            seeds.require_same_config()
        ended, at_once = JobOutcome(), self.jobs or cores()
        if not self.finished:
            configs = [seeds.config for seeds in ours]
            with place_for(self.ray, self.jobs, configs, partial(say, console)) as found:
                place, at_once = found
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
            raise RlCoreError(f"no seed of these configs is finished in {self.out}")
        return ended.exit_code

    # Plans the work.

    def _ours(self) -> list[ConfigSeeds]:
        """Returns the seeds of each config.

        Raises:
          RlCoreError: an argument cannot be used.
        """
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
        require_page(self.page)
        ours = [ConfigSeeds(config, *self._places, self.together) for config in self.configs]
        names = Counter(seeds.name for seeds in ours)
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            raise RlCoreError(
                f"two configs are called {twice[0]!r}: their runs would share a directory"
            )
        return ours

    def _peers(self, ours: Sequence[ConfigSeeds]) -> list[PeerSeeds]:
        """Returns the peer's seeds on each env for which it has settings."""
        from targetnet.agents.results.peer import is_known

        if self.peer and self.ray:
            raise RlCoreError(
                "--peer trains on this machine alone: give --ray and --peer in two commands; what "
                "is finished is not trained again, and the second one's page has both"
            )
        if self.peer_python and not self.peer:
            raise RlCoreError("--peer-python needs --peer")
        if self.peer_python and not shutil.which(self.peer_python):
            raise RlCoreError(f"--peer-python: no program {str(self.peer_python)!r}")
        if not self.peer:
            return []
        envs = {of.env_id: of.config for of in reversed(ours) if is_known(self.peer, of.env_id)}
        return [PeerSeeds(self.peer, config, *self._places) for config in reversed(envs.values())]

    @property
    def _places(self) -> tuple[range, Path, Path]:
        numbers = range(self.first_seed, self.first_seed + self.seeds)
        return numbers, self.out, self.rows or self.out / "rows"

    def _run(
        self,
        ours: Sequence[ConfigSeeds],
        peers: Sequence[PeerSeeds],
        place: Place,
        at_once: int,
        console: Console,
    ) -> JobOutcome:
        from targetnet.agents.results.peer import venv_jobs, venv_python

        jobs = [job for seeds in ours for job in seeds.jobs()]
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
        from targetnet.agents.results.table import made_by, summarize

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
        from targetnet.agents.results.page import as_markdown, file_name
        from targetnet.agents.results.pictures import draw
        from targetnet.agents.results.table import as_json, by_env

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
        """Returns the command line, without the options that concern only this machine.

        So an absolute path is left out too.
        """
        words = ["targetnet", "results", *self.configs, "--seeds", str(self.seeds)]
        words += ["--first-seed", str(self.first_seed)] if self.first_seed else []
        words += ["--peer", self.peer] if self.peer else []
        for option, path in (("--rows", self.rows), ("--page", self.page)):
            words += [option, str(path)] if path and not path.is_absolute() else []
        words += ["--title", in_one_line(self.title)] if self.title != "Results" else []
        words += ["--training"] if self.training else []
        words += ["--finished"] if self.finished else []
        return shlex.join(words)


def _in_a_line(summary: Summary) -> str:
    row = summary.row
    cut = sum(seed.cut for seed in row.seeds)
    return (
        f"{row.env_id}, {row.name}: mean {summary.mean.value:,.1f}, IQM {summary.iqm.value:,.1f} "
        f"({len(row.seeds)} seeds, {summary.worst.mean:,.1f} to {summary.best.mean:,.1f}"
        f"{f'; {cut:,} episodes cut at eval_max_steps' if cut else ''})"
    )
