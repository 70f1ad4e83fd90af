"""Room for open files: raises the soft limit of this process, or refuses what does not fit."""

from __future__ import annotations

import os
import resource

from targetnet.rl_core.errors import RlCoreError

_SPARE = 100  # for what opens and closes meanwhile: checkpoints, states, command files


def make_room_for_files(count: int, what: str) -> None:
    """Makes sure that this process may open `count` more files, and some to spare.

    The soft limit, often 1,024, is raised as far as is needed and the hard limit allows.

    Args:
      what: needs them; the error begins with it.

    Raises:
      RlCoreError: the hard limit is too low; says both numbers.
    """
    try:
        used = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the names alone
    except OSError:
        used = _SPARE
    needed = used + count + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise RlCoreError(
            f"{what} needs {needed:,} open files, and this process may have {hard:,} (ulimit -H -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
