"""The order in which the deliveries of free-running actors reach the learner."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from targetnet.agents.remote.actor_pool import ActorPool
from targetnet.agents.remote.deliveries import Delivery, delivered
from targetnet.rl_core.control.arrivals import Arrival, ArrivalsFile
from targetnet.rl_core.control.retry import RetryLater


class ArrivalOrder:
    """Takes deliveries in the order of a script, and then as they come; records what it takes.

    Args:
      file: where each arrival is recorded.
      script: arrivals that are to come first.
      warn: shows one line, if the file cannot be written, or a delivery is not that of the script.
    """

    def __init__(
        self, file: ArrivalsFile, script: Iterable[Arrival], warn: Callable[[str], None]
    ) -> None:
        self.file, self._script, self._warn = file, deque(script), warn
        self._writing = RetryLater(warn)

    def take(self, fleet: ActorPool) -> Delivery:
        """Returns the next delivery.

        Raises:
          EnvFault: the next answer is an env's fault, or an actor was lost for good.
        """
        actor = self._script.popleft().actor if self._script else None
        answer, request = fleet.take(actor)
        arrival = Arrival(answer.actor, request.updates, answer.checksum())
        as_before = self.file.append(arrival)
        # Before the delivery is used: the log refers to it.
        with self._writing.attempt():
            self.file.write()
        if not as_before:
            self._warn(
                f"delivery {answer.number:,} of actor {answer.actor} is not what it was: not the "
                "same bits from here on"
            )
        return delivered(answer)
