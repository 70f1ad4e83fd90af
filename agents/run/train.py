"""Trains and evaluates from end to end: makes everything, and lets a `Run` go."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from agents.config.early_ends import early_ends
from agents.config.envs import byte_bounds, training_envs
from agents.config.files import as_config, changed_config, config_name, require_can_go_on
from agents.config.model import DqnConfig
from agents.dqn.agent import DqnAgent
from agents.run.checkpoints import restore_agent
from agents.run.going_back import go_back, require_as_it_was, require_fits
from agents.run.initial_weights import load_initial, save_initial
from agents.run.loop_runner import OnTick, Repeat
from agents.run.outcome import RunOutcome
from agents.run.quiet import Startup
from agents.run.run import Run
from agents.run.signals import stop_on_interrupt
from agents.run.sink_choice import require_sinks
from agents.run.sinks import OwnSink
from agents.run.terminal import ConsoleChoice, console_for
from agents.saved.directory import RunDir, require_free
from agents.saved.host import Resumed, read_host
from envs import Envs
from envs.in_graph.resident import ResidentEnvs
from rl_core.arguments import path_of, require_a, require_function
from rl_core.checkpoint.store import CheckpointStore
from rl_core.control.commands import Command, Who, set_command
from rl_core.control.files import RunLock, submit
from rl_core.errors import ArgumentError, ConfigError, RunDirError, shown

# The network's random weights -> the weights that replace some of them.
Initial = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


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
      on_tick: called after every time step of all envs; values that it sets are logged.
      repeat: applies a recorded run's changes instead of new ones, without evaluating.
      initial: gives the weights to begin with, for all or some variables, from the random ones
        (see `agents.policy.warm_start`). They are kept in the run directory, so that the run can
        be repeated.
      startup: how long the start took, shown at the first env step.
      sinks: objects of your own that take curves, by `scalars(values, env_step)` and `close()`;
        docs/sinks.md has an example.

    Raises:
      RlCoreError: a mistake that the user can mend; nothing is left on disk.
    """
    name = _run_name(name, config)
    config, screen = as_config(config), console_for(console)
    _require_functions(on_start, on_tick)
    require_function("initial", initial, "weights")
    path = None if run is None else path_of("run", run)
    if path is not None:
        require_free(path)
    require_sinks(config.log_to, sinks)
    envs = training_envs(config)
    try:
        agent = _agent_for(config, envs)
        part = _initial_weights(initial, agent) if initial else {}
        _begin_with(agent, part)
        directory = RunDir.create(path, name, config)
        if part:
            save_initial(directory, part)
        if on_start:
            on_start(directory)
        if not repeat:
            _warn(screen, [early_ends(config)])
        with stop_on_interrupt() as stop:
            return Run(
                agent, envs, directory, screen, stop, on_tick, repeat, startup=startup, sinks=sinks
            ).go()
    finally:
        envs.close()


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
      console, on_start, on_tick, startup, sinks: as for `train`.
      who: the sender of these commands in the log.

    Raises:
      RunDirError: there is no such run, it is alive, it is finished, or its files are damaged.
      CheckpointError: no checkpoint is whole.
      ConfigError: a change that a run cannot take when it goes on.
      BoundsError, StaticHyperparameter: a live value that the run cannot take.
    """
    screen = console_for(console)
    _require_functions(on_start, on_tick)
    directory = RunDir.open(path_of("run", run))
    directory.control.make()
    # First of all: of two processes that resume, one must not touch the other's files.
    lock = RunLock(directory.control)
    try:
        before = directory.config()
        config, values = changed_config(before if config is None else as_config(config), changes)
        config = require_can_go_on(before, config)
        commands = [set_command(name, value, who) for name, value in values.items()]
        require_sinks(config.log_to, sinks)
        store = CheckpointStore(directory.checkpoints, config.checkpoint_keep)
        checkpoint = store.latest()
        resumed = Resumed(checkpoint, read_host(checkpoint)) if checkpoint else None
        done = resumed.host.loop.env_step if resumed else 0
        if config.env_steps < min(before.env_steps, done):
            raise ConfigError(
                f"env_steps must be at least {done:,}, where {directory.path} goes on, got "
                f"{config.env_steps:,}"
            )
        if directory.has_result() and done >= config.env_steps:
            raise RunDirError(
                f"{directory.path} is finished after {done:,} env steps; "
                "go on with --set env_steps=..."
            )
        missing = require_as_it_was(directory, resumed.host if resumed else None)
        envs = training_envs(config)
        with contextlib.closing(envs), stop_on_interrupt() as stop:
            agent = _agent_for(config, envs)
            for name, value in values.items():
                agent.hyperparameters.check(name, value)
            if resumed:
                require_fits(resumed, agent, envs)
                restore_agent(agent, resumed.checkpoint, store)
                resumed, problems = _with_envs(resumed, envs)
                damaged = resumed.checkpoint.damaged
                _warn(screen, (*damaged, *missing, *problems, _INEXACT if problems else None))
            else:
                _begin_with(agent, load_initial(directory))
            # From here on files change; everything that may refuse to resume comes before.
            directory.change_config(config)
            with contextlib.suppress(OSError):  # checkpoints left over cost room, nothing else
                store.prune(spare=checkpoint.number if checkpoint else None)
            go_back(directory, resumed.host.events if resumed else {})
            if on_start:
                on_start(directory)
            screen.print(f"resumed at env step {done:,}", highlight=False)
            if config.env_steps > before.env_steps:
                _warn(screen, [early_ends(config, resumed=True)])
            _submit(directory, commands)
            return Run(
                agent, envs, directory, screen, stop, on_tick,
                resumed=resumed, lock=lock, startup=startup, sinks=sinks,
            ).go()  # fmt: skip
    finally:
        lock.release()


_INEXACT = "a new episode begins there: not the same bits from here on"


def _with_envs(resumed: Resumed, envs: Envs) -> tuple[Resumed, list[str]]:
    """Brings the envs back; says which of them did not come back the same."""
    # Before the first time step there is nothing to bring back.
    if not resumed.checkpoint.tick:
        return resumed, []
    step, problems = envs.restore(resumed.host.envs_state())
    return replace(resumed, step=step), problems


def _initial_weights(initial: Initial, agent: DqnAgent) -> dict[str, np.ndarray]:
    part = initial(agent.state.weights())
    require_a(Mapping, "what initial returns", part, "weights by name")
    return {name: np.asarray(weights) for name, weights in part.items()}


def _begin_with(agent: DqnAgent, part: Mapping[str, np.ndarray]) -> None:
    if part:
        agent.state.load_weights(agent.state.weights() | dict(part))


def _warn(console: Console, lines: Sequence[str | None]) -> None:
    for line in lines:
        if line is not None:
            console.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)


def _submit(directory: RunDir, commands: Sequence[Command]) -> None:
    """Puts commands into the inbox, where they outlive a kill, and are taken only once."""
    for command in commands:
        submit(directory.control, command)


def _run_name(name: str | None, config: DqnConfig | Path | str) -> str:
    if name is None:
        return "run" if isinstance(config, DqnConfig) else config_name(config)
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise ArgumentError(f"name must be the NAME of runs/NAME-1, got {shown(name)}")
    return name


def _require_functions(on_start: object, on_tick: object) -> None:
    require_function("on_start", on_start, "run_dir")
    require_function("on_tick", on_tick, "agent", "tick")


def _agent_for(config: DqnConfig, envs: Envs) -> DqnAgent:
    return DqnAgent(
        config,
        envs.observation_shape,
        envs.observation_dtype,
        envs.num_actions,
        action_masks=envs.has_action_masks,
        rules=envs.rules if isinstance(envs, ResidentEnvs) else None,
        byte_bounds=byte_bounds(config, envs),
    )
