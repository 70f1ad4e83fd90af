"""The target's clock: counts updates since the last sync, and says in the graph when one is due.

Python mirrors the count, so that most updates need not ask the graph.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.copy_rule import CopyRule, CopyWatch, copy_rule
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.networks import Networks
from targetnet.rl_core.graph.engine import Call, Engine
from targetnet.rl_core.graph.scopes import MemberPart
from targetnet.rl_core.graph.xla import when
from targetnet.rl_core.optimizers.adam import Pull


def proximal_pull(config: DqnConfig, live: LiveFeeds, networks: Networks) -> Pull | None:
    """Returns what builds the part of a step that draws a weight to the target's.

        weight <- weight - step of Adam - learning_rate * proximal_weight * (weight - target's)

    Asadi et al. (2021), https://arxiv.org/abs/2112.05848, whose 1 / c is the weight, and whose step
    is one of gradient descent. Only the blocks that an update trains are drawn.

    Returns:
      None if the config holds no target still in this way.
    """
    if not config.is_built_with("proximal_weight"):
        return None
    of_target = {of.op.name: to for of, to in networks.ops.target_pairs()}

    def pull(variable: tf.Variable, value: tf.Tensor) -> tf.Tensor:
        if variable.op.name not in of_target:  # of the torso that the target shares
            return tf.zeros_like(value)
        share = live["learning_rate"] * live["proximal_weight"]
        return share * (value - of_target[variable.op.name].read_value())

    return pull


# Copies that nobody has asked for yet: a run asks many times a second.
_MOST_COPIES = 4_096


class Copy(NamedTuple):
    """A copy of the target: env steps before it, the age that the target had reached."""

    env_step: int
    age: int


class ClockStep(NamedTuple):
    """One update later: whether the target was copied, and the op after which its age is set."""

    copied: tf.Tensor  # [] bool
    end: tf.Operation


class Refresh(NamedTuple):
    """Copies within a chain, at each age of the target that is a multiple of a period."""

    period: Callable[[], tf.Tensor]  # returns an int64 scalar
    copy: Callable[[], tf.Operation]  # builds it


class TargetClock(MemberPart):
    """Counts the updates since the target was copied, and copies it when it is old enough.

    The graph has the age and decides by it. Python knows the age too, most of the time: where it
    knows that no copy is due, it feeds the age after the update instead of having it computed,
    and with it the decision.

    Args:
      period: returns an int64 scalar: the age at which the target is copied.
      copy: builds the copy.
      rule: says when the target is copied, instead of its age alone; None: nothing does. With a
        rule only the graph knows the age.
      refresh: what is done between two copies; None: nothing.

    Attributes:
      age: int64 scalar variable.
      known_age: the placeholder of `advance_as_known`.
      now: the age as Python knows it; None if the graph has to be asked.
      copies: the latest ones, for curves; of several in one phase or chunk the last. Whoever draws
        them takes them out.
    """

    per_member: ClassVar = {
        "copies": lambda: deque(maxlen=_MOST_COPIES),
        "_copied_at": lambda: None,
    }

    def __init__(
        self,
        period: Callable[[], tf.Tensor],
        copy: Callable[[], tf.Operation],
        rule: CopyRule | None = None,
        refresh: Refresh | None = None,
    ) -> None:
        self._period, self._copy, self.rule, self._refresh = period, copy, rule, refresh
        with tf.variable_scope("counters"):
            self.age = tf.get_variable(
                "target_age", [], tf.int64, tf.zeros_initializer(), trainable=False
            )
        self.known_age = tf.placeholder(tf.int64, [], "known_age")
        self.now: int | None = None
        self.copies: deque[Copy] = deque(maxlen=_MOST_COPIES)
        self._copied_at: int | None = None  # age at a copy that is not in `copies` yet

    # In the graph.

    def advance(
        self, updates: Any, made: tf.Tensor | None, update: tf.Tensor, td_error: tf.Tensor
    ) -> ClockStep:
        """One update older; copied, and of age 0, if that is the period or more.

        Args:
          updates: int64 scalar: 1, or 0 if the update was not made.
          made: bool scalar: whether it was; None: it is never otherwise.
          update: int64 scalar: updates before it.
          td_error: [B] of its batch, or [B, D] with branches.
        """
        older = self.age.read_value() + updates
        ruling = self.rule and self.rule.ruling(older, update + 1, td_error)
        due = ruling.due if ruling else older >= self._period()
        if made is not None:
            due = tf.logical_and(made, due)
        copied = when(due, self._copy)
        age = tf.where(copied, tf.zeros_like(older), older)
        end = self.age.assign(age, read_value=False)
        if self.rule and ruling:
            end = tf.group(end, self.rule.kept(ruling, copied, made))
        if self._refresh is not None:
            # Not right after a copy, which leaves nothing to refresh.
            fresh = tf.logical_and(age > 0, tf.equal(age % self._refresh.period(), 0))
            if made is not None:
                fresh = tf.logical_and(made, fresh)
            end = tf.group(end, when(fresh, self._refresh.copy))
        return ClockStep(copied, end)

    def advance_as_known(self) -> tf.Operation:
        """Sets the age that Python fed; copies nothing."""
        return self.age.assign(self.known_age, read_value=False)

    def copied_by(self, copy: tf.Operation) -> tf.Operation:
        """`copy`, and of age 0 after it."""
        with tf.control_dependencies([copy]):
            return self.age.assign(0, read_value=False)

    # In Python.

    def watch(self, engine: Engine) -> CopyWatch | None:
        """Declares what reads the rule; None without a rule."""
        return CopyWatch(engine, self.rule, self.age) if self.rule else None

    def know(self, age: int | None) -> None:
        """Takes in the age, unless a rule changes it unseen."""
        self.now = None if self.rule else age

    def pass_one(self, period: int | None) -> int | None:
        """One update later; the new age, or None if something may be copied or nobody knows."""
        if self.now is None:
            return None
        assert period is not None  # it is, where there is a target
        self.now += 1
        if self.now < period:
            return self.now if self._refresh is None else None
        self._copied_at, self.now = self.now, 0
        return None

    def pass_by(self, updates: int, period: int | None) -> None:
        """Several updates later."""
        if self.now is None:
            return
        assert period is not None
        first = max(1, period - self.now)  # updates until it is copied
        if updates < first:
            self.now += updates
            return
        self._copied_at = self.now + first if updates < first + period else period
        self.now = (updates - first) % period

    def copied(self, age: int) -> None:
        """Takes in that it was copied at this age."""
        self._copied_at = age
        self.know(0)

    def note(self, env_step: int, *, made: bool = True) -> None:
        """Keeps the copy since the last call, if there was one.

        Args:
          env_step: env steps before it.
          made: False if the updates were not made.
        """
        if self._copied_at is not None and made:
            self.copies.append(Copy(env_step, self._copied_at))
        self._copied_at = None


class NoTarget(TargetClock):
    """The clock of an agent without a target network: nothing is ever copied, and it has no age."""

    def __init__(self) -> None:
        self.now, self.copies, self._copied_at = None, deque(), None
        self.known_age = tf.placeholder(tf.int64, [], "known_age")
        self.rule = None

    def know(self, age: int | None) -> None:
        """Does nothing."""

    def advance(
        self, updates: Any, made: tf.Tensor | None, update: tf.Tensor, td_error: tf.Tensor
    ) -> ClockStep:
        """Does nothing."""
        return ClockStep(tf.constant(False), tf.no_op())

    def advance_as_known(self) -> tf.Operation:
        """Does nothing."""
        return tf.no_op()

    def copied_by(self, copy: tf.Operation) -> tf.Operation:
        """`copy`, which is of other networks."""
        return copy

    def pass_one(self, period: int | None) -> int | None:
        """Does nothing."""
        return None

    def pass_by(self, updates: int, period: int | None) -> None:
        """Does nothing."""


def target_clock(config: DqnConfig, live: LiveFeeds, networks: Networks) -> TargetClock:
    """Returns the clock of an agent."""
    if networks.target is None:
        return NoTarget()
    rule, refresh, ops = copy_rule(config, live, networks), None, networks.ops
    if config.chain > 1:
        refresh = Refresh(live.reader("refresh_period"), ops.refresh)

    def copy() -> tf.Operation:
        return ops.sync(live["tau"] if config.chain == 1 else None)

    return TargetClock(live.reader("sync_period"), copy, rule, refresh)


class Inspection(NamedTuple):
    """State read from the graph, for logs."""

    target_age: Any  # updates since the target was copied; None without a target network
    divergence: Any  # global L2 norm of online - target; None without one


class Copies(MemberPart):
    """Calls that copy the online network: to the target now, and to all networks at the beginning.

    Make it while the graph is being built.

    Args:
      engine, networks, clock: of the agent.
      reset: what a copy does to the optimizers; None: nothing.

    Attributes:
      sync: copies to the target; None if there is none.
      begin: copies to every other network.
      drawn: operations of a copy, for a picture of the graph.
    """

    def __init__(
        self, engine: Engine, networks: Networks, clock: TargetClock, reset: tf.Operation | None
    ) -> None:
        self.sync: Call | None = None
        self.drawn: Sequence[tf.Operation] = ()
        if networks.target is not None:
            sync = clock.copied_by(networks.ops.sync())
            if reset is not None:
                sync = tf.group(sync, reset)
            self.drawn = [sync]
            self.sync = engine.callable(None, targets=[sync])
            pairs = networks.ops.target_pairs()
            distance = tf.global_norm([of.read_value() - to.read_value() for of, to in pairs])
            self._inspect = engine.callable(Inspection(clock.age.read_value(), distance))
        begin = clock.copied_by(networks.ops.all_as_online())
        self.begin = engine.callable(None, targets=[begin])

    def inspect(self) -> Inspection:
        """Reads what the graph knows and the loop does not need."""
        if self.sync is None:
            return Inspection(None, None)
        return Inspection(*(value.item() for value in self._inspect()))
