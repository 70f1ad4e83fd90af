"""The same commands to many runs at once, such as all members of a population."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from targetnet.rl_core.control.client import NotRunning, PendingCommands, RunClient
from targetnet.rl_core.control.commands import Command
from targetnet.rl_core.errors import RunDirError


class CommandsToMany(NamedTuple):
    """Which runs were sent the commands, and why the others were not; both by the run's name."""

    asked: dict[str, PendingCommands]
    problems: dict[str, str]


def begin_all(
    runs: Mapping[str, RunClient], commands: Callable[[], Sequence[Command]]
) -> CommandsToMany:
    """Sends every run commands of its own, and waits for no answer.

    A run that has ended, or has lost its directory, does not keep the others from theirs.

    Args:
      runs: client of each run, by name.
      commands: makes the commands; called for each run, because an id belongs to one run alone.

    Raises:
      BadCommand: the commands cannot be sent; no run was sent any.
    """
    asked, problems = {}, {}
    for name, run in runs.items():
        try:
            asked[name] = run.begin(commands())
        except (NotRunning, RunDirError) as error:
            problems[name] = str(error)
    return CommandsToMany(asked, problems)
