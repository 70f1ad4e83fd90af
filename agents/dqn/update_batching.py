"""Updates of several members in one call: who waits for one, and when the call is made.

A loop that asks for an update yields; when all have asked, one call makes all updates, after the
time steps that they stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from targetnet.agents.dqn.batched_update_graph import BatchedUpdateGraph
from targetnet.agents.dqn.live_feeds import OwnFeeds
from targetnet.agents.dqn.policy import GreedyPolicy, Policy


class ActionRequest(NamedTuple):
    """A greedy action that a member asks for: its policy and [M, ...] observations."""

    policy: Policy
    observation: np.ndarray


# In the order of `BatchClient.put`.
_COLUMNS = ("observation", "action", "reward", "terminated", "autoreset")


class UpdateRequest(NamedTuple):
    """A member's wish to have a time step stored, and an update made.

    Attributes:
      member: its number.
      stores: whether the time step that it put into `BatchedUpdates.rows` is to be stored.
      live: for an update after that, as `LiveFeeds.values` returned it; None: no update.
    """

    member: int
    stores: bool
    live: Sequence[np.ndarray] | None


Served = TypeVar("Served")
Request = TypeVar("Request")


class RequestBatcher(Protocol):
    """Collects requests of loops that go on in turns."""

    def ask(
        self,
        serve: Callable[[Sequence[Request]], Sequence[Served]],
        request: Request,
        *,
        last: bool = False,
    ) -> Served:
        """Has the request served with those of the others; returns what it is answered.

        Args:
          last: have it served once nobody asks for anything else.
        """


class ImmediateUpdates:
    """Serves each request at once: no other member is at work."""

    def ask(
        self,
        serve: Callable[[Sequence[Request]], Sequence[Served]],
        request: Request,
        *,
        last: bool = False,
    ) -> Served:
        return serve([request])[0]


class BatchedUpdates:
    """Serves the requests of all members.

    Args:
      calls: of the graph.

    Attributes:
      calls: the same.
      rows: column -> a time step of each member, [P, N, ...].
      batcher: collects the requests.
    """

    def __init__(self, calls: BatchedUpdateGraph) -> None:
        self.calls, self.rows = calls, calls.empty_rows()
        self.batcher: RequestBatcher = ImmediateUpdates()
        self._members, *self._feeds = calls.empty_feeds()
        self._fed: list[Any] = [None] * len(self._members)

    def update(self, requests: Sequence[UpdateRequest]) -> Sequence[bool | None]:
        """Stores the requests' time steps and makes their updates.

        Returns:
          Of each request: True if its update was made; False if a sign of it is not finite, and it
          was not; None if there was none.
        """
        stored = [member for member, stores, _ in requests if stores]
        if stored:
            self.store(stored)
        made = self._updated([(member, live) for member, _, live in requests if live is not None])
        return [made.get(request.member) for request in requests]

    def read(self, member: int) -> Sequence[np.ndarray]:
        """Reads all that an update may change of a member."""
        self.calls.active.save()
        rows: Sequence[np.ndarray] = self.calls.read(np.int64(member))
        return rows

    def store(self, members: Sequence[int]) -> None:
        """Stores the time steps of some members."""
        self.calls.active.save()
        numbers = np.array(members, np.int64)
        self.calls.store(numbers, *[of[numbers] for of in self.rows.values()])

    def _updated(self, asked: Sequence[tuple[int, Sequence[np.ndarray]]]) -> dict[int, bool]:
        """Member -> whether its update was made."""
        if not asked:
            return {}
        self.calls.active.save()
        members, count = [member for member, _ in asked], len(asked)
        self._members[:count] = members
        for member, live in asked:
            # Arrays that are never changed: while a member gives the same, they are there.
            if self._fed[member] is not live:
                self._fed[member] = live
                for of, value in zip(self._feeds, live, strict=True):
                    of[member] = value
        signs = self.calls.update(self._members, np.int32(count), *self._feeds)
        return dict(zip(members, np.isfinite(signs[:count]).all(axis=1).tolist(), strict=True))

    def act(self, requests: Sequence[ActionRequest]) -> Sequence[np.ndarray]:
        """Chooses actions, one after the other: what a call needs is in the caches then."""
        return [choose(observation) for choose, observation in requests]


class BatchClient:
    """One member's side of it.

    Args:
      joint: of all members.
      member: its number.
    """

    def __init__(self, joint: BatchedUpdates, member: int) -> None:
        self._joint, self._member, self._waits = joint, member, False
        self._rows = [of[member] for of in joint.rows.values()]
        assert tuple(joint.rows) == _COLUMNS

    def greedy(self, own: OwnFeeds) -> GreedyPolicy:
        """Returns the member's greedy policy, with live values of its own."""
        calls = self._joint.calls
        return calls.greedy.by_row(self._member, calls.active.save, own)

    def chosen(self, policy: Policy, observation: np.ndarray) -> np.ndarray:
        """Returns the policy's actions."""
        joint = self._joint
        return joint.batcher.ask(joint.act, ActionRequest(policy, observation))

    def put(
        self,
        observation: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
    ) -> None:
        """Has a time step stored with the next update, or before anything reads the replay.

        Args:
          [N, ...] columns, of the dtypes and shapes that the replay has.
        """
        if self._waits:
            self._ask(None)
        self._rows[0][...] = observation
        self._rows[1][...] = action
        self._rows[2][...] = reward
        self._rows[3][...] = terminated
        self._rows[4][...] = autoreset
        self._waits = True

    def flush(self) -> None:
        """Stores the time step that waits, if there is one."""
        if self._waits:
            self._waits = False
            self._joint.store([self._member])

    def forget(self) -> None:
        """Drops the time step that waits."""
        self._waits = False

    def update(self, live: Sequence[np.ndarray]) -> bool:
        """Makes an update, with others'; returns False if a sign of it is not finite."""
        return bool(self._ask(live))

    def _ask(self, live: Sequence[np.ndarray] | None) -> bool | None:
        joint, stores = self._joint, self._waits
        self._waits = False
        request = UpdateRequest(self._member, stores, live)
        return joint.batcher.ask(joint.update, request, last=True)
