"""The making of single envs: their arguments, and the wrappers that a run puts around each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from targetnet.envs.masks import AUTO
from targetnet.rl_core.errors import ArgumentError, EnvError, in_one_line, quoted
from targetnet.rl_core.own_function import MORE, failure, imported


class SelectedElements(
    gym.ObservationWrapper[np.ndarray, Any, np.ndarray], gym.utils.RecordConstructorArgs
):
    """Shows some elements of a vector, in the order in which they are named.

        env_wrapper = "elements"
        env_wrapper_kwargs = { keep = [0, 2] }    # of CartPole: where, and at which angle

    Args:
      env: its observations are a Box of rank 1.
      keep: numbers of the elements, from 0 on, each once.

    Raises:
      EnvError: the observations are no vector, or have no such element.
    """

    def __init__(self, env: gym.Env[Any, Any], keep: Sequence[int] = ()) -> None:
        # First, as in Gymnasium's own wrappers: so that the env's spec tells how to make it again.
        gym.utils.RecordConstructorArgs.__init__(self, keep=keep)
        gym.ObservationWrapper.__init__(self, env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise EnvError(f"env_wrapper 'elements' needs observations of a vector, got {space}")
        self._keep = list(keep) if isinstance(keep, list | tuple) else []
        known = range(space.shape[0])
        wrong = [of for of in self._keep if type(of) is not int or of not in known]
        if wrong or not self._keep or len(set(self._keep)) < len(self._keep):
            raise EnvError(
                f"env_wrapper 'elements': keep must be a list of elements of an observation, 0 to "
                f"{known[-1]}, each once, got {quoted(keep)}"
            )
        low, high = space.low[self._keep], space.high[self._keep]
        self.observation_space = gym.spaces.Box(low, high, dtype=space.dtype.type)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """[n] -> [len(keep)]."""
        return observation[self._keep]


# Name in a config -> function, and the package to install for it.
SHIPPED = {
    "atari": ("targetnet.envs.atari:preprocessed", "targetnet[atari]"),
    "elements": ("targetnet.envs.env_recipe:SelectedElements", ""),
    "seed_globals": ("targetnet.envs.seeding:SeedGlobals", ""),
}
# Gymnasium's wrappers that learn from the steps they see, each env's apart and in no checkpoint,
# and the keys to use instead. Those of vector envs have the same names.
_WITH_STATE = {
    "NormalizeObservation": "set normalize_observations = true, whose statistics belong to the "
    "agent, so that evaluations and a resume have them too",
    "NormalizeReward": "set reward_scale, which scales what is learned from and leaves returns in "
    "the env's own unit",
}
_OTHER_RETURNS = {
    "ClipReward": "set reward_clip, which clips what is learned from and leaves returns in the "
    "env's own unit"
}
DOES_NOT_START = "it is installed, but does not start here"
Around = Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]


class EnvRecipe(NamedTuple):
    """Everything by which each of several single envs is made, beside its id.

    Attributes:
      env_kwargs: arguments of the env.
      wrappers: those around it, the innermost one first: the name of a shipped one or
        "module:function", and its arguments beside the env.
      frame_stack: frames of an observation.
      observation_keys: parts of it that are wanted; empty: all.
      action_masks: where the env says which actions are legal, see envs/masks.py.
      around: puts the outermost wrapper around each env of this process.
    """

    env_kwargs: Mapping[str, Any]
    wrappers: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    frame_stack: int = 1
    observation_keys: tuple[str, ...] = ()
    action_masks: str = AUTO
    around: Around | None = None


def with_arguments(names: Any, kwargs: Any) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Returns wrappers, each with its arguments.

    Args:
      names: a name, or several in the order in which they are put around an env; empty: none.
      kwargs: arguments of the only one, or a list with those of each; empty or None: none.

    Raises:
      ArgumentError: they are something else, or not as many.
    """
    several = names if isinstance(names, list | tuple) else [] if names in ("", None) else [names]
    each = kwargs if isinstance(kwargs, list | tuple) else [kwargs] if kwargs else []
    if not all(isinstance(name, str) for name in several):
        known = ", ".join(map(repr, SHIPPED))
        raise ArgumentError(
            f"wrapper must be {known} or 'module:function', or a list of these, got {quoted(names)}"
        )
    if not all(isinstance(one, Mapping) for one in each):
        raise ArgumentError(
            "wrapper_kwargs must be names with values, a list of such, one for each wrapper, or "
            f"None, got {quoted(kwargs)}"
        )
    if each and len(each) != len(several):
        raise ArgumentError(
            f"wrapper_kwargs must be as many as the wrappers, {len(several)}, got {len(each)}"
        )
    return tuple(zip(several, map(dict, each or [{}] * len(several)), strict=True))


def wrapped(env: gym.Env[Any, Any], env_id: str, making: EnvRecipe) -> gym.Env[Any, Any]:
    """Returns the env with the wrappers around it; closes the env if that fails.

    Raises:
      ConfigError: there is no such wrapper.
      EnvError: it cannot be put around this env, returns no env, or carries state from one episode
        to the next.
    """
    try:
        for name, kwargs in making.wrappers:
            env = _wrapped(env, env_id, name, kwargs)
        return env
    except BaseException:
        env.close()
        raise


def _wrapped(
    env: gym.Env[Any, Any], env_id: str, name: str, kwargs: Mapping[str, Any]
) -> gym.Env[Any, Any]:
    place, package = SHIPPED.get(name, (name, ""))
    function = imported("env_wrapper", place)
    _refuse(name, _WITH_STATE | _OTHER_RETURNS, function)
    try:
        result = _called(function, env, kwargs)
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        cause = error.__cause__ or error
        advice = f"run: pip install {package!r}" if package else "install that first"
        if isinstance(cause, ImportError) and not isinstance(cause, ModuleNotFoundError):
            advice = DOES_NOT_START
        raise EnvError(
            f"env_wrapper {name!r} needs something that cannot be imported ({in_one_line(cause)}); "
            f"{advice}"
        ) from error
    except EnvError:
        raise
    except Exception as error:
        given = f" with env_wrapper_kwargs {in_one_line(dict(kwargs))}" if kwargs else ""
        how = f"cannot wrap {env_id!r}{given}"
        raise EnvError(failure("env_wrapper", name, how, error) + MORE) from error
    if not isinstance(result, gym.Env):
        raise EnvError(f"env_wrapper {name!r} must return an env, got {quoted(result)}")
    layer: Any = result
    while layer is not env and isinstance(layer, gym.Wrapper):
        _refuse(name, _WITH_STATE, type(layer))
        layer = layer.env
    return result


def _refuse(name: str, instead: Mapping[str, str], wrapper: Any) -> None:
    """Refuses Gymnasium's wrappers that `instead` names, and classes made from these.

    Raises:
      EnvError: `wrapper` is one.
    """
    for kind in getattr(wrapper, "__mro__", ()):
        if kind.__name__ in instead and kind.__module__.startswith("gymnasium.wrappers."):
            does = "changes what a return means"
            if kind.__name__ in _WITH_STATE:
                does = "carries its statistics from episode to episode, and each env has its own"
            raise EnvError(
                f"env_wrapper {quoted(name)}: Gymnasium's {kind.__name__} {does}; leave it out and "
                f"{instead[kind.__name__]}"
            )


def _called(function: Callable[..., Any], env: gym.Env[Any, Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls a wrapper with arguments of a config, which has lists where code has other types."""
    first: Exception | None = None
    for form in _forms(function, kwargs):
        try:
            return function(env, **form)
        except Exception as error:
            first = first or error
    assert first is not None
    raise first


def _forms(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the arguments as they are most likely wanted, and then in other forms."""
    if not any(isinstance(value, list | dict) for value in kwargs.values()):
        yield dict(kwargs)
        return
    try:
        parameters = {n: str(p.annotation) for n, p in signature(function).parameters.items()}
    except (TypeError, ValueError):  # some functions in C do not tell
        parameters = {}
    arrays = {name for name, annotation in parameters.items() if "ndarray" in annotation}
    yield {n: _as_array(v) if n in arrays else _as_tuple(v) for n, v in kwargs.items()}
    yield {name: _as_array(value) for name, value in kwargs.items()}
    yield dict(kwargs)


def _as_tuple(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_tuple(inner) for key, inner in value.items()}
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def _as_array(value: Any) -> Any:
    """Returns a list of numbers as an array; all else as `_as_tuple` does."""
    try:
        array = np.array(value)
    except ValueError:  # lists of different lengths
        return _as_tuple(value)
    numbers = isinstance(value, list) and array.dtype.kind in "biuf"
    return array if numbers else _as_tuple(value)
