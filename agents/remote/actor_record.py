"""All that is known of one actor; another one is made from it if the actor is lost."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from targetnet.agents.remote.deliveries import Delivery, Request
from targetnet.agents.remote.transport import Since


@dataclass
class ActorRecord:
    """All that is known of one actor.

    Attributes:
      delivered: deliveries that were taken.
      lanes: where its envs were after the last of them, as `Envs.state` says it.
      requests: not answered, the oldest first.
      losses: since the last delivery.
    """

    delivered: int
    lanes: list[dict[str, Any]]
    requests: deque[Request] = field(default_factory=deque)
    losses: int = 0

    @classmethod
    def new(cls, num_envs: int) -> ActorRecord:
        """An actor that has not delivered yet."""
        nowhere = {"episode": 0, "return": 0.0, "observations": 0, "lives": 0}
        return cls(0, [{**nowhere, "actions": []} for _ in range(num_envs)])

    @property
    def since(self) -> Since:
        """The place where another one begins to take over."""
        return self.delivered, self.lanes

    def note(self, delivery: Delivery) -> None:
        """Takes in where the envs are after a delivery."""
        self.delivered += 1
        self.losses = 0
        actions, autoreset = delivery.rows["action"][:-1], delivery.rows["autoreset"][1:]
        for m, (lane, end) in enumerate(zip(self.lanes, delivery.lanes, strict=True)):
            begins = np.flatnonzero(autoreset[:, m])  # of episodes, and then of lives in the last
            first = 0
            if end["episode"] != lane["episode"]:
                lane |= {"actions": [], "lives": 0}
                # Without a reset: it did not come back the same, see `Lane`.
                first = 0 if begins.size == end["lives"] else begins[-1 - end["lives"]] + 1
            lane["actions"] += actions[first:, m][~autoreset[first:, m]].tolist()
            lane.update(end)
