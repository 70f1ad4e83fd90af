"""The curves of the target network's copies."""

from __future__ import annotations

import math

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.copy_rule import CopyCursor
from targetnet.agents.dqn.target import Copy
from targetnet.agents.run.points import SinkGroup

_PER_POINT = 10  # copies that are drawn for each point of other curves


class CopyCurves:
    """Draws the age of the target at each copy, unless the last one is too near.

    Args:
      agent: whose target it is.
      points: take the curves.
      looked: of the one before, if the run is resumed.

    Attributes:
      looked: when a rule's copies were last looked for; None without a rule.
    """

    def __init__(
        self, agent: DqnAgent, points: SinkGroup, looked: CopyCursor | None = None
    ) -> None:
        self._learner, self._points = agent.learner, points
        self._apart = max(1, agent.config.log_period // _PER_POINT)
        self.looked = looked

    @property
    def due(self) -> float:
        """Env step of the next look for a rule's copies."""
        if self._learner.watch is None:
            return math.inf
        return self.looked.env_step + self._apart if self.looked else 0

    def tick(self, env_step: int) -> None:
        """Draws the copies that were made up to this env step, at which the agent is now if due."""
        if env_step >= self.due:
            # Of a copy that a rule has made Python is not told.
            watch = self._learner.watch
            assert watch is not None
            self.looked, found = watch.look(env_step, self._learner.updates, self.looked)
            if found:
                self._learner.clock.copies.append(Copy(*found))
        self.draw()

    def draw(self) -> None:
        """Draws the copies of which Python knows."""
        copies, tag = self._learner.clock.copies, "target/age"
        while copies:
            env_step, age = copies.popleft()
            if env_step >= self._points.last.get(tag, (-self._apart, 0.0))[0] + self._apart:
                self._points.scalars({tag: age}, env_step)

    def state(self, live: dict[str, float]) -> dict[str, float]:
        """Returns what the present point of other curves has besides: tag -> value.

        Args:
          live: `sync_growth` and `sync_fit`, as far as they have an effect.
        """
        watch = self._learner.watch
        if watch is None:
            return {}
        numbers, values = watch.read().numbers, {}
        if live.get("sync_growth"):
            values["target/period"] = numbers.period
        if live.get("sync_fit") and numbers.error_after:
            values["target/fit"] = numbers.error / numbers.error_after
        return values
