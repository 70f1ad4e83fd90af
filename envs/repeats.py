"""Compares episodes of an env with their repetition from the same seed.

Resume and replay need both to be the same. Nothing but the env itself is changed by that.
"""

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from targetnet.envs.lanes import Lane, repeat_episode
from targetnet.envs.seed_globals import SeedGlobals
from targetnet.envs.seeding import layers_of
from targetnet.rl_core.errors import quoted

# The first steps of the first episodes; after so many seconds no further one is begun.
_EPISODES, _STEPS, _SECONDS = 3, 20, 0.1
BY_HAND = (
    "let the env draw from its own np_random, which reset(seed=...) seeds, and keep nothing over a "
    "reset"
)

Played = list[dict[str, Any]]  # states of a lane, one for each episode


def play_some(lane: Lane) -> Played:
    """Plays the beginnings of some episodes by random legal actions.

    Raises:
      EnvFault: the env raised, or returned an invalid value.
    """
    numbers, states = np.random.default_rng(0), []
    begin = time.perf_counter()
    for episode in range(_EPISODES):
        lane.begin(episode)
        stepping = time.perf_counter()
        for _ in range(_STEPS):
            lane.advance(lane.random_action(numbers))
            if lane.ended or time.perf_counter() - stepping > _SECONDS:
                break
        states.append(lane.state() | {"ended": lane.ended})
        if time.perf_counter() - begin > _SECONDS:
            break
    return states


def come_back(lane: Lane, played: Played) -> bool:
    """Says whether an env shows and pays the same again, step by step.

    Raises:
      EnvFault: the env raised, or returned an invalid value, when a new episode began.
    """
    for state in played:
        ended = state["ended"]
        state = {name: value for name, value in state.items() if name != "ended"}
        if repeat_episode(lane, state) or lane.ended != ended:
            return False
    return True


def line_about(env_id: str, advice: str) -> str:
    """Returns the line that tells of an env whose episodes do not come back."""
    return (
        f"{env_id} gives other results when an episode is repeated from its seed, so resume and "
        f"replay are not exact; {advice}"
    )


def mended_by(names: Sequence[str]) -> str:
    """Returns the advice to put `seed_globals` around the wrappers with these names."""
    value = [*names, "seed_globals"] if names else "seed_globals"
    return f"env_wrapper = {quoted(value)} mends that"


def untried_advice(env: gym.Env[Any, Any]) -> str:
    """Returns the advice for an env, if nobody has tried `seed_globals`."""
    if any(isinstance(layer, SeedGlobals) for layer in layers_of(env)):
        return BY_HAND
    return "env_wrapper = 'seed_globals' mends that if it draws from random or numpy.random"
