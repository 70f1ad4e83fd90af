"""Controllers that copy the target: the rules `sync_fit` and `sync_distance`, in Python.

With `controller_period = 1` and one update per env step they copy at the updates at which the graph
would. The graph also does so in the middle of a phase or a chunk, where no controller is called.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from targetnet.agents.controllers.run_view import Fit, RunView
from targetnet.rl_core.errors import ConfigError, quoted

_SYNC = {"do": "sync"}


def copy_when_fit(
    seen: RunView, memory: dict[str, Any], *, share: float = 0.5, min_age: int = 1
) -> Mapping[str, Any] | None:
    """Copies once the mean squared TD error is below `share` of what it was after the last copy.

    Needs `prepared = ["sync_fit"]`.
    """
    fit = _fit(seen, "sync_fit")
    if fit.error is None or fit.error_after is None:
        raise unmeasured("sync_fit")
    return _SYNC if _is_old(seen, min_age) and fit.error < share * fit.error_after else None


def copy_when_far(
    seen: RunView, memory: dict[str, Any], *, distance: float = 0.1, min_age: int = 1
) -> Mapping[str, Any] | None:
    """Copies once the norm of online - target is at least `distance` of the target's.

    Needs `prepared = ["sync_distance"]`.
    """
    fit = _fit(seen, "sync_distance")
    return _SYNC if _is_old(seen, min_age) and fit.distance >= distance else None


def require_copies(*, min_age: Any = 1, **threshold: Any) -> None:
    """Checks the arguments of `copy_when_fit` and `copy_when_far`.

    Raises:
      ConfigError: one cannot be used.
    """
    for name, value in threshold.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < math.inf:
            raise ConfigError(f"{name} must be a number > 0, got {quoted(value)}")
    if not isinstance(min_age, int) or isinstance(min_age, bool) or min_age < 0:
        raise ConfigError(f"min_age must be a whole number >= 0, got {quoted(min_age)}")


def _is_old(seen: RunView, min_age: int) -> bool:
    return (seen.target_age or 0) >= max(1, min_age)


def _fit(seen: RunView, rule: str) -> Fit:
    if seen.fit is None:
        raise unmeasured(rule)
    return seen.fit


def unmeasured(rule: str) -> ConfigError:
    """Returns the error of a controller that goes by what a rule for copies measures."""
    return ConfigError(f'this controller needs prepared = ["{rule}"], which measures for it')
