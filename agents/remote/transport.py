"""The interface to actors, wherever they are; and actors in this process.

Those serve for repeating a run, for tests, and for looking inside.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Collection
from typing import Any, Protocol

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.remote.collector import Collector, bring_back
from targetnet.agents.remote.deliveries import ActorReady, Answer, Request, Weights

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

    def send(self, weights: Weights) -> Any:
        """Brings weights to where actors find them; returns what names them in requests.

        They are there as long as somebody has that name.
        """

    def ask(self, actor: int, request: Request, weights: Any) -> None:
        """Hands over a request with the weights that `send` has named; does not wait."""

    def take(self, actors: Collection[int], seconds: float | None) -> Answer | ActorReady | None:
        """Waits for what the first of these actors says next; None: nothing within the seconds.

        Raises:
          ActorLost: one ended before. All its requests are void then.
        """

    def close(self) -> None:
        """Ends all actors; a second call does nothing."""


class InProcess:
    """A transport without any way: an actor works when its answer is taken, several in turn."""

    def __init__(self, config: DqnConfig) -> None:
        self._config = config
        self._collectors: dict[int, Collector] = {}
        self._requests: dict[int, deque[tuple[Request, Weights]]] = {}
        self._back: dict[int, ActorReady] = {}  # not taken yet
        self._turn: deque[int] = deque()  # the actors, in the order in which they are asked

    def start(self, since: dict[int, ResumePoint]) -> None:
        for actor, begin in since.items():
            self._requests[actor] = deque()
            self._back[actor] = bring_back(self._collectors, self._config, actor, *begin)
        self._turn = deque(sorted(self._requests))

    def send(self, weights: Weights) -> Weights:
        return weights

    def ask(self, actor: int, request: Request, weights: Weights) -> None:
        self._requests[actor].append((request, weights))

    def take(self, actors: Collection[int], seconds: float | None) -> Answer | ActorReady | None:
        busy = (i for i in self._turn if i in actors and (i in self._back or self._requests[i]))
        actor = next(busy)
        if len(actors) > 1:
            self._turn.rotate(-1 - self._turn.index(actor))
        if actor in self._back:
            return self._back.pop(actor)
        return self._collectors[actor].collect(*self._requests[actor].popleft())

    def close(self) -> None:
        with contextlib.ExitStack() as last:
            for collector in self._collectors.values():
                last.callback(collector.close)
            self._collectors = {}
