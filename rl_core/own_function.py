"""Code of the user's own: functions and modules that a config names.

A program imports them by its own `sys.path`. The command `targetnet` also finds them in the current
directory, which is not on its path otherwise: any file there could take the place of a module that
some package looks for in vain.
"""

from __future__ import annotations

import contextlib
import importlib
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from targetnet.rl_core.errors import ConfigError, did_you_mean, escaped, in_one_line, quoted

MORE = "; TARGETNET_DEBUG=1 shows all"
# Environment variable: directory of the user's code, for a command that starts in another one.
CODE_DIRECTORY = "TARGETNET_CODE_DIRECTORY"


class _UserCommand(NamedTuple):
    directory: str
    say: Callable[[str], None]
    told: set[str]


_running: list[_UserCommand] = []  # the command that this process runs, if it runs one


@contextlib.contextmanager
def in_command(directory: str, say: Callable[[str], None]) -> Iterator[None]:
    """Lets what a config names be imported from a directory, inside this context.

    Args:
      directory: of the user's code; "" is the current one.
      say: shows one line about each import from outside the installed packages.
    """
    _running.append(_UserCommand(directory, say, set()))
    try:
        yield
    finally:
        _running.pop()


def code_directory() -> str | None:
    """Returns the directory of the user's code, see `in_command`; None outside a command."""
    return _running[-1].directory if _running else None


def named_module(what: str, name: str, module: str) -> ModuleType:
    """Imports a module that a config names.

    A command puts the directory of the user's code last on `sys.path` if it has the module and no
    other directory does, and leaves it there, because the user's code imports later too.

    Args:
      what, name: for messages, such as "network" and "module:function".
      module: its name.

    Raises:
      Exception, SystemExit: whatever the module raises.
    """
    if _running:
        _find(_running[-1], f"{what} {quoted(name)}", module.partition(".")[0])
    return importlib.import_module(module)


def _find(command: _UserCommand, named: str, package: str) -> None:
    """Makes sure that a package is found; says where, if it is not an installed one."""
    with contextlib.suppress(ImportError, ValueError):  # it is no name of a module
        spec = find_spec(package)  # imports nothing
        if spec is None or spec.origin is None:  # a package without a file may have more parts
            here = PathFinder.find_spec(package, [command.directory])
            if here is not None and command.directory not in sys.path:
                sys.path.append(command.directory)
            spec = spec or here
        if spec is None or _is_installed(spec) or named in command.told:
            return
        command.told.add(named)
        command.say(f"{named} imports {escaped(_place_of(spec))}")


def _is_installed(spec: ModuleSpec) -> bool:
    if spec.name in (*sys.stdlib_module_names, __name__.partition(".")[0]):
        return True
    roots = *map(sysconfig.get_path, ("purelib", "platlib")), *site.getsitepackages()
    return any(Path(_place_of(spec)).is_relative_to(root) for root in roots)


def _place_of(spec: ModuleSpec) -> str:
    return spec.origin or next(iter(spec.submodule_search_locations or ()), "")


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
        module = named_module(what, name, module_name)
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
