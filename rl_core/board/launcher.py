"""Launcher of TensorBoard: `serve` in the foreground, `start_beside` as a child of a run.

If TensorFlow is installed, TensorBoard imports it to read files, which costs several seconds and
half a gigabyte. Our event files do not need it, so TensorBoard starts without TensorFlow, unless
the user asks for the full version.
"""

import contextlib
import errno
import io
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from targetnet.rl_core.errors import RlCoreError, escaped

DEFAULT_PORT = 6006
START_SECONDS = 20.0
STOP_SECONDS = 5.0

_ANNOUNCEMENT = re.compile(r"^TensorBoard at (\S+) ", re.MULTILINE)


class BoardError(RlCoreError, OSError):
    """A TensorBoard that cannot be started."""


@dataclass(frozen=True)
class Board:
    """A TensorBoard that runs as a child of this process."""

    url: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """Ends TensorBoard, and kills it if it takes too long; a second call does nothing."""
        with self.process:  # closes the pipe to the process
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                _kill(self.process)


def serve(
    logdir: Path,
    *,
    host: str = "localhost",
    port: int | None = None,
    full: bool = False,
    arguments: Sequence[str] = (),
) -> None:
    """Runs TensorBoard in this process until Ctrl-C, and prints its address.

    Args:
      logdir: a run directory, or a directory of runs; it may be made later.
      host: name or address to listen at.
      port: None takes the first free port from DEFAULT_PORT on; 0 takes any free port.
      full: True lets TensorBoard import TensorFlow, for third-party plugins that need it.
      arguments: further arguments of TensorBoard, such as "--reload_interval=1".

    Raises:
      BoardError: `logdir` is not a directory, the port is in use, or an argument is invalid.
    """
    _require_logdir(logdir)
    _require_port(port)
    argv = ["tensorboard", f"--logdir={logdir}"]
    if host != "localhost":  # localhost is the default, and --host excludes --bind_all
        argv.append(f"--host={host}")
    if port is not None:
        argv.append(f"--port={port}")
    with contextlib.suppress(KeyboardInterrupt):
        if not full:
            _leave_out_tensorflow()
        _configured([*argv, *arguments]).main()


def start_beside(
    logdir: Path,
    *,
    host: str = "localhost",
    port: int | None = None,
    arguments: Sequence[str] = (),
) -> Board:
    """Starts TensorBoard as a child process; returns when a browser can open it.

    The child has its own session, so Ctrl-C in this terminal does not reach it. On Linux it ends
    with the calling thread, even if this process is killed; so call it from the main thread.

    Args:
      logdir, host, port, arguments: as for `serve`.

    Raises:
      BoardError: TensorBoard did not start; the message says why, and no process is left.
    """
    # -P: a package of the user's in the current directory must not come before ours.
    command = [
        sys.executable,
        "-P",
        "-m",
        "targetnet.rl_core.board",
        str(logdir),
        f"--parent={os.getpid()}",
    ]
    command += [f"--host={host}", *([] if port is None else [f"--port={port}"]), *arguments]
    with tempfile.TemporaryFile() as stderr:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise BoardError(f"cannot start TensorBoard: {error.strerror}") from error
        try:
            return Board(_announced_url(process, stderr), process)
        except BaseException:
            _kill(process)
            raise


def _require_logdir(logdir: Path) -> None:
    """Raises BoardError if a path is not a directory; it may be missing, as TensorBoard polls."""
    existing = next(p for p in (logdir, *logdir.absolute().parents) if p.exists())
    if not existing.is_dir():
        raise BoardError(f"cannot show {str(logdir)!r}: {str(existing)!r} is not a directory")


def _say_if_empty(logdir: Path) -> None:
    with contextlib.suppress(OSError):  # the directory may not exist yet
        if next(logdir.iterdir(), None) is not None:
            return
    said = f"there is no run in {logdir} yet; a run appears when it has begun"
    print(escaped(said), flush=True)


def _require_port(port: int | None) -> None:
    if port is not None and not 0 <= port <= 65535:
        raise BoardError(f"a port must be 0 to 65535, got {port}")


def _leave_out_tensorflow() -> None:
    """Makes TensorBoard use its own replacements of TensorFlow's file functions."""
    # TensorBoard avoids TensorFlow if a module of this name exists, as in its build without it.
    name = "tensorboard.compat.notf"
    sys.modules.setdefault(name, types.ModuleType(name))


def _configured(argv: list[str]) -> Any:
    """Returns TensorBoard's program, configured with these arguments and our server."""
    # `from tensorboard import program` gives a lazy proxy, whose attributes cannot be set.
    import tensorboard.default as default
    import tensorboard.program as program
    from tensorboard.plugins.base_plugin import FlagsError
    from tensorboard.plugins.hparams.hparams_plugin import HParamsPlugin

    from targetnet.rl_core.board.hparams_tab import ReturnsFirst

    # Hides a note about the fast loader. The name is private: if it disappears, the note returns.
    program._DATA_SERVER_ADVISORY_MESSAGE = ""
    plugins = [ReturnsFirst if p is HParamsPlugin else p for p in default.get_plugins()]
    board = program.TensorBoard(plugins=plugins, server_class=_bind_server)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            board.configure(argv)
    except FlagsError as error:
        raise BoardError(str(error)) from error
    except SystemExit as error:
        if error.code:  # argparse prints its usage, and the error in the last line
            raise BoardError(_last_line(complaint.getvalue())) from error
        raise
    return board


def _bind_server(app: Any, flags: Any) -> Any:
    """Returns TensorBoard's web server, bound to its port; it prints its address when it serves."""
    import tensorboard.program as program

    class Server(program.WerkzeugServer):
        def server_bind(self) -> None:
            with _werkzeug_kept_from_exiting(program, f"{self.host}:{self.port}"):
                super().server_bind()

        def server_activate(self) -> None:
            with _werkzeug_kept_from_exiting(program, f"{self.host}:{self.port}"):
                super().server_activate()

        def print_serving_message(self) -> None:
            print(f"TensorBoard at {self.get_url()} (Ctrl-C to stop)", flush=True)
            if flags.logdir:
                _say_if_empty(Path(flags.logdir))

    try:
        return program.with_port_scanning(Server)(app, flags)
    except program.TensorBoardPortInUseError as error:
        raise BoardError(
            f"port {flags.port} is already in use; choose another, or leave it out to take "
            f"the first free one from {DEFAULT_PORT} on"
        ) from error
    except program.TensorBoardServerException as error:
        raise BoardError(error.msg) from error


@contextlib.contextmanager
def _werkzeug_kept_from_exiting(program: Any, address: str) -> Iterator[None]:
    """Turns an OSError into TensorBoard's exceptions, because Werkzeug would end the process."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise program.TensorBoardPortInUseError(error.strerror) from error
        raise program.TensorBoardServerException(
            f"TensorBoard cannot listen at {address}: {error.strerror}"
        ) from error


def _announced_url(process: subprocess.Popen[bytes], stderr: IO[bytes]) -> str:
    """Waits until the child has printed its address; returns the address."""
    assert process.stdout is not None
    deadline = time.monotonic() + START_SECONDS
    printed = b""
    while (found := _ANNOUNCEMENT.search(printed.decode(errors="replace"))) is None:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
            raise BoardError(f"TensorBoard did not start within {START_SECONDS:.0f} s")
        more = os.read(process.stdout.fileno(), 4096)
        if not more:
            stderr.seek(0)
            raise BoardError(_last_line(stderr.read().decode(errors="replace")))
        printed += more
    return found[1]


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "TensorBoard ended without a message"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills the child and all processes that it started."""
    with process, contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
