"""Runs below TensorBoard's log directories, under TensorBoard's names; members of a population."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from targetnet.rl_core.board.steer.changes import for_page, read_changes
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import require_length
from targetnet.rl_core.control.population import is_member_name, is_population
from targetnet.rl_core.control.state import LiveValue, RunState, read_state
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


_SHOWN = (
    "status", "env_id", "env_step", "env_steps", "update", "mean_return",
    "env_steps_per_second", "eta_seconds", "time",
)  # fmt: skip
_MOST_EACH = 100  # members whose own value is told where they differ


class BadPosition(RlCoreError, ValueError):
    """A position in a log that is not written as MEMBER:BYTES."""


class UnreadableMember(NamedTuple):
    """A member whose files cannot be read, and why."""

    problem: str


def show(runs: Runs, population: PopulationListing, positions: Mapping[str, int]) -> dict[str, Any]:
    """Returns what the page shows of a population.

    Args:
      runs: that were found.
      population: one of them.
      positions: member -> byte of its log; its entries from there on are returned too.
    """
    members, states, alive_ones = [], [], []
    for member in by_number(population.members):
        read = _read(runs, population.members[member], positions.get(member))
        shown = {"member": member, "run": population.members[member]}
        if isinstance(read, UnreadableMember):
            members.append(shown | {"alive": False, "status": "damaged", "problem": read.problem})
            continue
        state, alive, answers = read
        told = state.model_dump(include=set(_SHOWN)) | answers
        members.append(shown | {"alive": alive, "problem": None} | told)
        states.append((member, state))
        alive_ones += [(member, state)] if alive else []
    shown_ones = alive_ones or states
    return {
        "now": time.time(),
        "members": members,
        "values": in_one(shown_ones),
        "actions": list(dict.fromkeys(a for _, state in shown_ones for a in state.actions)),
        "token_file": f"{population.path}/m*/control/token",
    }


def in_one(states: Iterable[tuple[str, RunState]]) -> list[dict[str, Any]]:
    """Returns the live values of several members as one list, each value once.

    The fields are those of a single run's value, with these differences: `value`, `source` and
    `configured` are None where members differ; `least` and `most` are the smallest and the largest
    number; `sources` has all sources; `have` of the `of` members have the value; `each` lists the
    members' own values where they differ.
    """
    found: dict[str, list[tuple[str, LiveValue]]] = {}
    of = 0
    for member, state in states:
        of += 1
        for live in {live.name: live for live in state.values}.values():
            found.setdefault(live.name, []).append((member, live))
    return [_value_in_one(lives) | {"have": len(lives), "of": of} for lives in found.values()]


def read_positions(texts: Iterable[str]) -> dict[str, int]:
    """Returns the positions in texts such as m00:1234.

    Raises:
      BadPosition: a text is not of this form.
    """
    positions = {}
    for text in texts:
        member, _, number = text.partition(":")
        if not (number.isascii() and number.isdigit() and len(number) <= 15):
            raise BadPosition(f"a position is written as m00:1234, got {in_one_line(text, 100)}")
        positions[member] = int(number)
    return positions


def by_number(members: Iterable[str]) -> list[str]:
    """Returns m00, m01, ..., m99, m100 in this order."""
    return sorted(members, key=lambda member: (len(member), member))


def _read(
    runs: Runs, name: str, position: int | None
) -> tuple[RunState, bool, dict[str, Any]] | UnreadableMember:
    try:
        files = runs.require(name)
        state, alive = read_state(files)
        # The state first: an entry that a run wrote before it ended is then in the answer.
        answers = {} if position is None else _answers(files, state, position)
    except (UnknownRun, RunDirError) as error:
        return UnreadableMember(str(error))
    return state, alive, answers


def _answers(files: ControlFiles, state: RunState, position: int) -> dict[str, Any]:
    require_length(files.log, state.log_bytes)
    changes = read_changes(files.log, position)
    entries = [for_page(files.run, entry) for entry in changes.entries]
    return {"log": entries, "position": changes.end}


def _value_in_one(lives: list[tuple[str, LiveValue]]) -> dict[str, Any]:
    values = [live.value for _, live in lives]
    first = lives[0][1]
    alike = all(value == values[0] for value in values)
    numbers = [value for value in values if not isinstance(value, list)]
    only_numbers = len(numbers) == len(values)
    return first.model_dump() | {
        "value": values[0] if alike else None,
        "least": min(numbers) if only_numbers else None,
        "most": max(numbers) if only_numbers else None,
        "source": _alike(live.source for _, live in lives),
        "sources": sorted({live.source for _, live in lives}),
        "configured": _alike(live.configured for _, live in lives),
        "each": [] if alike else [(member, live.value) for member, live in lives[:_MOST_EACH]],
    }


def _alike(texts: Iterable[str]) -> str | None:
    """Returns the text that all are, or None."""
    different = set(texts)
    return different.pop() if len(different) == 1 else None
