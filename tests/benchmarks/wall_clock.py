"""The command that measures how long users wait until an agent plays well, and writes the page.

    python -m tests.benchmarks.wall_clock                          # docs/results/wall_clock.md
    python -m tests.benchmarks.wall_clock --jobs 2                 # several at once
    python -m tests.benchmarks.wall_clock --warm                   # what is compiled is stored

Every seed of every library is a process of its own. The clock runs from the start of the process
to the end of the first greedy evaluation whose mean return reaches the env's mark. What was
measured is a line of --rows for each library, env and seed, and is not measured again.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from targetnet.agents.config.files import load_config
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.jobs import Job, run_jobs
from targetnet.agents.experiments.results.peer import progress_in
from targetnet.agents.experiments.results.sb3_worker import SETTINGS, SOURCE
from targetnet.agents.experiments.store import append_rows, read_rows
from targetnet.rl_core.errors import RlCoreError, in_one_line
from targetnet.rl_core.files import write_whole
from targetnet.rl_core.machine import processor
from tests.benchmarks.performance import chosen_names, commit, make_venvs, python_of, run_command
from tests.benchmarks.wall_clock_page import NAMES, as_markdown

_PEERS = Path(__file__).parent / "peers"
_ROWS = Path("docs/rows/wall_clock.jsonl")
_PAGE = Path("docs/results/wall_clock.md")
_EPISODES = 20
# As long as the longest run that any side's own settings are made for, which is CleanRL's: nobody
# is cut off before the end of its own schedules.
_ENV_STEPS = 500_000


class Mark(NamedTuple):
    """What is to be reached on an env.

    Attributes:
      config: the shipped one, ours.
      least: mean return of an evaluation.
      period: env steps from one evaluation to the next. Each plays some ten thousand env steps at
        worst: more often, and most of the time would be theirs.
    """

    config: str
    least: float
    period: int


ENVS = {
    "CartPole-v1": Mark("cartpole", 475.0, 2_500),
    "Acrobot-v1": Mark("acrobot", -90.0, 5_000),
    "LunarLander-v3": Mark("lunarlander", 200.0, 5_000),
}
# Keys of ours that are the same for all sides, or another one for each process.
_OF_THE_CLOCK = {"seed", "eval_period", "eval_episodes", "eval_max_steps", "final_eval_episodes"}
# Name -> program, environment; see `performance.VENVS`.
LIBRARIES = {
    "ours": ("until_ours.py", ""),
    "sb3": ("until_sb3.py", "sb3"),
    "sbx": ("until_sb3.py", "sbx"),
    "cleanrl-jax": ("until_cleanrl_jax.py", "jax"),
}
# Without a cache each process compiles; with one, JAX stores small and quick compilations too.
_COLD = ["TARGETNET_XLA_CACHE=off", "JAX_ENABLE_COMPILATION_CACHE=false"]
_WARM = [
    "-u", "TARGETNET_XLA_CACHE", "XDG_CACHE_HOME={0}",
    "JAX_COMPILATION_CACHE_DIR={0}/jax",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1",
]  # fmt: skip
assert LIBRARIES.keys() == NAMES.keys()


class _Seed(NamedTuple):
    """One process."""

    env_id: str
    library: str
    number: int
    jobs: int
    warm: bool

    def __str__(self) -> str:
        at_once = f"-{self.jobs}-at-once" if self.jobs > 1 else ""
        return f"{self.env_id}-{self.library}-{self.number}{at_once}{'-warm' * self.warm}"

    @property
    def venv(self) -> str:
        return LIBRARIES[self.library][1]

    @property
    def asked(self) -> dict[str, Any]:
        """What the process is asked for."""
        mark = ENVS[self.env_id]
        return {
            "env_id": self.env_id, "seed": self.number, "mark": mark.least, "period": mark.period,
            "episodes": _EPISODES, "env_steps": _ENV_STEPS, "config": mark.config,
            "settings": self._settings,
        }  # fmt: skip

    @property
    def _settings(self) -> dict[str, Any]:
        """What it trains with; CleanRL's are in its program."""
        match self.library:
            case "ours":
                return _dumped(load_config(ENVS[self.env_id].config))
            case "cleanrl-jax":
                return {}
        return {"library": self.library, "source": SOURCE, **SETTINGS[self.env_id]}


@dataclass(frozen=True)
class WallClock:
    """Measure how long each library takes until a mark is reached; write the page."""

    envs: tuple[str, ...] = ()
    """Env ids; by default all."""
    only: tuple[str, ...] = ()
    """Libraries; by default all, or with --warm all but sb3, which compiles nothing."""
    seeds: int = 10
    """Number of seeds."""
    first_seed: int = 2100
    """The first one; the others follow it."""
    jobs: int = 1
    """Processes at work at once, all of the same library if they are more than one."""
    warm: bool = False
    """Each process finds what one before it has compiled, which is not measured."""
    rows: Path = _ROWS
    """File of what was measured, all of which is on the page: of another processor, another one."""
    out: Path = Path("results/wall_clock")
    """For logs, the peers' environments, and for runs while they are trained."""
    remark: str = ""
    """A sentence for the page, such as what else the machine did meanwhile."""

    def __call__(self, console: Console) -> int:
        envs = chosen_names("env", self.envs, ENVS)
        known = {name: of for name, of in LIBRARIES.items() if name != "sb3" or not self.warm}
        libraries = chosen_names("library", self.only, known)
        if min(self.seeds, self.jobs) < 1:
            raise RlCoreError(f"--seeds and --jobs must be at least 1, got {self.seeds, self.jobs}")
        if self.warm and self.jobs > 1:
            raise RlCoreError("--warm needs --jobs 1: the first process has to end before others")
        groups = self._groups(envs, libraries)
        wanted = [seed.venv for group in groups for seed in group]
        failed = make_venvs(wanted, self.out, console)
        good = not failed
        for group in groups:
            sitting = {
                "jobs": self.jobs,
                "warm": self.warm,
                "sitting": round(time.time()),
                "processor": processor(),
                "commit": commit(),
                "date": time.strftime("%Y-%m-%d"),
                "remark": self.remark,
            }
            can = [seed for seed in group if seed.venv not in failed]
            jobs = [self._job(seed, sitting) for seed in can]
            if self.warm:  # one of each compiles, and leaves no row
                first = {of[:2]: of._replace(number=self.first_seed - 1) for of in can}
                jobs = [self._job(seed, None) for seed in first.values()] + jobs
            ended = run_jobs(jobs, self.jobs, console)
            if ended.signal:
                raise KeyboardInterrupt
            good = good and not ended.failed
        if rows := self.finished():
            page = _PAGE if self.rows == _ROWS else self.rows.with_suffix(".md")
            options = "" if self.rows == _ROWS else f"--rows {self.rows}"
            in_order = [rows[name] for name in sorted(rows)]
            write_whole(page, as_markdown(in_order, options).encode())
            console.print(f"page: {page}", highlight=False, soft_wrap=True)
        return 0 if good else 1

    def finished(self) -> dict[str, dict[str, Any]]:
        """Returns the rows by their names."""
        found = {}
        for _, row in read_rows(self.rows):
            if not row.keys() >= {"asked", "library", "jobs", "warm", "seconds", "versions"}:
                raise RlCoreError(f"{self.rows} has rows of another command")
            asked, how = row["asked"], (row["jobs"], row["warm"])
            found[str(_Seed(asked["env_id"], row["library"], asked["seed"], *how))] = row
        return found

    def _groups(self, envs: Sequence[str], libraries: Sequence[str]) -> list[list[_Seed]]:
        """Returns what is not there yet, in groups that are measured together.

        One at a time the libraries take turns, at each seed another one first, so that a machine
        that changes does so for all. Several at once are all of one library, so that each one's are
        measured among its own.
        """
        numbers = range(self.first_seed, self.first_seed + self.seeds)
        seeds = [
            _Seed(env_id, library, number, self.jobs, self.warm)
            for env_id in envs
            for number in numbers
            for library in _from(number, libraries)
        ]
        finished = self.finished()
        todo = [seed for seed in seeds if not self._is_there(seed, finished)]
        if self.jobs == 1:
            return [todo]
        return [
            [seed for seed in todo if (seed.env_id, seed.library) == both]
            for both in product(envs, libraries)
        ]

    def _is_there(self, seed: _Seed, finished: Mapping[str, Any]) -> bool:
        """Raises RlCoreError if what is there was asked for in another way."""
        if str(seed) not in finished:
            return False
        before = dict(finished[str(seed)]["asked"])
        if seed.library == "ours":  # a key that did not exist then has its default
            before["settings"] = _dumped(DqnConfig()) | before["settings"]
        for name, wanted in seed.asked.items():
            if before.get(name) != wanted:
                raise RlCoreError(
                    f"{self.rows}: {seed} was measured with other {name}: delete its line to "
                    "measure it again, or give another --rows"
                )
        return True

    def _job(self, seed: _Seed, sitting: Mapping[str, Any] | None) -> Job:
        log = (self.out / "logs" / f"{seed}.log").absolute()
        path = log.with_suffix(".json")
        program = str(_PEERS / LIBRARIES[seed.library][0])
        caches = str((self.out / "caches" / seed.library).absolute())
        command = ["env", *(of.format(caches) for of in (_WARM if seed.warm else _COLD))]
        # -E: variables such as PYTHONPATH are for this process, and mean nothing to a peer's.
        command += [str(python_of(self.out, seed.venv)), "-E", program]
        command += [json.dumps(seed.asked), str(path)]
        name = f"{seed.library} {seed.env_id} seed {seed.number}"
        about = None if sitting is None else {"library": seed.library, **sitting}
        return Job(name, command, log, lambda: progress_in(log), lambda: self._keep(path, about))

    def _keep(self, path: Path, about: Mapping[str, Any] | None) -> None:
        """Stores the row that a process has written; None of one that is not measured."""
        try:
            row = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise RlCoreError(f"cannot use {path}: {in_one_line(error)}") from None
        if about is not None:
            append_rows(self.rows, [{"asked": row["asked"], **about, **row}])
        path.unlink()


def _dumped(config: DqnConfig) -> dict[str, Any]:
    return config.model_dump(mode="json", exclude_none=True, exclude=_OF_THE_CLOCK)


def _from(number: int, names: Sequence[str]) -> list[str]:
    """Returns the names, beginning with another one for each number."""
    first = number % len(names)
    return [*names[first:], *names[:first]]


if __name__ == "__main__":
    sys.exit(run_command(WallClock))
