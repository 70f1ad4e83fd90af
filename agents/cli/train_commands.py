"""The commands train, resume, configs and board."""

from __future__ import annotations

import contextlib
import json
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from tyro.conf import Positional, UseAppendAction, arg

from targetnet.agents.run.process import Startup, quiet_import
from targetnet.rl_core.console import say
from targetnet.rl_core.control.population import is_population
from targetnet.rl_core.errors import RlCoreError, escaped

if TYPE_CHECKING:
    from rich.console import Console

    from targetnet.agents.config.members import Members
    from targetnet.agents.config.model import DqnConfig
    from targetnet.agents.population.directory import PopulationDir
    from targetnet.agents.population.runner import PopulationOutcome
    from targetnet.agents.run.agent_factory import Initial
    from targetnet.agents.run.outcome import RunOutcome
    from targetnet.agents.saved.directory import RunDir

    Directory = RunDir | PopulationDir
    T = TypeVar("T", RunOutcome, PopulationOutcome)

RUNS = Path("runs")
# An option that takes several words and may be repeated: --set a=1 b=2 --set c=3
Groups = UseAppendAction[tuple[tuple[str, ...], ...]]


@dataclass(frozen=True)
class Train:
    """Train an agent; write its curves and weights to a run directory.

    Example: targetnet train cartpole --seed 1 --set sync_period=100 --board
    """

    says_how_it_started: ClassVar[bool] = True

    config: Annotated[Positional[str], arg(metavar="CONFIG")]
    """A shipped name (see `targetnet configs`), the path of a TOML file, or an env's id."""
    run: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """The run directory. By default runs/CONFIG-NUMBER with the next free number."""
    seed: Annotated[int | None, arg(metavar="S", help_behavior_hint="")] = None
    """Seed of everything random. By default the config's seed."""
    set: Annotated[Groups, arg(metavar="NAME=VALUE")] = ()
    """Change keys of the config, in TOML's notation: --set learning_rate=1e-3 hidden=[64,64]"""
    log_to: Annotated[Groups, arg(metavar="PACKAGE")] = ()
    """Report to mlflow, wandb or trackio too, in place of the config's log_to."""
    board: bool = False
    """Also start TensorBoard and print its address."""
    init_from: Annotated[Path | None, arg(metavar="RUN", help_behavior_hint="")] = None
    """Start with the weights of another run, or of a .safetensors file."""
    rename: Annotated[Groups, arg(metavar="OLD=NEW")] = ()
    """Rename variables of --init-from: OLD=NEW, where OLD may be a prefix, as in encoder=torso"""
    blocks: Annotated[Groups, arg(metavar="BLOCK")] = ()
    """Load only these blocks of --init-from, such as torso. By default all; then all must fit."""
    offline: Annotated[str | None, arg(metavar="DATASET", help_behavior_hint="")] = None
    """Learn from a Minari dataset, a path or an id, and not from envs."""
    begin_with: Annotated[str | None, arg(metavar="DATASET", help_behavior_hint="")] = None
    """Fill the replay with a Minari dataset of demonstrations, then step envs."""
    resume: bool = False
    """Resume the run in --run if there is one, else start it: for jobs that are restarted."""
    members: Annotated[Groups, arg(metavar="NAME=VALUES")] = ()
    """Train several agents at once, one for each value: --members sync_period=25,50,100"""
    seeds: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Train each of them (or the config) N times at once, with seeds from the config's seed on."""
    pbt: Annotated[Groups, arg(metavar="NAME=VALUE")] = ()
    """Population-based training: the worst members copy the best: --pbt period=5000"""
    ray: Annotated[str | None, arg(metavar="ADDRESS", help_behavior_hint="")] = None
    """Cluster of the actors: HOST:PORT, auto, or off. By default Ray starts on this machine."""

    def __call__(self, console: Console, began: float) -> int:
        from targetnet.agents.config.files import (
            config_name,
            is_env_id,
            load_config,
            shipped_for,
        )
        from targetnet.agents.config.members import load_members

        changes = words_of("--set", self.set, "NAME=VALUE ..., as in sync_period=50")
        if self.seed is not None:
            changes.append(f"seed={self.seed}")
        changes += _log_to(self.log_to)
        changes += _dataset("offline", self.offline) + _dataset("begin_with", self.begin_with)
        if self.init_from is None and (self.rename or self.blocks):
            raise RlCoreError("--rename and --blocks need --init-from RUN")
        words_of("--rename", self.rename, "OLD=NEW ..., as in encoder=torso")
        words_of("--blocks", self.blocks, "names of blocks, as in torso head")
        if self.resume and self.run is None:
            raise RlCoreError("--resume needs --run DIR, the run to go on with")
        wanted = "NAME=VALUE,VALUE,..., as in sync_period=25,50"
        given = words_of("--members", self.members, wanted)
        pbt = words_of("--pbt", self.pbt, "NAME=VALUE ..., as in period=5000")
        members = load_members(self.config, changes, given, self.seeds, pbt)
        if members is not None:
            if self.ray is not None:
                raise RlCoreError("--ray is for the actors of loop = 'remote', not for members")
            return self._train_members(members, console, began)
        config = load_config(self.config, changes)
        if is_env_id(self.config) and (names := shipped_for(self.config)):
            say(console, f"the defaults; a config made for this env: targetnet train {names[0]}")
        if self.resume and self.run is not None:
            if is_population(self.run):
                raise RlCoreError(f"{self.run} is a population: give its --members and --seeds")
            if (self.run / "config.toml").exists():
                return self._go_on(config, console, began)
        with _importing(console, config.onednn) as importing:
            from targetnet.agents.run.train import train
        startup, initial = Startup(began, importing), self._initial()
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
                ray=self.ray,
            ),
            self.board,
            console,
            partial(_show_next, console),
        )

    def _train_members(self, members: Members, console: Console, began: float) -> int:
        from targetnet.agents.config.files import config_name

        if self.resume and self.run is not None and is_population(self.run):
            return self._members_go_on(members, console, began)
        with _importing(console, members.base.onednn) as importing:
            from targetnet.agents.population.train import train_population
        startup, initial = Startup(began, importing), self._initial()
        name = config_name(self.config)
        return _with_board(
            lambda on_start: train_population(
                members,
                self.run,
                name=name,
                console=console,
                on_start=on_start,
                initial=initial,
                startup=startup,
            ),
            self.board,
            console,
            partial(_show_members, console),
        )

    def _members_go_on(self, members: Members, console: Console, began: float) -> int:
        from targetnet.agents.population.directory import PopulationDir

        assert self.run is not None
        if PopulationDir.open(self.run).is_finished(members):
            _say_finished(self.run, console)
            return 0
        return _resume_members(self.run, members, self.board, console, began)

    def _initial(self) -> Initial | None:
        """Returns the weights of --init-from; call it once TensorFlow is imported."""
        if self.init_from is None:
            return None
        from targetnet.agents.policy.trained_policy import fitted, weights_from

        given = weights_from(self.init_from)
        return partial(fitted, given, rename=[*chain(*self.rename)], blocks=[*chain(*self.blocks)])

    def _go_on(self, config: DqnConfig, console: Console, began: float) -> int:
        from targetnet.agents.config.files import require_can_go_on
        from targetnet.agents.saved.directory import RunDir

        assert self.run is not None
        directory = RunDir.open(self.run)
        before = directory.config()
        if config.offline or config.begin_with:
            from targetnet.agents.data.run_dataset import as_kept

            config = as_kept(before, config)
        require_can_go_on(before, config)
        if directory.has_result() and config.env_steps <= before.env_steps:
            _say_finished(self.run, console)
            return 0
        return _resume(self.run, config, self.board, console, began, ray=self.ray)


@dataclass(frozen=True)
class Resume:
    """Resume a run that was stopped, killed or finished, from its last checkpoint.

    Example: targetnet resume runs/cartpole-1 --set env_steps=100000
    """

    says_how_it_started: ClassVar[bool] = True

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """The directory of a run, or of a population: then all of its members go on."""
    set: Annotated[Groups, arg(metavar="NAME=VALUE")] = ()
    """Make the run longer, or set live values there: --set env_steps=100_000 sync_period=50"""
    log_to: Annotated[Groups, arg(metavar="PACKAGE")] = ()
    """Also report to mlflow, wandb or trackio, with all points so far."""
    board: bool = False
    """Also start TensorBoard and print its address."""
    ray: Annotated[str | None, arg(metavar="ADDRESS", help_behavior_hint="")] = None
    """Cluster of the actors: HOST:PORT, auto, or off. By default Ray starts on this machine."""

    def __call__(self, console: Console, began: float) -> int:
        from targetnet.agents.config.files import changed_config
        from targetnet.agents.saved.directory import RunDir

        changes = words_of("--set", self.set, "NAME=VALUE ..., as in sync_period=50")
        changes += _log_to(self.log_to)
        if is_population(self.run):
            if self.ray is not None:
                raise RlCoreError("--ray is for the actors of loop = 'remote', not for members")
            return _resume_members(self.run, None, self.board, console, began, changes)
        # Here too, because importing TensorFlow takes seconds.
        config, _ = changed_config(RunDir.open(self.run).config(), changes)
        return _resume(self.run, config, self.board, console, began, changes, self.ray)


@dataclass(frozen=True)
class Configs:
    """List the shipped configs, or show one.

    Example: targetnet configs cartpole
    """

    config: Annotated[Positional[str], arg(metavar="CONFIG", help_behavior_hint="")] = ""
    """Show this one as TOML, with all that it takes from others and from defaults."""

    def __call__(self, console: Console) -> int:
        from targetnet.agents.cli.config_list import config_list
        from targetnet.agents.config.files import dump_config, load_config

        if self.config:
            print(dump_config(load_config(self.config)), end="")
        else:
            console.print(config_list())
        return 0


@dataclass(frozen=True)
class OpenBoard:
    """Show curves in TensorBoard; without TensorFlow it starts in a second.

    Example: targetnet board runs
    """

    dir: Annotated[Positional[Path], arg(metavar="DIR")] = RUNS
    """A directory of runs, or one run directory."""
    host: Annotated[str, arg(metavar="ADDRESS")] = "localhost"
    """Address to listen on."""
    port: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Port to listen on. By default 6006, or the next free port."""
    full: bool = False
    """Load TensorFlow too, for the tabs that need it; TensorBoard then starts more slowly."""
    allow_host: Annotated[Groups, arg(metavar="NAME")] = ()
    """Host name under which browsers may use the Steer tab, besides localhost."""

    def __call__(self, console: Console) -> int:
        from targetnet.rl_core.board.launcher import serve

        names = words_of("--allow-host", self.allow_host, "a host name")
        allowed = [f"--steer_allow_host={name}" for name in names]
        serve(self.dir, host=self.host, port=self.port, full=self.full, arguments=allowed)
        return 0


def words_of(option: str, groups: Sequence[Sequence[str]], wanted: str) -> list[str]:
    """Returns the words of an option that takes several and may be repeated.

    Raises:
      RlCoreError: it stands there without a word, as before an empty variable of a shell.
    """
    if not all(groups):
        raise RlCoreError(f"{option} wants {wanted}")
    return [*chain(*groups)]


def _log_to(groups: Sequence[Sequence[str]]) -> list[str]:
    """Returns the change of the config that --log-to stands for; none without names."""
    names = words_of("--log-to", groups, "mlflow, wandb or trackio")
    return [f"log_to={json.dumps(names)}"] if names else []


def _dataset(name: str, given: str | None) -> list[str]:
    """Returns the change of the config that --offline or --begin-with stands for.

    Raises:
      RlCoreError: no dataset is named, as by an empty variable of a shell.
    """
    if given == "":
        raise RlCoreError(f"--{name.replace('_', '-')} wants a dataset, its path or id, got ''")
    return [] if given is None else [f"{name}={json.dumps(given, ensure_ascii=False)}"]


def _resume(
    run: Path,
    config: DqnConfig,
    board: bool,
    console: Console,
    began: float,
    changes: Sequence[str] = (),
    ray: str | None = None,
) -> int:
    with _importing(console, config.onednn) as importing:
        from targetnet.agents.run.train import resume
    startup = Startup(began, importing)
    return _with_board(
        lambda on_start: resume(
            run,
            config,
            changes=changes,
            console=console,
            on_start=on_start,
            startup=startup,
            who="cli",
            ray=ray,
        ),
        board,
        console,
        partial(_show_next, console),
    )


def _resume_members(
    run: Path,
    members: Members | None,
    board: bool,
    console: Console,
    began: float,
    changes: Sequence[str] = (),
) -> int:
    from targetnet.agents.config.files import changed_config
    from targetnet.agents.population.directory import PopulationDir

    before = PopulationDir.open(run).members()
    for config in before.configs.values():  # before TensorFlow is imported, which takes seconds
        changed_config(config, changes)
    with _importing(console, before.base.onednn) as importing:
        from targetnet.agents.population.train import resume_population
    startup = Startup(began, importing)
    return _with_board(
        lambda on_start: resume_population(
            run,
            members,
            changes=changes,
            console=console,
            on_start=on_start,
            startup=startup,
            who="cli",
        ),
        board,
        console,
        partial(_show_members, console),
    )


def _show_members(console: Console, outcome: PopulationOutcome) -> None:
    from targetnet.agents.cli.members_table import members_table

    console.print(members_table(outcome))
    evaluated = [member for member in outcome.members.values() if member.returns]
    if evaluated:
        best = max(evaluated, key=lambda member: fmean(member.returns))
        _say_next(console, best.run, outcome.population)
    outcome.require_all()


def _say_finished(run: Path, console: Console) -> None:
    say(console, f"{run} is finished: nothing to do")


@contextlib.contextmanager
def _importing(console: Console, onednn: bool) -> Iterator[float]:
    with console.status("importing TensorFlow"), quiet_import(onednn=onednn) as seconds:
        yield seconds


def _with_board(
    go: Callable[[Callable[[Directory], None]], T],
    board: bool,
    console: Console,
    then: Callable[[T], None],
) -> int:
    with contextlib.ExitStack() as beside:

        def on_start(directory: Directory) -> None:
            if board:
                _start_board(directory.logdir, beside, console)

        outcome = go(on_start)
        if outcome.signal:
            return 128 + outcome.signal
        then(outcome)
        if board and console.is_terminal:
            console.print("The run is over; TensorBoard stays up until Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()
    return 0


def _show_next(console: Console, outcome: RunOutcome) -> None:
    if outcome.returns:
        _say_next(console, outcome.run, outcome.run)


def _say_next(console: Console, run: Path, shown: Path) -> None:
    """Shows which commands use what was trained.

    Args:
      run: a finished run; of a population, the member with the best return.
      shown: the run, or its population.
    """
    one, all_of_them = shlex.quote(str(run)), shlex.quote(str(shown))
    say(
        console,
        f"next: targetnet eval {one}, targetnet play {one} or targetnet board {all_of_them}",
    )


def _start_board(logdir: Path, beside: contextlib.ExitStack, console: Console) -> None:
    from targetnet.rl_core.board.launcher import BoardError, start_beside

    try:
        board = start_beside(logdir)
    except BoardError as error:
        # The run goes on without TensorBoard.
        console.print(
            escaped(f"no TensorBoard: {error}"), style="yellow", highlight=False, markup=False
        )
        return
    beside.callback(board.stop)
    console.print(f"TensorBoard: {board.url}", highlight=False)
