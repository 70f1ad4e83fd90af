"""All actors of a run: asks for deliveries, takes them, and knows what a checkpoint keeps.

The order in which the deliveries of free-running actors reach the learner is recorded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from targetnet.agents.remote.actor_replacement import ActorRecord, ActorReplacement
from targetnet.agents.remote.deliveries import Answer, Delivery, Request, Weights, delivered
from targetnet.agents.remote.transport import Transport
from targetnet.rl_core.control.records import Arrival, ArrivalsFile
from targetnet.rl_core.files import RetryLater


class ActorPool:
    """The actors of a run, whatever becomes of each of them.

    Of each actor the pool knows the requests that are not answered yet, their weights, and where
    its envs were after the last delivery that was taken. That is all that an actor consists of, so
    one that takes a lost one's place makes the same deliveries.

    Args:
      transport: to the actors, which it starts.
      actors: A; num_envs: M, envs of each actor.
      say: shows one line about actors that are lost or waited for.
      kind: what the envs of each actor have to be, as `kind_of` tells it; None: anything.

    Attributes:
      say: as above; may be set.
      stop: says if somebody has asked the run to stop; to be set. A wait for actors that are not
        there yet ends then.

    Raises:
      EnvWorkerLost: an actor ended again and again.
    """

    def __init__(
        self,
        transport: Transport,
        actors: int,
        num_envs: int,
        say: Callable[[str], None] = lambda line: None,
        kind: str | None = None,
    ) -> None:
        self._transport, self._num_envs, self.say = transport, num_envs, say
        self.stop: Callable[[], bool] = lambda: False
        self._known = [ActorRecord.new(num_envs) for _ in range(actors)]
        self._shelf = _WeightCache(transport)
        self._answers = ActorReplacement(
            transport, self._known, lambda line: self.say(line), lambda: self.stop(), kind
        )
        self._answers.start(self.actors)

    @property
    def actors(self) -> range:
        """The numbers of all actors."""
        return range(len(self._known))

    def pending(self, actor: int) -> int:
        """Returns the number of requests that an actor has not answered."""
        return len(self._known[actor].requests)

    def publish(self, weights: Weights) -> None:
        """Gives the requests from now on these weights."""
        self._shelf.add(weights)
        self._shelf.keep(_named(self._known))

    def ask(self, actor: int, updates: int, live: dict[str, float]) -> None:
        """Asks an actor for one more delivery; does not wait.

        Args:
          updates: gradient steps made so far.
          live: see `Request`.
        """
        known = self._known[actor]
        request = Request(known.delivered + len(known.requests), self._shelf.newest, updates, live)
        known.requests.append(request)
        self._transport.ask(actor, request)

    def take(self, actor: int | None = None) -> tuple[Answer, Request]:
        """Waits for the next answer, and returns it with its request.

        Args:
          actor: whose; None: of any actor, whichever is the first.

        Raises:
          EnvWorkerLost: an actor ended again and again.
          StoppedWaiting: the run was asked to stop while only lost actors could have answered.
        """
        answer = self._answers.take(actor)
        known = self._known[answer.actor]
        request = known.requests.popleft()
        assert request.number == answer.number, (request, answer.number)
        if isinstance(answer, Delivery):
            known.note(answer)
        self._shelf.keep(_named(self._known))
        return answer, request

    # For checkpoints.

    def delivered(self) -> list[int]:
        """Returns how many deliveries of each actor were taken."""
        return [known.delivered for known in self._known]

    def lanes(self) -> list[dict[str, Any]]:
        """Returns where all envs were after the last deliveries, as `Envs.state` says it."""
        return [{**lane, "actions": [*lane["actions"]]} for of in self._known for lane in of.lanes]

    def requests(self) -> list[list[Request]]:
        """Returns the requests that each actor has not answered."""
        return [list(known.requests) for known in self._known]

    def weights(self) -> dict[int, Weights]:
        """Returns the weights of these requests, by number."""
        return {number: self._shelf.weights[number] for number in sorted(_named(self._known))}

    def restore(
        self,
        delivered: Iterable[int],
        lanes: list[dict[str, Any]],
        requests: Iterable[Iterable[Request]],
        weights: Mapping[int, Weights],
    ) -> list[str]:
        """Brings the actors to where they were, with all that was asked of them.

        Returns:
          A message for each env that did not come back the same.

        Raises:
          EnvWorkerLost: an actor ended again and again.
          StoppedWaiting: the run was asked to stop.
        """
        M = self._num_envs
        self._known[:] = [
            ActorRecord(count, lanes[i * M : (i + 1) * M], deque(of))
            for i, (count, of) in enumerate(zip(delivered, requests, strict=True))
        ]
        self._shelf.restore(weights)
        return self._answers.start(self.actors)

    def close(self) -> None:
        """Ends all actors."""
        self._transport.close()


def _named(known: Iterable[ActorRecord]) -> set[int]:
    """Returns the numbers of the weights that requests name."""
    return {request.weights for of in known for request in of.requests}


class _WeightCache:
    """The weights that requests name, and the newest ones.

    Args:
      transport: makes them known to the actors.

    Attributes:
      weights: by number; newest: the number of the newest.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.weights: dict[int, Weights] = {}
        self.newest = -1

    def add(self, weights: Weights) -> None:
        """Publishes newer ones."""
        self.newest += 1
        self.weights[self.newest] = weights
        self._transport.publish(self.newest, weights)

    def keep(self, named: set[int]) -> None:
        """Drops what nobody needs any more."""
        for number in self.weights.keys() - named - {self.newest}:
            del self.weights[number]
            self._transport.forget(number)

    def restore(self, weights: Mapping[int, Weights]) -> None:
        """Publishes those of a checkpoint."""
        self.weights, self.newest = dict(weights), max(weights, default=-1)
        for number, of in weights.items():
            self._transport.publish(number, of)


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

    def take(self, pool: ActorPool) -> Delivery:
        """Returns the next delivery.

        Raises:
          EnvFault: the next answer is an env's fault, or an actor was lost for good.
        """
        actor = self._script.popleft().actor if self._script else None
        answer, request = pool.take(actor)
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
