"""One line on the console, whatever text is in it, and output that may fail."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TextIO, cast

from targetnet.rl_core.errors import RlCoreError, escaped, reason_of

if TYPE_CHECKING:
    from rich.console import Console


def say(console: Console, text: str, style: str = "") -> None:
    """Shows one line; what cannot be printed by its escape."""
    console.print(escaped(text), highlight=False, soft_wrap=True, markup=False, style=style)


class OutputFailed(RlCoreError, OSError):
    """Standard output cannot be written."""

    exit_code: ClassVar[int] = 1


class Output:
    """A stream of text for output that may get lost: a full disk, an ended reader, no terminal.

    Args:
      stream: what it writes to; all that is not here is the stream's.
      lasts: whether text that cannot be written is dropped. One line tells so at its place, once
        there is room. Otherwise `OutputFailed` is raised.
      tell: called with a line when it begins to drop.

    Attributes:
      lasts: the same.
      error: why it could not be written last; None if it could.
    """

    def __init__(
        self, stream: TextIO, lasts: bool = True, tell: Callable[[str], None] = lambda line: None
    ) -> None:
        self._stream, self.lasts, self._tell = stream, lasts, tell
        self.error: Exception | None = None
        self._has_gap = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            if self.error is not None:
                self._recover(self.error)
            self._stream.write(text)
        except (OSError, ValueError) as error:
            self._has_gap = True
            self._fail(error)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._fail(error)  # the stream keeps the text and tries again

    def end(self) -> None:
        """Writes what is left; what cannot be written does not fail again at Python's exit."""
        self.lasts = True
        self.flush()
        if self.error is not None:
            self.write("")  # with the line about a gap, if there is room now
        if self.error is None:
            return
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self._stream.flush()

    def _recover(self, error: Exception) -> None:
        self._stream.flush()
        if self._has_gap:
            self._stream.write(f"(output is missing here: {reason_of(error)})\n")
            self._stream.flush()
        self.error, self._has_gap = None, False

    def _fail(self, error: Exception) -> None:
        is_new, self.error = self.error is None, error
        if self.lasts:
            if is_new:
                self._tell(f"output is lost from here on: {reason_of(error)}")
        elif threading.current_thread() is threading.main_thread():  # the next write there fails
            raise OutputFailed(f"cannot write the output: {reason_of(error)}") from error


@contextlib.contextmanager
def output_guarded(*, lasts: bool = True) -> Iterator[list[Output]]:
    """Has `sys.stdout` and `sys.stderr` be an `Output` each within, unless they are.

    Args:
      lasts: of standard output; standard error lasts always, so that an error can be told there.

    Yields:
      Those that it made.
    """
    made = []

    def guarded(stream: TextIO | None, *how: Any) -> Any:
        if stream is None or isinstance(stream, Output):  # Python has none if it is closed
            return stream
        made.append(Output(stream, *how))
        return made[-1]

    with (
        contextlib.redirect_stderr(guarded(sys.stderr)),
        contextlib.redirect_stdout(guarded(sys.stdout, lasts, _tell_on_stderr)),
    ):
        yield made


@contextlib.contextmanager
def console_guarded(console: Console) -> Iterator[None]:
    """Has neither `console` nor `print` raise within because it cannot be written."""
    with output_guarded():
        file = console.file
        if isinstance(file, Output):
            yield
            return
        console.file = cast("TextIO", Output(cast("TextIO", file)))
        try:
            yield
        finally:
            console.file = file


def _tell_on_stderr(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # of a stream without descriptor
        if not os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno()):
            print(f"targetnet: {line}", file=sys.stderr)
