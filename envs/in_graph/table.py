"""Table of the ids of the envs in the graph; only `make_rules` imports TensorFlow."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gymnasium.envs.registration import EnvSpec

from targetnet.envs.minatar import MAX_EPISODE_STEPS
from targetnet.rl_core.errors import EnvError, did_you_mean, quoted

if TYPE_CHECKING:
    from targetnet.envs.in_graph.interface import InGraphEnv


class TableEntry(NamedTuple):
    """The path of an env's rules, "module:Class", and its time limit in env steps."""

    rules: str
    max_episode_steps: int | None


RULES = {
    "InGraph/CartPole-v1": TableEntry("targetnet.envs.in_graph.cartpole:CartPole", 500),
    "InGraph/MountainCar-v0": TableEntry("targetnet.envs.in_graph.mountain_car:MountainCar", 200),
    "InGraph/Acrobot-v1": TableEntry("targetnet.envs.in_graph.acrobot:Acrobot", 500),
    "InGraph/Catch-v0": TableEntry(
        "targetnet.envs.in_graph.catch:Catch", None
    ),  # always ends after 9 steps
    **{
        f"InGraph/MinAtar-{name}-v1": TableEntry(
            f"targetnet.envs.in_graph.{module}:{name}", MAX_EPISODE_STEPS
        )
        for name, module in (
            ("Asterix", "minatar_asterix"),
            ("Breakout", "minatar_breakout"),
            ("Freeway", "minatar_freeway"),
            ("Seaquest", "minatar_seaquest"),
            ("SpaceInvaders", "minatar_space_invaders"),
        )
    },
}

# The same envs as ordinary Gymnasium envs.
SPECS = {
    env_id: EnvSpec(
        env_id,
        entry_point="targetnet.envs.in_graph.gymnasium_env:InGraphGymEnv",
        max_episode_steps=entry.max_episode_steps,
        kwargs={"rules": env_id},
    )
    for env_id, entry in RULES.items()
}


def make_rules(env_id: str, env_kwargs: Mapping[str, Any] | None = None) -> InGraphEnv:
    """Makes the rules of an env in the graph; imports TensorFlow.

    Args:
      env_id: an id in RULES.
      env_kwargs: arguments of the rules' class.

    Raises:
      EnvError: there is no such id, or the rules' class does not take these arguments.
    """
    if env_id not in RULES:
        near = did_you_mean(env_id, RULES) or f"; there are {', '.join(RULES)}"
        raise EnvError(f"there is no env {quoted(env_id)} in the graph{near}")
    module, name = RULES[env_id].rules.split(":")
    rules = getattr(importlib.import_module(module), name)
    given = dict(env_kwargs or {})
    taken = sorted(inspect.signature(rules).parameters)
    for argument in given:
        if argument not in taken:
            raise EnvError(
                f"env {env_id!r} takes no argument {quoted(argument)} (env_kwargs)"
                f"{did_you_mean(argument, taken)}; it takes {', '.join(taken) or 'none'}"
            )
    return rules(**given)
