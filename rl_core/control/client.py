"""Client of a run, or of many at once: sends commands and waits for the answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from targetnet.rl_core.arguments import path_of, require_a
from targetnet.rl_core.control.commands import Command, Who, do_command, set_command
from targetnet.rl_core.control.files import ControlFiles, is_alive, submit
from targetnet.rl_core.control.log import Entry, LogTail
from targetnet.rl_core.control.state import LIVE, read_state
from targetnet.rl_core.errors import RlCoreError, RunDirError, in_one_line

_LOOK_SECONDS = 0.01
_GRACE_SECONDS = 0.5
_MOST_BYTES = 4 << 20  # of a log at a time: it may be huge or damaged


class NotRunning(RlCoreError, RuntimeError):
    """A command was sent to a run that has ended or does not answer."""


class RunClient:
    """A client that steers the run in a directory, from any process.

        run = RunClient("runs/cartpole-1")
        entry = run.set("sync_period", 50)
        print(entry.describe())  # sync_period 500 -> 50 at update 12,431 (env step 49,724)

    Args:
      run: a run directory.
      who: the sender's name in the log.
      timeout: seconds to wait for an answer; an evaluation or a compilation delays the answer.
    """

    def __init__(self, run: Path | str, *, who: Who = "api", timeout: float = 30.0) -> None:
        self.files = ControlFiles(path_of("run", run))
        require_a((int, float), "timeout", timeout, "a number of seconds")
        self._who: Who = who
        self._timeout = timeout

    def set(self, name: str, value: Any) -> Entry:
        """Sets a live value; returns the log entry, with `taken` or the `reason` of a refusal.

        Raises:
          NotRunning: the run has ended or did not answer in time; nothing was changed.
          BadCommand: a value of this type cannot be sent.
          RunDirError: there is no such run.
        """
        return self.ask([set_command(name, value, self._who)])[0]

    def do(self, action: str, value: float | str | None = None) -> Entry:
        """Runs one of ACTIONS; raises the errors of `set`.

        Args:
          value: what follows it: 2 for `rewind`, "head" for `reset`, 0.8 or "0.8 torso" for
            `perturb`, as on the command line.
        """
        return self.ask([do_command(action, self._who, value)])[0]

    def send(self, commands: Sequence[Command]) -> None:
        """Puts commands into the inbox without waiting; raises the errors of `set`."""
        self._require_alive()
        self._submit(commands)

    def ask(self, commands: Sequence[Command]) -> list[Entry]:
        """Sends commands and waits for all answers; raises the errors of `set`."""
        return self.begin(commands).answers()

    def begin(self, commands: Sequence[Command]) -> PendingCommands:
        """Sends commands without waiting; raises the errors of `set`.

        So several runs can be asked before the first of them has answered.
        """
        self._require_alive()
        tail = LogTail(self.files.log, most=_MOST_BYTES)
        return PendingCommands(self.files, tail, self._submit(commands), self._timeout)

    def _submit(self, commands: Sequence[Command]) -> dict[str, Path]:
        """Puts all commands into the inbox, or none if one cannot be put there."""
        command_files: dict[str, Path] = {}
        try:
            for command in commands:
                command_files[command.id] = submit(self.files, command)
        except BaseException:
            for command_file in command_files.values():
                _withdraw(command_file)
            raise
        return command_files

    def _require_alive(self) -> None:
        state, alive = read_state(self.files)
        if alive:
            return
        status = "killed" if state.status in LIVE else state.status
        raise NotRunning(
            f"{in_one_line(self.files.run, 200)} is not running: {status} at env step "
            f"{state.env_step:,}, last heartbeat {ago(state.time)}"
        )


class PendingCommands:
    """Commands that a run was sent, and its answers.

    Args:
      files: of the run.
      tail: of its log, from before the first command on.
      command_files: id -> file of each command, in order.
      timeout: seconds to wait for an answer.

    Attributes:
      ids: of the commands, in order.
      position: byte of the log after which the answers come.
    """

    def __init__(
        self, files: ControlFiles, tail: LogTail, command_files: Mapping[str, Path], timeout: float
    ) -> None:
        self.ids, self.position = list(command_files), tail.position
        self._files, self._tail = files, tail
        self._command_files, self._timeout = command_files, timeout
        self._answers: dict[str, Entry] = {}

    def answers(self) -> list[Entry]:
        """Waits for the answers to all commands, and returns them in order.

        Raises:
          NotRunning: the run has ended or did not answer in time; nothing was changed but what the
            message names.
          RunDirError: its files cannot be read.
        """
        if not self._wait(self._timeout):
            self.withdraw()
            # The run may have read a command before it was withdrawn; then an answer comes.
            if not self._wait(_GRACE_SECONDS):
                raise NotRunning(self._no_answer_message())
        return [self._answers[id_] for id_ in self.ids]

    def withdraw(self) -> None:
        """Takes back the commands that the run has not read.

        Raises:
          RunDirError: a command cannot be removed from the inbox.
        """
        for command_file in self._command_files.values():
            _withdraw(command_file)

    @property
    def is_unread(self) -> bool:
        """True if a command still lies in the inbox."""
        return any(command_file.exists() for command_file in self._command_files.values())

    def _wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while len(self._answers) < len(self.ids):
            self._look()
            if time.monotonic() > deadline or not is_alive(self._files):
                break
            time.sleep(_LOOK_SECONDS)
        self._look()
        return len(self._answers) == len(self.ids)

    def _look(self) -> None:
        self._answers.update({e.id: e for e in self._tail.new() if e.id in self._command_files})

    def _no_answer_message(self) -> str:
        state, alive = read_state(self._files)
        what = f"did not answer within {self._timeout:g} s" if alive else "is not running any more"
        line = f"{self._files.run} {what} (last heartbeat {ago(state.time)})"
        if not self._answers:
            return f"{line}: command withdrawn"
        answered = [self._answers[id_].describe() for id_ in self.ids if id_ in self._answers]
        return f"{line}; answered before: {'; '.join(answered)}: the other commands withdrawn"


def _withdraw(command_file: Path) -> None:
    try:
        command_file.unlink(missing_ok=True)
    except OSError as error:
        raise RunDirError(f"cannot withdraw {command_file}: {error.strerror}") from None


def ago(moment: float) -> str:
    """Returns the age of a moment as text: "3 s ago", "12 min ago", "5 h ago" or "2 d ago"."""
    seconds = max(0.0, time.time() - moment)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{math.floor(seconds / size)} {unit} ago"
    return f"{seconds:.0f} s ago"


class CommandsToMany(NamedTuple):
    """Commands to several runs.

    Attributes:
      asked: name of a run -> what it was sent.
      problems: name of a run that was sent nothing -> the reason.
    """

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
