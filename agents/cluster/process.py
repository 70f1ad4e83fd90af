"""Child processes that end when their parent does, whatever ends it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_LIBC = ctypes.CDLL(None)  # loaded here: between fork and exec nothing may be
_TAIL_BYTES = 4_096


def start_child(
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    *,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Starts a process in a group of its own, so that a terminal's Ctrl-C does not reach it.

    If the thread that calls this ends, and with it the process, the child gets a SIGINT.

    Args:
      command: program and arguments.
      log: file to which its output is appended.
      environment: variables beside those of this process.
      cwd, pass_fds: as for `subprocess.Popen`.

    Raises:
      OSError: it cannot be started.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=partial(_end_with, os.getpid()),
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            cwd=cwd,
            pass_fds=pass_fds,
        )


def last_line(path: Path) -> str:
    """Returns the last line of a text file that is not empty; "" if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _end_with(parent: int) -> None:
    """Has the system send this process a SIGINT when its parent is killed: nobody else would."""
    # Ray's processes block it, and their children would too.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGINT)
    if os.getppid() != parent:  # it was killed before
        os._exit(1)
