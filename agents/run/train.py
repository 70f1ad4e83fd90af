"""Training and evaluating from end to end: make everything, and let a `Run` go through it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from agents.config.envs import byte_bounds, envs_beside, training_envs
from agents.config.files import require_can_go_on
from agents.config.model import DqnConfig
from agents.dqn.agent import DqnAgent
from agents.loops.evaluation import Returns, Watch, evaluate
from agents.loops.plain import Tick
from agents.run.checkpoints import restore_agent
from agents.run.directory import RunDir, require_free
from agents.run.quiet import Startup
from agents.run.run import Outcome, Repeat, Run
from agents.run.signals import stop_on_interrupt
from envs import Envs
from envs.in_graph.resident import ResidentEnvs
from rl_core.checkpoint.store import CheckpointStore
from rl_core.control.files import RunLock
from rl_core.errors import RunDirError

# Own weights, random -> those of them to begin with instead.
Initial = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


def train(
    config: DqnConfig,
    run: Path | str | None = None,
    *,
    name: str = "run",
    console: Console | None = None,
    on_start: Callable[[RunDir], None] | None = None,
    on_tick: Callable[[DqnAgent, Tick], None] | None = None,
    repeat: Repeat | None = None,
    initial: Initial | None = None,
    startup: Startup | None = None,
) -> Outcome:
    """Trains one agent and leaves config, curves, weights and result in a run directory.

    While it runs, `targetnet set`, the Steer tab and `on_tick` may change live values; every
    change is logged.

    Args:
      run: its directory; None takes the next number of `runs/<name>-<number>`.
      console: shows progress; None is silent.
      on_start: called once the directory exists and everything is built.
      on_tick: called after every time step of all envs; what it sets is logged.
      repeat: applies a recorded run's changes instead of new ones, without evaluating.
      initial: gives the weights to begin with, of all or some variables, from the random ones;
        `agents.policy.warm_start` has what fits another run's. They are kept in the run
        directory, so that the run can be repeated.
      startup: what it took to get here, shown at the first env step.

    Raises:
      RlCoreError: anything the user can mend, before anything is left on disk.
    """
    path = None if run is None else Path(run)
    if path is not None:
        require_free(path)
    envs = training_envs(config)
    try:
        agent = _agent_for(config, envs)
        part = initial(agent.state.weights()) if initial else {}
        _begin_with(agent, part)
        directory = RunDir.create(path, name, config)
        if part:
            directory.save_initial(part)
        if on_start:
            on_start(directory)
        with stop_on_interrupt() as stop:
            shown = console or Console(quiet=True)
            return Run(agent, envs, directory, shown, stop, on_tick, repeat, startup=startup).go()
    finally:
        envs.close()


def resume(
    run: Path | str,
    config: DqnConfig | None = None,
    *,
    console: Console | None = None,
    on_start: Callable[[RunDir], None] | None = None,
    on_tick: Callable[[DqnAgent, Tick], None] | None = None,
    startup: Startup | None = None,
) -> Outcome:
    """Goes on with a run from its last whole checkpoint, bit for bit.

    What was logged after the checkpoint is applied again at its time steps. Without any
    checkpoint the run is made again from its beginning.

    Args:
      run: its directory.
      config: its config, of which some may have changed (see `require_can_go_on`); None leaves it.
      console, on_start, on_tick, startup: as for `train`.

    Raises:
      RunDirError: there is no such run, it is alive, it is finished, or its files are damaged.
      CheckpointError: no checkpoint is whole.
      ConfigError: a change that a run cannot take when it goes on.
    """
    directory = RunDir.open(Path(run))
    directory.control.make()
    # Before anything is read or cut: of two that resume, one must not touch the other's files.
    lock = RunLock(directory.control)
    try:
        config = config or directory.config()
        require_can_go_on(directory.config(), config)
        # The weights are of observations scaled that way.
        config = config.model_copy(update={"byte_scale": directory.config().byte_scale})
        store = CheckpointStore(directory.checkpoints, config.checkpoint_keep)
        checkpoint = store.latest()
        done = checkpoint.host["loop"]["env_step"] if checkpoint else 0
        if directory.has_result() and done >= config.env_steps:
            raise RunDirError(
                f"{directory.path} is finished after {done:,} env steps; "
                "go on with --set env_steps=..."
            )
        missing = directory.require_as_it_was(checkpoint.host if checkpoint else None)
        envs = training_envs(config)
        with contextlib.closing(envs), stop_on_interrupt() as stop:
            shown = console or Console(quiet=True)
            agent = _agent_for(config, envs)
            step, problems = None, list[str]()
            if checkpoint:
                restore_agent(agent, checkpoint, store)
                # Before its first time step the envs have shown nothing that must come back.
                if checkpoint.tick:
                    step, problems = envs.restore(checkpoint.host["envs"])
                _warn(shown, (*checkpoint.damaged, *missing, *problems), inexact=bool(problems))
            else:
                _begin_with(agent, directory.load_initial())
            # From here on files change: whatever refuses to resume comes before.
            directory.change_config(config)
            with contextlib.suppress(OSError):  # what is too much costs room, nothing else
                store.prune(spare=checkpoint.number if checkpoint else None)
            directory.go_back(checkpoint.host["events"] if checkpoint else {})
            if on_start:
                on_start(directory)
            shown.print(f"resumed at env step {done:,}", highlight=False)
            run_ = Run(
                agent, envs, directory, shown, stop, on_tick, None, checkpoint, step, lock, startup
            )
            return run_.go()
    finally:
        lock.release()


def _begin_with(agent: DqnAgent, part: Mapping[str, np.ndarray]) -> None:
    if part:
        agent.state.load_weights(agent.state.weights() | dict(part))


def _warn(console: Console, lines: Sequence[str], *, inexact: bool) -> None:
    if inexact:
        lines = [*lines, "a new episode begins there: not the same bits from here on"]
    for line in lines:
        console.print(line, style="yellow", highlight=False, markup=False)


def evaluate_weights(
    config: DqnConfig,
    weights: Mapping[str, np.ndarray],
    episodes: int,
    *,
    seed: int | None = None,
    watch: Watch = lambda done, env_steps: None,
) -> Returns:
    """Returns of a greedy policy given by its weights.

    Args:
      seed, watch: as for `evaluate`.

    Raises:
      ScopeMismatch: the weights are not of the config's network.
    """
    envs = envs_beside(config)
    envs.close()
    agent = _agent_for(config, envs)
    agent.state.load_weights(weights)
    return evaluate(agent, config, episodes, seed=seed, watch=watch)


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
