"""Envs that everybody makes alike: all with Gymnasium's checker of every step, or all without.

`gymnasium.make` puts the checker around an env unless it is told otherwise, and most peers do not
tell it. What it costs is as much as the env itself.
"""

from __future__ import annotations

from typing import Any


def use_checker(checker: bool) -> None:
    """Has `gymnasium.make` put the checker around every env, or around none."""
    import gymnasium

    make = gymnasium.make

    def alike(*args: Any, **kwargs: Any) -> Any:
        return make(*args, **{**kwargs, "disable_env_checker": not checker})

    gymnasium.make = alike
