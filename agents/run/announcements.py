"""The lines of a run before it trains."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.network_keys import NETWORKS
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.network import network_of
from targetnet.agents.loops.plain import Tick
from targetnet.agents.remote.run_actors import memory_on_the_way
from targetnet.agents.run.display import Display
from targetnet.agents.run.loop_runner import Repeat
from targetnet.agents.saved.directory import RunDir
from targetnet.envs import Envs
from targetnet.envs.spaces import where_masks_are
from targetnet.rl_core.machine import has_bfloat16
from targetnet.rl_core.networks.torsos import LEAST_SIDE
from targetnet.rl_core.observation_parts import Part
from targetnet.rl_core.replay import format_bytes
from targetnet.rl_core.replay.rows import newest_frame


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
            f"learns from {config.offline}; no env is stepped: env steps only count time"
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
    for line in (
        "" if repeat else envs.not_repeated,
        slower_than_float32(config),
        where_masks_are(envs.spaces, config.action_masks),
        *flattened_pictures(config, envs),
    ):
        if line:
            display.detail(line)
    if not envs.has_time_limit and not repeat:
        display.detail(
            f"{config.env_id} is registered without a time limit: an episode may last for ever, "
            "unless the env ends it by itself; an evaluation cuts it after "
            f"{config.eval_max_steps:,} env steps (eval_max_steps); for a limit: "
            "--set env_kwargs={max_episode_steps=1000}"
        )


def slower_than_float32(config: DqnConfig) -> str:
    """Returns a line if the processor has no instructions for what convolutions compute in."""
    if config.compute == "float32" or has_bfloat16():
        return ""
    return (
        f"this processor has no AVX512_BF16 or AMX, so compute = {config.compute!r} is much slower "
        "than float32"
    )


def flattened_pictures(config: DqnConfig, envs: Envs) -> Iterator[str]:
    """Yields a line about each picture that is flattened, though convolutions could look at it."""
    if config.network not in NETWORKS:
        return
    whole = Part("", envs.observation_shape, envs.observation_dtype)
    for part in envs.parts or (whole,):
        height, width, *channels = (*part.shape, 0, 0)[: max(2, len(part.shape))]
        name = network_of(config, part) if part.name else config.network
        asked_for = part.name in config.part_networks
        if name != "mlp" or asked_for or min(height, width) < LEAST_SIDE or len(channels) > 1:
            continue
        what = f"the part {part.name!r} of an observation" if part.name else "an observation"
        how = 'network = "nature" looks at it as a picture'
        if not channels:
            how = f"with an axis more, {[height, width, 1]} (env_wrapper), {how}"
        yield (
            f"{what}, {list(part.shape)}, is flattened into {math.prod(part.shape):,} inputs of "
            f"the network; {how}"
        )


def bytes_outside(config: DqnConfig, envs: Envs, tick: Tick) -> str | None:
    """Returns a line about bytes beyond the bounds by which they are scaled; None if none are."""
    if config.byte_scale != "bounds" or tick.step is None:
        return None
    for where, seen, low, high in _bytes_of(envs, tick.step.observation, config.frame_stack):
        wrong = np.argwhere((seen < low) | (seen > high))
        if len(wrong):
            at = tuple(wrong[0])
            byte, least, most = (np.broadcast_to(of, seen.shape)[at] for of in (seen, low, high))
            return (
                f"an observation has{where} the byte {byte}, and its Box says {least} to {most}: "
                "scaled by these bounds it is outside of 0 to 1; correct the env, or begin a run "
                'with byte_scale = "255"'
            )
    return None


def _bytes_of(
    envs: Envs, shown: np.ndarray, stack: int
) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Yields bytes that have bounds of their own, of the newest frame: where, they, low, high."""
    for part in envs.parts:
        if part.byte_bounds is not None:
            yield (f" at {part.name!r}", part.of(shown), *part.byte_bounds)
    if envs.byte_bounds is not None:
        low, high = (newest_frame(of, stack if of.ndim else 1) for of in envs.byte_bounds)
        yield "", newest_frame(shown, stack), low, high


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
