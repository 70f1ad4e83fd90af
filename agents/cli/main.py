"""The `targetnet` command.

The arguments of each command are one dataclass, and tyro makes the parser from it. Only the module
of the given command is imported, and TensorFlow only if that command needs it, so that `--help` and
`set` start quickly.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import time
import traceback
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, make_dataclass
from functools import reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import tyro
from tyro.conf import FlagCreatePairsOff, arg, subcommand

from targetnet.agents.cli import INTERRUPTED
from targetnet.agents.run.process import process_began
from targetnet.rl_core.console import output_guarded
from targetnet.rl_core.errors import (
    EnvFailed,
    RlCoreError,
    did_you_mean,
    escaped,
    quoted,
    reason_of,
)

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_WITH_IT = ("tensorflow", "gymnasium", "numpy", "tensorboard")
USER_MISTAKE = RlCoreError.exit_code
_UNCUT = 2_000  # columns
_FAILED = 1
# They go on although their output gets lost.
_TRAINING = [[name] for name in ("train", "resume", "replay", "results", "compare", "sweep")]


class _Command(NamedTuple):
    """Location and summary of a command."""

    module: str
    name: str
    summary: str  # its docstring; shown by `targetnet --help` without importing the module


@dataclass(frozen=True)
class _ImportPlaceholder:
    """Placeholder for a command that was not imported."""


_TRAIN = "targetnet.agents.cli.train_commands"
_POLICY = "targetnet.agents.cli.policy_commands"
_STEER = "targetnet.agents.cli.steer_commands"
_COMMANDS = {
    "train": _Command(
        _TRAIN,
        "Train",
        "Train an agent; write its curves and weights to a run directory.",
    ),
    "resume": _Command(
        _TRAIN,
        "Resume",
        "Resume a run that was stopped, killed or finished, from its last checkpoint.",
    ),
    "eval": _Command(
        _POLICY,
        "Eval",
        "Play a trained policy on new episodes, greedily by default, and print their returns.",
    ),
    "play": _Command(_POLICY, "Play", "Show a trained policy in a window, or write a video of it."),
    "export": _Command(
        _POLICY, "Export", "Write a run's greedy policy to files that do not need this project."
    ),
    "record": _Command(
        "targetnet.agents.cli.data_commands",
        "Record",
        "Write episodes of a run's policy, or its replay memory, as a Minari dataset.",
    ),
    "configs": _Command(_TRAIN, "Configs", "List the shipped configs, or show one."),
    "results": _Command(
        "targetnet.agents.experiments.results.command",
        "Results",
        "Train configs with many seeds and write a page with statistics and curves.",
    ),
    "compare": _Command(
        "targetnet.agents.experiments.compare.command",
        "Compare",
        "Compare arms that differ in some keys, on several envs, by paired seeds; write a page.",
    ),
    "sweep": _Command(
        "targetnet.agents.experiments.sweep.command",
        "Sweep",
        "Search keys of a config; train the best again with seeds that chose nothing.",
    ),
    "set": _Command(
        _STEER,
        "Set",
        "Change live values of a running job; they take effect at its next safe point.",
    ),
    "do": _Command(
        _STEER,
        "Do",
        "Send an action to a running job: sync, rewind, reset, pause, evaluate, stop and others.",
    ),
    "status": _Command(_STEER, "Status", "Show the progress of a run and all its live values."),
    "log": _Command(
        _STEER, "Log", "Show every change and action that was asked of a run, accepted or refused."
    ),
    "ls": _Command(_STEER, "Ls", "List the runs below a directory; the running ones come first."),
    "board": _Command(
        _TRAIN, "OpenBoard", "Show curves in TensorBoard; without TensorFlow it starts in a second."
    ),
    "mcp": _Command(
        "targetnet.agents.cli.mcp_command",
        "Mcp",
        "Let an assistant look at runs and steer them, over standard input and output.",
    ),
    "replay": _Command(
        _STEER,
        "Replay",
        "Repeat a recorded run, each change at the same time step, and compare the two.",
    ),
    "digest": _Command(
        _STEER,
        "PrintDigest",
        "Print one hash over all variables, replay rows and counters at a run's end.",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    The code is 2 for a user's mistake, 1 for a run that failed, 130 for Ctrl-C.
    """
    began = process_began() if arguments is None else time.perf_counter()
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    for name in ("COLUMNS", "LINES"):  # a shell without a terminal may set them to 0
        if not os.environ.get(name, "").strip("0").isdecimal():
            os.environ.pop(name, None)
    trains = [*arguments][:1] in _TRAINING and not {"-h", "--help"} & {*arguments}
    with output_guarded(lasts=trains) as streams:
        try:
            return _main(arguments, began)
        finally:
            for stream in streams:
                stream.end()


def _main(arguments: Sequence[str], began: float) -> int:
    try:
        with _all_written():
            return _run(arguments, began)
    except RlCoreError as error:
        if isinstance(error.__cause__, BrokenPipeError):  # as `head` ends
            return error.exit_code
        if os.environ.get("TARGETNET_DEBUG") == "1":
            _print_traceback(error)
        elif isinstance(error, EnvFailed) and error.__cause__:
            _print_traceback(error.__cause__)  # the author of the env needs it
        print(f"targetnet: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("targetnet: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (MemoryError, RuntimeError) as error:  # under `ulimit -v` or `ulimit -u`
        if isinstance(error, RuntimeError) and "start new thread" not in str(error):
            raise
        reason = reason_of(error) or "no memory"
        print(f"targetnet: {reason}: see the limits that `ulimit -a` shows", file=sys.stderr)
        return _FAILED


def _print_traceback(error: BaseException) -> None:
    # A message may have codes that a terminal obeys.
    for line in "".join(traceback.format_exception(error)).splitlines():
        print(escaped(line), file=sys.stderr)


@contextlib.contextmanager
def _all_written() -> Iterator[None]:
    try:
        yield
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()


def _run(arguments: Sequence[str], began: float) -> int:
    if [*arguments] == ["--version"]:
        print(_versions())
        return 0
    command = _parse(arguments)
    left_empty = any(re.fullmatch(r"|--[\w-]+=", word) for word in arguments)
    for field in fields(command):
        value = getattr(command, field.name)
        if left_empty and isinstance(value, Path) and value == Path():
            raise RlCoreError(f"{field.name} wants a path, got ''")
        _require_usable(value)
    from targetnet.rl_core.own_function import CODE_DIRECTORY, in_command

    more = (began,) if getattr(command, "says_how_it_started", False) else ()
    with in_command(os.environ.get(CODE_DIRECTORY, ""), _say_beside):
        code: int = command(_console(), *more)
        return code


def _console() -> Console:
    """Returns a console for standard output; in a pipe or file nothing is cut to its width."""
    from rich.console import Console

    watched = sys.stdout is not None and sys.stdout.isatty()
    return Console() if watched or "COLUMNS" in os.environ else Console(width=_UNCUT)


def _say_beside(line: str) -> None:
    """Shows a line apart from the command's output."""
    with contextlib.suppress(OSError):
        print(f"targetnet: {line}", file=sys.stderr)


def _versions() -> str:
    """Returns the versions as they are installed, without importing anything."""
    return "\n".join(f"{name} {_version(name)}" for name in ("targetnet", *_SHOWN_WITH_IT))


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def _parse(arguments: Sequence[str]) -> Any:
    first = arguments[0] if arguments else ""
    if first and not first.startswith("-") and first not in _COMMANDS:
        raise RlCoreError(
            f"no command {quoted(first)}{did_you_mean(first, _COMMANDS)} ({', '.join(_COMMANDS)})"
        )
    if first in (*_COMMANDS, "-h", "--help"):
        # tyro reads the source of the class that holds a union; without one it reads `typing`.
        line = make_dataclass("Line", [("command", Annotated[_one_of({first}), arg(name="")])])
        # After a mistake, parse with all commands: a wrong flag may belong to another one.
        with contextlib.suppress(RlCoreError):
            return _parsed(line, arguments).command
    return _parsed(_one_of(_COMMANDS), arguments)


def _require_usable(argument: Any) -> None:
    """Checks that the system can examine a path argument.

    Raises:
      RlCoreError: it cannot.
    """
    if not isinstance(argument, Path):
        return
    try:
        # The dot also checks that files in a directory may be looked up.
        os.stat(f"{argument}/." if argument.is_dir() else argument)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):  # the command knows if it must exist
        return
    except (OSError, ValueError) as error:
        raise RlCoreError(
            f"cannot use the path {quoted(str(argument))}: {reason_of(error)}"
        ) from None


def _one_of(named: Collection[str]) -> Any:
    """Returns the union of all commands; only the `named` ones are imported."""
    kinds: list[Any] = []
    for name, command in _COMMANDS.items():
        if name in named:
            kind = getattr(import_module(command.module), command.name)
            kinds.append(Annotated[kind, subcommand(name)])
        else:
            kinds.append(
                Annotated[_ImportPlaceholder, subcommand(name, description=command.summary)]
            )
    return reduce(or_, kinds)


def _parsed(kind: Any, arguments: Sequence[str]) -> Any:
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                kind,
                prog="targetnet",
                description="Train DQN-style agents, watch the curves, steer the run. "
                "`targetnet --version` shows the versions.",
                args=arguments,
                config=(FlagCreatePairsOff,),
            )
    except SystemExit as exit_:
        if exit_.code == USER_MISTAKE:
            from targetnet.agents.cli.mistakes import mistake_in

            command = " ".join(("targetnet", *(one for one in arguments[:1] if one in _COMMANDS)))
            raise RlCoreError(mistake_in(complaint.getvalue(), command)) from None
        raise
