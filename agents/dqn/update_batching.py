"""Updates of several members in one call: who waits for one, and when the call is made.

A loop that asks for an update yields; when all have asked, one call makes all updates, after the
time steps that they stored. The calls go by rows of all members' values, so that no member is
loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.network_keys import FRAMES
from targetnet.agents.dqn.learner import Learner
from targetnet.agents.dqn.live_feeds import LiveFeeds, OwnFeeds
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.agents.dqn.policy import Exploration, GreedyPolicy, Policy
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.members import ActiveMember
from targetnet.rl_core.graph.scopes import Root
from targetnet.rl_core.graph.variable_overrides import used_by
from targetnet.rl_core.graph.xla import built_for_xla
from targetnet.rl_core.optimizers.calls import batched_updates
from targetnet.rl_core.optimizers.packed_adam import LoopAdam
from targetnet.rl_core.replay import ReplayMemory

_GREEDY, _STORE, _UPDATE = range(3)


class BatchedUpdateGraph:
    """Builds the calls that serve several members at once. Make it last of all in the graph.

    Args:
      engine, networks, memory, learner, live, own: of the agent.
      root: under which it was built, with members.

    Attributes:
      active: the member whose values the variables have.
      greedy: the greedy policy, which is fed the member's number last.
      store: stores a time step of each of K members: fed [K] int64 members, and the columns of the
        replay, [K, N, ...] each.
      update: makes one update of each of some members: fed [P] int64 members, how many of them
        count, and `LiveFeeds.tensors` of all members, [P, ...] each; returns numerics [P, 3], see
        `targetnet.rl_core.graph.finite`.
      read: what an update may change of a member, whose number it is fed.
    """

    def __init__(
        self,
        engine: Engine,
        root: Root,
        networks: Networks,
        memory: ReplayMemory,
        learner: Learner,
        live: LiveFeeds,
        own: OwnFeeds,
    ) -> None:
        self._engine, self._networks, self._memory = engine, networks, memory
        self._learner, self._live = learner, live
        self._adam = LoopAdam(learner.moments, learner.blocks)
        with tf.name_scope("joint"):
            rows = memory.placeholders([None, memory.rows.num_envs])
            self._columns = rows
            uses = [
                used_by(networks.greedy_by),
                used_by(lambda: memory.write({name: of[0] for name, of in rows.items()})),
                used_by(self._recorded_update),
            ]
            self.active = ActiveMember(engine, root, uses)
            self._build_greedy(own)
            self._build_store()
            self._build_update()

    def _build_greedy(self, own: OwnFeeds) -> None:
        member, store = tf.placeholder(tf.int64, [], "member"), self.active.store
        matrices = store.used_by(_GREEDY)
        rows = [matrix.rows(member) for matrix in matrices]
        with store.overrides(matrices, rows, member).instead():
            values = self._networks.greedy_by()
        observations, branches = self._networks.observations, self._networks.branches
        self.greedy = GreedyPolicy(self._engine, values, observations, None, own, branches, member)

    def empty_rows(self) -> dict[str, np.ndarray]:
        """Returns an array [P, N, ...] for each column that `store` is fed, by its name."""
        count = self.active.store.count
        return {
            name: np.zeros([count, *of.shape.as_list()[1:]], of.dtype.as_numpy_dtype)
            for name, of in self._columns.items()
        }

    def empty_feeds(self) -> list[np.ndarray]:
        """Returns an array for each value that `update` is fed, but for the count."""
        return [
            np.zeros(of.shape.as_list(), of.dtype.as_numpy_dtype)
            for of in (self._members, *self._feeds)
        ]

    def _build_store(self) -> None:
        members, store = tf.placeholder(tf.int64, [None], "members"), self.active.store
        matrices = store.used_by(_STORE)
        values = store.overrides(
            matrices, [matrix.rows(members) for matrix in matrices], members[:, tf.newaxis]
        )
        with values.instead():
            done = self._memory.write(self._columns)
        after = [of.write(members, of.row(values.values, [-1])) for of in matrices]
        self.store = self._engine.callable(None, [members, *self._columns.values()], [done, *after])

    def _build_update(self) -> None:
        store = self.active.store
        self._members = members = tf.placeholder(tf.int64, [store.count], "members")
        count = tf.placeholder(tf.int32, [], "count")
        self._feeds = feeds = [
            tf.placeholder(of.dtype, [store.count, *of.shape.as_list()])
            for of in self._live.tensors
        ]
        numerics = batched_updates(
            self._one_update, store, _UPDATE, members, count, feeds,
            like=tf.TensorSpec([3], tf.float32),
        )  # fmt: skip
        self.update = self._engine.callable(numerics, [members, count, *feeds])
        self._build_read()

    def _build_read(self) -> None:
        matrices = [m for m in self.active.store.used_by(_UPDATE) if m.assigned[_UPDATE]]
        member = tf.placeholder(tf.int64, [], "member")
        rows = [matrix.rows(member) for matrix in matrices]
        self.read = self._engine.callable(rows, [member])

    def _recorded_update(self) -> None:
        with built_for_xla():
            self._one_update(self._live.tensors)

    def _one_update(self, fed: Sequence[tf.Tensor]) -> tf.Tensor:
        """Builds a member's update; returns its numerics."""
        with self._live.fed_by(fed):
            built = self._learner.update.in_loop(self._adam, self._adam.read())
            self._adam.write(built.moments)
        return built.learned.numerics


def can_batch(config: DqnConfig, exploration: Exploration, masks: bool) -> bool:
    """Says whether agents of this form have such calls, and gain by them.

    Their updates must come one at a time and be compiled, and what they act and store by must be
    no more than a greedy policy and rows.
    """
    one_compiled = config.xla and config.threads == 1 and config.updates_per_learn == 1
    plain = config.loop == "plain" and not (config.prioritized or config.freeze or config.rollout)
    in_numpy = exploration.in_numpy(masks, config.seed) is not None
    rows_alone = not config.normalize_observations and config.network not in FRAMES
    return one_compiled and plain and in_numpy and rows_alone


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
          Of each request: True if its update was made; False if its numerics are not finite, and it
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
        numerics = self.calls.update(self._members, np.int32(count), *self._feeds)
        return dict(zip(members, np.isfinite(numerics[:count]).all(axis=1).tolist(), strict=True))

    def act(self, requests: Sequence[ActionRequest]) -> Sequence[np.ndarray]:
        """Chooses actions, one after the other: what a call needs is in the caches then."""
        return [choose(observation) for choose, observation in requests]


class BatchClient:
    """One member's way to `BatchedUpdates`: its actor and its updates take part by it.

    Args:
      batched: of all members.
      member: its number.
    """

    def __init__(self, batched: BatchedUpdates, member: int) -> None:
        self._batched, self._member, self._waits = batched, member, False
        self._rows = [of[member] for of in batched.rows.values()]
        assert tuple(batched.rows) == _COLUMNS

    def greedy(self, own: OwnFeeds) -> GreedyPolicy:
        """Returns the member's greedy policy, with live values of its own."""
        calls = self._batched.calls
        return calls.greedy.by_row(self._member, calls.active.save, own)

    def chosen(self, policy: Policy, observation: np.ndarray) -> np.ndarray:
        """Returns the policy's actions."""
        batched = self._batched
        return batched.batcher.ask(batched.act, ActionRequest(policy, observation))

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
            self._batched.store([self._member])

    def forget(self) -> None:
        """Drops the time step that waits."""
        self._waits = False

    def update(self, live: Sequence[np.ndarray]) -> bool:
        """Makes an update, with others'; returns False if one of its numerics is not finite."""
        return bool(self._ask(live))

    def _ask(self, live: Sequence[np.ndarray] | None) -> bool | None:
        batched, stores = self._batched, self._waits
        self._waits = False
        request = UpdateRequest(self._member, stores, live)
        return batched.batcher.ask(batched.update, request, last=True)
