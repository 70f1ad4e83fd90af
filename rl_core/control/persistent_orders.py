"""Orders that stand when a run is moved to another machine: `pause` and `stop`.

A person who resumes a run wants it to go on, whatever it was told before. A run whose machine has
died is resumed by nobody: whoever moves it says so in `control/moved`, and what the run was told
meanwhile still holds. It stays paused, and ends at the time step at which it was stopped. The log
has these orders already, so nothing is logged again.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import Entry, read_log
from targetnet.rl_core.errors import RunDirError, reason_of
from targetnet.rl_core.regular_file import open_regular, read_regular

NOTE_OF_NEW = b"0"  # the content of `control/moved` for a run that begins: all its orders hold
_ORDERS = ("pause", "resume", "stop")
_MOST_BYTES = 20


class PersistentOrders(NamedTuple):
    """The orders that a run was given and that still hold.

    Attributes:
      paused: it was paused last of all.
      stops: entries of the log by which it ends at their time steps.
    """

    paused: bool = False
    stops: tuple[Entry, ...] = ()


def note_of_move(log: Path) -> bytes:
    """Returns the content of `control/moved` for a run with this log: its orders from here on hold.

    Raises:
      RunDirError: the log cannot be read.
    """
    try:
        with open_regular(log) as file:
            count = sum(line.endswith(b"\n") for line in file)
    except FileNotFoundError:
        count = 0
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {log}: {reason_of(error)}") from None
    return str(count).encode()


def standing_orders(files: ControlFiles) -> PersistentOrders:
    """Returns the orders that hold; none unless the run was moved.

    Raises:
      RunDirError: a file is damaged or cannot be read.
    """
    try:
        text = read_regular(files.moved, most=_MOST_BYTES)
    except FileNotFoundError:
        return PersistentOrders()
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {files.moved}: {reason_of(error)}") from None
    if not text.isdigit():
        raise RunDirError(f"{files.moved} is damaged: it has no number of entries")
    orders = [entry for entry in read_log(files.log)[int(text) :] if _is_order(entry)]
    return PersistentOrders(
        bool(orders) and orders[-1].name == "pause",
        tuple(entry for entry in orders if entry.name == "stop"),
    )


def _is_order(entry: Entry) -> bool:
    return entry.taken and entry.kind == "do" and entry.name in _ORDERS
