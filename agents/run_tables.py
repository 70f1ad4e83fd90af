"""Runs as tables for a terminal: one with its live values, or many in a list.

Imports: rl_core.control, rl_core.errors, rl_core.hyperparameters. Never tensorflow.
"""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rl_core.control.client import ago
from rl_core.control.files import ControlFiles
from rl_core.control.state import LIVE, RunState, read_state
from rl_core.errors import RunDirError
from rl_core.hyperparameters import as_text

_DEPTH = 4  # directories below the one that is searched
Found = tuple[Path, RunState, bool]


def find_runs(directory: Path) -> list[Found]:
    """Every run in or below a directory: those alive first, then the latest."""
    found = []
    for path in _candidates(directory, _DEPTH):
        try:
            found.append((path, *read_state(ControlFiles(path))))
        except RunDirError:  # being made or damaged: a list must not fail because of one
            continue
    return sorted(found, key=lambda run: (not run[2], -run[1].time))


def _candidates(directory: Path, depth: int) -> list[Path]:
    if ControlFiles(directory).state.is_file():
        return [directory]
    if depth == 0:
        return []
    inside = sorted(p for p in directory.iterdir() if p.is_dir() and not p.is_symlink())
    return [run for path in inside for run in _candidates(path, depth - 1)]


def runs_table(runs: list[Found]) -> Table:
    """One line a run."""
    table = Table(
        "run", "status", "env", "env steps", "return", "heartbeat", box=None, header_style="bold"
    )
    for path, state, alive in runs:
        table.add_row(
            escape(str(path)),
            status_word(state, alive),
            escape(state.env_id),
            f"{state.env_step:,} / {state.env_steps:,}",
            "-" if state.mean_return is None else f"{state.mean_return:,.1f}",
            ago(state.time),
        )
    return table


def status_table(run: Path, state: RunState, alive: bool) -> Group:
    """All about one run."""
    speed = f"{state.env_steps_per_second:,.0f} env steps/s" if alive else ""
    left = f"{_duration(state.eta_seconds)} left" if alive and state.eta_seconds else ""
    returns = "-" if state.mean_return is None else f"{state.mean_return:,.1f}"
    lines = [
        [f"{run}: {state.env_id}", status_word(state, alive).plain, state.note or ""],
        [f"env step {state.env_step:,} of {state.env_steps:,}", speed, left],
        [f"update {state.update:,}", f"target age {state.target_age} updates"],
        [f"return {returns} (mean of the last episodes)", f"{state.episodes:,} episodes"],
        [f"last heartbeat {ago(state.time)}"],
    ]
    table = Table(
        "live value", "value", "unit", "bounds", "source", box=box.SIMPLE, header_style="bold"
    )
    for live in state.values:
        table.add_row(live.name, as_text(live.value), live.unit, live.bounds, live.source)
    head = Text("\n".join(", ".join(part for part in line if part) for line in lines))
    auto = [f"  {v.name} = auto: {v.configured}" for v in state.values if v.source != "config"]
    return Group(head, table, Text("\n".join(auto)))


def status_word(state: RunState, alive: bool) -> Text:
    """running, paused, ...; killed where a process at work is gone."""
    if state.status in LIVE and not alive:
        return Text("killed", style="red")
    style = {"running": "green", "paused": "yellow", "failed": "red"}.get(state.status, "")
    return Text(state.status, style=style)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
