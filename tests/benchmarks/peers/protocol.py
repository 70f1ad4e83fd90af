"""What a worker speaks: JSON lines; so processes stay alive and take turns.

    the parent says                      the worker
    {"cores": [0], "threads": 1, ...}    pins itself, imports, builds, warms up
                                         {"unit": 4, "versions": {...}}
    {"run": 2000}                        makes 2,000 env steps (or updates, where there is no env)
                                         {"seconds": 1.2, "env_steps": 2000, "updates": 500, ...}
    end of file                          ends

A worker runs as a script, with the interpreter of its own environment, so this directory is the
first on its path: no file here may be called as a package that a peer imports.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple


class Work(NamedTuple):
    """What a worker does again and again.

    Attributes:
      run: makes n env steps, or n updates; returns the env steps and updates that it made, and
        seconds if it has a clock of its own.
      unit: n is always a multiple of it.
      packages: distributions whose versions are told.
      flops: of one update, where products are all there is to it.
    """

    run: Callable[[int], tuple[int, int] | tuple[int, int, float]]
    unit: int
    packages: tuple[str, ...]
    flops: int = 0


class Channel:
    """The worker's end. Make it before anything that starts threads is imported.

    Attributes:
      setup: what the parent said first.
    """

    def __init__(self) -> None:
        # Whatever libraries print goes to the log.
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        self.setup: dict[str, Any] = json.loads(sys.stdin.readline())
        os.sched_setaffinity(0, self.setup["cores"])
        self._begin = 0.0

    def ready(self, work: Work) -> None:
        versions = {"python": platform.python_version()}
        versions |= {name: version(name) for name in work.packages}
        self._say({"unit": work.unit, "versions": versions, "flops": work.flops})

    def next(self) -> int | None:
        """How much is wanted next, None at the end; the clock runs from here to `done`."""
        line = sys.stdin.readline()
        count = json.loads(line)["run"] if line else None
        self._begin = time.perf_counter()
        return count

    def done(self, env_steps: int, updates: int, seconds: float | None = None) -> None:
        if seconds is None:
            seconds = time.perf_counter() - self._begin
        counts = {"seconds": seconds, "env_steps": env_steps, "updates": updates}
        self._say(counts | {"peak_rss_bytes": peak_rss_bytes()})

    def _say(self, message: dict[str, Any]) -> None:
        self._out.write(json.dumps(message) + "\n")


def serve(make: Callable[[dict[str, Any]], Work]) -> None:
    """Builds what `make` makes of the setup, then runs it as often as the parent says."""
    channel = Channel()
    work = make(channel.setup)
    channel.ready(work)
    while (count := channel.next()) is not None:
        channel.done(*work.run(count))


def peak_rss_bytes() -> int:
    """Most memory that this process ever had in use, as Linux counts it."""
    # Not getrusage: its maximum also counts what the parent had when it started this one.
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak) * 1024
