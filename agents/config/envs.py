"""The envs that a config speaks of: those that are trained on, and others of the same kind."""

from __future__ import annotations

import numpy as np

from agents.config.model import DqnConfig
from envs import Envs, Vectorization, make_envs
from envs.in_graph.resident import ResidentEnvs
from envs.in_graph.table import make_rules


def training_envs(config: DqnConfig) -> Envs:
    """Raises EnvError: the config's env cannot be made or trained on."""
    if config.loop == "compiled":
        rules = make_rules(config.env_id, config.env_kwargs)
        return ResidentEnvs(config.env_id, rules, config.num_envs)
    return make_envs(
        config.env_id,
        config.num_envs,
        vectorization=config.vectorization,
        seed=config.seed,
        env_kwargs=config.env_kwargs,
        reward_scale=config.reward_scale,
        reward_clip=config.reward_clip or None,
    )


def byte_bounds(config: DqnConfig, envs: Envs) -> tuple[np.ndarray, np.ndarray] | None:
    """By what an agent scales bytes that `envs` show; None: by 0 and 255."""
    return envs.byte_bounds if config.byte_scale == "bounds" else None


def envs_beside(
    config: DqnConfig, num_envs: int = 1, *, seed: int | None = None, render_mode: str | None = None
) -> Envs:
    """Envs apart from those that are trained on, with rewards as the env gives them.

    A vector env, of the env's own or of envpool, may show other observations than a single env of
    the same id, or have no such env; so it is what is made. What worker processes step is stepped
    here.

    Args:
      seed: by default the run's.
      render_mode: as gymnasium has it.

    Raises:
      EnvError: they cannot be made.
    """
    whole: Vectorization = "sync" if config.vectorization == "async" else config.vectorization
    drawn = {"render_mode": render_mode} if render_mode else {}
    return make_envs(
        config.env_id,
        num_envs,
        vectorization=whole,
        seed=config.seed if seed is None else seed,
        env_kwargs=config.env_kwargs | drawn,
    )
