"""The interface to actors, wherever they are."""

from __future__ import annotations

from typing import Any, Protocol

from targetnet.agents.remote.deliveries import ActorReady, Answer, Request, Weights

# Deliveries that were taken, and the state of the envs after them, as `Collector.restore` wants.
Since = tuple[int, list[dict[str, Any]]]


class Transport(Protocol):
    """Carries requests to actors, and their answers back.

    An actor works on its requests one after the other, and its answers come in their order.
    Before them it says that it is there (`ActorReady`).
    """

    def start(self, since: dict[int, Since]) -> None:
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
