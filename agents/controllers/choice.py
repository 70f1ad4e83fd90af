"""The controller that a config names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.run_keys import CONTROLLERS
from targetnet.agents.controllers.bandit import period_bandit, require_bandit
from targetnet.agents.controllers.copies import (
    copy_when_far,
    copy_when_fit,
    require_copies,
    unmeasured,
)
from targetnet.rl_core.errors import ConfigError, did_you_mean, quoted
from targetnet.rl_core.own_function import imported

_SHIPPED = (copy_when_fit, copy_when_far, period_bandit)
_MEASURED_BY = {"copy_when_fit": "sync_fit", "copy_when_far": "sync_distance"}


def controller_of(config: DqnConfig) -> Callable[..., Any] | None:
    """Returns the controller of a config, which takes (seen, memory, **arguments); or None.

    Raises:
      ConfigError: it cannot be imported, does not take these arguments, or needs what the config
        does not have.
    """
    name = config.controller
    if not name:
        return None
    shipped: dict[str, Callable[..., Any]] = dict(zip(CONTROLLERS, _SHIPPED, strict=True))
    function = shipped.get(name) or imported("controller", name)
    _require_arguments(name, function, config.controller_args)
    _require_for_shipped(name, config)
    return function


def _require_for_shipped(name: str, config: DqnConfig) -> None:
    """Checks what a shipped controller would say at its first call."""
    rule = _MEASURED_BY.get(name)
    if rule:
        if not config.is_built_with(rule):
            raise unmeasured(rule)
        require_copies(**config.controller_args)
    if name == "period_bandit":
        require_bandit(**config.controller_args)
        if config.rollout:
            raise ConfigError(
                "controller 'period_bandit' needs a target network: leave rollout out"
            )


def _require_arguments(name: str, function: Callable[..., Any], given: dict[str, Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a function of C; calling it says what is wrong
    named = [
        p.name
        for p in [*signature.parameters.values()][2:]
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for argument in given:
        if argument not in named and not takes_any:
            raise ConfigError(
                f"controller_args: controller {name!r} takes no {quoted(argument)}; it takes "
                f"{', '.join(named) or 'none'}{did_you_mean(argument, named)}"
            )
    try:
        signature.bind(None, {}, **given)
    except TypeError as error:
        raise ConfigError(
            f"controller {name!r} must take (seen, memory) and controller_args: {error}"
        ) from None
