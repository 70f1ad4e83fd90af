"""The making of single envs: their arguments, and the wrapper that a run puts around each."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym

from targetnet.envs.masks import AUTO
from targetnet.rl_core.errors import EnvError, in_one_line, shown
from targetnet.rl_core.own_function import MORE, failure, imported

# Name in a config -> function, and the package to install for it.
SHIPPED = {
    "atari": ("targetnet.envs.atari:preprocessed", "targetnet[atari]"),
    "elements": ("targetnet.envs.elements:KeptElements", ""),
}
Around = Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]


class Making(NamedTuple):
    """Everything by which each of several single envs is made, beside its id.

    Attributes:
      env_kwargs: arguments of the env.
      wrapper: name of a shipped one, or "module:function"; empty: none.
      wrapper_kwargs: its arguments, beside the env.
      frame_stack: frames of an observation.
      observation_keys: parts of it that are wanted; empty: all.
      action_masks: where the env says which actions are legal, see envs/masks.py.
      around: puts the outermost wrapper around each env of this process.
    """

    env_kwargs: Mapping[str, Any]
    wrapper: str = ""
    wrapper_kwargs: Mapping[str, Any] = {}
    frame_stack: int = 1
    observation_keys: tuple[str, ...] = ()
    action_masks: str = AUTO
    around: Around | None = None


def wrapped(env: gym.Env[Any, Any], env_id: str, making: Making) -> gym.Env[Any, Any]:
    """Returns the env with the wrapper around it; closes the env if that fails.

    Raises:
      ConfigError: there is no such wrapper.
      EnvError: it cannot be put around this env, or returns no env.
    """
    if not making.wrapper:
        return env
    try:
        return _wrapped(env, env_id, making.wrapper, making.wrapper_kwargs)
    except BaseException:
        env.close()
        raise


def _wrapped(
    env: gym.Env[Any, Any], env_id: str, name: str, kwargs: Mapping[str, Any]
) -> gym.Env[Any, Any]:
    place, package = SHIPPED.get(name, (name, ""))
    function = imported("env_wrapper", place)
    try:
        # A config has lists alone, and Gymnasium's wrappers want tuples.
        of_gymnasium = getattr(function, "__module__", "").startswith("gymnasium.")
        result = function(env, **(_as_tuples(kwargs) if of_gymnasium else kwargs))
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        reason = in_one_line(error.__cause__ or error)
        advice = f"run: pip install {package!r}" if package else "install that first"
        raise EnvError(
            f"env_wrapper {name!r} needs something that cannot be imported ({reason}); {advice}"
        ) from error
    except EnvError:
        raise
    except Exception as error:
        given = f" with env_wrapper_kwargs {in_one_line(dict(kwargs))}" if kwargs else ""
        how = f"cannot wrap {env_id!r}{given}"
        raise EnvError(failure("env_wrapper", name, how, error) + MORE) from error
    if not isinstance(result, gym.Env):
        raise EnvError(f"env_wrapper {name!r} must return an env, got {shown(result)}")
    return result


def _as_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_tuples(inner) for key, inner in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
