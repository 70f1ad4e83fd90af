"""Trains a population: many agents in one graph, each of which is a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agents.config.early_ends import early_ends
from agents.config.envs import training_envs
from agents.config.members import Members, as_members, require_one_form
from agents.config.model import DqnConfig
from agents.dqn.agent import DqnAgent
from agents.dqn.population import Population
from agents.population.directory import PopulationDir, require_free_for
from agents.population.turns import Turns
from agents.run.going_on import Finished, GoingOn
from agents.run.loop_runner import OnTick
from agents.run.making import Initial, arguments_for, begin_with, initial_weights
from agents.run.outcome import RunOutcome
from agents.run.quiet import Startup
from agents.run.run import Run
from agents.run.screen import ConsoleChoice, Screen, console_for
from agents.run.signals import StopRequest, stop_on_interrupt
from agents.run.sink_choice import require_sinks
from agents.run.terminal import Display
from agents.run.train import require_functions, run_name, warn
from agents.saved.directory import RunDir
from envs import Envs
from rl_core.arguments import path_of, require_function
from rl_core.control.commands import Who
from rl_core.control.files import RunLock
from rl_core.errors import RlCoreError, RunDirError
from rl_core.replay import format_bytes


class MembersFailed(RlCoreError):
    """Members of a population that an error ended; the others went on."""

    exit_code = 1


OnPopulation = Callable[[PopulationDir], None]


@dataclass(frozen=True)
class PopulationOutcome:
    """The result of a population.

    Attributes:
      population: its directory.
      members: name, such as m03 -> the member's result; of those that went on this time.
      failed: name -> the error that ended the member; `resume` tries it again.
      signal: the one that ended it early, SIGINT or SIGTERM; 0 if none did.
    """

    population: Path
    members: dict[str, RunOutcome]
    failed: dict[str, RlCoreError]
    signal: int

    def require_all(self) -> None:
        """Checks that no member failed.

        Raises:
          MembersFailed: some did; says which.
        """
        if self.failed:
            names, all_of_them = ", ".join(self.failed), len(self.failed) + len(self.members)
            raise MembersFailed(
                f"{len(self.failed)} of {all_of_them} members failed: {names}; targetnet resume "
                f"{self.population} tries them again"
            )


def train_population(
    config: Members | DqnConfig | Path | str,
    run: Path | str | None = None,
    *,
    members: Sequence[str] = (),
    seeds: int | None = None,
    name: str | None = None,
    console: ConsoleChoice = "auto",
    on_start: OnPopulation | None = None,
    on_tick: OnTick | None = None,
    initial: Initial | None = None,
    startup: Startup | None = None,
) -> PopulationOutcome:
    """Trains several agents in one graph and one process; each leaves a run directory.

        train_population("cartpole", "runs/x", members=["sync_period=25,100"], seeds=4)

    Each member is a run like any other: it is steered, evaluated, resumed and repeated by its own
    directory, and has the bits that it would have alone. Members take turns in one thread.

    Args:
      config: a config, a shipped config's name, or the path of a TOML file, which may list the
        members; or what `load_members` returns.
      run: directory of the population; None takes the next number of `runs/<name>-<number>`.
      members: texts such as "sync_period=25,50": one member for each (combination of) value.
      seeds: each of them so many times, with seeds from the config's on.
      on_tick: called after every time step of each member's envs, with its agent.
      on_start: called once all directories exist and everything is built.
      name, console, initial, startup: as for `agents.train`.

    Raises:
      RlCoreError: a mistake that the user can mend; nothing is left on disk. What ends a single
        member is in the outcome instead, and the others go on.
    """
    name = run_name(name, "run" if isinstance(config, Members) else config)
    chosen, screen = as_members(config, members, seeds), Screen(console_for(console))
    require_functions(on_start, on_tick)
    require_function("initial", initial, "weights")
    require_sinks(chosen.base.log_to, ())
    path = None if run is None else path_of("run", run)
    if path is not None:
        require_free_for(path, chosen)
    with contextlib.ExitStack() as last:
        envs = _envs(chosen.configs, last)
        agents = _agents(chosen.configs, envs, last)
        weights = {member: initial_weights(initial, agent) for member, agent in agents.items()}
        for member, part in weights.items():
            begin_with(agents[member], part)
        directory = PopulationDir.create(path, name, chosen, weights)
        if on_start:
            on_start(directory)
        warn(screen.console, early_ends(next(iter(chosen.configs.values()))))
        going = _Going(directory, screen, agents, envs, on_tick, startup)
        return going.all({member: {} for member in agents})


def resume_population(
    run: Path | str,
    config: Members | None = None,
    *,
    changes: Mapping[str, Any] | Sequence[str] = (),
    console: ConsoleChoice = "auto",
    on_start: OnPopulation | None = None,
    on_tick: OnTick | None = None,
    startup: Startup | None = None,
    who: Who = "api",
) -> PopulationOutcome:
    """Goes on with all members that are not finished, each from its last whole checkpoint.

    Args:
      run: directory of the population.
      config: its members with changed keys; see `require_can_go_on`.
      changes: as for `agents.resume`, for every member.
      console, on_start, on_tick, startup, who: as for `train_population` and `agents.resume`.

    Raises:
      RunDirError: there is no such population, a member is alive, all are finished, or files are
        damaged.
      CheckpointError, ConfigError, BoundsError, StaticHyperparameter: as for `agents.resume`.
    """
    screen = Screen(console_for(console))
    require_functions(on_start, on_tick)
    directory = PopulationDir.open(path_of("run", run))
    members = directory.members()
    if config is not None:
        directory.require_same(config)
    with contextlib.ExitStack() as last:
        found: dict[str, GoingOn] = {}
        locks: dict[str, RunLock] = {}
        for name in members.configs:
            member = directory.member(name, members)
            member.control.make()
            locks[name] = RunLock(member.control)
            last.callback(locks[name].release)
            try:
                found[name] = GoingOn.read(member, config and config.configs[name], changes, who)
            except Finished:
                locks[name].release()
        if not found:
            raise RunDirError(
                f"all members of {directory.path} are finished; go on with --set env_steps=..."
            )
        configs = {name: going.config for name, going in found.items()}
        require_one_form(configs)
        require_sinks(next(iter(configs.values())).log_to, ())
        envs = _envs(configs, last)
        agents = _agents(configs, envs, last)
        for name, going in found.items():
            going.bring_back(agents[name], envs[name], partial(_warn, screen, name))
        # Everything that may refuse to resume comes before.
        directory.change_members(config or members.with_changes(changes))
        for going in found.values():
            going.cut_files()
        if on_start:
            on_start(directory)
        for name, going in found.items():
            screen.line(f"{name}: resumed at env step {going.done:,}")
            going.submit()
        turns = _Going(directory, screen, agents, envs, on_tick, startup)
        return turns.all(
            {name: {"resumed": of.resumed, "lock": locks[name]} for name, of in found.items()}
        )


@dataclass
class _Going:
    """Lets the members' runs go on in turns."""

    directory: PopulationDir
    screen: Screen
    agents: Mapping[str, DqnAgent]
    envs: Mapping[str, Envs]
    on_tick: OnTick | None
    startup: Startup | None

    def all(self, how: Mapping[str, Mapping[str, Any]]) -> PopulationOutcome:
        """Trains all members.

        Args:
          how: name -> further arguments of its `Run`.
        """
        first = next(iter(self.agents.values()))
        rows, config, count = first.replay, first.config, len(self.agents)
        self.screen.line(
            f"{self.directory.path}: {count} members, {config.env_id}, replay of "
            f"{rows.capacity:,} rows each ({format_bytes(count * rows.nbytes)} once all are full)"
        )
        turns: Turns[RunOutcome | RlCoreError] = Turns()
        if first.joint is not None:
            first.joint.asking = turns
        with stop_on_interrupt() as stop, self.screen:
            calls = [partial(self._one, name, stop, turns, more) for name, more in how.items()]
            ended = dict(zip(how, turns.all(calls), strict=True))
        return PopulationOutcome(
            self.directory.path,
            {name: of for name, of in ended.items() if isinstance(of, RunOutcome)},
            {name: of for name, of in ended.items() if isinstance(of, RlCoreError)},
            stop.signal,
        )

    def _one(
        self, name: str, stop: StopRequest, turns: Turns[Any], more: Mapping[str, Any]
    ) -> RunOutcome | RlCoreError:
        """Trains one member; an error that ends it leaves the others alone."""
        agent, (first, *_) = self.agents[name], self.agents
        startup = self.startup if name == first else None
        display = Display(agent, self.screen, startup, name)
        directory = RunDir.open(self.directory.path / name)
        try:
            return Run(
                agent, self.envs[name], directory, display, stop, self.on_tick, turns=turns, **more
            ).go()
        except RlCoreError as error:
            display.line(f"failed: {error}")
            return error


def _warn(screen: Screen, name: str, line: str) -> None:
    warn(screen.console, f"{name}: {line}")


def _envs(configs: Mapping[str, DqnConfig], last: contextlib.ExitStack) -> dict[str, Envs]:
    made = {}
    for name, config in configs.items():
        made[name] = training_envs(config)
        last.callback(made[name].close)
    return made


def _agents(
    configs: Mapping[str, DqnConfig], envs: Mapping[str, Envs], last: contextlib.ExitStack
) -> dict[str, DqnAgent]:
    first = next(iter(configs))
    arguments = arguments_for(configs[first], envs[first])
    population = Population([*configs.values()], **arguments)
    last.callback(population.close)
    return dict(zip(configs, population.members, strict=True))
