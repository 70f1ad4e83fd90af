"""The runs below TensorBoard's log directories, by the names TensorBoard gives them.

Imports: rl_core.control.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rl_core.control.files import ControlFiles

_DEPTH = 4  # directories below a log directory
_MOST_DIRECTORIES = 5_000
_CACHE_SECONDS = 1.0
_CACHE_SHARE = 10  # looking takes at most about a tenth of the time, however slow the disk is


class LogDirectory(NamedTuple):
    """A directory that TensorBoard reads, and what precedes the names of the runs in it."""

    group: str
    path: Path


class Runs:
    """Finds runs; a name is looked up among those found and never made into a path.

    Args:
      logdirs: as `log_directories` gives them; of two runs of one name the first counts.

    Attributes:
      directories: where it looks, for people.
    """

    def __init__(self, logdirs: Iterable[LogDirectory]) -> None:
        self._logdirs = list(logdirs)
        self.directories = [str(path) for _, path in self._logdirs]
        self._found: dict[str, ControlFiles] = {}
        self._next = 0.0
        self._lock = threading.Lock()

    def all(self) -> dict[str, ControlFiles]:
        """Name -> files of every run."""
        with self._lock:
            begin = time.monotonic()
            if begin >= self._next:
                found: dict[str, ControlFiles] = {}
                for name, files in self._look():
                    found.setdefault(name, files)
                self._found = found
                end = time.monotonic()
                self._next = end + max(_CACHE_SECONDS, _CACHE_SHARE * (end - begin))
            return self._found

    def get(self, name: str) -> ControlFiles | None:
        return self.all().get(name)

    def _look(self) -> Iterator[tuple[str, ControlFiles]]:
        for group, path in self._logdirs:
            top = path.resolve()
            for directory in _directories(top):
                files = ControlFiles(directory)
                if _is_run(files, top):
                    # Not by pathlib: TensorBoard calls a run that is `top` itself "group/.".
                    yield os.path.join(group, directory.relative_to(top)), files  # noqa: PTH118


def log_directories(logdir: str, logdir_spec: str) -> list[LogDirectory]:
    """The directories of TensorBoard's two flags.

    `logdir_spec` is a list of directories with commas, each with a name and a colon before it
    or not; what begins with a slash has no name.
    """
    if logdir:
        return [LogDirectory("", Path(logdir).expanduser())]
    found = []
    for part in filter(None, logdir_spec.split(",")):
        group, colon, path = part.partition(":")
        if not colon or part.startswith("/"):
            group, path = "", part
        found.append(LogDirectory(group, Path(path).expanduser()))
    return found


def _is_run(files: ControlFiles, top: Path) -> bool:
    """Whether these are a run's files, and all of them below `top`."""
    try:
        if not files.state.is_file():
            return False
        # A link in the log directory must not lead the tab to files outside of it.
        used = (files.state, files.inbox, files.log, files.lock, files.token)
        return all(path.resolve().is_relative_to(top) for path in used)
    except (OSError, RuntimeError):  # not ours to read; a link to itself
        return False


def _directories(top: Path) -> Iterator[Path]:
    """`top` and what is below it, the shallow ones first, without following links."""
    waiting, seen = deque([(top, 0)]), 0
    while waiting and seen < _MOST_DIRECTORIES:
        directory, depth = waiting.popleft()
        seen += 1
        yield directory
        try:
            with os.scandir(directory) as entries:
                names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except OSError:  # gone, or not ours to read
            continue
        if depth < _DEPTH and "control" not in names:  # a run has no runs inside
            waiting += [(directory / name, depth + 1) for name in names if name[0] != "."]
