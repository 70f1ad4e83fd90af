"""Checks of an env: of its spaces and first observation once, of results of `reset` and `step`.

Gymnasium's checker wraps every step instead. Later observations are checked by envs.observations.
"""

import contextlib
import json
import math
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from targetnet.envs.observations import (
    as_array,
    can_store,
    contract_error,
    finite_in_float32,
    what_came,
)
from targetnet.rl_core.errors import (
    EnvContractError,
    EnvError,
    EnvFailed,
    EnvFault,
    in_one_line,
    quoted,
)

ArraySpaces = (
    gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary
)


def require_array_observations(
    env_id: str, space: gym.Space[Any], name: str = "", others: Sequence[str] = ()
) -> ArraySpaces:
    """Returns `space` if its observations are single arrays or numbers.

    Args:
      name: of a part of an observation; others: keys of parts that are arrays. For messages.

    Raises:
      EnvError: the space is no Box, Discrete, MultiDiscrete or MultiBinary.
    """
    if isinstance(space, ArraySpaces):
        return space
    where = f" at {name!r}" if name else ""
    if others:
        advice = f"leave it out: observation_keys = {json.dumps(list(others))}"
    else:
        advice = "put a wrapper around it (env_wrapper) that turns its observation into a Box"
    raise EnvError(
        f"env {quoted(env_id)} has{where} the observation space {text_of(space)}, but the agent "
        f"learns from arrays and numbers: Box, Discrete, MultiDiscrete and MultiBinary; {advice}"
    )


def text_of(space: Any) -> str:
    """Returns a space in one line."""
    try:
        return in_one_line(space)
    except Exception:  # the __repr__ of a custom Space class may fail
        return type(space).__name__


def require_matching_observation(
    env_id: str, space: gym.Space[Any], stored_dtype: np.dtype, observation: Any, name: str = ""
) -> None:
    """Raises EnvError unless the `observation` of a reset fits `space` and can be stored.

    The bounds of a Box are not checked: many envs slightly exceed them, and only the scaling of
    bytes uses them.
    """
    array = as_array(observation)
    problem = ""
    if array.dtype == object:
        problem = what_came(observation)
    elif array.shape != space.shape:
        problem = f"one of shape {array.shape}"
    elif not isinstance(space, gym.spaces.Box):
        problem = "" if space.contains(array) else in_one_line(array)
    elif not can_store(stored_dtype, array.dtype):
        problem = f"one of dtype {array.dtype}"
    elif not finite_in_float32(array).all():
        problem = "one with NaN or infinite numbers, or numbers beyond float32"
    if problem:
        where = f" at {name!r}" if name else ""
        raise EnvError(
            f"env {quoted(env_id)}: reset must give{where} an observation of its observation space "
            f"{in_one_line(space)}, got {problem}; correct the env or its observation_space"
        )


_FLAGS = (bool, np.bool_)
STEP = "(observation, reward, terminated, truncated, info)"
# In an info beside `terminated`: that is an end for the learner, and the episode goes on.
LIFE_LOST = "life_lost"


def reset_results(result: Any) -> tuple[Any, Any]:
    """Returns the observation and the info in the result of `reset`."""
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise contract_error(f"reset must return an observation and an info dict, got {_kind(result)}")


def not_a_step(result: Any) -> EnvFault:
    """Returns the error for a `step` that did not return five values."""
    return contract_error(f"step must return {STEP}, got {_kind(result)}")


def as_number(reward: Any) -> float:
    """Returns the reward of one env as a float; sums of a NumPy float32 would stay float32."""
    try:
        # NumPy makes no float of an array of shape (1,).
        return float(reward.item() if getattr(reward, "size", 0) == 1 else reward)
    except OverflowError:  # a whole number without end; as an infinite one it is told
        return math.inf if reward > 0 else -math.inf
    except (TypeError, ValueError):
        raise _no_reward(
            "the reward must be one number", reward, np.size(as_array(reward))
        ) from None


def _no_reward(wanted: str, given: Any, each: int) -> EnvContractError:
    """Returns the error for a reward; `each` is how many numbers one env gave."""
    problem = f"{wanted}, got {what_came(given)}"
    if each < 2:
        return contract_error(problem)
    return EnvContractError(
        f"{problem}; an env of several rewards needs a wrapper that makes one of them: env_wrapper "
        '= "mo_gymnasium.wrappers:LinearReward" adds them up, weighted by env_wrapper_kwargs = '
        "{ weight = [...] }"
    )


def as_flag(name: str, value: Any) -> bool:
    """Returns `terminated` or `truncated` of one env as a bool."""
    if value.__class__ in _FLAGS:
        return bool(value)
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf" or array.item() not in (0, 1):
        raise contract_error(f"{name} must be True or False, got {what_came(value)}")
    return bool(array.item())


def lost_lives(info: Any) -> Any:
    """Returns whether an info marks a lost life, [] bool; of a vector env's, [N] bool or False."""
    lost = info.get(LIFE_LOST, False) if isinstance(info, Mapping) else False
    return np.asarray(lost, np.bool_)


def as_rewards(rewards: Any, num_envs: int) -> np.ndarray:
    """Returns the rewards of a vector env, [N]."""
    several = as_array(rewards).shape
    if len(several) == 2 and several[0] == num_envs and several[1] > 1:
        raise _no_reward(f"the rewards must be {num_envs} numbers", rewards, several[1])
    return _row("the rewards", rewards, num_envs, "biuf", "numbers")


def as_flags(name: str, values: Any, num_envs: int) -> np.ndarray:
    """Returns `terminated` or `truncated` of a vector env, [N]."""
    array = _row(name, values, num_envs, "biu", "times True or False")
    if array.dtype.kind != "b" and array.astype(np.uint64).max() > 1:
        raise contract_error(f"{name} must be True or False for each env, got {array.max()}")
    return array


def _row(name: str, values: Any, num_envs: int, kinds: str, wanted: str) -> np.ndarray:
    array = np.asarray(values)
    if array.shape == (num_envs, 1):  # arrays of one number each
        array = array[:, 0]
    if array.shape != (num_envs,):
        raise contract_error(f"{name} must be {num_envs} {wanted}, got {what_came(values)}")
    if array.dtype.kind not in kinds:
        raise contract_error(f"{name} must be {num_envs} {wanted}, got dtype {array.dtype}")
    return array


def env_error(error: BaseException) -> EnvFault:
    """Returns the error to raise after an env's reset or step raised `error`."""
    if _is_unpacking_error(error):
        return contract_error(f"step must return {STEP} ({error})")
    text = f" ({in_one_line(error)})" if str(error) else ""
    failed = EnvFailed(f"{type(error).__name__} was raised{text}; correct the env")
    failed.__cause__ = error
    return failed


@contextlib.contextmanager
def naming(env_id: str, moment: str) -> Iterator[None]:
    """Turns what an env raises into an error that names it and the moment, such as "its close"."""
    try:
        yield
    except (EnvError, EnvFault):
        raise
    except (Exception, SystemExit) as error:
        fault = env_error(error)
        fault.add(before=f"env {env_id!r}, {moment}: ")
        raise fault from error


def _is_unpacking_error(error: BaseException) -> bool:
    """Returns True if a gymnasium wrapper, such as a time limit, could not unpack five values."""
    if not isinstance(error, TypeError | ValueError) or "unpack" not in str(error):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    module = str(frame.f_globals.get("__name__"))
    return module.startswith("gymnasium.") and not module.startswith("gymnasium.envs.")


def _kind(result: Any) -> str:
    if isinstance(result, tuple | list):
        return f"a {type(result).__name__} of {len(result)}"
    return in_one_line(type(result).__name__)
