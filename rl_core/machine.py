"""The machine: its processor and cores, room for open files, and the memory that a run needs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from targetnet.rl_core.errors import MemoryLimitError, RlCoreError

_CPUINFO = Path("/proc/cpuinfo")
_WIDTHS = {"avx512f": "avx512", "avx2": "avx2"}  # the widest first


def processor() -> str:
    """Returns the processor's model and how wide its vectors are, such as "AMD EPYC, avx512"."""
    return ", ".join(filter(None, [_model(), vectors()]))


def vectors() -> str:
    """Returns how wide the processor's vectors are, by which products differ by as much as two."""
    told = _told()
    return next((name for flag, name in _WIDTHS.items() if f" {flag} " in told), "")


def processor_features() -> str:
    """Returns the processor's model and everything that it can do, as the system tells it."""
    flags = re.search(r"^(?:flags|Features)\s*: (.+)", _told(), re.MULTILINE)
    return f"{_model()} {platform.machine()} {flags[1] if flags else ''}"


def has_bfloat16() -> bool:
    """Says whether the processor multiplies bfloat16 numbers itself."""
    return "bf16" in _told()  # avx512_bf16, amx_bf16; bf16 of Arm


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _model() -> str:
    found = re.search(r"model name\s*: (.+)", _told())
    return found[1] if found else platform.machine()


def _told() -> str:
    return _CPUINFO.read_text() if _CPUINFO.exists() else ""


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


_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


# Address space that TensorFlow takes to start and to compile, and that a small run takes. Less ends
# it anywhere: in an import, or by an abort in its compiler.
_FOR_TENSORFLOW, _FOR_A_SMALL_RUN = 2_800_000_000, 200_000_000


def check_address_space() -> None:
    """Checks that TensorFlow may be started under the limit of `ulimit -v`.

    Raises:
      MemoryLimitError: it may not.
    """
    limit, needed = resource.getrlimit(resource.RLIMIT_AS)[0], _FOR_TENSORFLOW + _FOR_A_SMALL_RUN
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise MemoryLimitError(
            f"TensorFlow needs {format_bytes(needed)} of address space, but the limit is "
            f"{format_bytes(limit)}; raise it: ulimit -v {-(-needed // 1024)}"
        )


def memory_limit() -> int:
    """Returns the bytes this process may use: the machine's memory or the container's limit.

    Under `ulimit -v` it is what TensorFlow leaves of that.
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    if (address_space := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
        limits.append(max(0, address_space - _FOR_TENSORFLOW))
    return min(limits)


def resident_bytes() -> int:
    """Returns the bytes of memory this process uses now; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def give_back_memory() -> None:
    """Gives memory that was freed back to the system; does nothing where the C library cannot."""
    # Compiling frees a hundred megabytes in small pieces, which malloc would keep for itself.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


def check_memory(
    needed: int,
    what: str,
    limit: int | None = None,
    *,
    advice: str = "lower replay_capacity",
    once_full: bool = True,
) -> None:
    """Raises MemoryLimitError, with the numbers, if `needed` bytes exceed the limit."""
    limit = memory_limit() if limit is None else limit
    if needed > limit:
        amount = (
            f"{format_bytes(needed)} once full" if once_full else f"at least {format_bytes(needed)}"
        )
        raise MemoryLimitError(
            f"{what} needs {amount}, but the limit is {format_bytes(limit)}; {advice}"
        )


class Need(NamedTuple):
    """One part of the memory that a run needs."""

    what: str  # "a replay of 1,000 rows"
    nbytes: int
    lower: str  # what to lower: "replay_capacity"


def check_needs(needs: Sequence[Need], limit: int | None = None) -> None:
    """Checks that all needs together fit.

    Args:
      needs: parts of the run. A part that grows with the `lower` setting of another part must come
        after that other part.
      limit: bytes; None means `memory_limit()`.

    Raises:
      MemoryLimitError: they do not fit; the message gives each size and what to lower.
    """
    limit = memory_limit() if limit is None else limit
    total = sum(need.nbytes for need in needs)
    if total <= limit:
        return
    largest = sorted(needs, key=lambda need: -need.nbytes)
    each = ", ".join(f"{need.what} {format_bytes(need.nbytes)}" for need in largest)
    # A batch grows with the network: if the network alone is too large, a smaller batch cannot
    # help, so the first part that is too large by itself is the one to lower.
    alone = [need for need in needs if need.nbytes > limit]
    raise MemoryLimitError(
        f"this run needs at least {format_bytes(total)}, but the limit is {format_bytes(limit)} "
        f"({each}); lower {(alone or largest)[0].lower}"
    )


def format_bytes(count: float) -> str:
    """Returns a size such as "1.5 GB", in decimal units with three digits."""
    count = min(count, 10**100)  # an integer may be too large for a float
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
