"""The process of a run: imports TensorFlow without its log lines, and turns signals into requests.

`import tensorflow` imports 2,400 modules. Half of them belong to parts of the API that a run does
not touch, such as distribution strategies, feature columns and TPUs. The packages of the API are
generated, and contain imports, and a wrapper that does nothing: so they can be read instead of
run, and each name costs no more than the module that defines it. `importlib.util.LazyLoader` does
not serve: it runs the whole of a package for its first name, and refuses those in whose place
TensorFlow puts a wrapper.

After Ctrl-C, SIGTERM or SIGHUP the run stops at its next safe point; a second signal ends it at
once.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from targetnet.rl_core.lazy import ONEDNN_VARIABLE, without_log_lines

_API = "tensorflow._api.v2"
# Python looks for these while it imports a package, before it sets them.
_OF_PYTHON = ("__path__", "__file__", "__cached__")


def import_names_lazily() -> None:
    """From here on the packages of TensorFlow's API wait; call it before TensorFlow is imported."""
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds the packages of the API, and loads a stand-in for each."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(f"{_API}.") or _more_than_imports(name):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = _StandInLoader()
        return spec


def _more_than_imports(package: str) -> bool:
    return package == f"{_API}.compat" or package.endswith((".v1", ".v2"))


class _StandInLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: nobody has asked for a name yet."""


class _StandIn(ModuleType):
    """Has the names of a package of the API."""

    def __getattr__(self, name: str) -> Any:
        place = None if name in _OF_PYTHON else _places(str(self.__file__)).get(name)
        if place is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, there = place
        if module.startswith(_API):
            value: Any = import_module(f"{module}.{there}")
        else:
            value = getattr(import_module(module), there)
            # `tensorflow.lite.python` brings the package `tensorflow/lite`, and Python puts it in
            # the place of `tf.lite`.
            top, of_top = sys.modules["tensorflow"], self.__name__.removeprefix(f"{_API}.")
            package = sys.modules.get(f"tensorflow.{of_top}")
            if package is not None and vars(top).get(of_top) is package:
                setattr(top, of_top, self)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return [*{**vars(self), **_places(str(self.__file__))}]


@functools.cache
def _places(file: str) -> dict[str, tuple[str, str]]:
    """Returns module and name of what each name of a package stands for."""
    lines = ast.parse(Path(file).read_bytes()).body
    imports = [line for line in lines if isinstance(line, ast.ImportFrom)]
    return {
        name.asname or name.name: (str(line.module), name.name)
        for line in imports
        for name in line.names
    }


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
        from targetnet.rl_core.machine import check_address_space  # not for `--help`

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
    from targetnet.agents.run.process import import_names_lazily  # not for `--help`

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


class StopRequest:
    """True once somebody asked the run to stop."""

    def __init__(self) -> None:
        self.signal = 0  # the signal that asked; 0 if none has

    def __bool__(self) -> bool:
        return self.signal > 0

    def set(self, signum: int = signal.SIGINT) -> None:
        self.signal = int(signum)


@contextlib.contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Makes the first Ctrl-C, SIGTERM or SIGHUP within set the request; the second one raises.

    A SIGHUP counts as no second one, nor does what follows it. One that is ignored, as under nohup,
    still is.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread may handle signals
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        # Shell and system send a SIGHUP each when a terminal closes, and a logout a SIGTERM too.
        if request and signal.SIGHUP not in (request.signal, signum):
            raise KeyboardInterrupt
        if not request or signum != signal.SIGHUP:
            request.set(signum)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
