"""Importing TensorFlow: without what its C++ side has to say, without Keras, and timed."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_core.lazy import ONEDNN_VARIABLE, without_log_lines

# TensorFlow imports Keras at its end, pandas and matplotlib with it if they are there, and goes on
# if it cannot: 1.7 s for what nothing here uses. Who asks for `tensorflow.keras` later, gets it.
_KERAS = "keras.src.optimizers"


@dataclass(frozen=True)
class Startup:
    """Of a command that trains.

    Attributes:
      began: when, on the clock of `time.perf_counter`.
      importing: seconds that TensorFlow's import took.
    """

    began: float
    importing: float

    def describe(self) -> str:
        """Asked once the first env step is made."""
        seconds = time.perf_counter() - self.began
        return f"started in {seconds:.1f} s, of which importing TensorFlow {self.importing:.1f} s"


@contextlib.contextmanager
def quiet_import(*, onednn: bool = False) -> Iterator[float]:
    """Imports TensorFlow and gives the seconds that took; within, import what needs it.

    Args:
      onednn: whether its operations are to be oneDNN's; too late if it was imported before.
    """
    if "tensorflow" not in sys.modules:
        os.environ[ONEDNN_VARIABLE] = str(int(onednn))
    with without_log_lines():
        yield _import_tensorflow()


def process_began() -> float:
    """When this process was started, on the clock of `time.perf_counter`, to 0.01 s.

    Where the system does not tell: now.
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
    modules: dict[str, Any] = sys.modules
    absent = _KERAS not in modules
    if absent:
        modules[_KERAS] = None
    try:
        import tensorflow.compat.v1  # noqa: F401
    finally:
        if absent:
            del modules[_KERAS]
    return time.perf_counter() - begin
