"""Trains and evaluates from end to end: makes everything, and lets a `Run` go."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from targetnet.agents.config.early_ends import actions_at_the_end, early_ends, no_learning
from targetnet.agents.config.files import as_config, config_name
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.controllers.choice import controller_of
from targetnet.agents.data.run_dataset import fill, with_dataset
from targetnet.agents.loops.evaluation import EvaluationEnvs
from targetnet.agents.remote.run_actors import envs_of_run, stop_with
from targetnet.agents.run.agent_factory import (
    Initial,
    agent_for,
    give_weights,
    initial_weights,
    save_initial,
)
from targetnet.agents.run.display import ConsoleChoice, Display, Screen, console_for, shows_progress
from targetnet.agents.run.exchanges import require_alone
from targetnet.agents.run.loop_runner import OnTick, Repeat
from targetnet.agents.run.outcome import RunOutcome
from targetnet.agents.run.process import Startup, stop_on_interrupt
from targetnet.agents.run.resume import ResumePlan
from targetnet.agents.run.run import Run
from targetnet.agents.saved.directory import RunDir, require_free
from targetnet.agents.sinks.choice import require_sinks
from targetnet.agents.sinks.interface import OwnSink
from targetnet.rl_core.arguments import path_of, require_function
from targetnet.rl_core.console import say
from targetnet.rl_core.control.commands import Who
from targetnet.rl_core.control.files import RunLock
from targetnet.rl_core.errors import ArgumentError, quoted


@shows_progress
def train(
    config: DqnConfig | Path | str,
    run: Path | str | None = None,
    *,
    name: str | None = None,
    console: ConsoleChoice = "auto",
    on_start: Callable[[RunDir], None] | None = None,
    on_tick: OnTick | None = None,
    repeat: Repeat | None = None,
    initial: Initial | None = None,
    startup: Startup | None = None,
    sinks: Sequence[OwnSink] = (),
    ray: str | None = None,
) -> RunOutcome:
    """Trains one agent and leaves config, curves, weights and result in a run directory.

    While it runs, `targetnet set`, the Steer tab and `on_tick` may change live values; every
    change is logged.

    Args:
      config: a config, a shipped config's name, or the path of a TOML file.
      run: its directory; None takes the next number of `runs/<name>-<number>`.
      name: by default the config's name, or "run".
      console: shows progress. "auto" shows it in a terminal or a notebook and is silent elsewhere;
        None is silent.
      on_start: called once the directory exists and everything is built.
      on_tick: called after every tick of the loop; values that it sets are logged. If it returns
        False, the run stops there, is saved and can be resumed, as after `targetnet do RUN stop`.
      repeat: applies a recorded run's changes instead of new ones, without evaluating.
      initial: gives the weights to begin with, for all or some variables, from the random ones
        (see `targetnet.agents.policy.trained_policy`). They are kept in the run directory, so
        that the run can be repeated.
      startup: how long the start took, shown at the first env step.
      sinks: objects of your own that take curves, by `scalars(values, env_step)` and `close()`;
        docs/guides/logging.md has an example.
      ray: where the actors of loop = "remote" live: HOST:PORT of a Ray cluster that this machine
        belongs to, "auto", or "off" for this process. None starts Ray on this machine.

    Raises:
      RlCoreError: a mistake that the user can mend; nothing is left on disk.
    """
    name = run_name(name, config)
    config, screen = with_dataset(as_config(config)), Screen(console_for(console))
    require_functions(on_start, on_tick)
    require_function("initial", initial, "weights")
    path = None if run is None else path_of("run", run)
    if path is not None:
        require_free(path)
    require_sinks(config.log_to, sinks)
    if not repeat:
        controller_of(config)  # a mistake there is told before anything is written
    place = "off" if repeat and config.loop == "remote" else ray
    with contextlib.ExitStack() as last:
        evaluation_envs = last.enter_context(contextlib.closing(EvaluationEnvs(config)))
        envs = envs_of_run(config, place, lambda line: warn(screen.console, line))
        last.callback(envs.close)
        agent = agent_for(config, envs)
        part = initial_weights(initial, agent)
        give_weights(agent, part)
        fill(agent)
        directory = RunDir.create(path, name, config, partial(save_initial, weights=part))
        if on_start:
            on_start(directory)
        if not repeat:
            for told in (no_learning, early_ends, actions_at_the_end):
                warn(screen.console, told(config))
        with stop_on_interrupt() as stop:
            stop_with(envs, stop.__bool__)
            return Run(
                agent, envs, directory, Display(agent, screen, startup), stop, evaluation_envs,
                on_tick, repeat, sinks=sinks,
            ).go()  # fmt: skip


@shows_progress
def resume(
    run: Path | str,
    config: DqnConfig | Path | str | None = None,
    *,
    changes: Mapping[str, Any] | Sequence[str] = (),
    console: ConsoleChoice = "auto",
    on_start: Callable[[RunDir], None] | None = None,
    on_tick: OnTick | None = None,
    startup: Startup | None = None,
    who: Who = "api",
    sinks: Sequence[OwnSink] = (),
    ray: str | None = None,
) -> RunOutcome:
    """Goes on with a run from its last whole checkpoint, bit for bit.

    Commands that were logged after the checkpoint are applied again at their time steps. Without
    any checkpoint the run begins again.

    Args:
      run: its directory.
      config: its config with changes (see `require_can_go_on`); None leaves it as it was.
      changes: name -> value of keys, as in `{"env_steps": 100_000}`, and of live values, as in
        `{"sync_period": 50}`; or texts, as in `["sync_period=50"]`. Live values are set by commands
        in the run's inbox, like those of `targetnet set`: at its first time step, or, where the log
        has later changes of the same value that are applied again, after the last of them.
      console, on_start, on_tick, startup, sinks, ray: as for `train`.
      who: the sender of these commands in the log.

    Raises:
      RunDirError: there is no such run, it is alive, it is finished, its files are damaged, or it
        cannot go on without the other members of its population.
      CheckpointError: no checkpoint is whole.
      ConfigError: a change that a run cannot take when it goes on.
      BoundsError, StaticHyperparameter: a live value that the run cannot take.
    """
    screen = Screen(console_for(console))
    require_functions(on_start, on_tick)
    directory = RunDir.open(path_of("run", run))
    require_alone(directory)
    directory.control.make()
    # First of all: of two processes that resume, one must not touch the other's files.
    lock = RunLock(directory.control)
    try:
        going = ResumePlan.read(directory, config, changes, who)
        require_sinks(going.config.log_to, sinks)
        controller_of(going.config)
        envs = envs_of_run(going.config, ray, lambda line: warn(screen.console, line))
        with (
            contextlib.closing(EvaluationEnvs(going.config)) as evaluation_envs,
            contextlib.closing(envs),
            stop_on_interrupt() as stop,
        ):
            stop_with(envs, stop.__bool__)
            agent = agent_for(going.config, envs)
            going.bring_back(agent, envs, lambda line: warn(screen.console, line))
            # Everything that may refuse to resume comes before.
            going.cut_files()
            if on_start:
                on_start(directory)
            screen.console.print(f"resumed at env step {going.done:,}", highlight=False)
            warn(screen.console, going.early_end())
            going.submit()
            return Run(
                agent, envs, directory, Display(agent, screen, startup), stop, evaluation_envs,
                on_tick, resumed=going.resumed, lock=lock, sinks=sinks,
            ).go()  # fmt: skip
    finally:
        lock.release()


def warn(console: Console, line: str | None) -> None:
    """Shows a line about something that the user may want to know; None shows nothing."""
    if line is not None:
        say(console, line, "yellow")


def run_name(name: str | None, config: DqnConfig | Path | str) -> str:
    """Returns the NAME of runs/NAME-1.

    Raises:
      ArgumentError: it is none.
    """
    if name is None:
        return "run" if isinstance(config, DqnConfig) else config_name(config)
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise ArgumentError(f"name must be the NAME of runs/NAME-1, got {quoted(name)}")
    return name


def require_functions(on_start: object, on_tick: object) -> None:
    """Checks what a caller wants to be called.

    Raises:
      ArgumentError: it cannot be called.
    """
    require_function("on_start", on_start, "run_dir")
    require_function("on_tick", on_tick, "agent", "tick")
