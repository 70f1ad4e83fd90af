"""The replay memory of an agent: its columns, its sampler and its items, as the config says."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.network import recurrent_of
from targetnet.agents.dqn.objective import learned_rewards
from targetnet.rl_core.replay import (
    STATE,
    Column,
    EpochSampler,
    Items,
    NStepTransitions,
    PrioritizedSampler,
    ReplayMemory,
    Sampler,
    StoredSequences,
    UniformSampler,
    ValidRows,
    newest_frame,
    transition_columns,
)


def build_memory(
    config: DqnConfig,
    live: LiveFeeds,
    observations: tf.Tensor,
    legal: tf.Tensor | None,
    branches: Sequence[int] = (),
) -> ReplayMemory:
    """Builds the config's replay memory, or that of one rollout.

    Args:
      live: what samples are fed.
      observations: [M, ...] of the shape and dtype that are learned from.
      legal: [M, A] bool, if the envs say which actions are legal; else None.
      branches: sizes of the branches of an action, [D]; (): it has none.

    Raises:
      ConfigError: fewer than three time steps fit into it.
      MemoryLimitError: it needs more memory than there is.
    """
    masked = None if legal is None else int(legal.shape[1])
    stack = config.stored_stack
    frames = newest_frame(observations, stack)
    shape = frames.shape.as_list()[1:]
    columns = transition_columns(shape, frames.dtype, masked, len(branches))
    capacity = config.replay_capacity
    if config.rollout:
        # One time step more: what the last one of a rollout led to, the first one of the next. And
        # those of which the first ones need frames.
        capacity = (config.rollout + stack) * config.num_envs
    recurrent = recurrent_of(config)
    if recurrent is not None:
        columns.append(Column(STATE, tf.float32, (recurrent.state_size,)))
    history = config.burn_in if config.is_recurrent else 0
    rows = ValidRows(capacity, config.num_envs, columns, stack=stack, history=history)
    n_step = live.reader("n_step") if "n_step" in live else None
    steps = NStepTransitions(rows, live.reader("discount"), n_step, learned_rewards(live))
    items: Items = steps
    if config.is_recurrent:
        items = StoredSequences(
            rows, steps, length=config.sequence_length, burn_in=config.burn_in,
            most_steps=config.longest_step,
        )  # fmt: skip
    sampler: Sampler = UniformSampler(rows)
    if config.rollout:
        sampler = EpochSampler(rows, config.batch_size)
    elif config.prioritized:
        alpha, beta = live.reader("priority_alpha"), live.reader("priority_beta")
        sampler = PrioritizedSampler(rows, alpha, beta)
    return ReplayMemory(rows, sampler, items)
