"""The machines that trained a run, where that was not the one on which its directory lies."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from targetnet.agents.saved.directory import MACHINES, write_file
from targetnet.rl_core.errors import RunDirError, in_one_line, reason_of
from targetnet.rl_core.files import read_regular
from targetnet.rl_core.machine import processor
from targetnet.rl_core.seal import sealed_json, unsealed_json

_MOST_BYTES = 1 << 20


class Machine(BaseModel):
    """A machine that a run was on.

    Attributes:
      host: its name.
      processor: its model and the width of its vectors.
      since: when the run came there, in local time.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    host: str
    processor: str
    since: str


class _Machines(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    machines: list[Machine]


def add_machine(run: Path, host: str, processor: str) -> None:
    """Notes that a run goes on on another machine.

    Raises:
      RunDirError: the file is damaged, or cannot be written.
    """
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    new = Machine(host=in_one_line(host), processor=in_one_line(processor), since=now)
    machines = _Machines(machines=[*machines_of(run), new])
    write_file(run / MACHINES, sealed_json(machines.model_dump()))


def note_return(run: Path) -> None:
    """Notes that a run goes on on this machine, if it was on another one last.

    Raises:
      RunDirError: the file is damaged, or cannot be written.
    """
    before, host = machines_of(run), in_one_line(socket.gethostname())
    if before and before[-1].host != host:
        add_machine(run, host, processor())


def machines_of(run: Path) -> list[Machine]:
    """Returns the machines that a run was on, the first first; none if it was always here.

    Raises:
      RunDirError: the file is damaged.
    """
    path = run / MACHINES
    try:
        fields = unsealed_json(read_regular(path, most=_MOST_BYTES))
        return _Machines.model_validate(fields).machines
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        problem = "it lists no machines" if isinstance(error, ValidationError) else reason_of(error)
        raise RunDirError(f"cannot read {path}: {problem}") from None


def processor_of(run: Path) -> str:
    """Returns the processor that a run was trained on; several if it was moved between them.

    Raises:
      RunDirError: its list of machines is damaged.
    """
    kinds = dict.fromkeys(machine.processor for machine in machines_of(run))
    return " and ".join(kinds) or processor()
