"""The replay memory of an agent: its columns, its sampler and its items, as the config says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.config.model import DqnConfig
from agents.dqn.live_feeds import LiveFeeds
from rl_core.replay import (
    NStepTransitions,
    PrioritizedSampler,
    ReplayMemory,
    Sampler,
    UniformSampler,
    ValidRows,
    transition_columns,
)


def build_memory(
    config: DqnConfig,
    live: LiveFeeds,
    observation_shape: Sequence[int],
    observation_dtype: Any,
    masked_actions: int | None,
) -> ReplayMemory:
    """Builds the config's replay memory.

    Args:
      live: what samples are fed.
      observation_shape, observation_dtype: of one env.
      masked_actions: A, if the envs say which actions are legal; else None.

    Raises:
      ConfigError: fewer than three time steps fit into it.
      MemoryLimitError: it needs more memory than there is.
    """
    columns = transition_columns(observation_shape, observation_dtype, masked_actions)
    rows = ValidRows(config.replay_capacity, config.num_envs, columns)
    items = NStepTransitions(rows, live["discount"], live.get("n_step"))
    sampler: Sampler = UniformSampler(rows)
    if config.prioritized:
        sampler = PrioritizedSampler(rows, live["priority_alpha"], live["priority_beta"])
    return ReplayMemory(rows, sampler, items)
