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
        self._say(counts | {"memory": memory()})

    def _say(self, message: dict[str, Any]) -> None:
        self._out.write(json.dumps(message) + "\n")


def serve(make: Callable[[dict[str, Any]], Work]) -> None:
    """Builds what `make` makes of the setup, then runs it as often as the parent says."""
    channel = Channel()
    work = make(channel.setup)
    channel.ready(work)
    while (count := channel.next()) is not None:
        channel.done(*work.run(count))


def use_checker(checker: bool) -> None:
    """Has `gymnasium.make` put Gymnasium's checker around every env, or around none.

    It does unless it is told otherwise, and most peers do not tell it. In earlier versions the
    checker looked at every step; in 1.4.0 it looks at the first one alone.
    """
    import gymnasium

    make = gymnasium.make

    def alike(*args: Any, **kwargs: Any) -> Any:
        return make(*args, **{**kwargs, "disable_env_checker": not checker})

    gymnasium.make = alike


def memory() -> dict[str, int]:
    """Memory of this process in bytes, as Linux counts it.

    Returns:
      "private": changed by the process, so that no other shares it; "files": of libraries, which
      processes share; "peak": the most that was ever in use, of both.
    """
    # Not getrusage: its maximum also counts what the parent had when it started this one.
    status = _fields("/proc/self/status")
    private = _fields("/proc/self/smaps_rollup")["Private_Dirty"]
    return {"private": private, "files": status["RssFile"], "peak": status["VmHWM"]}


def _fields(path: str) -> dict[str, int]:
    """Bytes by name, of the lines that count kilobytes."""
    lines = (line.split() for line in Path(path).read_text().splitlines())
    return {words[0][:-1]: int(words[1]) * 1024 for words in lines if words[-1:] == ["kB"]}
