"""How much memory a replay needs, and whether it is there.

Imports: rl_core.errors. Never agents, never envs.
"""

from __future__ import annotations

import os
from pathlib import Path

from rl_core.errors import MemoryLimitError

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_limit() -> int:
    """Bytes this process may use: the machine's memory, or its container's limit if lower."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return min(limits)


def check_memory(needed: int, what: str, limit: int | None = None) -> None:
    """Raises MemoryLimitError with the numbers if `needed` bytes are more than the limit."""
    limit = memory_limit() if limit is None else limit
    if needed > limit:
        raise MemoryLimitError(
            f"{what} needs {format_bytes(needed)} once full, but the limit is "
            f"{format_bytes(limit)}; lower replay_capacity"
        )


def format_bytes(count: float) -> str:
    """ "1.5 GB": decimal units, three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
