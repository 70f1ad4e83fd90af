"""A run as a controller sees it, and the form of a controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Fit:
    """The fit of the online network to its present target, where a copy rule measures it.

    Attributes:
      error: mean squared TD error of the latest updates; None unless `sync_fit` is on or prepared.
      error_after: the same, as it was after the last copy.
      distance: norm of online - target over the target's.
    """

    error: float | None
    error_after: float | None
    distance: float


@dataclass(frozen=True)
class RunView:
    """One moment of a run, between two time steps.

    Attributes:
      env_step, env_steps: done so far, and planned.
      update: updates made so far.
      target_age: updates since the target was copied; None without a target network.
      live: present values of all live values, by name.
      episodes: ended so far.
      returns: of the last 20 episodes at most, the latest one last.
      curves: tag -> (env step, value): the last point of each curve but speed and `target/age`.
      fit: None unless a rule for copies is on or prepared.
    """

    env_step: int
    env_steps: int
    update: int
    target_age: int | None
    live: Mapping[str, Any]
    episodes: int
    returns: tuple[float, ...]
    curves: Mapping[str, tuple[int, float]]
    fit: Fit | None


class Controller(Protocol):
    """A function that is called at safe points.

    It returns the live values to set, by name, and under "do" an action or a list of actions, in
    the words of `targetnet do`: {"sync_period": 50, "do": "sync"}. None changes nothing.

    What it wants to remember it writes into `memory`, which is empty at first, and which has to be
    what JSON can hold. Checkpoints keep it, so that a resumed run goes on as if it had never
    stopped.

    It is given the config's `controller_args` by their names, and should depend on nothing but
    what it is given.
    """

    def __call__(
        self, seen: RunView, memory: dict[str, Any], **arguments: Any
    ) -> Mapping[str, Any] | None: ...
