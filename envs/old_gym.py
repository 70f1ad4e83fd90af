"""Envs of the time before Gymnasium: old ids of Atari's games, and envs made for `gym`."""

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

GYM = "gym"
ATARI = "targetnet[atari]"  # the package to install for ALE
_OLD_ATARI = re.compile(r"(\w+?)(-ram)?(NoFrameskip|Deterministic)?-v([0-4])")
_GAMES = """
Adventure AirRaid Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider
Berzerk Bowling Boxing Breakout Carnival Centipede ChopperCommand CrazyClimber Defender DemonAttack
DoubleDunk ElevatorAction Enduro FishingDerby Freeway Frostbite Gopher Gravitar Hero IceHockey
Jamesbond JourneyEscape Kangaroo Krull KungFuMaster MontezumaRevenge MsPacman NameThisGame Phoenix
Pitfall Pong Pooyan PrivateEye Qbert Riverraid RoadRunner Robotank Seaquest Skiing Solaris
SpaceInvaders StarGunner Tennis TimePilot Tutankham UpNDown Venture VideoPinball WizardOfWor
YarsRevenge Zaxxon
"""
_UNSEEDED = "apply_api_compatibility = true"  # an env whose reset() takes no seed needs it


def old_atari(name: str) -> str:
    """Returns what an old id of a game of Atari's is now, in words; "" for any other id."""
    found = _OLD_ATARI.fullmatch(name)
    if found is None or found[1] not in _GAMES.split():
        return ""
    kwargs = ['obs_type = "ram"'] if found[2] else []
    kwargs += ["frameskip = 1"] if found[3] == "NoFrameskip" else []
    # What is now called v5 has sticky actions, as v0 had.
    kwargs += ["repeat_action_probability = 0.0"] if found[4] != "0" else []
    like_it = f" with env_kwargs = {{ {', '.join(kwargs)} }}" if kwargs else ""
    missing = "" if _is_installed("ale_py") else f"; run: pip install {ATARI!r}"
    return f"this game of Atari's is now 'ALE/{found[1]}-v5'{like_it}{missing}"


def by_shimmy(module: str, name: str) -> str:
    """Returns how to use an env that a module has registered with `gym`, in words; "" if none is.

    Args:
      module: that was imported.
    """
    registry: Any = getattr(getattr(sys.modules.get(GYM), "envs", None), "registry", None)
    spec = registry.get(name) if hasattr(registry, "get") else None
    if spec is None:
        return ""
    make = "" if _takes_seed(spec.entry_point) else f", {_UNSEEDED}"
    return f"the old gym has it, and gymnasium has not: {_advice(module, name, make)}"


def without_gym(module: str, name: str) -> str:
    """Returns how to use an env of a module that wants `gym`, which is not there, in words."""
    return (
        f"it is made for the old gym: {_advice(module, name)}, and if its reset takes no seed, "
        f"add {_UNSEEDED} beside disable_env_checker"
    )


def class_of_gym(creator: Any) -> str:
    """Returns how to register a class of `gym` with gymnasium, in words; "" for another one."""
    gym = sys.modules.get(GYM)
    if gym is None or not inspect.isclass(creator) or not issubclass(creator, gym.Env):
        return ""
    kind = "GymV26CompatibilityV0" if _takes_seed(creator) else "GymV21CompatibilityV0"
    return (
        f"its class is of the old gym: {_installing()}register "
        f"lambda: shimmy.{kind}(env={creator.__name__}()) as its entry_point"
    )


def _advice(module: str, name: str, make: str = "") -> str:
    return (
        f"{_installing()}set env_id = 'shimmy:GymV26Environment-v0' and env_kwargs = {{ env_id = "
        f"'{module}:{name}', make_kwargs = {{ disable_env_checker = true{make} }} }}"
    )


def _installing() -> str:
    # Not shimmy's extra gym-v26, which wants NumPy 1.
    missing = [of for of in ("shimmy", f"{GYM}==0.26.2") if not _is_installed(of.split("=")[0])]
    return f"pip install {' '.join(missing)}, and " if missing else ""


def _takes_seed(creator: str | Callable[..., Any]) -> bool:
    try:
        if isinstance(creator, str):
            module, _, name = creator.partition(":")
            creator = getattr(importlib.import_module(module), name)
        return "seed" in inspect.signature(creator.reset).parameters  # type: ignore[union-attr]
    except (AttributeError, ImportError, TypeError, ValueError):
        return False


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
