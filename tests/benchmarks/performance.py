"""The command that measures ours beside the peers and writes docs/results/performance.md.

    python -m tests.benchmarks.performance --page docs/results/performance.md  # ..._avx512.md
    python -m tests.benchmarks.performance --only CP-A --rounds 5

What it measured goes into OUT/performance.json, or with a page into a file beside it, scenario by
scenario; the page is made of all that is there.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.jobs import run_jobs
from targetnet.agents.experiments.results.peer import REQUIREMENTS, venv_jobs, venv_python
from targetnet.rl_core.errors import RlCoreError, did_you_mean, in_one_line
from targetnet.rl_core.files import write_whole
from targetnet.rl_core.machine import processor, vectors
from tests.benchmarks.performance_page import as_markdown, as_sitting, bar_line
from tests.benchmarks.rounds import Measured, closing_all, measure
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
    seconds: float | None = None
    """Of a turn, about. By default as the scenario says."""
    cores: tuple[int, ...] = ()
    """To pin the workers to. By default all that this process may use."""
    out: Path = Path("results/performance")
    """For performance.json and logs."""
    venvs: Path | None = None
    """For the peers' environments. By default OUT/venvs."""
    page: Path | None = None
    """The page; the processor's vectors get into its name, and what was measured lies beside it,
    as JSON. None is written by default."""

    def __call__(self, console: Console) -> None:
        chosen = [_scenario(name) for name in self.only or SCENARIOS]
        if self.rounds < 1:
            raise RlCoreError(f"--rounds must be at least 1, got {self.rounds}")
        (self.out / "logs").mkdir(parents=True, exist_ok=True)
        page = self.page and self.page.with_stem(
            f"{self.page.stem}_{vectors() or platform.machine()}"
        )
        path = page.with_suffix(".json") if page else self.out / "performance.json"
        results = json.loads(path.read_text()) if path.exists() else {"scenarios": {}}
        wanted = [w.venv for s in chosen for w in s.workers.values() if w.venv]
        missing = make_venvs(wanted, self._venvs, self.out / "logs", console)
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

    # Environments.

    @property
    def _venvs(self) -> Path:
        return self.venvs or self.out / "venvs"

    def _python(self, worker: Worker) -> Path:
        # Not resolved: a link to it would lose the environment.
        return venv_python(self._venvs / worker.venv) if worker.venv else Path(sys.executable)

    # Measuring.

    def _measured(
        self, scenario: Scenario, missing: Mapping[str, str], console: Console
    ) -> dict[str, Any]:
        why = {label: _why_not(worker, missing) for label, worker in scenario.workers.items()}
        found: dict[str, dict[str, Any]] = {}
        pairs: dict[tuple[str, str], list[Any]] = {}
        times, rounds = (self.rounds, 1) if scenario.fresh else (1, self.rounds)
        for _ in range(times):
            now = self._by_one_set_of_processes(scenario, why, rounds, console)
            earlier = {label: of["rounds"] for label, of in found.items()}
            found = {
                label: of | {"rounds": earlier.get(label, []) + of["rounds"]}
                for label, of in now.workers.items()
            }
            pairs = {pair: pairs.get(pair, []) + made for pair, made in now.pairs.items()}
        for label, reason in why.items():
            if reason:
                found[label] = {"skipped": reason}
        return {
            "title": scenario.title,
            "quantity": scenario.quantity,
            "note": scenario.note,
            "made": self._made(scenario),
            "workers": {label: found[label] for label in scenario.workers},
            "bars": [asdict(b) | {"pairs": pairs.get((b.of, b.to), [])} for b in scenario.bars],
        }

    def _by_one_set_of_processes(
        self, scenario: Scenario, why: dict[str, str], rounds: int, console: Console
    ) -> Measured:
        """Numbers of all who can be measured; `why` gets what becomes of those who cannot."""
        groups: dict[str, list[Process]] = {}
        with closing_all(groups):
            for label, worker in scenario.workers.items():
                if not why[label]:
                    groups[label] = []
                    try:
                        # Ready before the next begins: threads that spin would hold it up.
                        for process in self._started(scenario.name, label, worker):
                            groups[label].append(process)
                            process.wait()
                    except RlCoreError as error:
                        why[label] = str(error)
                        console.print(f"{label}: {error}; logs: {self.out / 'logs'}")
            alive = {label: group for label, group in groups.items() if not why[label]}
            return measure(scenario, alive, rounds, self.seconds or scenario.seconds)

    def _started(self, scenario: str, label: str, worker: Worker) -> Iterator[Process]:
        known = []
        for i, setting in enumerate(worker.tried):
            threads = threads_of(setting, self._cores())
            if (alike := {**setting, "threads": threads}) in known:
                continue  # two threads are all of two cores
            known.append(alike)
            name = re.sub(r"\W+", "-", f"{scenario} {label} {i}")
            log = self.out / "logs" / f"{name}.log"
            yield Process(label, worker, setting, self._python(worker), self._cores(), log)

    def _cores(self) -> list[int]:
        return sorted(self.cores or os.sched_getaffinity(0))

    def _made(self, scenario: Scenario) -> dict[str, Any]:
        words = ["python", "-m", "tests.benchmarks.performance", "--only", scenario.name]
        words += ["--rounds", str(self.rounds)]
        words += ["--seconds", f"{self.seconds:g}"] if self.seconds else []
        words += ["--cores", *map(str, self.cores)] if self.cores else []
        return {
            "command": shlex.join(words),
            "rounds": self.rounds,
            "cores": len(self._cores()),
            "cpu": processor(),
            "commit": commit(),
            "date": time.strftime("%Y-%m-%d"),
        }


def make_venvs(names: Iterable[str], venvs: Path, logs: Path, console: Console) -> dict[str, str]:
    """Makes those of VENVS that are not there; name -> why it could not be made.

    Raises:
      KeyboardInterrupt: Ctrl-C, or SIGTERM.
    """
    failed = {}
    for name in dict.fromkeys(names):
        for job in venv_jobs(venvs / name, logs / name, name, VENVS[name]):
            ended = run_jobs([job], 1, console)
            if ended.signal:
                raise KeyboardInterrupt
            if ended.failed:
                failed[name] = "its environment could not be made"
                break
    return failed


def _why_not(worker: Worker, missing: Mapping[str, str]) -> str:
    """Why a worker cannot be measured; "" if it can."""
    if worker.venv:
        return missing.get(worker.venv, "")
    config = worker.setup.get("config", {})
    unknown = [name for name in config if name not in DqnConfig.model_fields]
    if unknown:
        return f"DqnConfig has no field {unknown[0]!r}"
    try:
        DqnConfig(**config)
    except ValueError as error:
        return in_one_line(error)
    return ""


def _scenario(name: str) -> Scenario:
    if name not in SCENARIOS:
        raise RlCoreError(
            f"no scenario {name!r}: {', '.join(SCENARIOS)}{did_you_mean(name, SCENARIOS)}"
        )
    return SCENARIOS[name]


def commit() -> str:
    """Returns the commit that is checked out; `+` if files differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "*.py", "*.toml")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if changed else "")


def main() -> int:
    console = Console()
    try:
        tyro.cli(Performance)(console)
    except RlCoreError as error:
        console.print(str(error), style="red", highlight=False, markup=False)
        return 2
    except KeyboardInterrupt:
        console.print("interrupted; what was measured is kept")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
