"""The commands set, do, status, log, ls, digest and replay, for runs that exist."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from targetnet.agents.cli import INTERRUPTED
from targetnet.rl_core.console import say
from targetnet.rl_core.control.client import NotRunning, RunClient, begin_all
from targetnet.rl_core.control.commands import ACTIONS, Command, do_command, set_command
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import Entry, LogTail
from targetnet.rl_core.control.population import is_population, member_dirs, name_a_member
from targetnet.rl_core.control.state import read_state, require_answers
from targetnet.rl_core.errors import RlCoreError, RunDirError, in_one_line, quoted

if TYPE_CHECKING:
    from rich.console import Console

    from targetnet.agents.run.repeat import Verdict

DIFFERENT = 1  # exit code of a repetition that is not identical
_MAX_CHARACTERS = 600  # characters of a log entry, which may quote two values of 200 and a name
RunArgument = Annotated[Positional[Path], arg(metavar="RUN")]

_ACTIONS = "\n\n".join(f"{name}: {meaning}." for name, meaning in ACTIONS.items())


@dataclass(frozen=True)
class Set:
    """Change live values of a running job; they take effect at its next safe point.

    Example: targetnet set runs/cartpole-1 sync_period=50 tau=1
    """

    run: RunArgument
    """A run directory."""
    change: Annotated[
        Positional[tuple[str, ...]], arg(metavar="NAME=VALUE ...", help_behavior_hint="")
    ]
    """Values to set: sync_period=50 exempt=torso tau=auto; targetnet status RUN lists them all."""
    all: bool = False
    """Of a population: in all its members that are running."""
    wait: Annotated[bool, arg(help_behavior_hint="")] = True
    """Return at once. By default wait until the run has answered."""
    timeout: Annotated[float, arg(metavar="S")] = 30.0
    """Longest time to wait for the answer, in seconds."""

    def __call__(self, console: Console) -> int:
        if not self.change:
            raise RlCoreError("nothing to set: name at least one change, such as sync_period=50")
        changes = [_assignment(text) for text in self.change]
        runs, names = _runs(self.run, self.all), [name for name, _ in changes]
        code = _ask(
            runs,
            lambda: [set_command(name, value, "cli") for name, value in changes],
            self.wait, self.timeout, console,
        )  # fmt: skip
        if "sync_period" in names and "tau" not in names and self.wait:
            _say_what_a_sync_is(next(iter(runs.values())), console)
        return code


@dataclass(frozen=True)
class Do:
    """Send an action to a running job: sync, rewind, reset, pause, evaluate, stop and others.

    Example: targetnet do runs/cartpole-1 sync
    """

    run: RunArgument
    """A run directory."""
    action: Annotated[Positional[str], arg(metavar="ACTION", help=_ACTIONS)]
    value: Annotated[
        Positional[tuple[str, ...]], arg(metavar="VALUE ...", help_behavior_hint="")
    ] = ()
    """What follows it: K for rewind, BLOCK for reset, FACTOR for perturb, and so on."""
    all: bool = False
    """Of a population: to all its members that are running."""
    wait: Annotated[bool, arg(help_behavior_hint="")] = True
    """Return at once. By default wait until the run has answered."""
    timeout: Annotated[float, arg(metavar="S")] = 30.0
    """Longest time to wait for the answer, in seconds."""

    def __call__(self, console: Console) -> int:
        value = number_or_text(" ".join(self.value)) if self.value else None
        return _ask(
            _runs(self.run, self.all),
            lambda: [do_command(self.action, "cli", value)],
            self.wait, self.timeout, console,
        )  # fmt: skip


@dataclass(frozen=True)
class Status:
    """Show the progress of a run and all its live values.

    Example: targetnet status runs/cartpole-1 --follow
    """

    run: RunArgument
    """A run directory; of a population it shows one line for each member."""
    follow: Annotated[bool, arg(aliases=["-f"])] = False
    """Keep showing until Ctrl-C or the run's end."""
    json: bool = False
    """Print one JSON object; with --follow, one per line."""
    pid: bool = False
    """Print only the run's process number, as for: kill -9 $(targetnet status RUN --pid)"""

    def __call__(self, console: Console) -> int:
        if self.pid:
            print(_pid(self.run))
            return 0
        from rich.live import Live

        from targetnet.agents.cli.run_tables import status_table

        if is_population(self.run):
            return self._of_members(console)
        files = ControlFiles(self.run)
        state, alive = read_state(files)
        if self.json:
            _print_state(state, alive)
            while self.follow and alive:
                time.sleep(0.5)
                state, alive = read_state(files)
                _print_state(state, alive)
            return 0
        if not self.follow:
            console.print(status_table(self.run, state, alive))
            return 0
        with Live(status_table(self.run, state, alive), console=console) as live:
            while alive:
                time.sleep(0.5)
                state, alive = read_state(files)
                live.update(status_table(self.run, state, alive))
        return 0

    def _of_members(self, console: Console) -> int:
        from rich.live import Live

        from targetnet.agents.cli.run_tables import RunListing, find_runs, last_copies, runs_table

        def members() -> list[RunListing]:
            found = sorted(find_runs(self.run), key=lambda run: run.path)
            return [member._replace(path=Path(member.path.name)) for member in found]

        now = members()
        if self.json:
            raise RlCoreError(f"{name_a_member(self.run)}; or list them: targetnet ls --json")
        if not self.follow:
            console.print(runs_table(now, last_copies(self.run)))
            return 0
        with Live(runs_table(now, last_copies(self.run)), console=console) as live:
            while any(member.alive for member in now):
                time.sleep(0.5)
                now = members()
                live.update(runs_table(now, last_copies(self.run)))
        return 0


@dataclass(frozen=True)
class Log:
    """Show every change and action that was asked of a run, accepted or refused.

    Example: targetnet log runs/cartpole-1 --last 20
    """

    run: RunArgument
    """A run directory."""
    last: Annotated[int, arg(metavar="N")] = 1_000
    """Number of latest entries to show; 0 shows all."""
    follow: Annotated[bool, arg(aliases=["-f"])] = False
    """Keep showing new entries until Ctrl-C."""
    json: bool = False
    """Print the entries as JSON, one object per line."""

    def __call__(self, console: Console) -> int:
        if self.last < 0:
            raise RlCoreError(f"--last must be a whole number >= 0, got {self.last}")
        files = ControlFiles(self.run)
        if not _is_directory(files.directory):
            run = in_one_line(self.run, 200)
            raise RunDirError(f"{run} has no log: it is not the directory of a run")
        require_answers(files)
        tail = LogTail(files.log, last=self.last) if self.last else LogTail(files.log, position=0)
        if tail.position:
            print(f"(the last {self.last:,}; --last 0 shows all)", file=sys.stderr)
        self._print(tail.new(), console)
        while self.follow:
            time.sleep(0.1)
            self._print(tail.new(), console)
        return 0

    def _print(self, entries: Sequence[Entry], console: Console) -> None:
        for entry in entries:
            if self.json:
                print(json.dumps(entry.model_dump()), flush=True)
                continue
            who, what = in_one_line(entry.who), in_one_line(entry.describe(), _MAX_CHARACTERS)
            say(console, f"{_format_time(entry.time)}  {who:<8}  {what}")


@dataclass(frozen=True)
class Ls:
    """List the runs below a directory; the running ones come first.

    Example: targetnet ls runs
    """

    dir: Annotated[Positional[Path], arg(metavar="DIR")] = Path("runs")
    """Directory to search."""
    json: bool = False
    """Print one JSON object per line."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.cli.run_tables import DAMAGED, find_runs, runs_table

        if not _is_directory(self.dir):
            raise RunDirError(f"no such directory: {quoted(str(self.dir))}")
        runs = find_runs(self.dir)
        if self.json:
            for run in runs:
                if run.state is None:
                    print(json.dumps({"run": str(run.path), "problem": run.problem}), flush=True)
                else:
                    _print_state(run.state, run.alive, run=str(run.path))
        elif runs:
            console.print(runs_table(runs))
            for run in runs:
                if run.problem:
                    say(console, f"{DAMAGED}: {run.problem}")
        else:
            say(console, f"no runs below {self.dir}; start one with: targetnet train cartpole")
        return 0


@dataclass(frozen=True)
class PrintDigest:
    """Print one hash over all variables, replay rows and counters at a run's end.

    Example: targetnet digest runs/cartpole-1
    """

    run: RunArgument
    """A run directory."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.saved.directory import RunDir

        run = RunDir.open(self.run)
        end, threads = run.load_digest(), run.config().threads
        where = f"env step {end.env_step:,}, update {end.update:,}"
        where += f", {threads} threads" if threads > 1 else ""
        print(f"{where}: {in_one_line(end.digest)}")
        return 0


@dataclass(frozen=True)
class Replay:
    """Repeat a recorded run, each change at the same time step, and compare the two.

    Example: targetnet replay runs/cartpole-1
    """

    run: RunArgument
    """A run that has ended; of a population: all its members together."""
    to: Annotated[Path | None, arg(metavar="NEW", help_behavior_hint="")] = None
    """Keep the repetition as a new run directory."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.run.process import quiet_import
        from targetnet.agents.saved.directory import RunDir

        if is_population(self.run):
            return self._of_members(console)
        onednn = RunDir.open(self.run).config().onednn
        with console.status("importing TensorFlow"), quiet_import(onednn=onednn):
            from targetnet.agents.run.repeat import repeat
        return _tell(repeat(self.run, self.to, console=console), console)

    def _of_members(self, console: Console) -> int:
        from targetnet.agents.population.directory import PopulationDir
        from targetnet.agents.run.process import quiet_import

        members = PopulationDir.open(self.run).members()
        with console.status("importing TensorFlow"), quiet_import(onednn=members.base.onednn):
            from targetnet.agents.population.repeat import repeat_population
        verdicts = repeat_population(self.run, self.to, console=console)
        for name in members.configs:
            if name not in verdicts:
                say(console, f"{name}: recorded no step, so there is nothing to replay")
        return max(_tell(verdict, console, f"{name}: ") for name, verdict in verdicts.items())


def _tell(verdict: Verdict, console: Console, begin: str = "") -> int:
    """Shows a comparison in a line; returns the exit code."""
    if verdict.first_difference is not None:
        where = f"at env step {verdict.first_difference:,}"
        say(console, f"{begin}different: the first difference is {where}")
        if verdict.cause:
            say(console, f"{begin}the cause: {verdict.cause}")
        return DIFFERENT
    if verdict.interrupted:
        say(console, f"{begin}interrupted; identical up to env step {verdict.env_steps:,}")
        return INTERRUPTED
    if not verdict.identical:
        same = "every time step is the same, but the end is not"
        if not verdict.traced:
            same = "the end is not the same"
        say(console, f"{begin}different: {same}: {verdict.digest}")
        return DIFFERENT
    if not verdict.complete:
        record = f"up to env step {verdict.env_steps:,}, where the record of the run ends"
        say(console, f"{begin}identical {record}; digest there {verdict.digest}")
        return 0
    say(console, f"{begin}identical {verdict.digest}")
    return 0


def _runs(run: Path, all_members: bool) -> dict[str, Path]:
    """Returns the runs that a command is for, by what its answers begin with."""
    if not is_population(run):
        if all_members:
            raise RlCoreError(f"--all is for a population, and {in_one_line(run, 200)} is none")
        return {"": run}
    if not all_members:
        raise RunDirError(f"{name_a_member(run)}, or all of them with --all")
    alive = {f"{of.name}: ": of for of in member_dirs(run) if _is_alive(of)}
    if not alive:
        raise RunDirError(f"no member of {in_one_line(run, 200)} is running")
    return alive


def _is_alive(run: Path) -> bool:
    try:
        return read_state(ControlFiles(run))[1]
    except RunDirError:  # it has not begun, or is damaged: no command can reach it
        return False


def _ask(
    runs: Mapping[str, Path],
    commands: Callable[[], Sequence[Command]],
    wait: bool,
    timeout: float,
    console: Console,
) -> int:
    """Sends commands to all runs at once, and shows the answers of each."""
    if not timeout > 0:
        raise RlCoreError(f"--timeout must be a number of seconds > 0, got {timeout:g}")
    clients = {name: RunClient(run, who="cli", timeout=timeout) for name, run in runs.items()}
    asked, not_asked = begin_all(clients, commands)
    problems = [f"{name}{reason}" for name, reason in not_asked.items()]
    for name, of_run in asked.items() if wait else ():
        try:
            entries = of_run.answers()
        except (NotRunning, RunDirError) as error:  # a member may end at any moment
            problems.append(f"{name}{error}")
            continue
        for entry in entries:
            if entry.taken:
                say(console, f"{name}{entry.describe()}")
        problems += [f"{name}{entry.describe()}" for entry in entries if not entry.taken]
    if problems:
        raise RlCoreError("; ".join(problems))
    return 0


def _say_what_a_sync_is(run: Path, console: Console) -> None:
    """Says that syncs are no full copies, if they are none: by the period alone nobody sees it."""
    # The change was taken: what cannot be read any more is no failure of it.
    with contextlib.suppress(RunDirError):
        values = {of.name: of.value for of in read_state(ControlFiles(run))[0].values}
        tau = values.get("tau")
        if isinstance(tau, int | float) and tau < 1:
            say(console, f"each sync moves the target by tau = {tau:g}; for full copies set tau=1")


def _pid(run: Path) -> int:
    """Returns the number of the process that holds the run's lock.

    The number in state.json alone is not enough: another process may have it by now.
    """
    files = ControlFiles(run)
    state, alive = read_state(files)
    if not alive:
        raise RunDirError(f"{run} is not running, so it has no process")
    if state.host != socket.gethostname():
        raise RunDirError(f"{run} runs on {state.host}: run this command there")
    if not _has_open(state.pid, files.lock):
        raise RunDirError(f"{run} is starting and has not said which process it is: try again")
    return state.pid


def _has_open(pid: int, lock: Path) -> bool:
    """Returns True if process `pid` has the file open."""
    with contextlib.suppress(OSError):  # it ended, or it belongs to another user
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # the process closed it meanwhile
                if descriptor.samefile(lock):
                    return True
    return False


def _assignment(text: str) -> tuple[str, Any]:
    """Parses "sync_period=50" into ("sync_period", 50); other values stay text."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise RlCoreError(f"a change is written name=value, got {quoted(text)}")
    return name.strip(), number_or_text(value)


def number_or_text(text: str) -> int | float | str:
    """Returns the number that a text is; other texts come back without space around them."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text.replace("_", ""))
    return text.strip()


def _print_state(state: Any, alive: bool, **more: Any) -> None:
    print(json.dumps(more | {"alive": alive} | state.model_dump(mode="json")), flush=True)


def _is_directory(path: Path) -> bool:
    """Returns True for a directory.

    Raises:
      RunDirError: the path cannot be examined.
    """
    try:
        return path.is_dir()
    except OSError as error:
        raise RunDirError(f"cannot read {in_one_line(path, 200)}: {error.strerror}") from None


def _format_time(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):  # a time outside the calendar
        return "?"
