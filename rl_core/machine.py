"""The processor of this machine, and its cores."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

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


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _model() -> str:
    found = re.search(r"model name\s*: (.+)", _told())
    return found[1] if found else platform.machine()


def _told() -> str:
    return _CPUINFO.read_text() if _CPUINFO.exists() else ""
