"""Imports TensorFlow without its log lines and what no run needs, and measures the time."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from targetnet.rl_core.lazy import ONEDNN_VARIABLE, without_log_lines

# TensorFlow imports Keras last, and with it pandas and matplotlib if they are installed; without
# Keras it works as well. Nothing here uses Keras, and leaving it out saves 1.7 s.
# `tensorflow.keras` can still be imported later.
_KERAS = "keras.src.optimizers"


@dataclass(frozen=True)
class Startup:
    """The start of a command that trains.

    Attributes:
      began: on the clock of `time.perf_counter`.
      importing: seconds that TensorFlow's import took.
    """

    began: float
    importing: float

    def describe(self) -> str:
        """One line about the time until now; the first env step has just been made."""
        seconds = time.perf_counter() - self.began
        return f"started in {seconds:.1f} s, of which importing TensorFlow {self.importing:.1f} s"


@contextlib.contextmanager
def quiet_import(*, onednn: bool = False) -> Iterator[float]:
    """Imports TensorFlow and gives the seconds; modules that need it are imported within.

    Args:
      onednn: uses oneDNN's operations; without effect if TensorFlow was imported before.

    Raises:
      MemoryLimitError: the limit of `ulimit -v` is too low for it.
    """
    if "tensorflow" not in sys.modules:
        from targetnet.rl_core.memory import check_address_space  # not for `--help`

        check_address_space()
        os.environ[ONEDNN_VARIABLE] = str(int(onednn))
    with without_log_lines():
        yield _import_tensorflow()


def process_began() -> float:
    """The start of this process on the clock of `time.perf_counter`, to 0.01 s.

    It is now, if the system does not tell.
    """
    try:
        after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        since_boot = int(after_name[19]) / os.sysconf("SC_CLK_TCK")  # proc(5): starttime
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot
    except (OSError, AttributeError, ValueError, IndexError):
        age = 0.0
    return time.perf_counter() - max(0.0, age)


def _import_tensorflow() -> float:
    begin = time.perf_counter()
    with contextlib.ExitStack() as stack:
        if "tensorflow" not in sys.modules:
            stack.enter_context(_no_more_than_needed())
        import tensorflow.compat.v1  # noqa: F401
    return time.perf_counter() - begin


@contextlib.contextmanager
def _no_more_than_needed() -> Iterator[None]:
    """TensorFlow's import within leaves parts of it for later, and looks for no garbage.

    Nor is any looked for later among what there is by then.
    """
    from targetnet.agents.run.lazy_tensorflow import import_names_lazily  # not for `--help`

    modules: dict[str, Any] = sys.modules
    absent, collecting = _KERAS not in modules, gc.isenabled()
    if absent:
        modules[_KERAS] = None
    import_names_lazily()
    # A million objects stay, and each search for garbage among them takes a tenth of a second.
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
        if absent:
            del modules[_KERAS]
