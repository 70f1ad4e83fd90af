"""The interface to actors, wherever they are."""

from __future__ import annotations

from typing import Any, Protocol

from agents.remote.deliveries import Answer, Request, Weights

# Deliveries that were taken, and the state of the envs after them, as `Collector.restore` wants.
Since = tuple[int, list[dict[str, Any]]]


class Transport(Protocol):
    """Carries requests to actors, and their answers back.

    An actor works on its requests one after the other, and its answers come in their order.
    """

    def start(self, since: dict[int, Since]) -> list[str]:
        """Makes actors, new or in the place of lost ones, and waits until they are ready.

        Args:
          since: actor -> where it begins; (0, []) is the very beginning.

        Returns:
          A message for each env that did not come back the same.

        Raises:
          ActorLost: one of them ended.
        """

    def publish(self, number: int, weights: Weights) -> None:
        """Makes weights known under a number, which requests name."""

    def forget(self, number: int) -> None:
        """Drops weights that no further request names."""

    def ask(self, actor: int, request: Request) -> None:
        """Hands over a request; does not wait."""

    def take(self, actor: int) -> Answer:
        """Waits for the oldest request of an actor, and returns its answer.

        Raises:
          ActorLost: it ended before. All its requests are void then.
        """

    def take_any(self) -> Answer:
        """Waits until any actor has answered its oldest request, and returns the answer.

        Raises:
          ActorLost: as for `take`.
        """

    def close(self) -> None:
        """Ends all actors; a second call does nothing."""
