"""Functions of the user's own, named in a config as "module:function"."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from targetnet.rl_core.errors import ConfigError, did_you_mean, in_one_line

MORE = "; TARGETNET_DEBUG=1 shows all"


def imported(what: str, name: str) -> Callable[..., Any]:
    """Returns the function.

    Args:
      what: it is for messages, such as "network".
      name: "module:function".

    Raises:
      ConfigError: it cannot be imported.
    """
    module_name, _, function = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise ConfigError(failure(what, name, "cannot be imported", error) + MORE) from error
    found: Callable[..., Any] | None = getattr(module, function, None)
    if not callable(found):
        functions = [n for n, value in vars(module).items() if callable(value)]
        raise ConfigError(
            f"{what} {name!r} cannot be imported: module {module_name!r} has no function "
            f"{function!r}{did_you_mean(function, functions)}"
        )
    return found


def failure(what: str, name: str, how: str, error: BaseException, reason: str = "") -> str:
    """In one line: what was raised, and the last line of the user's module that led there.

    Args:
      reason: in place of the error's own text.
    """
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__", "") == name.partition(":")[0]:
            place = f" at {_short(frame.f_code.co_filename)}:{line}"
    reason = reason or in_one_line(error)
    return f"{what} {name!r} {how} ({type(error).__name__}: {reason}){place}"


def _short(file: str) -> str:
    here = Path.cwd()
    return str(Path(file).relative_to(here)) if Path(file).is_relative_to(here) else file
