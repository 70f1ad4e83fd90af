"""Trains a population: many agents in one graph, each of which is a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from targetnet.agents.config.early_ends import actions_at_the_end, early_ends, no_learning
from targetnet.agents.config.members import Members, as_members, require_one_form
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.controllers.choice import controller_of
from targetnet.agents.population.directory import PopulationChange, PopulationDir, require_free_for
from targetnet.agents.population.exchanges import PastExchanges, PopulationExchanges
from targetnet.agents.population.runner import (
    PopulationOutcome,
    PopulationRunner,
    envs_of,
    population_of,
)
from targetnet.agents.run.agent_factory import Initial, give_weights, initial_weights
from targetnet.agents.run.display import ConsoleChoice, Screen, console_for, shows_progress
from targetnet.agents.run.loop_runner import OnTick
from targetnet.agents.run.process import Startup
from targetnet.agents.run.resume import Finished, ResumePlan
from targetnet.agents.run.train import require_functions, run_name, warn
from targetnet.agents.sinks.choice import require_sinks
from targetnet.rl_core.arguments import path_of, require_function
from targetnet.rl_core.control.commands import Who
from targetnet.rl_core.control.files import RunLock
from targetnet.rl_core.errors import RunDirError

OnPopulation = Callable[[PopulationDir], None]


@shows_progress
def train_population(
    config: Members | DqnConfig | Path | str,
    run: Path | str | None = None,
    *,
    members: Sequence[str] = (),
    seeds: int | None = None,
    pbt: Mapping[str, Any] | Sequence[str] = (),
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
      pbt: settings of population-based training, such as {"period": 5_000}: names and values, or
        texts such as "period=5000".
      on_tick: called after every tick of each member's loop, with its agent; False stops that
        member, as for `train`.
      on_start: called once all directories exist and everything is built.
      name, console, initial, startup: as for `targetnet.agents.train`.

    Raises:
      RlCoreError: a mistake that the user can mend; nothing is left on disk. What ends a single
        member is in the outcome instead, and the others go on.
    """
    name = run_name(name, "run" if isinstance(config, Members) else config)
    chosen = as_members(config, members, seeds, pbt)
    screen = Screen(console_for(console))
    require_functions(on_start, on_tick)
    require_function("initial", initial, "weights")
    require_sinks(chosen.base.log_to, ())
    controller_of(chosen.base)
    path = None if run is None else path_of("run", run)
    if path is not None:
        require_free_for(path, chosen)
    with contextlib.ExitStack() as last:
        envs = envs_of(chosen.configs, last)
        population = population_of(chosen.configs, envs, last)
        agents = dict(zip(chosen.configs, population.members, strict=True))
        weights = {member: initial_weights(initial, agent) for member, agent in agents.items()}
        for member, part in weights.items():
            give_weights(agents[member], part)
        directory = PopulationDir.create(path, name, chosen, weights)
        if on_start:
            on_start(directory)
        for told in (early_ends, actions_at_the_end):
            warn(screen.console, told(next(iter(chosen.configs.values()))))
        for line in dict.fromkeys(map(no_learning, chosen.configs.values())):
            members = [name for name, of in chosen.configs.items() if no_learning(of) == line]
            warn(screen.console, line and f"{', '.join(members)}: {line}")
        runner = PopulationRunner(directory, screen, population, agents, envs, on_tick, startup)
        exchanges = None
        if chosen.pbt is not None:
            recorded = PastExchanges(directory, dict.fromkeys(agents, 0))
            exchanges = PopulationExchanges(chosen, population, recorded, screen)
        return runner.all({member: {} for member in agents}, exchanges)


@shows_progress
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
      changes: as for `targetnet.agents.resume`, for every member.
      console, on_start, on_tick, startup, who: as for `train_population` and
        `targetnet.agents.resume`.

    Raises:
      RunDirError: there is no such population, a member is alive, all are finished, or files are
        damaged.
      CheckpointError, ConfigError, BoundsError, StaticHyperparameter: as for
        `targetnet.agents.resume`.
    """
    screen = Screen(console_for(console))
    require_functions(on_start, on_tick)
    directory = PopulationDir.open(path_of("run", run))
    begun = PopulationChange.left_in(directory)
    members = directory.members().with_changes(begun.keys)
    if config is not None:
        directory.require_same(config)
    with contextlib.ExitStack() as last:
        found, locks = _going_on(directory, members, config, begun, changes, who, last)
        configs = {name: plan.config for name, plan in found.items()}
        require_one_form(configs)
        one = next(iter(configs.values()))
        require_sinks(one.log_to, ())
        controller_of(one)
        envs = envs_of(configs, last)
        population = population_of(configs, envs, last)
        agents = dict(zip(configs, population.members, strict=True))
        recorded = None
        if members.pbt is not None:
            recorded = PastExchanges(directory, {name: plan.tick for name, plan in found.items()})
        for name, plan in found.items():
            plan.bring_back(agents[name], envs[name], partial(_warn, screen, name))
        # Everything that may refuse to resume comes before.
        members = (config or members).with_changes(changes)
        PopulationChange.to(members, found).make(directory, members, found)
        if recorded is not None:
            recorded.clear_leftovers()
        if on_start:
            on_start(directory)
        for name, plan in found.items():
            screen.line(f"{name}: resumed at env step {plan.done:,}")
        runner = PopulationRunner(directory, screen, population, agents, envs, on_tick, startup)
        exchanges = None
        if recorded is not None:
            exchanges = PopulationExchanges(members, population, recorded, screen)
        return runner.all(
            {name: {"resumed": of.resumed, "lock": locks[name]} for name, of in found.items()},
            exchanges,
        )


def _going_on(
    directory: PopulationDir,
    members: Members,
    config: Members | None,
    begun: PopulationChange,
    changes: Mapping[str, Any] | Sequence[str],
    who: Who,
    last: contextlib.ExitStack,
) -> tuple[dict[str, ResumePlan], dict[str, RunLock]]:
    """Reads the members that are not finished; their locks are held until `last` ends.

    Args:
      members: as the directory has them, with the changes of `begun`.
      config: members with changed keys; None changes none.
      begun: the change of a resume that was killed.
      changes, who: as for `resume_population`.

    Raises:
      RunDirError: a member is alive, all are finished, or files are damaged.
      CheckpointError, ConfigError, BoundsError, StaticHyperparameter: as for
        `targetnet.agents.resume`.
    """
    found: dict[str, ResumePlan] = {}
    locks: dict[str, RunLock] = {}
    for name in members.configs:
        member = directory.member(name, members)
        member.control.make()
        locks[name] = RunLock(member.control)
        last.callback(locks[name].release)
        now = config.configs[name] if config else begun.config_of(name, member.config())
        try:
            found[name] = ResumePlan.read(member, now, changes, who)
        except Finished:
            locks[name].release()
        else:
            found[name].commands[:0] = begun.commands_of(name)
    if not found:
        raise RunDirError(
            f"all members of {directory.path} are finished; go on with --set env_steps=..."
        )
    return found, locks


def _warn(screen: Screen, name: str, line: str) -> None:
    warn(screen.console, f"{name}: {line}")
