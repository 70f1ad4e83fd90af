"""The other side: sends commands to a run and waits for its answers."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl_core.control.commands import Command, Who, do_command, set_command
from rl_core.control.files import ControlFiles, is_alive, submit
from rl_core.control.log import Entry, LogTail
from rl_core.control.state import LIVE, read_state
from rl_core.errors import RlCoreError, RunDirError, in_one_line

_LOOK_SECONDS = 0.01
_GRACE_SECONDS = 0.5


class NotRunning(RlCoreError, RuntimeError):
    """A command for a run that does not take any."""


class RunClient:
    """Steers the run in a directory, from any process.

        run = RunClient("runs/cartpole-1")
        entry = run.set("sync_period", 50)
        print(entry.describe())  # sync_period 500 -> 50 at update 12,431 (env step 49,724)

    Args:
      run: a run directory.
      who: what the log says.
      timeout: seconds to wait for an answer; a run that evaluates or compiles takes a while.
    """

    def __init__(self, run: Path | str, *, who: Who = "api", timeout: float = 30.0) -> None:
        self.files = ControlFiles(Path(run))
        self._who: Who = who
        self._timeout = timeout

    def set(self, name: str, value: Any) -> Entry:
        """Sets a live value and returns what became of it: `entry.taken`, or `entry.reason`.

        Raises:
          NotRunning: the run is over, or did not answer in time; nothing was changed.
          BadCommand: the value is of no kind that can be sent.
          RunDirError: there is no such run.
        """
        return self.ask([set_command(name, value, self._who)])[0]

    def do(self, action: str, value: int | None = None) -> Entry:
        """Has the run do one of ACTIONS, `rewind` by `value` snapshots; raises as `set`."""
        return self.ask([do_command(action, self._who, value)])[0]

    def send(self, commands: Sequence[Command]) -> None:
        """Puts commands into the inbox and does not wait; raises as `set`."""
        self._require_alive()
        for command in commands:
            submit(self.files, command)

    def ask(self, commands: Sequence[Command]) -> list[Entry]:
        """Sends commands and waits until every one is answered; raises as `set`."""
        self._require_alive()
        tail = LogTail(self.files.log)
        letters = {command.id: submit(self.files, command) for command in commands}
        answers: dict[str, Entry] = {}

        def wait(seconds: float) -> bool:
            deadline = time.monotonic() + seconds
            while len(answers) < len(letters):
                answers.update({e.id: e for e in tail.new() if e.id in letters})
                if time.monotonic() > deadline or not is_alive(self.files):
                    break
                time.sleep(_LOOK_SECONDS)
            answers.update({e.id: e for e in tail.new() if e.id in letters})
            return len(answers) == len(letters)

        if not wait(self._timeout):
            for letter in letters.values():
                _withdraw(letter)
            # One that the run was reading while it was withdrawn is answered all the same.
            if not wait(_GRACE_SECONDS):
                raise NotRunning(self._silence())
        return [answers[command.id] for command in commands]

    def _require_alive(self) -> None:
        state, alive = read_state(self.files)
        if alive:
            return
        status = "killed" if state.status in LIVE else state.status
        raise NotRunning(
            f"{in_one_line(self.files.run, 200)} is not running: {status} at env step "
            f"{state.env_step:,}, last heartbeat {ago(state.time)}"
        )

    def _silence(self) -> str:
        state, alive = read_state(self.files)
        what = f"did not answer within {self._timeout:g} s" if alive else "is not running any more"
        return f"{self.files.run} {what} (last heartbeat {ago(state.time)}): command withdrawn"


def _withdraw(letter: Path) -> None:
    try:
        letter.unlink(missing_ok=True)
    except OSError as error:
        raise RunDirError(f"cannot withdraw {letter}: {error.strerror}") from None


def ago(moment: float) -> str:
    """ "3 s ago", "12 min ago", "5 h ago", "2 d ago"."""
    seconds = max(0.0, time.time() - moment)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{math.floor(seconds / size)} {unit} ago"
    return f"{seconds:.0f} s ago"
