"""Tables of runs for a terminal: one run with its live values, or a list of many.

Text from a run's files is escaped, so it cannot act as markup or as terminal control codes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from rich import box
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from targetnet.rl_core.control.client import ago
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.population import ExchangeRecord
from targetnet.rl_core.control.state import LIVE, RunState, read_state
from targetnet.rl_core.errors import RunDirError, in_one_line
from targetnet.rl_core.hyperparameters import as_text

_DEPTH = 4  # levels of directories that are searched below the first one
DAMAGED = "damaged"


class RunListing(NamedTuple):
    """A run, or a directory that cannot be read."""

    path: Path
    state: RunState | None  # None if it cannot be read; `problem` says why
    alive: bool
    problem: str = ""


def find_runs(directory: Path) -> list[RunListing]:
    """Finds the runs in or below a directory: running ones first, then the latest; damaged last."""

    def order(run: RunListing) -> tuple[bool, float]:
        return not run.alive, float("inf") if run.state is None else -run.state.time

    return sorted(_search(directory, _DEPTH), key=order)


def _search(directory: Path, depth: int) -> Iterator[RunListing]:
    """Yields the runs in or below `directory`, and a problem for each directory it cannot read."""
    files = ControlFiles(directory)
    try:
        if _is_there(files.state):
            yield RunListing(directory, *read_state(files))
            return
        inside = _directories(directory) if depth else []
    except RunDirError as error:
        yield RunListing(directory, None, False, str(error))
        return
    except OSError as error:
        where = in_one_line(directory, 200)
        yield RunListing(directory, None, False, f"cannot read {where}: {error.strerror}")
        return
    for path in inside:
        yield from _search(path, depth - 1)


def _is_there(path: Path) -> bool:
    """Returns True if the path exists, whatever its kind.

    Unlike `Path.exists` it raises OSError if it cannot find out.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _directories(directory: Path) -> list[Path]:
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return [directory / name for name in names]


def runs_table(runs: list[RunListing], copied: Mapping[str, str] = MappingProxyType({})) -> Table:
    """Builds a table with one line per run.

    Args:
      copied: of members of a population: name -> whom it copied last.
    """
    table = Table(
        Column("run", overflow="fold"), "status", "env", "env steps", "return", "heartbeat",
        box=None, header_style="bold",
    )  # fmt: skip
    if copied:
        table.add_column("copied last")
    for path, state, alive, _ in runs:
        name = Text(in_one_line(path, 200))
        last = [copied.get(path.name, "-")] if copied else []
        if state is None:
            table.add_row(name, Text(DAMAGED, style="red"), "-", "-", "-", "-", *last)
            continue
        table.add_row(
            name,
            status_word(state, alive),
            Text(in_one_line(state.env_id)),
            f"{state.env_step:,} / {state.env_steps:,}",
            _number(state.mean_return),
            ago(state.time),
            *last,
        )
    return table


def last_copies(population: Path) -> dict[str, str]:
    """Returns whom the members of a population copied last, such as "m03 at 4,000" (env steps).

    Raises:
      RunDirError: the record of exchanges is damaged.
    """
    return {
        name: f"{copied.member} at {exchange.members[name].env_step:,}"
        for exchange in ExchangeRecord(population).all
        for name, copied in exchange.copies()
    }


def status_table(run: Path, state: RunState, alive: bool) -> Group:
    """Builds the display of one run: its progress and its live values."""
    speed = f"{_number(state.env_steps_per_second, 0)} env steps/s" if alive else ""
    left = f"{_duration(state.eta_seconds)} left" if alive and state.eta_seconds else ""
    name, env_id = in_one_line(run, 200), in_one_line(state.env_id)
    target = "" if state.target_age is None else f"target age {state.target_age} updates"
    lines = [
        [f"{name}: {env_id}", status_word(state, alive).plain, in_one_line(state.note or "")],
        [f"env step {state.env_step:,} of {state.env_steps:,}", speed, left],
        [
            f"update {state.update:,}",
            target,
            f"next copy {in_one_line(state.next_copy)}" if state.next_copy else "",
        ],
        [
            f"return {_number(state.mean_return)} (mean of the last episodes)",
            f"{state.episodes:,} episodes",
        ],
        [f"last heartbeat {ago(state.time)}"],
    ]
    table = Table(
        Column("live value", no_wrap=True), "value", "unit", "bounds", "source",
        box=box.SIMPLE, header_style="bold",
    )  # fmt: skip
    for live in state.values:
        texts = (live.name, as_text(live.value), live.unit, live.bounds, live.source)
        table.add_row(*(Text(in_one_line(text)) for text in texts))
    head = Text("\n".join(", ".join(part for part in line if part) for line in lines))
    auto = [
        f"  {in_one_line(v.name)} = auto: {in_one_line(v.configured, 1_000)}"
        for v in state.values
        if v.source != "config"
    ]
    return Group(head, table, Text("\n".join(auto)))


def status_word(state: RunState, alive: bool) -> Text:
    """Returns the status in color; "killed" if a running process has disappeared."""
    if state.status in LIVE and not alive:
        return Text("killed", style="red")
    style = {"running": "green", "paused": "yellow", "failed": "red"}.get(state.status, "")
    return Text(state.status, style=style)


def _number(value: float | None, digits: int = 1) -> str:
    if value is None:
        return "-"
    return f"{value:,.{digits}f}" if abs(value) < 1e15 else f"{value:.6g}"


def _duration(seconds: float) -> str:
    if seconds >= 1e9:
        return "years"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
