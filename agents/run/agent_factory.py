"""Makes the agent of a config, and gives it the weights that it begins with.

Weights that came from another run are kept in the run directory, because a repeat, or a resume
without a checkpoint, begins with the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from targetnet.agents.config.envs import byte_bounds, parts_of
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.saved.directory import RunDir, write_file
from targetnet.envs import Envs
from targetnet.envs.in_graph.resident import ResidentEnvs
from targetnet.rl_core.arguments import require_a
from targetnet.rl_core.checkpoint.weights_file import WeightsError, read_weights, weights_bytes
from targetnet.rl_core.errors import RunDirError

# The network's random weights -> the weights that replace some of them.
Initial = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


def agent_for(config: DqnConfig, envs: Envs) -> DqnAgent:
    """Returns an agent that begins, for these envs."""
    return DqnAgent(config, **arguments_for(config, envs))


def arguments_for(config: DqnConfig, envs: Envs) -> dict[str, Any]:
    """Returns what an agent, or a population, has to know of its envs."""
    return {
        "observation_shape": envs.observation_shape,
        "observation_dtype": envs.observation_dtype,
        "num_actions": envs.num_actions,
        "action_masks": envs.has_action_masks,
        "rules": envs.rules if isinstance(envs, ResidentEnvs) else None,
        "byte_bounds": byte_bounds(config, envs),
        "parts": parts_of(config, envs),
        "branches": envs.branches,
    }


def initial_weights(initial: Initial | None, agent: DqnAgent) -> dict[str, np.ndarray]:
    """Returns the weights that the caller gives; none without `initial`."""
    if initial is None:
        return {}
    part = initial(agent.state.weights())
    require_a(Mapping, "what initial returns", part, "weights by name")
    return {name: np.asarray(weights) for name, weights in part.items()}


def give_weights(agent: DqnAgent, part: Mapping[str, np.ndarray]) -> None:
    """Gives some or all of the variables these weights."""
    if part:
        agent.state.load_weights(agent.state.weights() | dict(part))


INITIAL = "initial.safetensors"


def save_initial(run: RunDir, weights: Mapping[str, np.ndarray]) -> None:
    """Writes the weights that are not random; removes those of a run that was here before.

    Raises:
      RunDirError: it cannot be done.
    """
    path = run.path / INITIAL
    if weights:
        write_file(path, weights_bytes(weights))
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise RunDirError(f"cannot remove {path}: {error.strerror}") from None


def load_initial(run: RunDir) -> dict[str, np.ndarray]:
    """The weights that are not random; none if all were.

    Raises:
      RunDirError: they are damaged.
    """
    try:
        return read_weights(run.path / INITIAL, ours=True)
    except FileNotFoundError:
        return {}
    except WeightsError as error:
        raise RunDirError(str(error)) from None
