"""The `targetnet` command.

Every command's arguments are one dataclass; tyro makes the parser from them. Only the command
that is named is imported, and TensorFlow, and whatever imports it, only where that one needs it:
`--help` is read often.

Imports: agents, rl_core.errors, rl_core.board. TensorFlow only inside `train`, `resume`,
`eval`, `play` and `export`; what is about runs that exist is in agents.steer_commands.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, make_dataclass
from functools import partial, reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import tyro
from tyro.conf import Positional, UseAppendAction, arg, subcommand

from agents.quiet import Startup, process_began, quiet_import
from rl_core.errors import RlCoreError

if TYPE_CHECKING:
    from rich.console import Console

    from agents.config import DqnConfig
    from agents.run import Outcome
    from agents.rundir import RunDir

RUNS = Path("runs")
USER_MISTAKE, INTERRUPTED = 2, 130


@dataclass(frozen=True)
class Train:
    """Train an agent: progress on screen, curves and weights in a run directory."""

    config: Annotated[Positional[str], arg(metavar="CONFIG")]
    """A shipped name (see `targetnet configs`) or the path of a TOML file."""
    run: Annotated[Path | None, arg(metavar="DIR")] = None
    """The run directory. By default the next number of runs/CONFIG-NUMBER."""
    seed: Annotated[int | None, arg(metavar="S")] = None
    """Of everything random. By default the config's."""
    set: Annotated[UseAppendAction[tuple[tuple[str, ...], ...]], arg(metavar="NAME=VALUE")] = ()
    """Changes to the config, in TOML's notation: --set learning_rate=1e-3 hidden=[64,64]"""
    board: bool = False
    """Start TensorBoard beside the run and print its address."""
    init_from: Annotated[Path | None, arg(metavar="RUN")] = None
    """Begin with the weights of another run, or of a .safetensors file."""
    rename: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="OLD=NEW")] = ()
    """Of --init-from: names, or first parts of names, that are others here: encoder=torso"""
    blocks: Annotated[tuple[str, ...], arg(metavar="BLOCK")] = ()
    """Of --init-from: only these blocks, such as torso. By default all, and all must fit."""
    resume: bool = False
    """Go on with the run in --run if there is one, else begin it: for jobs that are restarted."""

    def __call__(self, console: Console, began: float) -> int:
        from agents.config_files import config_name, load_config

        changes = [change for group in self.set for change in group]
        if self.seed is not None:
            changes.append(f"seed={self.seed}")
        config = load_config(self.config, changes)
        if self.resume:
            if self.run is None:
                raise RlCoreError("--resume needs --run DIR, the run to go on with")
            if (self.run / "config.toml").exists():
                return self._go_on(config, console, began)
        if self.init_from is None and (self.rename or self.blocks):
            raise RlCoreError("--rename and --blocks are of --init-from RUN")
        with console.status("importing TensorFlow"), quiet_import() as importing:
            from agents.initial import fitted, weights_from
            from agents.training import train
        startup = Startup(began, importing)
        initial = None
        if self.init_from:
            given = weights_from(self.init_from)
            initial = partial(fitted, given, rename=self.rename, blocks=self.blocks)
        name = config_name(self.config)
        return _with_board(
            lambda on_start: train(
                config,
                self.run,
                name=name,
                console=console,
                on_start=on_start,
                initial=initial,
                startup=startup,
            ),
            self.board,
            console,
        )

    def _go_on(self, config: DqnConfig, console: Console, began: float) -> int:
        from agents.config_files import require_can_go_on
        from agents.rundir import RunDir

        assert self.run is not None
        directory = RunDir.open(self.run)
        before = directory.config()
        require_can_go_on(before, config)
        if directory.has_result() and config.env_steps <= before.env_steps:
            console.print(f"{self.run} is finished: nothing to do", highlight=False)
            return 0
        return _resume(self.run, config, self.board, console, began)


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped, killed or finished, from its last checkpoint."""

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """A run directory."""
    set: Annotated[UseAppendAction[tuple[tuple[str, ...], ...]], arg(metavar="NAME=VALUE")] = ()
    """Such as --set env_steps=100_000, to make it longer."""
    board: bool = False
    """Start TensorBoard beside the run and print its address."""

    def __call__(self, console: Console, began: float) -> int:
        from agents.config_files import changed_config
        from agents.rundir import RunDir

        changes = [change for group in self.set for change in group]
        config = changed_config(RunDir.open(self.run).config(), changes)
        return _resume(self.run, config, self.board, console, began)


@dataclass(frozen=True)
class Eval:
    """Play a trained policy greedily on fresh episodes and print their returns."""

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """A run directory."""
    episodes: Annotated[int, arg(metavar="N")] = 100
    """How many episodes."""
    seed: Annotated[int | None, arg(metavar="S")] = None
    """Of the episodes. By default derived from the run's."""
    ema: bool = False
    """With the averaged weights."""
    best: bool = False
    """With the weights of the best evaluation."""
    json: bool = False
    """One JSON object: episodes, mean, std, min, max."""

    def __call__(self, console: Console) -> int:
        from agents.rundir import RunDir

        _require_episodes(self.episodes, self.seed)
        directory = RunDir.open(self.run)
        config = directory.config()
        with quiet_import():
            from agents.policies import policy_weights
            from agents.run import summary
            from agents.training import evaluate_weights
        weights = policy_weights(directory, averaged=self.ema, best=self.best)
        result = summary(evaluate_weights(config, weights, self.episodes, seed=self.seed))
        if self.json:
            print(json.dumps(result))
        else:
            console.print(
                f"greedy return {result['mean']:,.1f} +- {result['std']:,.1f} (mean and std of "
                f"{self.episodes} episodes, {result['min']:,.1f} to {result['max']:,.1f})",
                highlight=False,
            )
        return 0


@dataclass(frozen=True)
class Play:
    """Watch a trained policy: in a window, or as a video."""

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """A run directory."""
    episodes: Annotated[int, arg(metavar="N")] = 1
    """How many episodes."""
    video: Annotated[Path | None, arg(metavar="FILE")] = None
    """An .mp4 or .gif to write instead of opening a window."""
    seed: Annotated[int | None, arg(metavar="S")] = None
    """Of the episodes. By default derived from the run's."""
    ema: bool = False
    """With the averaged weights."""
    best: bool = False
    """With the weights of the best evaluation."""
    to_board: bool = False
    """Also show it in TensorBoard's Images tab."""

    def __call__(self, console: Console) -> int:
        _require_episodes(self.episodes, self.seed)
        with console.status("importing TensorFlow"), quiet_import():
            from agents.playing import play

        returns = play(
            self.run, self.episodes, video=self.video, seed=self.seed, averaged=self.ema,
            best=self.best, to_board=self.to_board,
            on_episode=lambda episode: console.print(
                f"episode {episode.number + 1}: return {episode.episode_return:,.1f}, "
                f"{episode.length:,} env steps", highlight=False,
            ),
        )  # fmt: skip
        console.print(f"mean return {sum(returns) / len(returns):,.1f}", highlight=False)
        if self.video:
            console.print(f"video: {self.video}", highlight=False)
        return 0


@dataclass(frozen=True)
class Export:
    """Write a run's greedy policy for use without this project."""

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """A run directory."""
    dir: Annotated[Positional[Path], arg(metavar="DIR")]
    """A new directory."""
    to: Annotated[str, arg(metavar="savedmodel|frozen|tflite|onnx|safetensors")]
    """The format."""
    ema: bool = False
    """The averaged weights."""
    best: bool = False
    """The weights of the best evaluation."""

    def __call__(self, console: Console) -> int:
        with console.status("importing TensorFlow"), quiet_import():
            from agents.exporting import export

        with console.status(f"writing {self.to}"), quiet_import():
            out = export(self.run, self.to, self.dir, averaged=self.ema, best=self.best)
        for path in sorted(p for p in out.rglob("*") if p.is_file()):
            console.print(str(path), highlight=False)
        return 0


@dataclass(frozen=True)
class Configs:
    """List the shipped configs."""

    def __call__(self, console: Console) -> int:
        from rich.table import Column, Table

        from agents.config_files import load_config, shipped_configs

        whole = [Column(name, no_wrap=True) for name in ("name", "env", "env steps")]
        table = Table(*whole, "about", box=None, header_style="bold")
        for name, text in shipped_configs().items():
            config = load_config(name)
            about = text.splitlines()[0].removeprefix("#").strip()
            table.add_row(name, config.env_id, f"{config.env_steps:,}", about)
        console.print(table)
        return 0


@dataclass(frozen=True)
class Board:
    """Show curves: TensorBoard without TensorFlow, up in a second."""

    dir: Annotated[Positional[Path], arg(metavar="DIR")] = RUNS
    """A directory of runs, or one run."""
    host: str = "localhost"
    """Address to listen on."""
    port: Annotated[int | None, arg(metavar="N")] = None
    """By default 6006, or the next free one."""
    full: bool = False
    """With TensorFlow, for the tabs that need it; slower to start."""
    allow_host: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME")] = ()
    """Another host name under which the Steer tab may be used; localhost always may."""

    def __call__(self, console: Console) -> int:
        from rl_core.board.launcher import serve

        allowed = [f"--steer_allow_host={name}" for name in self.allow_host]
        serve(self.dir, host=self.host, port=self.port, full=self.full, arguments=allowed)
        return 0


class _Elsewhere(NamedTuple):
    """A command that is imported when it is named."""

    module: str
    name: str
    summary: str  # its docstring, for `targetnet --help`


@dataclass(frozen=True)
class _NotNamed:
    """Stands for a command that is elsewhere."""


_STEER = "agents.steer_commands"
_COMMANDS: dict[str, type | _Elsewhere] = {
    "train": Train,
    "resume": Resume,
    "eval": Eval,
    "play": Play,
    "export": Export,
    "configs": Configs,
    "results": _Elsewhere(
        "agents.results.command",
        "Results",
        "Train configs with many seeds; write a page with statistics and curves.",
    ),
    "set": _Elsewhere(
        _STEER, "Set", "Change live values of a running job: takes effect at its next safe point."
    ),
    "do": _Elsewhere(
        _STEER,
        "Do",
        "Have a running job do something: sync, go back to a snapshot, pause, evaluate, stop ...",
    ),
    "status": _Elsewhere(_STEER, "Status", "Show how far a run is, and all its live values."),
    "log": _Elsewhere(_STEER, "Log", "Show everything that was asked of a run, taken or refused."),
    "ls": _Elsewhere(_STEER, "Ls", "List the runs below a directory, those at work first."),
    "board": Board,
    "replay": _Elsewhere(
        _STEER, "Replay", "Run a recorded run again, every change where it was, and compare."
    ),
    "digest": _Elsewhere(
        _STEER,
        "Digest",
        "Print one hash over all variables and counters of a run at its training's end.",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 2 for a user's mistake, 130 for Ctrl-C."""
    try:
        # A config may name a function in a module beside it; `python -m` looks there anyway.
        if "" not in sys.path:
            sys.path.append("")
        began = process_began() if arguments is None else time.perf_counter()
        command = _parse(sys.argv[1:] if arguments is None else arguments)
        from rich.console import Console

        if isinstance(command, Train | Resume):
            return command(Console(), began)
        return command(Console())
    except RlCoreError as error:
        if os.environ.get("TARGETNET_DEBUG") == "1":
            traceback.print_exc()
        print(f"targetnet: {error}", file=sys.stderr)
        return USER_MISTAKE
    except KeyboardInterrupt:
        print("targetnet: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output, `head` say, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parse(arguments: Sequence[str]) -> Any:
    first = arguments[0] if arguments else ""
    if first in (*_COMMANDS, "-h", "--help"):
        # tyro reads the source of the class that a union is in: of `typing`, if it is in none.
        line = make_dataclass("Line", [("command", Annotated[_one_of({first}), arg(name="")])])
        # What to say of a mistake may take the others: a flag may be one of theirs.
        with contextlib.suppress(RlCoreError):
            return _parsed(line, arguments).command
    return _parsed(_one_of(_COMMANDS), arguments)


def _one_of(named: Collection[str]) -> Any:
    """The union of all commands; those elsewhere are imported if they are `named`."""
    kinds: list[Any] = []
    for name, command in _COMMANDS.items():
        if not isinstance(command, _Elsewhere):
            kinds.append(Annotated[command, subcommand(name)])
        elif name in named:
            kind = getattr(import_module(command.module), command.name)
            kinds.append(Annotated[kind, subcommand(name)])
        else:
            kinds.append(Annotated[_NotNamed, subcommand(name, description=command.summary)])
    return reduce(or_, kinds)


def _parsed(kind: Any, arguments: Sequence[str]) -> Any:
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                kind,
                prog="targetnet",
                description="Train DQN-style agents, watch the curves, steer the run.",
                args=arguments,
            )
    except SystemExit as exit_:
        if exit_.code == USER_MISTAKE:
            raise RlCoreError(_in_one_line(complaint.getvalue())) from None
        raise


def _in_one_line(box: str) -> str:
    """What tyro says in a box: the complaint and the nearest flags, without their help texts."""
    lines = [line.strip("╭╮╰╯│─ ") for line in box.splitlines()[1:]]
    words = " ".join(line for line in lines if line).split(" For full helptext")[0]
    complaint, _, near = words.partition(" Perhaps you meant:")
    flags = dict.fromkeys(re.findall(r"--[a-z][a-z-]*", near.split(" in targetnet")[0]))
    hint = f"; did you mean {next(iter(flags))}?" if flags else ""
    return f"{complaint.split(' (required)')[0]}{hint} (see targetnet --help)"


def _require_episodes(episodes: int, seed: int | None) -> None:
    if episodes < 1:
        raise RlCoreError(f"--episodes must be a whole number >= 1, got {episodes}")
    if seed is not None and seed < 0:
        raise RlCoreError(f"--seed must be a whole number >= 0, got {seed}")


def _resume(run: Path, config: DqnConfig, board: bool, console: Console, began: float) -> int:
    with console.status("importing TensorFlow"), quiet_import() as importing:
        from agents.training import resume
    startup = Startup(began, importing)
    return _with_board(
        lambda on_start: resume(run, config, console=console, on_start=on_start, startup=startup),
        board,
        console,
    )


def _with_board(
    go: Callable[[Callable[[RunDir], None]], Outcome], board: bool, console: Console
) -> int:
    with contextlib.ExitStack() as beside:

        def on_start(directory: RunDir) -> None:
            if board:
                _start_board(directory.logdir, beside, console)

        outcome = go(on_start)
        if outcome.signal:
            return 128 + outcome.signal
        if board and console.is_terminal:
            console.print("The run is over; TensorBoard stays up until Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()
    return 0


def _start_board(logdir: Path, beside: contextlib.ExitStack, console: Console) -> None:
    from rl_core.board.launcher import BoardError, start_beside

    try:
        board = start_beside(logdir)
    except BoardError as error:
        # The run matters more than its board.
        console.print(f"no TensorBoard: {error}", style="yellow", highlight=False)
        return
    beside.callback(board.stop)
    console.print(f"TensorBoard: {board.url}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
