"""All actors of a run: asks for deliveries, takes them, and knows what a checkpoint keeps.

An actor may be lost at any moment; another one takes its place. The order in which the deliveries
of free-running actors reach the learner is recorded.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from targetnet.agents.remote.deliveries import (
    ActorLost,
    ActorReady,
    Answer,
    Delivery,
    Request,
    Weights,
    delivered,
)
from targetnet.agents.remote.transport import ResumePoint, Transport
from targetnet.rl_core.control.records import Arrival, ArrivalsFile
from targetnet.rl_core.errors import EnvError, EnvWorkerLost, in_one_line
from targetnet.rl_core.files import RetryLater

_MOST_LOSSES = 5  # of one actor, without a delivery between them
_LOOK_SECONDS = 0.1  # between two looks whether the run was asked to stop
_QUIET_SECONDS = 5.0  # a longer wait for actors is told
_MOST_NAMED = 8  # actors in one line


class StoppedWaiting(KeyboardInterrupt):
    """Somebody asked the run to stop while it waited for actors that are not there yet."""


class _Publication(NamedTuple):
    """Weights, their number, and what the transport made of them."""

    number: int
    weights: Weights
    sent: Any


@dataclass
class ActorRecord:
    """All that is known of one actor, and all that it consists of."""

    delivered: int  # deliveries that were taken
    lanes: list[dict[str, Any]]  # where its envs were after the last of them, as of `Envs.state`
    # Requests that are not answered, the oldest first, with their weights.
    pending: deque[tuple[Request, _Publication]] = field(default_factory=deque)
    losses: int = 0  # since the last delivery

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


class PoolState(NamedTuple):
    """The part of a checkpoint about actors."""

    delivered: Sequence[int]  # how many deliveries of each actor were taken
    lanes: list[dict[str, Any]]  # where all envs were after them, as `Envs.state` says it
    requests: Sequence[Sequence[Request]]  # those that each actor has not answered
    weights: Mapping[int, Weights]  # of these requests, by number


class ActorPool:
    """The actors of a run, whatever becomes of each of them.

    One that takes a lost one's place makes the same deliveries. It repeats the running episodes
    first; meanwhile the others are served.

    Args:
      transport: to the actors, which it starts.
      actors: A; num_envs: M, envs of each actor.
      say: shows one line about actors that are lost or waited for; may be set later.
      kind: what the envs of each actor have to be, as `kind_of` tells it; None: anything.

    Attributes:
      stop: to be set; says if the run was asked to stop, which ends a wait for lost actors.

    Raises:
      EnvWorkerLost: an actor ended again and again.
      RlCoreError: an actor found a mistake that the user can mend.
    """

    def __init__(
        self,
        transport: Transport,
        actors: int,
        num_envs: int,
        say: Callable[[str], None] = lambda line: None,
        kind: str | None = None,
    ) -> None:
        self._transport, self._num_envs, self._kind, self.say = transport, num_envs, kind, say
        self.stop: Callable[[], bool] = lambda: False
        self._known = [ActorRecord.new(num_envs) for _ in range(actors)]
        self._newest = _Publication(-1, {}, None)
        self._away: set[int] = set()  # actors that are on their way to where they go on
        self._start()

    @property
    def actors(self) -> range:
        """The numbers of all actors."""
        return range(len(self._known))

    def pending(self, actor: int) -> int:
        """Returns the number of requests that an actor has not answered."""
        return len(self._known[actor].pending)

    def publish(self, weights: Weights) -> None:
        """Gives the requests from now on these weights."""
        sent = self._transport.send(weights)
        self._newest = _Publication(self._newest.number + 1, weights, sent)

    def ask(self, actor: int, updates: int, live: dict[str, float]) -> None:
        """Asks an actor for one more delivery, see `Request`; does not wait."""
        known, weights = self._known[actor], self._newest
        number = known.delivered + len(known.pending)
        request = Request(number, weights.number, updates, live)
        known.pending.append((request, weights))
        self._transport.ask(actor, request, weights.sent)

    def take(self, actor: int | None = None) -> tuple[Answer, Request]:
        """Waits for the next answer, of one actor or of any, and returns it with its request.

        Raises:
          EnvWorkerLost: an actor ended again and again.
          StoppedWaiting: the run was asked to stop while only lost actors could have answered.
        """
        while isinstance(
            answer := self._next(self.actors if actor is None else [actor]), ActorReady
        ):
            for line in self._arrived(answer):
                self.say(line)
        known = self._known[answer.actor]
        request, _ = known.pending.popleft()
        assert request.number == answer.number, (request, answer.number)
        if isinstance(answer, Delivery):
            known.note(answer)
        return answer, request

    def state(self) -> PoolState:
        """Returns what a checkpoint keeps."""
        known = self._known
        weights = {p.number: p.weights for of in known for _, p in of.pending}
        return PoolState(
            [of.delivered for of in known],
            [{**lane, "actions": [*lane["actions"]]} for of in known for lane in of.lanes],
            [[request for request, _ in of.pending] for of in known],
            dict(sorted(weights.items())),
        )

    def restore(self, state: PoolState) -> list[str]:
        """Brings the actors to where they were; returns a message for each env that differs.

        Raises:
          EnvWorkerLost: an actor ended again and again.
          StoppedWaiting: the run was asked to stop.
        """
        M, weights = self._num_envs, {}
        for number, arrays in state.weights.items():
            weights[number] = _Publication(number, arrays, self._transport.send(arrays))
        self._newest = weights[max(weights)] if weights else _Publication(-1, {}, None)
        self._known = [
            ActorRecord(
                count,
                state.lanes[i * M : (i + 1) * M],
                deque((request, weights[request.weights]) for request in requests),
            )
            for i, (count, requests) in enumerate(zip(state.delivered, state.requests, strict=True))
        ]
        return self._start()

    def close(self) -> None:
        """Ends all actors."""
        self._transport.close()

    def _start(self) -> list[str]:
        self._send(self.actors)
        problems: list[str] = []
        for actor in self.actors:
            while actor in self._away:
                ready = self._next([actor])
                assert isinstance(ready, ActorReady)
                problems += self._arrived(ready)
        return problems

    def _next(self, among: Sequence[int]) -> Answer | ActorReady:
        began, told = time.monotonic(), False
        while True:
            busy = [i for i in among if i in self._away or self._known[i].pending]
            # Actors that are away may take long, so a wait for them alone can be ended.
            bounded = self._away.issuperset(busy)
            try:
                answer = self._transport.take(busy, _LOOK_SECONDS if bounded else None)
            except ActorLost as lost:
                self._replace(lost)
                continue
            if answer is not None:
                return answer
            if self.stop():
                raise StoppedWaiting
            if not told and time.monotonic() - began > _QUIET_SECONDS:
                told = True
                self.say(_awaited({i: self._known[i] for i in busy}))

    def _arrived(self, ready: ActorReady) -> tuple[str, ...]:
        """Takes in that an actor is there; returns what has changed in its envs."""
        self._away.discard(ready.actor)
        if ready.fault is not None:
            raise ready.fault.error()
        if self._kind not in (None, ready.kind):
            raise EnvError(
                f"the envs of actor {ready.actor} are others than here: {in_one_line(ready.kind)}; "
                f"here {self._kind}; all nodes need the same version of the env"
            )
        return ready.problems

    def _replace(self, lost: ActorLost) -> None:
        known = self._known[lost.actor]
        known.losses += 1
        if known.losses > _MOST_LOSSES:
            raise EnvWorkerLost(
                f"actor {lost.actor} was lost {known.losses} times without a delivery: "
                f"{in_one_line(lost.reason, 300)}"
            )
        self.say(
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
            for request, weights in self._known[actor].pending:
                self._transport.ask(actor, request, weights.sent)


def _awaited(actors: Mapping[int, ActorRecord]) -> str:
    """Returns a line about actors that are waited for."""
    named = ", ".join(map(str, [*actors][:_MOST_NAMED]))
    more = f" and {len(actors) - _MOST_NAMED:,} more" if len(actors) > _MOST_NAMED else ""
    steps = max(len(lane["actions"]) for known in actors.values() for lane in known.lanes)
    what = f"repeats up to {steps:,} steps of its running episodes" if steps else "starts"
    return f"waiting for actor {named}{more}, which {what}; Ctrl-C ends the run at once"


class ArrivalOrder:
    """Takes deliveries in the order of a script, and then as they come; records what it takes.

    `warn` shows a line if the file cannot be written, or a delivery is not that of the script.
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
