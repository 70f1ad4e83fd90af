"""The runs below TensorBoard's log directories, by the names TensorBoard gives them.

Imports: rl_core.control, rl_core.errors.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rl_core.control.files import ControlFiles

_DEPTH = 4  # directories below a log directory
_MOST_DIRECTORIES = 5_000
_CACHE_SECONDS = 1.0


class Runs:
    """Finds runs; a name is looked up among those found and never made into a path.

    Args:
      logdirs: as `log_directories` gives them.
    """

    def __init__(self, logdirs: dict[str, Path]) -> None:
        self._logdirs = logdirs
        self._found: dict[str, ControlFiles] = {}
        self._next = 0.0
        self._lock = threading.Lock()

    def all(self) -> dict[str, ControlFiles]:
        """Name -> files of every run."""
        with self._lock:
            if time.monotonic() >= self._next:
                self._found = dict(self._look())
                self._next = time.monotonic() + _CACHE_SECONDS
            return self._found

    def get(self, name: str) -> ControlFiles | None:
        return self.all().get(name)

    def _look(self) -> Iterator[tuple[str, ControlFiles]]:
        for prefix, top in self._logdirs.items():
            top = top.resolve()
            for directory in _directories(top):
                files = ControlFiles(directory)
                # A link in the log directory must not lead the tab to files outside of it.
                inside = files.state.resolve().is_relative_to(top)
                if inside and files.inbox.resolve().is_relative_to(top) and files.state.is_file():
                    yield _name(prefix, directory.relative_to(top)), files


def log_directories(logdir: str, logdir_spec: str) -> dict[str, Path]:
    """Prefix of the run names -> directory, from TensorBoard's two flags.

    `logdir_spec` is a list of directories with commas, each with a name and a colon before it
    or not.
    """
    if logdir:
        return {"": Path(logdir).expanduser()}
    found = {}
    for part in filter(None, logdir_spec.split(",")):
        name, colon, path = part.partition(":")
        if colon and "/" not in name:
            found[name] = Path(path).expanduser()
        else:
            found.setdefault("", Path(part).expanduser())
    return found


def _directories(top: Path) -> Iterator[Path]:
    """`top` and what is below it, without following links."""
    waiting, seen = [(top, 0)], 0
    while waiting and seen < _MOST_DIRECTORIES:
        directory, depth = waiting.pop()
        seen += 1
        yield directory
        if depth == _DEPTH or (directory / "control").is_dir():  # a run has no runs inside
            continue
        try:
            with os.scandir(directory) as entries:
                names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except OSError:  # gone, or not ours to read
            continue
        waiting += [(directory / name, depth + 1) for name in names if name[0] != "."]


def _name(prefix: str, relative: Path) -> str:
    return str(Path(prefix) / relative)
