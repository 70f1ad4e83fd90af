"""Answers of actors that may be lost: another one takes a lost one's place."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from targetnet.agents.remote.deliveries import ActorLost, ActorReady, Answer, Delivery, Request
from targetnet.agents.remote.transport import ResumePoint, Transport
from targetnet.rl_core.errors import EnvError, EnvWorkerLost, in_one_line


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
    def since(self) -> ResumePoint:
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


_MOST_LOSSES = 5  # of one actor, without a delivery between them
_LOOK_SECONDS = 0.1  # between two looks whether the run was asked to stop
_QUIET_SECONDS = 5.0  # a longer wait for actors is told
_MOST_NAMED = 8  # actors in one line


class StoppedWaiting(KeyboardInterrupt):
    """Somebody asked the run to stop while it waited for actors that are not there yet."""


class ActorReplacement:
    """The answers of all actors, whatever becomes of each of them.

    An actor that takes a lost one's place repeats the running episodes first. Meanwhile the others
    are served; if there is nothing but such actors to wait for, a line tells it.

    Args:
      transport: to the actors.
      known: of each actor; where it goes on, and what it is asked for.
      say: shows one line.
      stop: says if somebody has asked the run to stop.
      kind: what the envs of each actor have to be, as `kind_of` tells it; None: anything.
    """

    def __init__(
        self,
        transport: Transport,
        known: Sequence[ActorRecord],
        say: Callable[[str], None],
        stop: Callable[[], bool],
        kind: str | None = None,
    ) -> None:
        self._transport, self._known, self._kind = transport, known, kind
        self._say, self._stop = say, stop
        self._away: set[int] = set()  # actors that are on their way to where they go on

    def start(self, actors: Iterable[int]) -> list[str]:
        """Starts actors where they are known to be, and waits until all of them are there.

        Returns:
          A message for each env that did not come back the same.

        Raises:
          EnvWorkerLost: an actor ended again and again.
          RlCoreError: an actor found a mistake that the user can mend.
          StoppedWaiting: the run was asked to stop.
        """
        actors = list(actors)
        self._send(actors)
        problems: list[str] = []
        for actor in actors:
            while actor in self._away:
                back = self._next(actor)
                assert isinstance(back, ActorReady)
                problems += self._problems(back)
        return problems

    def take(self, actor: int | None = None) -> Answer:
        """Waits for the next answer to a request.

        Args:
          actor: whose; None: of any actor, whichever is the first.

        Raises:
          EnvWorkerLost: an actor ended again and again.
          StoppedWaiting: the run was asked to stop while only lost actors could have answered.
        """
        while True:
            answer = self._next(actor)
            if not isinstance(answer, ActorReady):
                return answer
            for line in self._problems(answer):
                self._say(line)

    def _next(self, actor: int | None) -> Answer | ActorReady:
        while True:
            try:
                self._wait(actor)
                if actor is None:
                    return self._transport.take_any()
                return self._transport.take(actor)
            except ActorLost as lost:
                self._replace(lost)

    def _wait(self, actor: int | None) -> None:
        """Waits as long as only actors that are away can answer; the others are waited for later.

        Raises:
          StoppedWaiting: the run was asked to stop.
        """
        began, told = time.monotonic(), False
        while awaited := self._all_away(actor):
            if self._transport.ready(actor, _LOOK_SECONDS):
                return
            if self._stop():
                raise StoppedWaiting
            if not told and time.monotonic() - began > _QUIET_SECONDS:
                told = True
                self._say(self._awaited(awaited))

    def _all_away(self, actor: int | None) -> list[int]:
        """Returns the actors that may answer next; none if one of them is there."""
        if not self._away:
            return []
        may = [actor] if actor is not None else [
            i for i, known in enumerate(self._known) if known.requests or i in self._away
        ]  # fmt: skip
        return may if self._away.issuperset(may) else []

    def _awaited(self, actors: Sequence[int]) -> str:
        named = ", ".join(map(str, actors[:_MOST_NAMED]))
        more = f" and {len(actors) - _MOST_NAMED:,} more" if len(actors) > _MOST_NAMED else ""
        steps = max(len(lane["actions"]) for actor in actors for lane in self._known[actor].lanes)
        what = f"repeats up to {steps:,} steps of its running episodes" if steps else "starts"
        return f"waiting for actor {named}{more}, which {what}; Ctrl-C ends the run at once"

    def _problems(self, back: ActorReady) -> tuple[str, ...]:
        """Takes in that an actor is there.

        Raises:
          RlCoreError: its envs cannot be made or brought back, or are others than those here.
        """
        self._away.discard(back.actor)
        if back.fault is not None:
            raise back.fault.error()
        if self._kind not in (None, back.kind):
            raise EnvError(
                f"the envs of actor {back.actor} are others than here: {in_one_line(back.kind)}; "
                f"here {self._kind}; all nodes need the same version of the env"
            )
        return back.problems

    def _replace(self, lost: ActorLost) -> None:
        """Sends another actor.

        Raises:
          EnvWorkerLost: it was lost again and again.
        """
        known = self._known[lost.actor]
        known.losses += 1
        if known.losses > _MOST_LOSSES:
            raise EnvWorkerLost(
                f"actor {lost.actor} was lost {known.losses} times without a delivery: "
                f"{in_one_line(lost.reason, 300)}"
            )
        self._say(
            f"actor {lost.actor} was lost ({lost.reason}); another one goes on after its "
            f"{known.delivered:,} deliveries"
        )
        self._send([lost.actor])

    def _send(self, actors: Iterable[int]) -> None:
        """Starts actors, and asks them for what is not answered; does not wait."""
        since = {actor: self._known[actor].since for actor in actors}
        self._away.update(since)
        self._transport.start(since)
        for actor in since:
            for request in self._known[actor].requests:
                self._transport.ask(actor, request)
