"""Envs of a config: the ones for training, and separate ones for evaluation and play."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.envs import Envs, Vectorization, make_envs
from targetnet.envs.drivers import UnsteppedEnvs
from targetnet.rl_core.errors import RlCoreError
from targetnet.rl_core.observation_parts import Part

if TYPE_CHECKING:
    from targetnet.envs.env_recipe import Around
    from targetnet.rl_core.networks import ObservationForm


def training_envs(config: DqnConfig, *, check: bool = False) -> Envs:
    """Makes the envs to train on; of an offline run, what it has to know of them.

    Args:
      check: as for `make_envs`.

    Raises:
      EnvError: the config's env cannot be made or trained on.
    """
    if config.offline:
        return unstepped_envs(config)
    if config.loop == "compiled":
        # Imports TensorFlow, which actors do without.
        from targetnet.envs.in_graph.resident import ResidentEnvs
        from targetnet.envs.in_graph.table import make_rules

        rules = make_rules(config.env_id, config.env_kwargs)
        return ResidentEnvs(config.env_id, rules, config.num_envs, config.frame_stack)
    return make_envs(
        config.env_id,
        config.num_envs,
        vectorization=config.vectorization,
        seed=config.seed,
        env_kwargs=config.env_kwargs,
        wrapper=config.env_wrapper,
        wrapper_kwargs=config.env_wrapper_kwargs,
        frame_stack=config.frame_stack,
        observation_keys=config.observation_keys,
        check=check,
        action_masks=config.action_masks,
    )


def unstepped_envs(config: DqnConfig) -> Envs:
    """Returns what there is to know of the config's env without a step of it: its spaces.

    Raises:
      EnvError: it cannot be made.
    """
    with contextlib.closing(envs_beside(config)) as here:
        envs = UnsteppedEnvs(config.env_id, 1, here.spaces)
        envs.has_time_limit = here.has_time_limit  # evaluations step them
        return envs


def observed(config: DqnConfig, envs: Envs) -> ObservationForm:
    """Returns the form of the envs' observations, as networks read them."""
    # Imports TensorFlow, which actors do without.
    from targetnet.rl_core.networks import ObservationForm

    return ObservationForm.of(byte_bounds(config, envs), parts_of(config, envs))


def parts_of(config: DqnConfig, envs: Envs) -> tuple[Part, ...]:
    """Returns the parts of packed observations, with the bounds that scale bytes to [0, 1]."""
    if config.byte_scale == "bounds":
        return envs.parts
    return tuple(part._replace(byte_bounds=None) for part in envs.parts)


def byte_bounds(config: DqnConfig, envs: Envs) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the bounds that scale uint8 observations to [0, 1]; None means 0 and 255."""
    return envs.byte_bounds if config.byte_scale == "bounds" else None


def envs_beside(
    config: DqnConfig,
    num_envs: int = 1,
    *,
    seed: int | None = None,
    render_mode: str | None = None,
    around: Around | None = None,
    check: bool = False,
) -> Envs:
    """Makes envs for evaluation or play.

    If the run trains on a vector env (`vectorization` "vector_entry_point" or "envpool"), so do
    these envs: a single env of the same id may show other observations, or may not exist. If the
    run trains in worker processes ("async"), these envs are stepped in this process.

    Args:
      seed: seed of the envs; by default the run's seed.
      render_mode: Gymnasium's render mode, such as "human" or "rgb_array".
      around: puts a wrapper around each single env, outside all others.
      check: as for `make_envs`.

    Raises:
      EnvError: the envs cannot be made, or `around` is given and they are a vector env.
    """
    whole: Vectorization = "sync" if config.vectorization == "async" else config.vectorization
    drawn = {"render_mode": render_mode} if render_mode else {}
    return make_envs(
        config.env_id,
        num_envs,
        vectorization=whole,
        seed=config.seed if seed is None else seed,
        env_kwargs=config.env_kwargs | drawn,
        wrapper=config.env_wrapper,
        wrapper_kwargs=config.env_wrapper_kwargs,
        frame_stack=config.frame_stack,
        observation_keys=config.observation_keys,
        action_masks=config.action_masks,
        around=around,
        check=check,
    )


def why_not_repeated(config: DqnConfig) -> str:
    """Returns a line about a run whose repetition differs; "" if its env is not the cause."""
    if config.offline or config.loop == "compiled":
        return ""
    try:
        with contextlib.closing(envs_beside(config, check=True)) as envs:
            return envs.check() if envs.check_is_due else envs.not_repeated
    except RlCoreError:
        return ""
