"""The interface to actors, wherever they are; and actors in this process.

Those serve for repeating a run, for tests, and for looking inside.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, Protocol

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.remote.collector import Collector
from targetnet.agents.remote.deliveries import ActorReady, Answer, Request, Weights, fault_of
from targetnet.rl_core.errors import RlCoreError

# Deliveries that were taken, and the state of the envs after them, as `Collector.restore` wants.
ResumePoint = tuple[int, list[dict[str, Any]]]


class Transport(Protocol):
    """Carries requests to actors, and their answers back.

    An actor works on its requests one after the other, and its answers come in their order.
    Before them it says that it is there (`ActorReady`).
    """

    def start(self, since: dict[int, ResumePoint]) -> None:
        """Makes actors, new or in the place of lost ones; does not wait for those elsewhere.

        Args:
          since: actor -> where it begins; (0, []) is the very beginning.
        """

    def publish(self, number: int, weights: Weights) -> None:
        """Makes weights known under a number, which requests name."""

    def forget(self, number: int) -> None:
        """Drops weights that no further request names."""

    def ask(self, actor: int, request: Request) -> None:
        """Hands over a request; does not wait."""

    def ready(self, actor: int | None, seconds: float) -> bool:
        """Waits at most so long; says if `take`, or `take_any` for None, has something to return.

        Raises:
          ActorLost: as for `take`.
        """

    def take(self, actor: int) -> Answer | ActorReady:
        """Waits for what an actor says next: that it is there, or its oldest request's answer.

        Raises:
          ActorLost: it ended before. All its requests are void then.
        """

    def take_any(self) -> Answer | ActorReady:
        """Waits for what any actor says next, whichever is the first.

        Raises:
          ActorLost: as for `take`.
        """

    def close(self) -> None:
        """Ends all actors; a second call does nothing."""


class InProcess:
    """A transport without any way: an actor works when its answer is taken.

    `take_any` takes the answers in turn.
    """

    def __init__(self, config: DqnConfig) -> None:
        self._config = config
        self._collectors: dict[int, Collector] = {}
        self._weights: dict[int, Weights] = {}
        self._requests: dict[int, deque[Request]] = {}
        self._back: dict[int, ActorReady] = {}  # not taken yet
        self._turn: deque[int] = deque()  # the actors, in the order in which they are asked

    def start(self, since: dict[int, ResumePoint]) -> None:
        for actor, begin in since.items():
            if actor not in self._collectors:
                self._collectors[actor] = Collector(self._config, actor)
            self._requests[actor] = deque()
            try:
                problems = self._collectors[actor].restore(*begin)
            except RlCoreError as error:
                delivered, _ = begin
                raise fault_of(error, actor, delivered, self._config.seed).error() from error
            self._back[actor] = ActorReady(actor, tuple(problems), self._collectors[actor].kind)
        self._turn = deque(sorted(self._collectors))

    def publish(self, number: int, weights: Weights) -> None:
        self._weights[number] = weights

    def forget(self, number: int) -> None:
        del self._weights[number]

    def ask(self, actor: int, request: Request) -> None:
        self._requests[actor].append(request)

    def ready(self, actor: int | None, seconds: float) -> bool:
        return True

    def take(self, actor: int) -> Answer | ActorReady:
        if actor in self._back:
            return self._back.pop(actor)
        request = self._requests[actor].popleft()
        return self._collectors[actor].collect(request, self._weights[request.weights])

    def take_any(self) -> Answer | ActorReady:
        while not (self._requests[self._turn[0]] or self._turn[0] in self._back):
            self._turn.rotate(-1)
        actor = self._turn[0]
        self._turn.rotate(-1)
        return self.take(actor)

    def close(self) -> None:
        with contextlib.ExitStack() as last:
            for collector in self._collectors.values():
                last.callback(collector.close)
            self._collectors = {}
