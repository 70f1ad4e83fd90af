"""A controller that chooses the sync period by what episodes return."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from targetnet.agents.controllers.run_view import RunView
from targetnet.rl_core.errors import ConfigError, quoted

PERIODS = (30, 100, 300, 1_000)
WINDOW, BONUS = 40, 1.0


def period_bandit(
    seen: RunView,
    memory: dict[str, Any],
    *,
    periods: Sequence[int] = PERIODS,
    window: int = WINDOW,
    bonus: float = BONUS,
) -> Mapping[str, Any] | None:
    """Chooses `sync_period` anew at each call, by a bandit with a sliding window.

    The gain of a period is the mean return of the episodes that ended while it ruled, of twenty at
    most, less the mean of the call before. The next period is the one with the largest

        mean gain in the window + bonus * scale * sqrt(log(plays in the window) / plays of it)

    where scale is the mean size of the gains in the window; a period that was not played there
    comes first. Sliding-window UCB, Garivier & Moulines (2011), https://arxiv.org/abs/0805.3415,
    with gains in the place of rewards, as what a period does to an agent outlasts its turn.

    Args:
      periods: to choose from, in updates.
      window: of how many of the latest calls the gains count.
      bonus: weight of the doubt; 0 is greedy.
    """
    ended = seen.episodes - memory.get("episodes", 0)
    if not ended:
        return None
    returns = seen.returns[-ended:]
    mean, plays = sum(returns) / len(returns), memory.get("plays", [])
    if "playing" in memory:
        plays = [*plays, [memory["playing"], mean - memory["mean"]]][-window:]
    arm = _best(plays, len(periods), bonus)
    memory.update(episodes=seen.episodes, mean=mean, plays=plays, playing=arm)
    return None if seen.live["sync_period"] == periods[arm] else {"sync_period": periods[arm]}


def _best(plays: Sequence[Sequence[Any]], arms: int, bonus: float) -> int:
    """Returns the arm with the largest upper bound; the first one of several."""
    gains: list[list[float]] = [[] for _ in range(arms)]
    for arm, gain in plays:
        gains[arm].append(gain)
    for arm, its in enumerate(gains):
        if not its:
            return arm
    scale = sum(abs(gain) for _, gain in plays) / len(plays)
    doubt = bonus * scale * math.sqrt(math.log(len(plays)))
    bounds = [sum(its) / len(its) + doubt / math.sqrt(len(its)) for its in gains]
    return bounds.index(max(bounds))


def require_bandit(periods: Any = PERIODS, window: Any = WINDOW, bonus: Any = BONUS) -> None:
    """Checks the arguments of `period_bandit`.

    Raises:
      ConfigError: one cannot be used.
    """
    several = isinstance(periods, list | tuple) and len(periods) >= 2
    if not several or not all(_whole(p) and p >= 1 for p in periods):
        raise ConfigError(f"periods must be at least two whole numbers >= 1, got {quoted(periods)}")
    if len(set(periods)) != len(periods):
        raise ConfigError(f"periods must be different numbers, got {quoted(periods)}")
    number = isinstance(bonus, int | float) and not isinstance(bonus, bool)
    if not _whole(window) or window < len(periods) or not number or not 0 <= bonus < math.inf:
        raise ConfigError(
            f"window must be a whole number >= {len(periods)} (the number of periods), and bonus a "
            f"finite number >= 0, got {quoted(window)} and {quoted(bonus)}"
        )


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
