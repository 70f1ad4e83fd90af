"""Actions in the agent's form and in an env's.

The agent counts from 0. Of a Discrete space its action is one number. Of a MultiDiscrete or a
MultiBinary space it is a vector, with a number for each branch: for each element of what the env
takes, in the order of its memory.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from targetnet.envs.outcomes import text_of
from targetnet.rl_core.errors import EnvError, quoted

# Branches of different sizes, and hidden layers of their own, are operations in the graph for each.
_MOST_BRANCHES = 1_000

OneToEnv = Callable[[Any], Any]  # an int, or a list of D of them -> an action as the env takes it


class ActionForm(NamedTuple):
    """Both forms of one env's actions.

    Attributes:
      outputs: A, those of a network: n of a Discrete space, else the sum of `branches`.
      branches: number of choices in each branch, [D]; (): a Discrete space.
      first: the env's own number for the agent's 0: one, or [D] of them.
      shape, dtype: of an action as the env takes it.
      binary: whether the env's space is MultiBinary, whose masks have another form.
    """

    outputs: int
    branches: tuple[int, ...] = ()
    first: Any = 0
    shape: tuple[int, ...] = ()
    dtype: np.dtype = np.dtype(np.int64)
    binary: bool = False

    @property
    def agent_shape(self) -> tuple[int, ...]:
        """Shape of one of the agent's actions: () or (D,)."""
        return (len(self.branches),) if self.branches else ()

    def one_to_env(self) -> OneToEnv:
        """Returns the function from one of the agent's actions to the env's."""
        if not self.branches:
            add: OneToEnv = self.first.__add__  # in C: lanes call it at every step
            return add
        first, shape, dtype = self.first, self.shape, self.dtype

        def to_env(action: list[int]) -> np.ndarray:
            # A new array each time, because an env may keep it.
            return (np.array(action, np.int64) + first).astype(dtype).reshape(shape)

        return to_env

    def to_env(self, actions: np.ndarray) -> np.ndarray:
        """[N] or [N, D] of the agent's actions -> [N, ...] of the env's."""
        if self.branches:
            own = (actions + self.first).astype(self.dtype)  # [N, D]
            whole: np.ndarray = own.reshape(len(actions), *self.shape)
            return whole
        return actions + self.first if self.first else actions

    def has(self, action: Any) -> bool:
        """Says whether an int, or a list of ints, is one of the agent's actions."""
        if not self.branches:
            return isinstance(action, int) and 0 <= action < self.outputs
        if not isinstance(action, list) or len(action) != len(self.branches):
            return False
        return all(0 <= a < n for a, n in zip(action, self.branches, strict=True))

    def random(self, numbers: np.random.Generator, legal: np.ndarray | None) -> Any:
        """Returns one of the agent's actions that `legal` [A] allows; None allows all."""
        if legal is None:
            legal = np.ones(self.outputs, np.bool_)
        ends = np.cumsum(self.branches, dtype=np.int64)[:-1]
        each = [int(numbers.choice(np.flatnonzero(of))) for of in np.split(legal, ends)]
        return each if self.branches else each[0]

    def __str__(self) -> str:
        if not self.branches:
            return f"0 to {self.outputs - 1}"
        return f"the vectors of {len(self.branches)} numbers below {quoted(list(self.branches))}"


def action_form(env_id: str, space: gym.Space[Any]) -> ActionForm:
    """Returns both forms of an env's actions.

    Raises:
      EnvError: the space is no Discrete, MultiDiscrete or MultiBinary, or has no branch or too
        many of them.
    """
    if isinstance(space, gym.spaces.Discrete):
        return ActionForm(int(space.n), first=int(space.start))
    if not isinstance(space, gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
        raise _refusal(env_id, space)
    D = math.prod(space.shape)
    if not 1 <= D <= _MOST_BRANCHES:
        raise EnvError(
            f"env {quoted(env_id)} has the action space {text_of(space)}, of {D:,} numbers at "
            f"once; 1 to {_MOST_BRANCHES:,} are possible"
        )
    if isinstance(space, gym.spaces.MultiBinary):
        first, dtype = np.zeros(D, np.int64), np.dtype(np.int8)
        return ActionForm(2 * D, (2,) * D, first, space.shape, dtype, binary=True)
    branches = tuple(space.nvec.reshape(-1).tolist())
    first = space.start.reshape(-1).astype(np.int64)
    return ActionForm(sum(branches), branches, first, space.shape, np.dtype(space.dtype))


def _refusal(env_id: str, space: Any) -> EnvError:
    if isinstance(space, gym.spaces.Box):
        kind = "a continuous action space"
        advice = (
            "set env_kwargs continuous = false if the env has that, or put Gymnasium's wrapper "
            "around it: env_wrapper = 'gymnasium.wrappers:DiscretizeAction' with "
            "env_wrapper_kwargs = {bins = 5, multidiscrete = true}"
        )
    else:
        kind = "the action space"
        advice = "put a wrapper around it (env_wrapper) that has one of these"
    return EnvError(
        f"env {quoted(env_id)} has {kind} {text_of(space)}, but the agent chooses among "
        f"the actions of a Discrete, a MultiDiscrete or a MultiBinary; {advice}"
    )
