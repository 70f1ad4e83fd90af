"""The target's clock: a sync is due at the age `sync_period`, in updates, or by a `SyncRule`.

The graph counts the age and decides by it; Python mirrors the count, so that most single updates
need not ask. The networks and their scopes, and the op that copies, are in network_scopes.py:
`CopyOps.sync`, which is `targetnet.rl_core.graph.sync.copy_vars` with the live `tau`; 1 gives the
source's bits. In a chain, by hand and to older copies it is a full copy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.agents.dqn.sync_rule import SyncRule, SyncWatch, sync_rule
from targetnet.rl_core.graph.engine import Call, Engine
from targetnet.rl_core.graph.scopes import MemberPart
from targetnet.rl_core.graph.xla import when

# Syncs that nobody has asked for yet: a run asks many times a second.
_MOST_SYNCS = 4_096


class SyncEvent(NamedTuple):
    """A sync of the target: env steps before it, the age that the target had reached."""

    env_step: int
    age: int


class ClockStep(NamedTuple):
    """One update later: whether the target was synced, and the op after which its age is set."""

    synced: tf.Tensor  # [] bool
    age_set: tf.Operation


class Refresh(NamedTuple):
    """Copies within a chain, at each age of the target that is a multiple of a period."""

    period: Callable[[], tf.Tensor]  # returns an int64 scalar
    copy: Callable[[], tf.Operation]  # builds it


class TargetClock(MemberPart):
    """Counts the updates since the target was synced, and syncs it when it is old enough.

    The graph has the age and decides by it. Python knows the age too, most of the time. Where it
    knows that no sync is due, a single update ends by `advance_without_sync`, which is fed the age.
    Calls that make several updates always decide in the graph, and Python counts after them.

    Args:
      period: returns an int64 scalar: the age at which the target is synced.
      copy: builds the op of a sync.
      rule: says when the target is synced, instead of its age alone; None: nothing does. With a
        rule only the graph knows the age.
      refresh: what is done between two syncs; None: nothing.

    Attributes:
      age: int64 scalar variable.
      fed_age: the placeholder of `advance_without_sync`.
      age_in_python: the age as Python knows it; None if the graph has to be asked.
      syncs: the latest ones, for curves; of several in one phase or chunk the last. Whoever draws
        them takes them out.
    """

    per_member: ClassVar = {
        "syncs": lambda: deque(maxlen=_MOST_SYNCS),
        "_synced_at": lambda: None,
    }

    def __init__(
        self,
        period: Callable[[], tf.Tensor],
        copy: Callable[[], tf.Operation],
        rule: SyncRule | None = None,
        refresh: Refresh | None = None,
    ) -> None:
        self._period, self._copy, self.rule, self._refresh = period, copy, rule, refresh
        with tf.variable_scope("counters"):
            self.age = tf.get_variable(
                "target_age", [], tf.int64, tf.zeros_initializer(), trainable=False
            )
        self.fed_age = tf.placeholder(tf.int64, [], "known_age")
        self.age_in_python: int | None = None
        self.syncs: deque[SyncEvent] = deque(maxlen=_MOST_SYNCS)
        self._synced_at: int | None = None  # age at a sync that is not in `syncs` yet

    # In the graph.

    def advance(
        self, updates: Any, made: tf.Tensor | None, update: tf.Tensor, td_error: tf.Tensor
    ) -> ClockStep:
        """Builds the clock's part of an update: the age grows, and the target is synced if due.

        It is due where the age is the period or more, or the rule says so; the age is 0 then.

        Args:
          updates: int64 scalar: 1, or 0 if the update was not made.
          made: bool scalar: whether it was; None in a call that raises where it was not.
          update: int64 scalar: updates before it.
          td_error: [B] of its batch, or [B, D] with branches.
        """
        older = self.age.read_value() + updates
        decision = self.rule and self.rule.decide(older, update + 1, td_error)
        due = decision.due if decision else older >= self._period()
        if made is not None:
            due = tf.logical_and(made, due)
        synced = when(due, self._copy)
        age = tf.where(synced, tf.zeros_like(older), older)
        end = self.age.assign(age, read_value=False)
        if self.rule and decision:
            end = tf.group(end, self.rule.store(decision, synced, made))
        if self._refresh is not None:
            # Not right after a sync, which leaves nothing to refresh.
            fresh = tf.logical_and(age > 0, tf.equal(age % self._refresh.period(), 0))
            if made is not None:
                fresh = tf.logical_and(made, fresh)
            end = tf.group(end, when(fresh, self._refresh.copy))
        return ClockStep(synced, end)

    def advance_without_sync(self) -> tf.Operation:
        """Builds its part where Python knows that no sync is due: sets the age that Python fed."""
        return self.age.assign(self.fed_age, read_value=False)

    def with_age_zero(self, copy: tf.Operation) -> tf.Operation:
        """Builds `copy`, and an age of 0 after it."""
        with tf.control_dependencies([copy]):
            return self.age.assign(0, read_value=False)

    # In Python: the mirror of the age.

    def watch(self, engine: Engine) -> SyncWatch | None:
        """Declares what reads the rule; None without a rule."""
        return SyncWatch(engine, self.rule, self.age) if self.rule else None

    def set_age(self, age: int | None) -> None:
        """Sets the mirror, unless a rule changes the age unseen."""
        self.age_in_python = None if self.rule else age

    def count_one(self, period: int | None) -> int | None:
        """Counts one update.

        Returns:
          The age to feed; None if a sync or refresh may be due, or Python does not know the age.
        """
        if self.age_in_python is None:
            return None
        assert period is not None  # it is, where there is a target
        self.age_in_python += 1
        if self.age_in_python < period:
            return self.age_in_python if self._refresh is None else None
        self._synced_at, self.age_in_python = self.age_in_python, 0
        return None

    def count_many(self, updates: int, period: int | None) -> None:
        """Counts several updates."""
        if self.age_in_python is None:
            return
        assert period is not None
        first = max(1, period - self.age_in_python)  # updates until it is synced
        if updates < first:
            self.age_in_python += updates
            return
        self._synced_at = self.age_in_python + first if updates < first + period else period
        self.age_in_python = (updates - first) % period

    def note_sync(self, age: int) -> None:
        """Notes that the target was synced at this age."""
        self._synced_at = age
        self.set_age(0)

    def keep_sync(self, env_step: int, *, made: bool = True) -> None:
        """Adds the sync since the last call to `syncs`, if there was one.

        Args:
          env_step: env steps before it.
          made: False if the updates were not made.
        """
        if self._synced_at is not None and made:
            self.syncs.append(SyncEvent(env_step, self._synced_at))
        self._synced_at = None


class NoTarget(TargetClock):
    """The clock of an agent without a target network: nothing is ever synced, and it has no age."""

    def __init__(self) -> None:
        self.age_in_python, self.syncs, self._synced_at = None, deque(), None
        self.fed_age = tf.placeholder(tf.int64, [], "known_age")
        self.rule = None

    def set_age(self, age: int | None) -> None:
        """Does nothing."""

    def advance(
        self, updates: Any, made: tf.Tensor | None, update: tf.Tensor, td_error: tf.Tensor
    ) -> ClockStep:
        """Does nothing."""
        return ClockStep(tf.constant(False), tf.no_op())

    def advance_without_sync(self) -> tf.Operation:
        """Does nothing."""
        return tf.no_op()

    def with_age_zero(self, copy: tf.Operation) -> tf.Operation:
        """`copy`, which is of other networks."""
        return copy

    def count_one(self, period: int | None) -> int | None:
        """Does nothing."""
        return None

    def count_many(self, updates: int, period: int | None) -> None:
        """Does nothing."""


def target_clock(config: DqnConfig, live: LiveFeeds, networks: Networks) -> TargetClock:
    """Returns the clock of an agent."""
    if networks.target is None:
        return NoTarget()
    rule, refresh, ops = sync_rule(config, live, networks), None, networks.ops
    if config.chain > 1:
        refresh = Refresh(live.reader("refresh_period"), ops.refresh)

    def copy() -> tf.Operation:
        return ops.sync(live["tau"] if config.chain == 1 else None)

    return TargetClock(live.reader("sync_period"), copy, rule, refresh)


class Inspection(NamedTuple):
    """State read from the graph, for logs."""

    target_age: Any  # updates since the last sync; None without a target network
    divergence: Any  # global L2 norm of online - target; None without one


class CopyCalls(MemberPart):
    """Calls that copy the online network at once: to the target, or to all networks.

    Make it while the graph is being built.

    Args:
      engine, networks, clock: of the agent.
      reset: what a copy does to the optimizers; None: nothing.

    Attributes:
      sync: makes a full copy to the target, whatever `tau` is; None if there is none.
      copy_to_all: copies to every other network.
      drawn: operations of a copy, for a picture of the graph.
    """

    def __init__(
        self, engine: Engine, networks: Networks, clock: TargetClock, reset: tf.Operation | None
    ) -> None:
        self.sync: Call | None = None
        self.drawn: Sequence[tf.Operation] = ()
        if networks.target is not None:
            sync = clock.with_age_zero(networks.ops.sync())
            if reset is not None:
                sync = tf.group(sync, reset)
            self.drawn = [sync]
            self.sync = engine.callable(None, targets=[sync])
            pairs = networks.ops.target_pairs()
            distance = tf.global_norm([of.read_value() - to.read_value() for of, to in pairs])
            self._inspect = engine.callable(Inspection(clock.age.read_value(), distance))
        to_all = clock.with_age_zero(networks.ops.all_as_online())
        self.copy_to_all = engine.callable(None, targets=[to_all])

    def inspect(self) -> Inspection:
        """Reads what the graph knows and the loop does not need."""
        if self.sync is None:
            return Inspection(None, None)
        return Inspection(*(value.item() for value in self._inspect()))
