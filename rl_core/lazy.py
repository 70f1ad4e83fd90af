"""Flat public names that are imported on first use (PEP 562), quietly.

Importing TensorFlow logs some lines that nobody asked for. `TF_CPP_MIN_LOG_LEVEL=0` shows them,
as everywhere; where it is not set, `rl_core` sets it to 3.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

LOG_LEVEL_VARIABLE = "TF_CPP_MIN_LOG_LEVEL"
ONEDNN_VARIABLE = "TF_ENABLE_ONEDNN_OPTS"
# What C++ logs before TensorFlow has read its level: infos, warnings, and a note on logging itself.
_NOISE = re.compile(
    rb"^(?:[IW]\d{4} \d\d:.*|WARNING: All log messages before absl::InitializeLog.*)\n",
    re.MULTILINE,
)
_muting = threading.Lock()


def lazy_names(
    package: str, names_of: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` for a package's `__init__`.

    Args:
      package: its `__name__`.
      names_of: submodule -> the names it gives, separated by blanks.
    """
    module_of = {name: module for module, names in names_of.items() for name in names.split()}
    public = sorted(module_of)

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with contextlib.nullcontext() if "tensorflow" in sys.modules else without_log_lines():
            value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return public, get, lambda: public


@contextlib.contextmanager
def without_log_lines() -> Iterator[None]:
    """Drops TensorFlow's log lines from standard error; what else is written appears at the end.

    Does nothing if the user has chosen a log level below 3.
    """
    with contextlib.ExitStack() as stack:
        # Of two threads only one may: each would take the other's file for standard error.
        if os.environ.get(LOG_LEVEL_VARIABLE, "3") >= "3" and _muting.acquire(blocking=False):
            stack.callback(_muting.release)
            stack.enter_context(_filtered_standard_error())
        yield


@contextlib.contextmanager
def _filtered_standard_error() -> Iterator[None]:
    """Keeps file descriptor 2 in memory meanwhile: C++ writes there, past `sys.stderr`."""
    try:
        kept, saved = os.memfd_create("stderr"), os.dup(2)
    except (OSError, AttributeError):  # there is no standard error, or this is not Linux
        yield
        return
    _flush()
    os.dup2(kept, 2)
    try:
        yield
    finally:
        _flush()
        os.dup2(saved, 2)
        os.close(saved)
        with open(kept, "r+b") as file, contextlib.suppress(OSError):  # noqa: PTH123
            file.seek(0)
            os.write(2, _NOISE.sub(b"", file.read()))


def _flush() -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or there is none
        sys.stderr.flush()
