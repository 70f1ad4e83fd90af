"""The lines of a run before it trains."""

from __future__ import annotations

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.run.actors import memory_on_the_way
from targetnet.agents.run.loop_runner import Repeat
from targetnet.agents.run.terminal import Display
from targetnet.agents.saved.directory import RunDir
from targetnet.envs import Envs
from targetnet.rl_core.replay import format_bytes


def announce(
    display: Display, agent: DqnAgent, envs: Envs, directory: RunDir, repeat: Repeat | None
) -> None:
    """Shows what is trained, the memory that it needs, and what is odd about its env."""
    rows, config = agent.replay, agent.config
    kept = f"{rows.capacity:,} rows ({format_bytes(rows.nbytes)} once full)"
    display.detail(
        f"{repeat.note if repeat else directory.path}: {config.env_id}, "
        f"{'rollouts' if config.rollout else 'replay'} of {kept}"
    )
    if config.offline:
        display.detail(
            f"learns from {config.offline}; env steps are the clock of its schedules and periods"
        )
    if config.begin_with:
        display.detail(
            f"begins with {config.demonstration_steps * config.num_envs:,} rows of "
            f"{config.begin_with}"
        )
        if line := overwritten(config, rows.steps):
            display.detail(line)
    if config.loop == "remote":
        display.detail(memory_on_the_way(config, envs))
    if envs.not_repeated and not repeat:
        display.detail(envs.not_repeated)
    if not envs.has_time_limit and not repeat:
        display.detail(
            f"{config.env_id} is registered without a time limit: an episode may last "
            f"for ever; an evaluation cuts it after {config.eval_max_steps:,} env steps "
            "(eval_max_steps); for a limit: --set env_kwargs={max_episode_steps=1000}"
        )


def overwritten(config: DqnConfig, steps: int) -> str | None:
    """Returns a line about demonstrations that the run's own rows will overwrite; None if none are.

    Args:
      config: of a run that begins with demonstrations.
      steps: time steps that the replay holds.
    """
    own = (steps - config.demonstration_steps) * config.num_envs
    if config.env_steps <= own:
        return None
    kept = config.demonstration_steps * config.num_envs + config.env_steps
    return (
        f"the demonstrations are overwritten from env step {own:,} on, or a little earlier, as "
        f"each reset of an env takes a row too; replay_capacity = {kept:,}, and one row more for "
        "each episode, keeps them all"
    )
