"""Calls that go by rows of all members' values, so that no member is loaded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.fused_calls import FRAMES
from targetnet.agents.dqn.learner import Learner
from targetnet.agents.dqn.live_feeds import LiveFeeds, OwnFeeds
from targetnet.agents.dqn.networks import Networks
from targetnet.agents.dqn.policy import Exploration, GreedyPolicy
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.members import ActiveMember
from targetnet.rl_core.graph.scopes import Root
from targetnet.rl_core.graph.variable_overrides import used_by
from targetnet.rl_core.graph.xla import built_for_xla
from targetnet.rl_core.optimizers.joint import joint_updates
from targetnet.rl_core.optimizers.packed_adam import LoopAdam
from targetnet.rl_core.replay import ReplayMemory

_GREEDY, _STORE, _UPDATE = range(3)


class BatchedUpdateGraph:
    """Builds them, and `ActiveMember`. Make it last of all in the graph.

    Args:
      engine, networks, memory, learner, live, own: of the agent.
      root: under which it was built, with members.

    Attributes:
      active: the member whose values the variables have.
      greedy: the greedy policy, which is fed the member's number last.
      store: stores a time step of each of K members: fed [K] int64 members, and the columns of the
        replay, [K, N, ...] each.
      update: makes one update of each of some members: fed [P] int64 members, how many of them
        count, and `LiveFeeds.tensors` of all members, [P, ...] each; returns signs [P, 3], see
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
        signs = joint_updates(
            self._one_update, store, _UPDATE, members, count, feeds,
            like=tf.TensorSpec([3], tf.float32),
        )  # fmt: skip
        self.update = self._engine.callable(signs, [members, count, *feeds])
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
        """Builds a member's update; returns its signs."""
        with self._live.fed_by(fed):
            built = self._learner.update.in_loop(self._adam, self._adam.read())
            self._adam.write(built.moments)
        return built.learned.signs


def can_join(config: DqnConfig, exploration: Exploration, masks: bool) -> bool:
    """Says whether agents of this form have such calls, and gain by them.

    Their updates must come one at a time and be compiled, and what they act and store by must be
    no more than a greedy policy and rows.
    """
    one_compiled = config.xla and config.threads == 1 and config.updates_per_learn == 1
    plain = config.loop == "plain" and not (config.prioritized or config.freeze or config.rollout)
    in_numpy = exploration.in_numpy(masks, config.seed) is not None
    rows_alone = not config.normalize_observations and config.network not in FRAMES
    return one_compiled and plain and in_numpy and rows_alone
