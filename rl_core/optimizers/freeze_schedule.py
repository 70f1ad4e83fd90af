"""Freeze schedules: sets of blocks that updates leave alone, each for a number of updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from targetnet.rl_core.errors import BoundsError

Exempt = frozenset[str]
NONE_EXEMPT: Exempt = frozenset()


@dataclass
class Arm:
    """One exempt set of a freeze schedule and its length in updates."""

    exempt: Exempt
    updates: int

    def __post_init__(self) -> None:
        self.exempt = frozenset(self.exempt)
        _check_length(self.updates)


class FreezeSchedule:
    """A cycle of arms, each for its number of updates: torso 5, head 5, torso 5, ...

    Args:
      arms: at least one arm.
    """

    def __init__(self, arms: Sequence[Arm]) -> None:
        if not arms:
            raise BoundsError("a freeze schedule needs at least one arm")
        self.arms = tuple(arms)
        self._arm = 0
        self._done = 0

    @classmethod
    def constant(cls, exempt: Iterable[str] = NONE_EXEMPT) -> FreezeSchedule:
        """Returns a schedule with a single arm that never ends."""
        return cls([Arm(frozenset(exempt), 1)])

    def __str__(self) -> str:
        arms = [f"{'+'.join(sorted(a.exempt)) or 'none'} for {a.updates:,}" for a in self.arms]
        return arms[0].split(" for ")[0] if len(arms) == 1 else f"{', '.join(arms)} updates"

    @property
    def position(self) -> tuple[int, int]:
        """The state of the schedule: (index of the arm, updates done in it)."""
        return self._arm, self._done

    @position.setter
    def position(self, position: tuple[int, int]) -> None:
        self._arm, self._done = position

    @property
    def exempt(self) -> Exempt:
        """The exempt set of the next update."""
        return self.arms[self._next_arm()].exempt

    @property
    def arm(self) -> int:
        """Index of the next update's arm."""
        return self._next_arm()

    def value_at(self, env_step: int) -> Exempt:
        """Returns the next update's exempt set; arms count updates, so the env step is ignored."""
        return self.exempt

    def set_length(self, arm: int, updates: int) -> None:
        """Changes an arm's length during the run; an arm that already did as many updates ends."""
        _check_length(updates)
        self.arms[arm].updates = updates

    def phases(self, updates: int) -> Iterator[tuple[Exempt, int]]:
        """Yields (exempt set, updates) for the next `updates`; advances the position with each."""
        while updates > 0:
            if len(self.arms) == 1:
                yield self.arms[0].exempt, updates
                return
            if self._next_arm() != self._arm:
                self._arm, self._done = self._next_arm(), 0
            arm = self.arms[self._arm]
            share = min(updates, arm.updates - self._done)
            self._done += share
            updates -= share
            yield arm.exempt, share

    def _next_arm(self) -> int:
        ended = self._done >= self.arms[self._arm].updates
        return (self._arm + 1) % len(self.arms) if ended else self._arm


def _check_length(updates: int) -> None:
    if isinstance(updates, bool) or not isinstance(updates, int) or updates < 1:
        raise BoundsError(
            f"an arm's length must be a whole number of updates >= 1, got {updates!r}"
        )
