"""`targetnet results`: trains configs with many seeds and writes a page of results."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from agents.results.jobs import Ended, Job, Progressed, run_jobs
from rl_core.control.files import ControlFiles, write_whole
from rl_core.control.state import read_state
from rl_core.errors import RlCoreError, RunDirError

if TYPE_CHECKING:
    from rich.console import Console

    from agents.results.scores import Row
    from agents.results.table import Made, Summary

FAILED = 1
TRAIN = [sys.executable, "-m", "agents.cli", "train"]


@dataclass(frozen=True)
class Results:
    """Train configs with many seeds and write a page with statistics and curves."""

    configs: Annotated[Positional[tuple[str, ...]], arg(metavar="CONFIG ...")]
    """Shipped names (see `targetnet configs`) or paths of TOML files."""
    seeds: Annotated[int, arg(metavar="N")] = 10
    """Number of seeds for each config."""
    first_seed: Annotated[int, arg(metavar="S")] = 0
    """The first seed; the others follow it."""
    jobs: Annotated[int | None, arg(metavar="N")] = None
    """Number of seeds that train at once, one core each. By default the number of cores."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("results")
    """Directory for runs, logs and table.json. Unfinished runs in it are resumed."""
    rows: Annotated[Path | None, arg(metavar="DIR")] = None
    """Directory for a JSON file per finished seed. A seed with a file is not trained again, and its
    run may be deleted. By default DIR/rows."""
    peer: Annotated[Literal["sb3"] | None, arg(metavar="sb3")] = None
    """Also train Stable-Baselines3's DQN, if rl-baselines3-zoo has settings for the env."""
    peer_python: Annotated[Path | None, arg(metavar="FILE")] = None
    """Python that has the peer installed. By default the peer is installed in DIR/venvs."""
    page: Annotated[Path | None, arg(metavar="FILE")] = None
    """The page, a .md file; its pictures go to a directory beside it. By default DIR/results.md."""
    training: bool = False
    """Add a column: the mean return of the last 100 training episodes."""
    finished: bool = False
    """Train nothing; write the page of the seeds that are finished."""

    def __call__(self, console: Console) -> int:
        from agents.results.pictures import require_matplotlib

        envs = self._env_of_each()
        require_matplotlib()
        peer_envs = self._peer_envs(envs)
        self._require_same_configs()
        ended = Ended() if self.finished else self._run(peer_envs, console)
        if ended.signal:
            _say(console, "interrupted; run the same command again to continue")
            return 128 + ended.signal
        self._keep_finished(console)
        rows = [row for row in self._rows(envs, peer_envs) if row.seeds]
        if rows:
            self._write(rows, console)
        elif self.finished:
            raise RlCoreError(f"no seed of these configs is finished in {self.out}")
        return FAILED if ended.failed else 0

    # Plans the work.

    def _env_of_each(self) -> dict[str, str]:
        """Returns the env id of each config, keyed by the config as given.

        Raises:
          RlCoreError: an argument cannot be used.
        """
        from agents.config.files import config_name, load_config

        if not self.configs:
            raise RlCoreError("name at least one config, such as: targetnet results cartpole")
        for option, value in (("--seeds", self.seeds), ("--jobs", self._at_once)):
            if value < 1:
                raise RlCoreError(f"{option} must be at least 1, got {value}")
        if self.first_seed < 0:
            raise RlCoreError(f"--first-seed must be at least 0, got {self.first_seed}")
        if self.page and self.page.suffix != ".md":
            raise RlCoreError(f"--page must be a .md file, got {str(self.page)!r}")
        envs = {config: load_config(config).env_id for config in self.configs}
        names = Counter(config_name(config) for config in self.configs)
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            raise RlCoreError(
                f"two configs are called {twice[0]!r}: their runs would share a directory"
            )
        return envs

    def _peer_envs(self, envs: dict[str, str]) -> list[str]:
        """Returns the envs for which the peer has settings, each once."""
        from agents.results.peer import is_known

        if self.peer_python and not self.peer:
            raise RlCoreError("--peer-python needs --peer sb3")
        if self.peer_python and not shutil.which(self.peer_python):
            raise RlCoreError(f"--peer-python: no program {str(self.peer_python)!r}")
        return [env for env in dict.fromkeys(envs.values()) if is_known(env)] if self.peer else []

    @property
    def _each_seed(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def _at_once(self) -> int:
        return len(os.sched_getaffinity(0)) if self.jobs is None else self.jobs

    def _run_of(self, config: str, seed: int) -> Path:
        from agents.config.files import config_name

        return self.out / "runs" / config_name(config) / str(seed)

    def _kept(self, name: str, seed: int) -> Path:
        """Returns the file of a finished seed; `name` is a config's, or the peer's with its env."""
        return (self.rows or self.out / "rows") / name / f"{seed}.json"

    def _peer_file(self, env_id: str, seed: int) -> Path:
        from agents.results.page import file_name

        return self._kept(f"sb3-{file_name(env_id)}", seed)

    def _file_of(self, config: str, seed: int) -> Path:
        from agents.config.files import config_name

        return self._kept(config_name(config), seed)

    def _require_same_configs(self) -> None:
        """Checks that the seeds with a file were trained with the configs as they are now.

        Raises:
          RlCoreError: one was not.
        """
        from agents.config.files import load_config
        from agents.results.kept import require_same_config

        for config in self.configs:
            for seed in self._each_seed:
                if (path := self._file_of(config, seed)).exists():
                    require_same_config(path, load_config(config, [f"seed={seed}"]))

    # Trains.

    def _run(self, peer_envs: list[str], console: Console) -> Ended:
        from agents.results.peer import venv_jobs, venv_python

        # Each child process checks whether its run is finished, is of this config, or is resumed.
        jobs = [
            self._job(config, seed)
            for config in self.configs
            for seed in self._each_seed
            if not self._file_of(config, seed).exists()
        ]
        missing = [
            (env_id, seed)
            for env_id in peer_envs
            for seed in self._each_seed
            if not self._peer_file(env_id, seed).exists()
        ]
        python, made = self.peer_python, Ended()
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
        if missing and python:
            jobs += [self._peer_job(python, env_id, seed) for env_id, seed in missing]
        ended = run_jobs(jobs, self._at_once, console)
        return Ended(made.failed + ended.failed, ended.signal)

    def _job(self, config: str, seed: int) -> Job:
        from agents.config.files import config_name

        run = self._run_of(config, seed)
        name = config_name(config)
        command = [*TRAIN, config, "--seed", str(seed), "--run", str(run), "--resume"]
        log = self.out / "logs" / name / f"{seed}.log"
        return Job(
            f"{name} seed {seed}",
            command,
            log,
            partial(_env_steps, ControlFiles(run)),
            partial(self._keep, config, seed),
        )

    def _peer_job(self, python: Path, env_id: str, seed: int) -> Job:
        from agents.results.peer import peer_job

        log = self.out / "logs" / "sb3" / env_id / f"{seed}.log"
        return peer_job(python, env_id, seed, self._peer_file(env_id, seed), log)

    # Writes the results.

    def _rows(self, envs: dict[str, str], peer_envs: list[str]) -> list[Row]:
        from agents.config.files import config_name
        from agents.results.kept import kept_row
        from agents.results.peer import NAME

        def files(path: Callable[[str, int], Path], of: str) -> dict[int, Path]:
            return {seed: path(of, seed) for seed in self._each_seed}

        ours = [
            kept_row(env_id, config_name(config), files(self._file_of, config))
            for config, env_id in envs.items()
        ]
        peers = [
            kept_row(env_id, NAME, files(self._peer_file, env_id), peer=True)
            for env_id in peer_envs
        ]
        return ours + peers

    def _keep_finished(self, console: Console) -> None:
        """Keeps the finished runs that have no file yet, but for those that another config made."""
        from agents.config.files import load_config, require_can_go_on
        from agents.saved.directory import RunDir

        for config in self.configs:
            for seed in self._each_seed:
                run = self._run_of(config, seed)
                if self._file_of(config, seed).exists() or not (run / "result.json").exists():
                    continue
                try:
                    require_can_go_on(
                        RunDir.open(run).config(), load_config(config, [f"seed={seed}"])
                    )
                except RlCoreError as error:
                    _say(console, f"{run} is left out: {error}")
                    continue
                self._keep(config, seed)

    def _keep(self, config: str, seed: int) -> None:
        from agents.config.files import load_config
        from agents.results.kept import keep

        path = self._file_of(config, seed)
        keep(path, self._run_of(config, seed), load_config(config, [f"seed={seed}"]))

    def _write(self, rows: list[Row], console: Console) -> None:
        from agents.results.table import made_by, summarize

        page = self.page or self.out / "results.md"
        with console.status("statistics and pictures"):
            summaries = [summarize(row) for row in rows]
            made = made_by(self._command(), self._at_once)
            try:
                _write_files(summaries, made, page, self.out / "table.json", self.training)
            except OSError as error:
                raise RunDirError(f"cannot write {page}: {error.strerror}") from None
        for summary in summaries:
            _say(console, _in_a_line(summary))
        _say(console, f"page: {page}")

    def _command(self) -> str:
        """Returns the command line, without the options that concern only this machine."""
        words = ["targetnet", "results", *self.configs, "--seeds", str(self.seeds)]
        words += ["--first-seed", str(self.first_seed)] if self.first_seed else []
        words += ["--peer", self.peer] if self.peer else []
        words += ["--training"] if self.training else []
        words += ["--finished"] if self.finished else []
        return shlex.join(words)


def _write_files(
    summaries: list[Summary], made: Made, page: Path, table: Path, training: bool
) -> None:
    """Writes the pictures, the table and the page that shows both."""
    from agents.results.page import as_markdown, file_name
    from agents.results.pictures import draw
    from agents.results.table import as_json, by_env

    beside, pictures = page.with_suffix(""), {}
    for env_id, of_env in by_env(summaries).items():
        draw(env_id, of_env, beside)
        pictures[env_id] = f"{beside.name}/{file_name(env_id)}.png"
    write_whole(table, (json.dumps(as_json(summaries, made), indent=1) + "\n").encode())
    write_whole(page, as_markdown(summaries, made, pictures, training=training).encode())


def _env_steps(files: ControlFiles) -> Progressed | None:
    try:
        state, _ = read_state(files)
    except RunDirError:  # the run has only just started
        return None
    return state.env_step, state.env_steps


def _in_a_line(summary: Summary) -> str:
    row = summary.row
    cut = sum(seed.cut for seed in row.seeds)
    return (
        f"{row.env_id}, {row.name}: mean {summary.mean.value:,.1f}, IQM {summary.iqm.value:,.1f} "
        f"({len(row.seeds)} seeds, {summary.worst.mean:,.1f} to {summary.best.mean:,.1f}"
        f"{f'; {cut:,} episodes cut at eval_max_steps' if cut else ''})"
    )


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)
