"""The exception family: one clear line each, never a traceback for a user's mistake.

Every class also inherits the built-in it refines, so `except ValueError` keeps working. The
command line prints `str(error)` and exits with code 2.

Imports: nothing of ours.
"""

import difflib
import textwrap
from collections.abc import Iterable


class RlCoreError(Exception):
    """Base of every error this project raises on purpose."""


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

    # KeyError shows the repr of its argument; the message is a sentence.
    __str__ = Exception.__str__


class StaticHyperparameter(RlCoreError, TypeError):
    """A value fixed when the graph was built cannot change during the run."""


class ConfigError(RlCoreError, ValueError):
    """A configuration file or value that cannot be used."""


class EnvError(RlCoreError, ValueError):
    """An env that does not exist or cannot be trained on."""


class RunDirError(RlCoreError, OSError):
    """A run directory that cannot be used."""

    __str__ = Exception.__str__


class MemoryLimitError(RlCoreError, MemoryError):
    """The replay would need more memory than there is."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns "; did you mean 'x'?" for the nearest of `names`, or an empty string."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def in_one_line(value: object) -> str:
    """The text of anything on one line: spaces and other people's errors may take several."""
    return textwrap.shorten(str(value), width=160, placeholder=" ...")
