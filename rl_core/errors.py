"""Exceptions of this project: each has a message of one clear line, for a user's mistake.

Every class also inherits the built-in it refines, so `except ValueError` keeps working. The
command line prints `str(error)` and exits with the class's `exit_code`.
"""

import difflib
import re
import reprlib
from collections.abc import Iterable
from typing import ClassVar

_MOST_SHOWN = 200  # characters of a value
_STYLE = re.compile(r"\x1b\[[0-9;]*m")  # such as bold, which Keras has in the texts of its errors
_LONGEST_NAME = 100  # characters; the time to find similar names grows with the length squared


class RlCoreError(Exception):
    """Base of every error this project raises on purpose.

    The text is one line. Control characters in it are escaped, so that a name cannot send
    commands to the terminal.

    Attributes:
      exit_code: exit code of the command line: 2 is a user's mistake, 1 a run that failed.
    """

    exit_code: ClassVar[int] = 2

    def __str__(self) -> str:
        # Some subclasses inherit KeyError or OSError, whose own __str__ changes the message.
        return escaped(Exception.__str__(self))


class ScopeMismatch(RlCoreError, ValueError):
    """A variable scope without variables, with one twice, or unlike the one it is paired with."""


class ShapeError(RlCoreError, ValueError):
    """A tensor has the wrong rank or shape."""


class ArgumentError(RlCoreError, TypeError):
    """An argument of a function is of the wrong type."""


class FeedError(RlCoreError, TypeError):
    """A value fed to a callable has the wrong number, dtype or shape."""


class BoundsError(RlCoreError, ValueError):
    """A hyperparameter was set outside its bounds."""


class UnknownName(RlCoreError, KeyError):
    """An unknown name; the message offers the nearest valid one."""


class StaticHyperparameter(RlCoreError, TypeError):
    """A value fixed when the graph was built cannot change during the run."""


class ConfigError(RlCoreError, ValueError):
    """A configuration file or value that cannot be used."""


class EnvError(RlCoreError, ValueError):
    """An env that does not exist or cannot be trained on."""


class Fault(RlCoreError, RuntimeError):
    """Something that a run is given failed while it trained; it ends the run.

    Each caller that passes the fault on adds its own facts: the env, the env step, the checkpoint.
    """

    def add(self, *, before: str = "", after: str = "") -> None:
        """Adds text before and after the message."""
        self.args = (f"{before}{self}{after}",)


class ControllerFault(Fault):
    """A controller raised an exception or answered with something that is no change."""


class EnvFault(Fault):
    """A fault of an env after its first reset.

    Attributes:
      env: index of the env among the rows of a vector env; None if unknown.
      env_steps: transitions of this time step up to and including the faulty one.
    """

    env: int | None = None
    env_steps: int = 0


class EnvContractError(EnvFault, EnvError):
    """An env returned a value that gymnasium's interface does not allow."""


class EnvNotFinite(EnvFault, ArithmeticError):
    """A reward or observation is NaN, infinite, or beyond float32."""

    exit_code = 1


class EnvFailed(EnvFault):
    """An env raised an exception; that exception is this error's `__cause__`."""

    exit_code = 1


class EnvWorkerLost(EnvFault, EnvError):
    """The process that runs an env has ended."""

    exit_code = 1


class RunDirError(RlCoreError, OSError):
    """A run directory that cannot be used."""


class MemoryLimitError(RlCoreError, MemoryError):
    """A run needs more memory than is available."""


class Diverged(RlCoreError, ArithmeticError):
    """An update would have made a value NaN or infinite, and was not made."""

    exit_code = 1


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Returns "; did you mean 'x'?" for the nearest of `names`, or an empty string."""
    near = nearest(name, names, cutoff=0.5)
    return "" if near is None else f"; did you mean {near!r}?"


def nearest(name: object, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Returns the most similar name; None if none is similar or `name` is too long or no text."""
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        return None
    known = [known for known in names if len(known) <= _LONGEST_NAME]
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def quoted(value: object) -> str:
    """Returns the repr of a value from outside: one line, at most 200 printable characters.

    Accepts any value: huge, deeply nested, or an integer with more digits than Python prints.
    """
    return _cut(escaped(" ".join(_BRIEF.repr(value).split())), _MOST_SHOWN)


def in_one_line(value: object, most: int = 160) -> str:
    """Returns the text of any value: one line, at most `most` printable characters, no colors.

    The text of gymnasium spaces and of other libraries' errors may have several lines.
    """
    try:
        text = str(value)
    except (ValueError, RecursionError):  # too many digits; too deep
        text = quoted(value)
    # Cut before escaping too: a text may have megabytes, and only its start is shown.
    return _cut(escaped(" ".join(_STYLE.sub("", text[: 10 * most]).split())), most)


def escaped(text: str) -> str:
    """Returns a text with each unprintable character replaced by its Python escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def reason_of(error: Exception) -> str:
    """Returns why a file could not be read or written, in a few words without the path."""
    if isinstance(error, OSError) and error.strerror:
        return in_one_line(error.strerror)
    return in_one_line(error)


class _Brief(reprlib.Repr):
    """A `repr` with bounded length, depth and number of items."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxlong = self.maxother = _MOST_SHOWN
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 20

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:
            return "a whole number of more digits than Python prints"

    def repr_str(self, x: str, level: int) -> str:
        return repr(x) if len(x) < self.maxstring else repr(x[: self.maxstring]) + "..."


_BRIEF = _Brief()


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 4] + " ..."
