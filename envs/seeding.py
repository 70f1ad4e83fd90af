"""Seeds of the episodes: each episode has its own, so that it can be reproduced alone.

Global random numbers that an env draws from are seeded with each of its episodes.
"""

import contextlib
import copy
import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import mtrand

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


class SeedGlobals(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Seeds `random`, `numpy.random` and the env's `np_random` with the seed of each reset.

        env_wrapper = "seed_globals"

    It is for envs that draw from the first two, or do not seed the third. The env has the global
    ones to itself: they are as it left them when it is stepped again, and as they were for
    everybody else afterwards. So envs side by side do not disturb one another, and each episode
    comes back from its seed. A `reset` that takes no `seed` or no `options` is called without.

    Args:
      env: a single env.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self._random: Any = random.getstate()
        self._numpy = np.random.MT19937()
        for layer in layers_of(env):
            _take_unknown_arguments(layer)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        with self._with_own():
            if seed is not None:
                random.seed(seed)
                np.random.seed(seed % 2**32)
                gym.Env.reset(self.unwrapped, seed=seed)  # seeds `np_random`, and does nothing else
            return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        with self._with_own():
            return self.env.step(action)

    @contextmanager
    def _with_own(self) -> Iterator[None]:
        # A generator is changed for another one within a microsecond; NumPy takes 200 to read and
        # write a state. A second normal number that it has ready is lost by that.
        of_others, numpys = random.getstate(), mtrand.get_bit_generator()
        random.setstate(self._random)
        mtrand.set_bit_generator(self._numpy)
        try:
            yield
        finally:
            self._random = random.getstate()
            random.setstate(of_others)
            mtrand.set_bit_generator(numpys)


def global_state() -> Any:
    """Returns the states of `random` and `numpy.random`, for `put_back`."""
    return random.getstate(), np.random.get_state()


def put_back(state: Any) -> None:
    """Brings `random` and `numpy.random` back to an earlier state."""
    random.setstate(state[0])
    np.random.set_state(state[1])


def _take_unknown_arguments(env: gym.Env[Any, Any]) -> None:
    """Has the env's `reset` take `seed` and `options`, and leaves out what it does not know."""
    reset: Callable[..., Any] = env.reset
    try:
        parameters = inspect.signature(reset).parameters
    except (TypeError, ValueError):  # a function in C that does not tell
        return
    unknown = {"seed", "options"} - parameters.keys()
    if not unknown or any(of.kind is of.VAR_KEYWORD for of in parameters.values()):
        return

    def without(**given: Any) -> Any:
        return reset(**{name: value for name, value in given.items() if name not in unknown})

    env.reset = without  # type: ignore[method-assign]
