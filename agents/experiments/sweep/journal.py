"""The file of a study: a journal of Optuna's, with a seal on each line.

Optuna's own tools read it too: a seal is one more key of a line's JSON object.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

from optuna.storages.journal import JournalFileBackend

from targetnet.rl_core.errors import RunDirError, reason_of
from targetnet.rl_core.files import append_whole, open_regular, writing
from targetnet.rl_core.seal import sealed_line, unsealed_line


class Journal(JournalFileBackend):
    """A journal that only this process writes. A line that was not written to its end is cut off.

    Args:
      path: the file; made if there is none.

    Raises:
      RunDirError: a line is not what was written, or the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        try:
            _require_as_written(path)
            # The lock that Optuna would take outlives a process that is killed.
            super().__init__(str(path), lock_obj=cast("Any", _NoLock()))
        except RunDirError:
            raise
        except (OSError, ValueError) as error:
            raise RunDirError(f"cannot use {path}: {reason_of(error)}") from None
        self._path = path

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Appends and syncs lines: all or none.

        Raises:
          RunDirError: the disk cannot be written.
        """
        with writing(self._path):
            position, data = self._path.stat().st_size, b""
            for log in logs:
                line = json.dumps(log, separators=(",", ":")).encode()
                data += sealed_line(line, position + len(data))
            append_whole(self._path, data)


def _require_as_written(path: Path) -> None:
    try:
        with open_regular(path) as file:
            data = file.read()
    except FileNotFoundError:
        return
    whole = data.rfind(b"\n") + 1
    position, sealed = 0, False
    for number, line in enumerate(data[:whole].split(b"\n")[:-1], 1):
        try:
            is_sealed = unsealed_line(line, position) is not None
        except ValueError:
            is_sealed, sealed = False, True
        # Journals of earlier versions have no seals.
        if sealed and not is_sealed:
            raise RunDirError(f"{path} is damaged: line {number} is not what was written")
        sealed = is_sealed
        position += len(line) + 1
    if whole < len(data):
        os.truncate(path, whole)


class _NoLock:
    """A lock in Optuna's sense that locks nothing."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass
