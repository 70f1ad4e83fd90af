"""Commands that the page has sent, until they are read; what a dead run has not read is taken back.

Otherwise they would lie in its inbox, and change the run when it is resumed, maybe days later.
"""

from __future__ import annotations

import threading
from pathlib import Path

from targetnet.rl_core.control.client import PendingCommands


class UnreadCommands:
    """Commands that no run has read yet."""

    def __init__(self) -> None:
        self._unread: dict[Path, list[PendingCommands]] = {}
        self._lock = threading.Lock()

    def add(self, run: Path, asked: PendingCommands) -> None:
        """Notes commands that were sent to a run."""
        with self._lock:
            before = [of for of in self._unread.get(run, ()) if of.is_unread]
            self._unread[run] = [*before, asked]

    def take_back(self, run: Path) -> None:
        """Withdraws what a run that is not alive has not read.

        Raises:
          RunDirError: a command cannot be removed from the inbox.
        """
        with self._lock:
            unread = self._unread.pop(run, ())
        for asked in unread:
            asked.withdraw()
