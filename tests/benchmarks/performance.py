"""The command that measures ours beside the peers and writes docs/results/performance.md.

    python -m tests.benchmarks.performance --page docs/results/performance.md  # ..._avx512.md
    python -m tests.benchmarks.performance --only CP-A --rounds 5

What it measured goes into OUT/performance.json, or with a page into a file beside it, scenario by
scenario; the page is made of all that is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console

from targetnet.agents.experiments.jobs import run_jobs
from targetnet.agents.experiments.results.peer import REQUIREMENTS, venv_jobs, venv_python
from targetnet.rl_core.errors import RlCoreError, did_you_mean
from targetnet.rl_core.files import write_whole
from targetnet.rl_core.machine import processor, vectors
from tests.benchmarks.performance_page import as_markdown, as_sitting, bar_line
from tests.benchmarks.rounds import Measured, measure
from tests.benchmarks.scenarios import SCENARIOS
from tests.benchmarks.scenarios.kinds import Scenario, Worker
from tests.benchmarks.workers import ROOT, Process, threads_of

_GYMNASIUM = "gymnasium[box2d,classic-control]==1.4.0"
_TORCH = ("torch==2.13.0",)
# What each peer's environment holds, one installation after the other.
VENVS: dict[str, tuple[tuple[str, ...], ...]] = {
    "sb3": REQUIREMENTS,
    "sb3-atari": (*REQUIREMENTS, ("ale-py==0.12.1", "opencv-python-headless==4.13.0.92")),
    "sbx": (_TORCH, ("sbx-rl==0.28.0", _GYMNASIUM)),
    "tianshou": (_TORCH, ("tianshou==2.0.1", _GYMNASIUM)),
    "jax": (("jax==0.10.2", _GYMNASIUM),),
}


@dataclass(frozen=True)
class Performance:
    """Measure ours beside the peers; write JSON and the page that is made of it."""

    only: tuple[str, ...] = ()
    """Scenarios; by default all."""
    rounds: int = 7
    """In each, the two of every ratio take their turns side by side."""
    out: Path = Path("results/performance")
    """For performance.json, logs and the peers' environments."""
    page: Path | None = None
    """The page; the processor's vectors get into its name, and what was measured lies beside it,
    as JSON. None is written by default."""

    def __call__(self, console: Console) -> int:
        chosen = [SCENARIOS[name] for name in chosen_names("scenario", self.only, SCENARIOS)]
        if self.rounds < 1:
            raise RlCoreError(f"--rounds must be at least 1, got {self.rounds}")
        page = self.page and self.page.with_stem(
            f"{self.page.stem}_{vectors() or platform.machine()}"
        )
        path = page.with_suffix(".json") if page else self.out / "performance.json"
        results = json.loads(path.read_text()) if path.exists() else {"scenarios": {}}
        wanted = [w.venv for s in chosen for w in s.workers.values()]
        missing = make_venvs(wanted, self.out, console)
        for scenario in chosen:
            console.rule(f"{scenario.name}: {scenario.title}")
            found = self._measured(scenario, missing, console)
            if scenario.name in results["scenarios"]:
                before = as_sitting(results["scenarios"][scenario.name])
                results.setdefault("earlier", {}).setdefault(scenario.name, []).append(before)
            for bar in found["bars"]:
                console.print(bar_line(found, bar), highlight=False, soft_wrap=True)
            results["scenarios"][scenario.name] = found
            order = [name for name in SCENARIOS if name in results["scenarios"]]
            results["scenarios"] = {name: results["scenarios"][name] for name in order}
            write_whole(path, (json.dumps(results, indent=1) + "\n").encode())
        if page:
            write_whole(page, as_markdown(results, page.name).encode())
            console.print(f"page: {page}")
        return 0

    def _measured(
        self, scenario: Scenario, missing: Mapping[str, str], console: Console
    ) -> dict[str, Any]:
        """Returns what performance.json has of a scenario."""
        found = Measured({}, {})
        skipped = {
            label: missing[worker.venv]
            for label, worker in scenario.workers.items()
            if worker.venv in missing
        }
        times, rounds = (self.rounds, 1) if scenario.fresh else (1, self.rounds)
        for _ in range(times):
            with contextlib.ExitStack() as stack:
                groups = {}
                for label, worker in scenario.workers.items():
                    if label in skipped:
                        continue
                    try:
                        groups[label] = list(self._started(stack, scenario.name, label, worker))
                    except RlCoreError as error:
                        skipped[label] = str(error)
                        console.print(f"{label}: {error}; logs: {self.out / 'logs'}")
                measure(scenario, groups, rounds, found)
        found.workers.update({label: {"skipped": reason} for label, reason in skipped.items()})
        return {
            "title": scenario.title,
            "quantity": scenario.quantity,
            "note": scenario.note,
            "made": self._made(scenario),
            "workers": {label: found.workers[label] for label in scenario.workers},
            "bars": [
                asdict(bar) | {"pairs": found.pairs.get((bar.of, bar.to), [])}
                for bar in scenario.bars
            ],
        }

    def _started(
        self, stack: contextlib.ExitStack, scenario: str, label: str, worker: Worker
    ) -> Iterator[Process]:
        """Yields a process for each setting; `stack` closes them."""
        cores = sorted(os.sched_getaffinity(0))
        python = python_of(self.out, worker.venv)
        settings = [{**s, "threads": threads_of(s, cores)} for s in worker.tried]
        for i, setting in enumerate(settings):
            if setting in settings[:i]:
                continue  # two threads are all of two cores
            name = re.sub(r"\W+", "-", f"{scenario} {label} {i}")
            log = self.out / "logs" / f"{name}.log"
            process = Process(label, worker, setting, python, cores, log)
            stack.callback(process.close)
            process.wait()  # before the next begins: threads that spin would hold it up
            yield process

    def _made(self, scenario: Scenario) -> dict[str, Any]:
        command = f"python -m tests.benchmarks.performance --only {scenario.name}"
        return {
            "command": f"{command} --rounds {self.rounds}",
            "rounds": self.rounds,
            "cores": len(os.sched_getaffinity(0)),
            "cpu": processor(),
            "commit": commit(),
            "date": time.strftime("%Y-%m-%d"),
        }


def python_of(out: Path, venv: str) -> Path:
    """Returns the interpreter of an environment below `out`; "" is ours."""
    # Not resolved: a link to it would lose the environment.
    return venv_python(out / "venvs" / venv) if venv else Path(sys.executable)


def make_venvs(names: Iterable[str], out: Path, console: Console) -> dict[str, str]:
    """Makes those of VENVS that are not below `out`; name -> why it could not be made.

    Raises:
      KeyboardInterrupt: Ctrl-C, or SIGTERM.
    """
    (out / "logs").mkdir(parents=True, exist_ok=True)
    failed = {}
    for name in dict.fromkeys(filter(None, names)):
        for job in venv_jobs(out / "venvs" / name, out / "logs" / name, name, VENVS[name]):
            ended = run_jobs([job], 1, console)
            if ended.signal:
                raise KeyboardInterrupt
            if ended.failed:
                failed[name] = "its environment could not be made"
                break
    return failed


def chosen_names(what: str, names: Sequence[str], known: Mapping[str, Any]) -> list[str]:
    """Returns the names, each once, or all that are known."""
    for name in names:
        if name not in known:
            raise RlCoreError(f"no {what} {name!r}: {', '.join(known)}{did_you_mean(name, known)}")
    return list(dict.fromkeys(names)) or list(known)


def commit() -> str:
    """Returns the commit that is checked out; `+` if files differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "*.py", "*.toml")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if changed else "")


def run_command(command: Callable[..., Callable[[Console], int]]) -> int:
    """Runs a dataclass as a command; returns the exit code."""
    console = Console()
    try:
        return tyro.cli(command)(console)
    except RlCoreError as error:
        console.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        console.print("interrupted; what was measured is kept")
        return 130


if __name__ == "__main__":
    sys.exit(run_command(Performance))
