"""All actors of a run: asks for deliveries, takes them, and replaces actors that are lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agents.remote.deliveries import ActorLost, Answer, Delivery, Request, Weights
from agents.remote.transport import Since, Transport
from rl_core.errors import EnvWorkerLost, in_one_line

_MOST_LOSSES = 5  # of one actor, without a delivery between them


class Fleet:
    """The actors of a run, whatever becomes of each of them.

    Of each actor the fleet knows the requests that are not answered yet, their weights, and where
    its envs were after the last delivery that was taken. That is all that an actor consists of, so
    one that takes a lost one's place makes the same deliveries.

    Args:
      transport: to the actors, which it starts.
      actors: A; num_envs: M, envs of each actor.

    Attributes:
      say: shows one line about a lost actor.

    Raises:
      EnvWorkerLost: an actor ended again and again.
    """

    def __init__(self, transport: Transport, actors: int, num_envs: int) -> None:
        self._transport, self._num_envs = transport, num_envs
        self.say: Callable[[str], None] = lambda line: None
        self._known = [_Known.new(num_envs) for _ in range(actors)]
        self._shelf = _Shelf(transport)
        self._start(self.actors)

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
        """
        while True:
            try:
                if actor is None:
                    answer = self._transport.take_any()
                else:
                    answer = self._transport.take(actor)
            except ActorLost as lost:
                self._replace(lost)
                continue
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
        """
        M = self._num_envs
        self._known = [
            _Known(count, lanes[i * M : (i + 1) * M], deque(of))
            for i, (count, of) in enumerate(zip(delivered, requests, strict=True))
        ]
        self._shelf.restore(weights)
        return self._start(self.actors)

    def close(self) -> None:
        """Ends all actors."""
        self._transport.close()

    def _replace(self, lost: ActorLost) -> None:
        self._count(lost)
        self.say(
            f"actor {lost.actor} was lost ({lost.reason}); another one goes on after its "
            f"{self._known[lost.actor].delivered:,} deliveries"
        )
        for line in self._start([lost.actor]):
            self.say(line)

    def _start(self, actors: Iterable[int]) -> list[str]:
        """Starts actors where they were, and asks them again for what they had not answered."""
        since = {actor: self._known[actor].since for actor in actors}
        while True:
            try:
                problems = self._transport.start(since)
                break
            except ActorLost as lost:
                self._count(lost)
        for actor in since:
            for request in self._known[actor].requests:
                self._transport.ask(actor, request)
        return problems

    def _count(self, lost: ActorLost) -> None:
        known = self._known[lost.actor]
        known.losses += 1
        if known.losses > _MOST_LOSSES:
            raise EnvWorkerLost(
                f"actor {lost.actor} was lost {known.losses} times without a delivery: "
                f"{in_one_line(lost.reason, 300)}"
            )


@dataclass
class _Known:
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
    def new(cls, num_envs: int) -> _Known:
        """An actor that has not delivered yet."""
        nowhere = {"episode": 0, "return": 0.0, "observations": 0}
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
            resets = np.flatnonzero(autoreset[:, m])
            if resets.size:
                lane["actions"] = actions[resets[-1] + 1 :, m].tolist()
            elif end["episode"] != lane["episode"]:  # it did not come back the same: see `Lane`
                lane["actions"] = actions[:, m].tolist()
            else:
                lane["actions"] += actions[:, m].tolist()
            lane.update(end)


def _named(known: Iterable[_Known]) -> set[int]:
    """Returns the numbers of the weights that requests name."""
    return {request.weights for of in known for request in of.requests}


class _Shelf:
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
