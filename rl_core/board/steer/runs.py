"""Search for the runs below TensorBoard's log directories, under TensorBoard's names."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.population import is_member_name, is_population
from targetnet.rl_core.errors import RlCoreError, RunDirError, in_one_line, quoted

_DEPTH = 4  # levels of directories below a log directory
_MOST_DIRECTORIES = 5_000
_CACHE_SECONDS = 1.0
_CACHE_SHARE = 10  # a search takes at most about a tenth of the time, even on a slow disk


class UnknownRun(RlCoreError, LookupError):
    """A name of a run or a population that is not below the log directory."""


class LogDirectory(NamedTuple):
    """A directory that TensorBoard reads, and the prefix of its runs' names."""

    group: str
    path: Path


class PopulationListing(NamedTuple):
    """A directory with many runs, its members.

    Attributes:
      path: the directory.
      members: member, such as m00 -> its name as a run, such as runs/periods/m00.
    """

    path: Path
    members: dict[str, str]

    def run_of(self, member: str) -> str:
        """Returns a member's name as a run.

        Raises:
          UnknownRun: there is no such member.
        """
        if member not in self.members:
            raise UnknownRun(f"no member {quoted(member)} in {in_one_line(self.path, 200)}")
        return self.members[member]


class RunIndex(NamedTuple):
    """Result of a search of the log directories, by name."""

    runs: dict[str, ControlFiles]
    problems: dict[str, str]  # runs and directories that cannot be shown
    populations: dict[str, PopulationListing]


class _Found(NamedTuple):
    """A run that was found; `problem` says why it cannot be shown, and is "" if it can."""

    name: str
    files: ControlFiles
    problem: str


class Runs:
    """The runs below the log directories.

    A name from a request is looked up among the found runs; it is never used as a path.

    Args:
      logdirs: result of `log_directories`; if two runs have the same name, the first one counts.

    Attributes:
      directories: the searched directories, for the page.
    """

    def __init__(self, logdirs: Iterable[LogDirectory]) -> None:
        self._logdirs = list(logdirs)
        self.directories = [str(path) for _, path in self._logdirs]
        self._seen = RunIndex({}, {}, {})
        self._next = 0.0
        self._lock = threading.Lock()

    def all(self) -> dict[str, ControlFiles]:
        """Returns name -> control files of every readable run."""
        return self._search().runs

    def problems(self) -> dict[str, str]:
        """Returns name -> problem of every run or directory that cannot be shown."""
        return self._search().problems

    def populations(self) -> dict[str, PopulationListing]:
        """Returns name -> population, with the members of it that have begun."""
        return self._search().populations

    def get(self, name: str) -> ControlFiles | None:
        return self.all().get(name)

    def require(self, name: str) -> ControlFiles:
        """Returns the control files of a run.

        Raises:
          UnknownRun: there is no such run.
          RunDirError: it cannot be shown; says why.
        """
        seen = self._search()
        if name in seen.runs:
            return seen.runs[name]
        if name in seen.problems:
            raise RunDirError(seen.problems[name])
        raise UnknownRun(f"no run {quoted(name)} below the log directory")

    def require_population(self, name: str) -> PopulationListing:
        """Returns a population.

        Raises:
          UnknownRun: there is none of this name.
        """
        population = self.populations().get(name)
        if population is None:
            raise UnknownRun(f"no population {quoted(name)} below the log directory")
        return population

    def _search(self) -> RunIndex:
        """Searches the directories, or returns the cached result; keeps a slow search longer."""
        with self._lock:
            begin = time.monotonic()
            if begin >= self._next:
                self._seen = _sorted_out(self._entries())
                end = time.monotonic()
                self._next = end + max(_CACHE_SECONDS, _CACHE_SHARE * (end - begin))
            return self._seen

    def _entries(self) -> Iterator[_Found]:
        for group, path in self._logdirs:
            try:
                top = path.resolve()
            except (OSError, RuntimeError):  # for example a link to itself
                continue
            for directory, problem in _directories(top):
                files = ControlFiles(directory)
                found = problem or _problem(files, top)
                if found is not None:
                    # os.path and not pathlib: TensorBoard names a run at `top` itself "group/.".
                    name = os.path.join(group, directory.relative_to(top))  # noqa: PTH118
                    yield _Found(name, files, found)


def _sorted_out(entries: Iterable[_Found]) -> RunIndex:
    """Returns runs and problems by name, and populations; of equal names the first one counts."""
    seen = RunIndex({}, {}, {})
    for found in entries:
        if found.name in seen.runs or found.name in seen.problems:
            continue
        if found.problem:
            seen.problems[found.name] = found.problem
        else:
            seen.runs[found.name] = found.files
        _note_member(seen.populations, found)
    return seen


def _note_member(populations: dict[str, PopulationListing], found: _Found) -> None:
    """Notes which population a run is a member of, if any."""
    above, member = os.path.split(found.name)
    # A run that is the log directory itself is named ".": what lies above it is not ours to read.
    if not is_member_name(member):
        return
    name, path = above or ".", found.files.run.parent
    known = populations.get(name)
    if known is None and _is_population(path):
        known = populations[name] = PopulationListing(path, {})
    if known is not None and known.path == path:
        known.members[member] = found.name


def _is_population(path: Path) -> bool:
    try:
        return is_population(path)
    except OSError:  # a directory that may be listed, and not entered
        return False


def log_directories(logdir: str, logdir_spec: str) -> list[LogDirectory]:
    """Returns the directories of TensorBoard's two flags.

    `logdir_spec` is a comma-separated list of directories. A name and a colon may precede a
    directory; an entry that begins with a slash has no name.
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


def _problem(files: ControlFiles, top: Path) -> str | None:
    """Returns why a run's files must not be shown, "" if they may be; None if there is no run."""
    try:
        files.state.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return _cannot_read(files.run, error)
    # A link in the log directory must not lead the tab to files outside of it.
    for path in (files.state, files.inbox, files.log, files.lock, files.token):
        try:
            resolved = path.resolve()
            # For a link to itself, Python 3.13 returns the link; older versions raise.
            if resolved.is_symlink():
                raise RuntimeError
            if not resolved.is_relative_to(top):
                return f"{in_one_line(path, 200)} leads out of the log directory"
        except OSError as error:
            return _cannot_read(path, error)
        except RuntimeError:
            return f"{in_one_line(path, 200)} is a link to itself"
    return ""


def _directories(top: Path) -> Iterator[tuple[Path, str]]:
    """Yields `top` and the directories below it, breadth first, without following links.

    Each comes with the reason for which it cannot be read, or "".
    """
    waiting, seen = deque([(top, 0)]), 0
    while waiting and seen < _MOST_DIRECTORIES:
        directory, depth = waiting.popleft()
        seen += 1
        try:
            with os.scandir(directory) as entries:
                names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except FileNotFoundError:  # removed since it was listed
            continue
        except OSError as error:
            yield directory, _cannot_read(directory, error)
            continue
        yield directory, ""
        # A run has no runs inside. (One may be called "control", as that of an experiment.)
        if depth < _DEPTH and not (directory / "control/state.json").exists():
            waiting += [(directory / name, depth + 1) for name in names if name[0] != "."]


def _cannot_read(path: Path, error: OSError) -> str:
    return f"cannot read {in_one_line(path, 200)}: {error.strerror}"
