"""Global random numbers that an env draws from, seeded with each of its episodes."""

import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import mtrand

from targetnet.envs.seeding import layers_of


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
