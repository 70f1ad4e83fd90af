"""Envs that everybody makes alike: all with Gymnasium's checker, or all without.

`gymnasium.make` puts the checker around an env unless it is told otherwise, and most peers do not
tell it. In earlier versions it looked at every step; in 1.4.0 it looks at the first one alone.
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
