"""Lazy import of a package's public names on first use (PEP 562), without TensorFlow's log lines.

TensorFlow logs some lines when it is imported, when a session starts and when XLA compiles.
`rl_core` hides them: it sets `TF_CPP_MIN_LOG_LEVEL` to 3, unless the user has set it; 0 shows all
lines. TensorFlow reads the variable only once; if it was imported first, it is told by a call.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

LOG_LEVEL_VARIABLE = "TF_CPP_MIN_LOG_LEVEL"
ONEDNN_VARIABLE = "TF_ENABLE_ONEDNN_OPTS"
# Vectors as wide as the processor has them (XLA stops at 256 bits), and kernels in an order for one
# thread: the other one keeps more of them ready, of which XLA hands some to another thread.
XLA_FLAGS = (
    "--xla_cpu_prefer_vector_width=512 --xla_cpu_enable_concurrency_optimized_scheduler=false"
)
# Log lines that C++ writes before TensorFlow reads its level: infos, warnings, and absl's note.
_NOISE = re.compile(
    rb"^(?:[IW]\d{4} \d\d:.*|WARNING: All log messages before absl::InitializeLog.*)\n",
    re.MULTILINE,
)
# absl's SetMinLogLevel, which TensorFlow's logging obeys and no Python module offers. The name has
# the date of the absl release that TensorFlow 2.21 is built with.
_LIBRARY = "libtensorflow_framework.so.2"
_SET_MIN_LOG_LEVEL = "_ZN4absl12lts_2025081414SetMinLogLevelENS0_18LogSeverityAtLeastE"
_muting = threading.Lock()


def choose_log_level() -> None:
    """Hides TensorFlow's log lines from now on, unless the user has set a log level."""
    if LOG_LEVEL_VARIABLE in os.environ:
        return
    os.environ[LOG_LEVEL_VARIABLE] = "3"
    if "tensorflow" in sys.modules:
        # Another TensorFlow does not have the name: then its lines are shown, as without the call.
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(_LIBRARY, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            library[_SET_MIN_LOG_LEVEL](ctypes.c_int(3))


def lazy_names(
    package: str, names_of: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__all__`, `__getattr__` and `__dir__` for a package's `__init__`.

    Args:
      package: the package's `__name__`.
      names_of: submodule -> its public names, separated by blanks; "name:public" gives one under
        another name.
    """
    place_of = {
        name.rpartition(":")[2]: (module, name.partition(":")[0])
        for module, names in names_of.items()
        for name in names.split()
    }
    public = sorted(place_of)

    def get(name: str) -> Any:
        if name not in place_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with contextlib.nullcontext() if "tensorflow" in sys.modules else without_log_lines():
            module, inside = place_of[name]
            value = getattr(import_module(f"{package}.{module}"), inside)
        setattr(sys.modules[package], name, value)
        return value

    return public, get, lambda: public


@contextlib.contextmanager
def without_log_lines() -> Iterator[None]:
    """Drops TensorFlow's log lines from standard error; all other output appears at the end.

    Does nothing if the user has set a log level below 3.
    """
    with contextlib.ExitStack() as stack:
        # Only one thread may redirect: a second would save the first one's file as standard error.
        if os.environ.get(LOG_LEVEL_VARIABLE, "3") >= "3" and _muting.acquire(blocking=False):
            stack.callback(_muting.release)
            stack.enter_context(_filtered_standard_error())
        yield


@contextlib.contextmanager
def _filtered_standard_error() -> Iterator[None]:
    """Redirects file descriptor 2 to memory, because C++ writes to it and not to `sys.stderr`."""
    try:
        kept, saved = os.memfd_create("stderr"), os.dup(2)
    except (OSError, AttributeError):  # standard error is closed, or this is not Linux
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
    with contextlib.suppress(OSError, ValueError, AttributeError):  # stderr is closed or None
        sys.stderr.flush()
