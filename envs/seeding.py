"""Seeds of the episodes: each episode has its own, so that it can be reproduced alone."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

_SPACES = ("action_space", "observation_space")
_SPACES_OF_VECTORS = (*_SPACES, "single_action_space", "single_observation_space")


def episode_seed(seed: int, env: int, episode: int) -> int:
    """Returns the reset seed of episode number `episode` of env `env` in a run with seed `seed`."""
    derived = np.random.SeedSequence(entropy=seed, spawn_key=(env, episode)).generate_state(1)[0]
    # 31 bits: some envs pass their seed to C code as a signed 32-bit number.
    return int(derived >> 1)


def layers_of(env: Any) -> Iterator[Any]:
    """Yields the env and all that it is wrapped around, from the outermost on."""
    layer, seen = env, set[int]()
    while isinstance(layer, gym.Env | gym.vector.VectorEnv) and id(layer) not in seen:
        yield layer
        seen.add(id(layer))
        layer = vars(layer).get("env")


def seed_spaces(env: Any, seed: int) -> None:
    """Seeds the spaces of an env and of all wrappers around it, as some of them draw from these.

    Args:
      env: a single env, or a vector env.
      seed: of the episode. Each space has another one, and the env has this one itself: from the
        same seed they would all draw the same numbers.
    """
    names = _SPACES_OF_VECTORS if isinstance(env, gym.vector.VectorEnv) else _SPACES
    seen = set[int]()
    for layer in layers_of(env):
        for name in names:
            # A space of the user's own may take no seed, and an env inside may have none at all.
            with contextlib.suppress(Exception):
                space = getattr(layer, name)
                if isinstance(space, gym.Space) and id(space) not in seen:
                    seen.add(id(space))
                    space.seed((seed + len(seen)) % 2**31)


def give_own_spaces(env: gym.Env[Any, Any]) -> None:
    """Gives an env copies of spaces that all envs of its class share.

    From a shared one each env would draw the numbers of another one's episode.
    """
    inner = env.unwrapped
    for name in _SPACES:
        shared = getattr(type(inner), name, None)
        with contextlib.suppress(Exception):  # a class with slots has no room for it
            if isinstance(shared, gym.Space) and name not in vars(inner):
                setattr(inner, name, copy.deepcopy(shared))
