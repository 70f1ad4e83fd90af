"""Lookup and making of an env by its id, with one-line errors that name the cause."""

import importlib
import inspect
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvCreator, EnvSpec, VectorEnvCreator, load_env_creator

from targetnet.envs import minatar, old_gym
from targetnet.envs.atari import VectorLifeLoss, quiet_ale
from targetnet.envs.env_recipe import DOES_NOT_START, EnvRecipe, wrapped
from targetnet.envs.in_graph import table as in_graph
from targetnet.envs.seeding import give_own_spaces
from targetnet.envs.spaces import make_contains_quick
from targetnet.rl_core.errors import EnvError, did_you_mean, in_one_line, nearest, quoted
from targetnet.rl_core.own_function import named_module

EntryPoint = EnvCreator | VectorEnvCreator | str | None

# Our specs come first: the package MinAtar can register envs under the same ids, and the episodes
# of those cannot be reproduced.
REGISTERED = ChainMap(in_graph.SPECS, minatar.SPECS, gym.registry)
# Package to install for envs of gymnasium.envs.<key>, targetnet.envs.<key>, and of "<key>:...".
INSTALL = {
    "ale_py": old_gym.ATARI,
    "box2d": "targetnet[box2d]",
    "classic_control": "gymnasium[classic-control]",
    "minatar": "targetnet[minatar]",
    "mujoco": "gymnasium[mujoco]",
    "phys2d": "gymnasium[jax]",
    "tabular": "gymnasium[jax]",
    "toy_text": "gymnasium[toy-text]",
}
# An Episode's return is the sum of the raw rewards; Atari's own vector env would clip them.
ALE_VECTOR = "ale_py.vector_env:AtariVectorEnv"
VECTOR_DEFAULTS: dict[str, dict[str, Any]] = {ALE_VECTOR: {"reward_clipping": False}}
# What keeps a vector env from stacking frames by itself, where `frame_stack` does it.
_UNSTACKED: dict[str, dict[str, Any]] = {ALE_VECTOR: {"stack_num": 1}}


def find_spec(env_id: str) -> EnvSpec:
    """Returns the registered spec of `env_id`, "Env-v0" or "module:Env-v0".

    Gymnasium accepts an id without a version and takes the latest. Here such an id is refused,
    because a repeatable run must name the version.

    Raises:
      EnvError: no env has this id, or the module cannot be imported.
    """
    module, _, name = env_id.rpartition(":")
    if not module and name.startswith("ALE/"):
        module = "ale_py"  # the namespace that users most often write without its module
    if module:
        _import_registering_module(module, env_id)
    spec = REGISTERED.get(name)
    if spec is None:
        raise EnvError(_unregistered(module, name))
    return spec


def _import_registering_module(module: str, env_id: str) -> None:
    try:
        if env_id.startswith("ALE/"):
            importlib.import_module(module)
        else:
            named_module("env", env_id, module)
    except (Exception, SystemExit) as error:  # a script may end itself where it is imported
        kind = type(error).__name__
        reason = in_one_line(error) if isinstance(error, ImportError | SystemExit) else ""
        raise EnvError(
            f"env {quoted(env_id)}: the module {quoted(module)} that should register it cannot be "
            f"imported ({reason or f'{kind}: {in_one_line(error)}'}); "
            f"{_what_is_missing(module, env_id, error)}"
        ) from error


def _what_is_missing(module: str, env_id: str, error: BaseException) -> str:
    missing = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
    if missing == old_gym.GYM:
        return old_gym.without_gym(module, env_id.rpartition(":")[2])
    if not missing:
        return DOES_NOT_START
    if missing != module and not module.startswith(f"{missing}."):
        return f"it is installed, and {quoted(missing)}, which it needs, is not"
    if module in INSTALL:
        return f"run: pip install '{INSTALL[module]}'"
    return "install it or correct its name"


def _unregistered(module: str, name: str) -> str:
    of = f"module {quoted(module)} registers no env" if module else "there is no env"
    problem = f"{of} {quoted(name)}"
    if known := old_gym.old_atari(name) or old_gym.by_shimmy(module, name):
        return f"{problem}; {known}"
    by_version = sorted(REGISTERED.values(), key=lambda spec: spec.version or 0)
    latest = {_without_version(spec.id): spec.id for spec in by_version}
    # Compare names without versions: the "-v0" would make short names look alike.
    near = nearest(_without_version(name), latest)
    if near is not None:
        return f"{problem}; did you mean {latest[near]!r}?"
    if module:
        return f"{problem}; correct the name, or register it there"
    return (
        f"{problem}; name a registered one with its version, such as 'CartPole-v1', or write "
        f"'module:{in_one_line(name)}' to import the module that registers it"
    )


def _without_version(env_id: str) -> str:
    return re.sub(r"-v\d+$", "", env_id)


def make_single(spec: EnvSpec, making: EnvRecipe) -> gym.Env[Any, Any]:
    """Makes one env with gymnasium's usual wrappers, but without its checker; ours check more."""
    with _explained(spec, spec.entry_point, making.env_kwargs):
        if str(spec.entry_point).startswith("ale_py"):
            quiet_ale()
        env = gym.make(spec, disable_env_checker=True, **making.env_kwargs)
    give_own_spaces(env)
    with quiet_gymnasium():
        env = wrapped(env, spec.id, making)
    make_contains_quick(getattr(env.unwrapped, "action_space", None))
    return env if making.around is None else making.around(env)


def make_vector(
    spec: EnvSpec, num_envs: int, env_kwargs: Mapping[str, Any], frame_stack: int = 1
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Makes the vector env that `spec` provides.

    Args:
      frame_stack: frames that are stacked afterwards; if there are several, it stacks none itself.

    Raises:
      EnvError: `spec` provides no vector env, the vector env cannot be made, or it does not reset
        on the step after an episode's end.
    """
    if spec.vector_entry_point is None:
        raise EnvError(
            f"env {spec.id!r} has no vector env of its own (no vector_entry_point is "
            "registered); set vectorization = 'sync'"
        )
    with _explained(spec, spec.vector_entry_point, env_kwargs):
        entry_point = str(spec.vector_entry_point)
        usual = VECTOR_DEFAULTS.get(entry_point, {})
        if frame_stack > 1:
            usual = usual | _UNSTACKED.get(entry_point, {})
        kwargs = usual | dict(env_kwargs)
        env = gym.make_vec(spec, num_envs, vectorization_mode="vector_entry_point", **kwargs)
        if entry_point == ALE_VECTOR and kwargs.get("life_loss_info"):
            env = VectorLifeLoss(env)
    mode = env.metadata.get("autoreset_mode")
    if mode is not gym.vector.AutoresetMode.NEXT_STEP:
        env.close()
        raise EnvError(
            f"the vector env of {spec.id!r} must declare autoreset_mode NEXT_STEP, or the final "
            f"observations are lost, but its metadata says {getattr(mode, 'name', mode)}; "
            "set vectorization = 'sync'"
        )
    return env


@contextmanager
def _explained(
    spec: EnvSpec, entry_point: EntryPoint, env_kwargs: Mapping[str, Any]
) -> Iterator[None]:
    """Turns errors of making an env into EnvError, and silences gymnasium's warnings."""
    try:
        with quiet_gymnasium():
            yield
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        raise EnvError(_missing_package(spec, entry_point, error)) from error
    except (Exception, SystemExit) as error:  # some end the process where something is missing
        raise EnvError(_refused(spec, entry_point, env_kwargs, error)) from error


@contextmanager
def quiet_gymnasium() -> Iterator[None]:
    """Silences gymnasium's warnings inside this context.

    Gymnasium prints several lines for a message of one line. The important causes of warnings
    are checked in this package and reported once.
    """
    level = gym.logger.min_level
    gym.logger.min_level = gym.logger.ERROR
    try:
        yield
    finally:
        gym.logger.min_level = level


def _missing_package(spec: EnvSpec, entry_point: EntryPoint, error: Exception) -> str:
    family = re.sub(r"^(gymnasium|targetnet)\.envs\.(\w+).*", r"\2", str(entry_point))
    # Gymnasium's message gives different install advice, so quote the failed import instead.
    cause = error.__cause__ or error
    reason = in_one_line(cause)
    if isinstance(cause, ImportError) and not isinstance(cause, ModuleNotFoundError):
        return (
            f"env {spec.id!r} needs something that cannot be imported ({reason}); {DOES_NOT_START}"
        )
    if family in INSTALL:
        return (
            f"env {spec.id!r} needs a package that is not installed ({reason}); "
            f"run: pip install '{INSTALL[family]}'"
        )
    return f"env {spec.id!r} needs something that cannot be imported ({reason}); install that first"


def _refused(
    spec: EnvSpec, entry_point: EntryPoint, env_kwargs: Mapping[str, Any], error: BaseException
) -> str:
    taken = _arguments(entry_point)
    for name in env_kwargs:
        if taken and name not in taken:
            return (
                f"env {spec.id!r} takes no argument {quoted(name)} (env_kwargs)"
                f"{did_you_mean(name, taken)}; it takes {', '.join(taken)}"
            )
    if known := old_gym.class_of_gym(_creator(entry_point)):
        return f"env {spec.id!r} cannot be made; {known}"
    given = f" with env_kwargs {in_one_line(dict(env_kwargs))}" if env_kwargs else ""
    return (
        f"env {spec.id!r} cannot be made{given} ({type(error).__name__}: {in_one_line(error)}); "
        f"correct {'env_kwargs or ' if env_kwargs else ''}the env"
    )


def _arguments(entry_point: EntryPoint) -> list[str]:
    """Returns the allowed names in env_kwargs; empty if they are unknown or unrestricted."""
    try:
        parameters = inspect.signature(_creator(entry_point)).parameters
    except (TypeError, ValueError):
        return []
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return []
    return sorted({*parameters, "max_episode_steps"} - {"num_envs"})


def _creator(entry_point: EntryPoint) -> Any:
    """Returns the class or function that makes an env; None if there is none."""
    try:
        return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except Exception:  # such as a mistake in its name
        return None
