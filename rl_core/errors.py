"""The exception family: one clear line each, never a traceback for a user's mistake.

Every class also inherits the built-in it refines, so `except ValueError` keeps working. The
command line prints `str(error)` and exits with the class's `exit_code`.
"""

import difflib
import reprlib
from collections.abc import Iterable
from typing import ClassVar

_MOST_SHOWN = 200  # characters of a value
_LONGEST_NAME = 100  # that a nearest one is looked for: the time goes with the square of it


class RlCoreError(Exception):
    """Base of every error this project raises on purpose.

    Its text is one line, and no name in it can send a terminal what the terminal obeys.

    Attributes:
      exit_code: of the command line: 2 is a user's mistake, 1 a run that broke off.
    """

    exit_code: ClassVar[int] = 2

    def __str__(self) -> str:
        # KeyError and OSError, which some refine, show something else than their message.
        return escaped(Exception.__str__(self))


class ScopeMismatch(RlCoreError, ValueError):
    """Two variable scopes cannot be paired variable by variable."""


class ShapeError(RlCoreError, ValueError):
    """A tensor has the wrong rank or shape."""


class FeedError(RlCoreError, TypeError):
    """A value fed to a callable has the wrong number, dtype or shape."""


class BoundsError(RlCoreError, ValueError):
    """A hyperparameter was set outside its bounds."""


class UnknownName(RlCoreError, KeyError):
    """A name that nothing has; the message offers the nearest one."""


class StaticHyperparameter(RlCoreError, TypeError):
    """A value fixed when the graph was built cannot change during the run."""


class ConfigError(RlCoreError, ValueError):
    """A configuration file or value that cannot be used."""


class EnvError(RlCoreError, ValueError):
    """An env that does not exist or cannot be trained on."""


class EnvFault(RlCoreError, RuntimeError):
    """Something an env did after its first reset that ends the run.

    Whoever passes it on adds what it knows: which env, which env step, what was saved.

    Attributes:
      env: index of the env among the rows of a vector env; None where it is not known.
      env_steps: transitions of the same time step up to the fault, itself included.
    """

    env: int | None = None
    env_steps: int = 0

    def add(self, *, before: str = "", after: str = "") -> None:
        """Extends the message."""
        self.args = (f"{before}{self}{after}",)


class EnvContractError(EnvFault, EnvError):
    """An env returned something that gymnasium's interface does not allow."""


class EnvNotFinite(EnvFault, ArithmeticError):
    """A reward or observation is NaN, infinite, or beyond float32."""

    exit_code = 1


class EnvFailed(EnvFault):
    """An env raised an exception of its own, which is the cause."""

    exit_code = 1


class EnvWorkerLost(EnvFault, EnvError):
    """The process in which an env runs is gone."""

    exit_code = 1


class RunDirError(RlCoreError, OSError):
    """A run directory that cannot be used."""


class MemoryLimitError(RlCoreError, MemoryError):
    """A run would need more memory than there is."""


class Diverged(RlCoreError, ArithmeticError):
    """Learning left what is finite; the update that would have been the first was not made."""

    exit_code = 1


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns "; did you mean 'x'?" for the nearest of `names`, or an empty string."""
    near = nearest(name, names, cutoff=0.5)
    return "" if near is None else f"; did you mean {near!r}?"


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Returns the name that is most alike; None if none is, or if `name` is too long to be one."""
    if len(name) > _LONGEST_NAME:
        return None
    known = [known for known in names if len(known) <= _LONGEST_NAME]
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def shown(value: object) -> str:
    """The repr of a value from outside: on one line, at most 200 characters, none that acts.

    Whatever the value: huge, deep, an integer of more digits than Python prints.
    """
    return _cut(escaped(" ".join(_BRIEF.repr(value).split())), _MOST_SHOWN)


def in_one_line(value: object, most: int = 160) -> str:
    """The text of anything on one line, at most `most` characters, none that acts.

    Spaces and other people's errors may take several lines.
    """
    try:
        text = str(value)
    except (ValueError, RecursionError):  # too many digits; too deep
        text = shown(value)
    # Cut before, too: of a text of megabytes the rest is not worth looking at.
    return _cut(escaped(" ".join(text[: 10 * most].split())), most)


def escaped(text: str) -> str:
    """The same text with newlines, escape sequences and half characters as Python writes them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def reason_of(error: Exception) -> str:
    """Why a file could not be read or written, in a few words without its path."""
    if isinstance(error, OSError) and error.strerror:
        return in_one_line(error.strerror)
    return in_one_line(error)


class _Brief(reprlib.Repr):
    """`repr` of a bounded number of parts, of bounded size and depth."""

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
