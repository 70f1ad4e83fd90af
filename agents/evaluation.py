"""Greedy evaluation on envs of its own.

Imports: agents.acting, agents.config, agents.dqn, agents.made_envs, rl_core.errors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agents.acting import Policy
from agents.config import DqnConfig
from agents.dqn import DqnAgent
from agents.made_envs import envs_beside
from rl_core.errors import EnvFault

_AT_ONCE = 10  # envs: one call into the graph serves them all
_SEED_OFFSET = 1_000_003  # evaluation episodes are never training episodes


def evaluate(
    agent: DqnAgent,
    config: DqnConfig,
    episodes: int,
    *,
    seed: int | None = None,
    policy: Policy | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[float]:
    """Undiscounted returns of `episodes` episodes of the greedy policy.

    The episodes are fixed before the first one ends (each env plays its share), so short ones
    are not over-represented. Nothing is stored and nothing is learned.

    Args:
      seed: of the episodes; by default derived from the run's seed.
      policy: what acts; by default the agent's greedy one.
      stop: asked before every step; once it says yes, the returns so far are given.
    """
    act = policy or agent.greedy
    num_envs = min(episodes, _AT_ONCE)
    quota = [len(range(env, episodes, num_envs)) for env in range(num_envs)]
    seed = config.seed + _SEED_OFFSET if seed is None else seed
    envs = envs_beside(config, num_envs, seed=seed)
    try:
        returns: list[float] = []
        step = envs.reset()
        while len(returns) < episodes and not stop():
            step = envs.step(np.asarray(act(step.observation, step.legal)))
            returns += [e.episode_return for e in step.episodes if e.number < quota[e.env]]
        return returns
    except EnvFault as fault:
        fault.add(before="in an evaluation, ")
        raise
    finally:
        envs.close()
