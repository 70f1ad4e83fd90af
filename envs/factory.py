"""Factory: from an env id to running, checked envs.

All problems of an env that can be found before the run are found here.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from numbers import Integral
from types import NoneType
from typing import Any, Literal, get_args

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

from targetnet.envs.arrays import array_space
from targetnet.envs.async_driver import AsyncEnvs
from targetnet.envs.drivers import SingleEnv, SyncEnvs, VectorEnvs, frames_per_second
from targetnet.envs.env_recipe import Around, EnvRecipe, with_arguments
from targetnet.envs.interface import Envs
from targetnet.envs.lanes import (
    BY_HAND,
    Lane,
    Played,
    blank_step,
    come_back,
    line_about,
    mended_by,
    play_some,
)
from targetnet.envs.masks import AUTO, find_masks
from targetnet.envs.nests import Leaf, at
from targetnet.envs.outcomes import naming, require_matching_observation
from targetnet.envs.pool import PoolEnv
from targetnet.envs.registry import find_spec, make_single, make_vector
from targetnet.envs.seeding import episode_seed, global_state, put_back
from targetnet.envs.spaces import Spaces
from targetnet.envs.stacks import spaces_for
from targetnet.rl_core.arguments import require_a, require_whole
from targetnet.rl_core.errors import ArgumentError, EnvError, EnvFault, did_you_mean, quoted
from targetnet.rl_core.machine import check_memory, memory_limit, resident_bytes

Vectorization = Literal["sync", "async", "vector_entry_point", "envpool"]
# Least bytes of one env. A CartPole has 5,000; in a vector env most are elements of shared arrays.
_LEAST_BYTES = {"sync": 2_000, "async": 2_000, "vector_entry_point": 300, "envpool": 300}
# Number of made envs at the first look at their memory, and number from which on even a small
# growth is trusted: with few light envs the growth is mostly chance.
_FIRST_LOOK, _MANY = 8, 4_096
_LONG = 1.0  # seconds; an env that takes longer to make and to reset is not made for a check alone


def make_envs(
    env_id: str,
    num_envs: int = 1,
    *,
    vectorization: Vectorization = "sync",
    seed: int,
    env_kwargs: Mapping[str, Any] | None = None,
    wrapper: str | Sequence[str] = "",
    wrapper_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    frame_stack: int = 1,
    observation_keys: Sequence[str] = (),
    action_masks: str = AUTO,
    first: int = 0,
    around: Around | None = None,
    check: bool = False,
) -> Envs:
    """Makes `num_envs` envs that step together.

    An env that says at its first reset which actions are legal, like gymnasium's Taxi, has masks:
    it must say so at every later step too (envs/masks.py), and every Step has them in `legal`.

    Args:
      env_id: a registered id with its version, or "module:Env-v0" to import `module` first; for
        "envpool" an id of envpool.
      num_envs: number of envs.
      vectorization: "sync" steps single envs one after the other and seeds every episode.
        "async" gives the same rows from worker processes; it is faster if the envs are slow and
        cores are free. "vector_entry_point" is the vector env that some envs provide, "envpool"
        the vector env of the package envpool; both are seeded only once, at their start.
      seed: the run's seed, >= 0.
      env_kwargs: arguments of the env, and `max_episode_steps` to change its time limit.
      wrapper: put around each single env: "atari" (envs/atari.py), "elements" (some elements of
        an observation), "seed_globals" (envs/seeding.py), or "module:function" of a function
        that takes an env, and `wrapper_kwargs`, and returns an env; or a list of such, which are
        put around it in this order.
      wrapper_kwargs: its arguments; of a list, a list with the arguments of each.
      frame_stack: frames of an observation: what an env shows now and the steps before, the newest
        one last along the last axis, with zeros before an episode's first (envs/stacks.py).
      observation_keys: of observations that are dicts or tuples, the parts that are wanted; empty:
        all (envs/nests.py).
      action_masks: where the env says which actions are legal: "auto" takes info["action_mask"], a
        part `action_mask` of a dict, or a method `action_masks()`, whichever is there first;
        "info" the first of these alone; "off" none; any other text names a part. A part that says
        so is no observation.
      first: number of the first env, if these are a share of a larger set; "sync" only. With the
        seed it determines every episode.
      around: puts a wrapper around each single env, outside all others; "sync" only.
      check: first makes an env, compares some steps with their repetition, and closes it;
        `not_repeated` of the result says if they differ. An env that takes long to make is kept
        instead, and `check_is_due`. Vector envs are not checked.

    Raises:
      EnvError: there is no such env, it cannot be made, or it cannot be trained on.
      ArgumentError, BoundsError: an argument is of another kind, or too small.
      ConfigError: the wrapper cannot be imported.
      EnvFailed: the env's first reset raised an exception.
      MemoryLimitError: the envs need more memory than is available.
    """
    _require_arguments(env_id, num_envs, vectorization, seed, env_kwargs)
    wrappers = with_arguments(wrapper, wrapper_kwargs)
    _require_names(observation_keys)
    require_whole("first", first, 0)
    require_whole("frame_stack", frame_stack, 1)
    require_a(str, "action_masks", action_masks, "'auto', 'info', 'off' or the name of a part")
    if first and vectorization != "sync":
        raise EnvError(f"first = {first} needs vectorization = 'sync', got {vectorization!r}")
    _require_room(num_envs, _LEAST_BYTES[vectorization])
    make = _MAKE[vectorization]
    if first:
        make = partial(make, first=first)
    making = EnvRecipe(
        dict(env_kwargs or {}), wrappers, frame_stack, tuple(observation_keys), action_masks, around
    )
    if around is not None and vectorization != "sync":
        raise EnvError(f"around needs vectorization = 'sync', got {vectorization!r}")
    if wrappers and vectorization not in ("sync", "async"):
        raise EnvError(
            f"env_wrapper = {quoted(wrapper)} is put around single envs, and vectorization = "
            f"{vectorization!r} makes none; set vectorization = 'sync' or 'async'"
        )
    kept: gym.Env[Any, Any] | None = None
    line = ""
    checked = check and vectorization in ("sync", "async")
    if checked:
        kept, line = _checked_before(env_id, seed, making)
        make = partial(make, kept=kept)
    try:
        envs = make(env_id, num_envs, seed, making)
    except (EnvError, EnvFault) as error:
        if checked and kept is None and vectorization == "sync":  # one like it was made before
            error.args = (f"{error}; one was made and closed before it, see check_env",)
        raise
    envs.not_repeated, envs.check_is_due = line, kept is not None
    if vectorization != "envpool":  # every env of envpool has a time limit
        envs.has_time_limit = _has_time_limit(find_spec(env_id), making.env_kwargs)
    return envs


def _require_names(observation_keys: object) -> None:
    keys = observation_keys if isinstance(observation_keys, list | tuple) else [None]
    if not all(isinstance(key, str) for key in keys):
        raise ArgumentError(f"observation_keys must be names, got {quoted(observation_keys)}")


def _has_time_limit(spec: EnvSpec, env_kwargs: Mapping[str, Any]) -> bool:
    kwargs = spec.kwargs | dict(env_kwargs)
    # Atari envs have their own time limit as an argument of the env.
    steps = kwargs.get("max_episode_steps", spec.max_episode_steps)
    limits = (steps, kwargs.get("max_num_frames_per_episode"))
    return any(limit not in (None, -1) for limit in limits)  # -1 takes Gymnasium's limit away


def _require_arguments(
    env_id: str,
    num_envs: int,
    vectorization: str,
    seed: int,
    env_kwargs: Mapping[str, Any] | None,
) -> None:
    require_a(str, "env_id", env_id, "the id of an env, such as 'CartPole-v1'")
    require_a(Integral, "num_envs", num_envs, "a whole number of envs >= 1")
    require_a(Integral, "seed", seed, "a whole number >= 0")
    require_a((Mapping, NoneType), "env_kwargs", env_kwargs, "names with values, or None")
    if num_envs < 1:
        raise EnvError(f"num_envs must be a whole number of envs >= 1, got {quoted(num_envs)}")
    if seed < 0:
        raise EnvError(f"seed must be a whole number >= 0, got {quoted(seed)}")
    known = get_args(Vectorization)
    if vectorization not in known:
        raise EnvError(
            f"vectorization must be one of {', '.join(map(repr, known))}, got "
            f"{quoted(vectorization)}{did_you_mean(vectorization, known)}"
        )


def _require_room(num_envs: int, each: int) -> None:
    check_memory(
        num_envs * each, f"num_envs = {num_envs:,}", advice="lower num_envs", once_full=False
    )


def _make_all(
    spec: EnvSpec,
    num_envs: int,
    making: EnvRecipe,
    opened: ExitStack,
    kept: gym.Env[Any, Any] | None,
) -> list[gym.Env[Any, Any]]:
    """Makes single envs; if there are many, first measures the memory of a few.

    Args:
      kept: the first one, if it is made.
    """
    envs = [opened.enter_context(closing(env)) for env in (kept,) if env is not None]
    before, look = 0, _FIRST_LOOK
    for made in range(len(envs), num_envs):
        if made == 1:  # the first env's memory includes the imported modules
            before = resident_bytes()
        if made == look:
            look *= 8
            grown = resident_bytes() - before
            if made >= _MANY or grown > memory_limit() / 50:
                _require_room(num_envs, grown // (made - 1))
        envs.append(opened.enter_context(closing(make_single(spec, making))))
    return envs


def _make_sync(
    env_id: str,
    num_envs: int,
    seed: int,
    making: EnvRecipe,
    first: int = 0,
    kept: gym.Env[Any, Any] | None = None,
) -> Envs:
    spec = find_spec(env_id)
    with ExitStack() as opened:  # closes the envs if a later line raises
        envs = _make_all(spec, num_envs, making, opened, kept)
        spaces = _checked_single(env_id, envs[0], seed, making)
        opened.pop_all()
        driver = SingleEnv if num_envs == 1 else SyncEnvs
        return driver(env_id, envs, spaces, seed, first=first)


def _make_async(
    env_id: str,
    num_envs: int,
    seed: int,
    making: EnvRecipe,
    kept: gym.Env[Any, Any] | None = None,
) -> Envs:
    spec = find_spec(env_id)
    # An extra env in this process finds problems before any worker process starts.
    with closing(make_single(spec, making) if kept is None else kept) as env:
        spaces = _checked_single(env_id, env, seed, making)
        fps = frames_per_second(env)
    return AsyncEnvs(env_id, spec, num_envs, making, spaces, seed, frames_per_second=fps)


def _make_vector(
    env_id: str,
    num_envs: int,
    seed: int,
    making: EnvRecipe,
) -> Envs:
    env = make_vector(find_spec(env_id), num_envs, making.env_kwargs, making.frame_stack)
    return _drive(env_id, env, seed, making)


def _make_pool(
    env_id: str,
    num_envs: int,
    seed: int,
    making: EnvRecipe,
) -> Envs:
    pool = PoolEnv(env_id, num_envs, making.env_kwargs)
    return _drive(env_id, pool, seed, making)


_MAKE: dict[str, Callable[..., Envs]] = {
    "sync": _make_sync,
    "async": _make_async,
    "vector_entry_point": _make_vector,
    "envpool": _make_pool,
}


def _drive(
    env_id: str,
    vector_env: gym.vector.VectorEnv[Any, Any, Any],
    seed: int,
    making: EnvRecipe,
) -> Envs:
    with ExitStack() as opened:
        env = opened.enter_context(closing(vector_env))
        space: Any = getattr(env, "single_observation_space", None)
        actions: Any = getattr(env, "single_action_space", None)
        spaces = spaces_for(env_id, space, actions, making)
        _require_room_to_see(spaces, env.num_envs)
        first = _first_reset(env_id, env, seed)
        for leaf in spaces.leaves:
            _require_matching(env_id, leaf, at(first[0], leaf.path)[0])
        spaces = _with_masks(env_id, env, spaces, first, making, env.num_envs)
        opened.pop_all()
        return VectorEnvs(env_id, env, spaces, seed)


def _checked_single(env_id: str, env: gym.Env[Any, Any], seed: int, making: EnvRecipe) -> Spaces:
    """Returns the spaces of one env."""
    # An env may have forgotten one; None is refused like any other that is no space.
    space: Any = getattr(env, "observation_space", None)
    actions: Any = getattr(env, "action_space", None)
    spaces = spaces_for(env_id, space, actions, making)
    _require_room_to_see(spaces, 1)
    first = _first_reset(env_id, env, seed)
    for leaf in spaces.leaves:
        _require_matching(env_id, leaf, at(first[0], leaf.path))
    return _with_masks(env_id, env, spaces, first, making)


def _with_masks(
    env_id: str,
    env: Any,
    spaces: Spaces,
    first: tuple[Any, Any],
    making: EnvRecipe,
    num_envs: int | None = None,
) -> Spaces:
    of = spaces.actions, making.action_masks, num_envs
    return spaces._replace(masks=find_masks(env_id, env, spaces.masks, first, *of))


def _checked_before(
    env_id: str, seed: int, making: EnvRecipe
) -> tuple[gym.Env[Any, Any] | None, str]:
    """Compares some steps of an env with their repetition; closes it, but if it took long to make.

    Returns:
      That env, or None; and a line about episodes that do not come back, or "".

    Raises:
      EnvError, EnvFault: the env cannot be made, or not be trained on.
    """
    spec = find_spec(env_id)
    with suppress(Exception):  # its import takes long only once; what is wrong is told below
        if isinstance(spec.entry_point, str):
            load_env_creator(spec.entry_point)
    globals_before, began = global_state(), time.perf_counter()
    first = make_single(spec, making)
    try:
        spaces = _checked_single(env_id, first, seed, making)
    except BaseException:
        _close(first)
        raise
    if time.perf_counter() - began > _LONG:
        return first, ""

    def comes_back(making: EnvRecipe, env: gym.Env[Any, Any] | None = None) -> bool:
        """Compares an env with itself and with another one like it; closes both."""
        played: Played | None = None
        for _ in range(2):
            env = env or make_single(spec, making)
            try:
                lane = Lane(env_id, 0, env, spaces, seed, blank_step(1, spaces), 0)
                played = played or play_some(lane)
                if not come_back(lane, played):
                    return False
            finally:
                _close(env)
                env = None
        return True

    try:
        if comes_back(making, first):
            return None, ""
        names, advice = [name for name, _ in making.wrappers], BY_HAND
        if "seed_globals" not in names:
            seeded = making._replace(wrappers=(*making.wrappers, ("seed_globals", {})))
            advice = mended_by(names) if comes_back(seeded) else BY_HAND
        return None, line_about(env_id, advice)
    except (EnvError, EnvFault):  # it is told by the calls that need the env
        return None, ""
    finally:
        put_back(globals_before)


def _close(env: gym.Env[Any, Any]) -> None:
    with suppress(Exception):
        env.close()


def _require_room_to_see(spaces: Spaces, num_envs: int) -> None:
    nbytes = math.prod(spaces.observation_shape) * spaces.observation_dtype.itemsize
    what = f"what {num_envs:,} env{'s' * (num_envs > 1)} show{'s' * (num_envs == 1)} at once"
    advice = "lower frame_stack" if spaces.stack > 1 else "leave parts out (observation_keys)"
    check_memory(num_envs * nbytes, what, advice=advice, once_full=False)


def _require_matching(env_id: str, leaf: Leaf, observation: Any) -> None:
    dtype = array_space(env_id, leaf.space, leaf.name).dtype
    require_matching_observation(env_id, leaf.space, dtype, observation, leaf.name)


def _first_reset(
    env_id: str, env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any], seed: int
) -> tuple[Any, Any]:
    # The run's first reset comes later, with the same seed, and gives the same observation.
    try:
        with naming(env_id, "its first reset"):
            result = env.reset(seed=episode_seed(seed, env=0, episode=0))
    except EnvFault as fault:
        if isinstance(fault.__cause__, TypeError) and "argument 'seed'" in str(fault):
            raise EnvError(
                f"{fault}; for an env without seeds: env_wrapper = 'seed_globals'"
            ) from None
        raise
    if not isinstance(result, tuple) or len(result) != 2:
        raise EnvError(
            f"env {env_id!r}: reset must return an observation and an info dict, got "
            f"{type(result).__name__}; the env follows an older interface than gymnasium's"
        )
    return result
