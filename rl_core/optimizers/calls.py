"""The calls that make updates: several of one agent in one call, or one of each of several members.

Several updates of a learning phase are a loop, compiled by XLA, on the same variables as the plain
operations. The number of updates is an input of the loop, so a shorter phase needs no new
compilation.

An update in a call of its own spends more time on the call than on the work. Members that share a
graph (`targetnet.rl_core.graph.members`) share the call too: a loop over rows of the matrices with
their values. No member is loaded for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.finite import NotFinite, was_not_finite, where
from targetnet.rl_core.graph.members import MemberStore
from targetnet.rl_core.graph.scopes import MemberPart
from targetnet.rl_core.graph.xla import built_for_xla, why_not_compiled
from targetnet.rl_core.optimizers.freeze import ApplyOps, Exempt
from targetnet.rl_core.optimizers.packed_adam import LoopMoments

# Builds one update from the carried values. Returns tensors, the new carried values, the op that
# ends the update, and a bool tensor: the update was made (None: it always is).
FusedStep = Callable[[Any], tuple[Sequence[tf.Tensor], Any, tf.Operation, tf.Tensor | None]]


class LoopCarry(Protocol):
    """Values that a loop carries besides the variables, as in `packed_adam.LoopAdam`."""

    def read(self) -> Any:
        """Returns the values at the start of the loop, a nest of tensors."""

    def write(self, values: Any) -> tf.Operation:
        """Returns the op that stores the values after the loop."""


class _EmptyCarry:
    def read(self) -> tuple[()]:
        return ()

    def write(self, values: Any) -> tf.Operation:
        return tf.no_op()


def fused_updates(
    update: FusedStep,
    updates: tf.Tensor | None,
    like: Sequence[tf.Tensor],
    carried: LoopCarry | None = None,
    *,
    compiled: bool = True,
) -> tuple[tf.Tensor, ...]:
    """Runs `update` `updates` times in one call; returns the tensors of the last update.

    The loop stops after an update that was not made.

    Args:
      update: builds one update in the default graph. Variables and optimizer slots must exist
        already.
      updates: int32 scalar >= 1, usually fed. None makes one update without a loop.
      like: tensors with the static shapes and dtypes of the tensors that `update` returns.
      carried: the values that `update` receives and returns; by default an empty tuple.
      compiled: True compiles the call with XLA; False builds plain operations.
    """
    kept = carried or _EmptyCarry()

    def one(values: Any) -> tuple[list[tf.Tensor], Any, tf.Tensor | None]:
        with built_for_xla(compiled):
            tensors, values, end, made = update(values)
        with tf.control_dependencies([end]):
            return [*map(tf.identity, tensors)], tf2.nest.map_structure(tf.identity, values), made

    def body(i: tf.Tensor, values: Any, _: Any) -> Any:
        tensors, values, made = one(values)
        return where(made, i + 1, tf.constant(tf.int32.max)), values, tensors

    @tf2.function(jit_compile=compiled, autograph=False)
    def once() -> tuple[tf.Tensor, ...]:
        final, values, _ = one(kept.read())
        with tf.control_dependencies([kept.write(values)]):
            return tuple(map(tf.identity, final))

    @tf2.function(jit_compile=compiled, autograph=False)
    def loop(updates: tf.Tensor) -> tuple[tf.Tensor, ...]:
        start = tf.constant(0), kept.read(), [tf.zeros(t.shape, t.dtype) for t in like]
        _, values, final = tf.while_loop(
            lambda i, *_: i < updates, body, start, parallel_iterations=1
        )
        with tf.control_dependencies([kept.write(values)]):
            return tuple(map(tf.identity, final))

    return tuple(once() if updates is None else loop(updates))


def batched_updates(
    update: Callable[[Sequence[tf.Tensor]], tf.Tensor],
    store: MemberStore,
    use: int,
    members: tf.Tensor,
    count: tf.Tensor,
    feeds: Sequence[tf.Tensor],
    like: tf.TensorSpec,
) -> tf.Tensor:
    """Makes an update of each of the first `count` of `members`; returns what each one returns.

    Args:
      update: builds an update from a member's feeds, and returns something of it.
      store, use: the members' values, and the place of this call among the uses.
      members: [P] int64; count: int32 scalar, at most P.
      feeds: [P, ...] each, a row for each member, by its number.
      like: shape [...] and dtype of what `update` returns.

    Returns:
      [P, ...], in the order of `members`; zeros from `count` on.
    """
    matrices = store.used_by(use)
    changed = [matrix for matrix in matrices if matrix.assigned[use]]
    constant = matrices[len(changed) :]

    @tf2.function(jit_compile=True, autograph=False)
    def loop(members: tf.Tensor, count: tf.Tensor, *feeds: tf.Tensor) -> tf.Tensor:
        def member_at(i: tf.Tensor) -> tf.Tensor:
            # Not by brackets: XLA would compile anew for each number that is asked for.
            return tf.gather(members, tf.minimum(i, count - 1))

        def rows_for(member: tf.Tensor, rows_of: Sequence[tf.TensorArray]) -> list[tf.Tensor]:
            number = tf.cast(member, tf.int32)
            rows = [of.read(number) for of in rows_of]
            return rows + [matrix.rows(member) for matrix in constant]

        def body(
            i: tf.Tensor,
            rows: Sequence[tf.Tensor],
            rows_of: Sequence[tf.TensorArray],
            results: tf.TensorArray,
        ) -> Any:
            member = member_at(i)
            values = store.overrides(matrices, rows, member)
            with values.instead(), built_for_xla():
                result = update([tf.gather(of, member) for of in feeds])
            number = tf.cast(member, tf.int32)
            after = [
                of.write(number, matrix.row(values.values))
                for of, matrix in zip(rows_of, changed, strict=True)
            ]
            # Carried from one iteration to the next, a row is where XLA knows it to be. What reads
            # it in a matrix would have to find it number by number.
            return i + 1, rows_for(member_at(i + 1), after), after, results.write(i, result)

        rows_of = [_as_rows(matrix.all.read_value()) for matrix in changed]
        results = _as_rows(tf.zeros([store.count, *like.shape], like.dtype))
        first = tf.constant(0)
        start = first, rows_for(member_at(first), rows_of), rows_of, results
        _, _, after, results = tf.while_loop(
            lambda i, *_: i < count, body, start, parallel_iterations=1
        )
        written = [
            matrix.all.assign(of.stack(), read_value=False)
            for matrix, of in zip(changed, after, strict=True)
        ]
        with tf.control_dependencies(written):
            return results.stack()

    return loop(members, count, *feeds)


def _as_rows(matrix: tf.Tensor) -> tf.TensorArray:
    """The rows of a matrix for a loop that changes them one by one.

    To XLA such an array is the matrix, and to write a row is to change it in place. A scatter into
    the matrix would ask whether the row is there, and choose number by number what to write.
    """
    count, *of_row = matrix.shape.as_list()
    rows = tf.TensorArray(matrix.dtype, count, element_shape=of_row, clear_after_read=False)
    return rows.unstack(matrix)


class FusedCalls(NamedTuple):
    """Updates in one call, as `targetnet.rl_core.optimizers.calls.fused_updates` builds them."""

    stats: Any  # (named) tuple of tensors of the last one
    check: tf.Operation  # after all; raises as `targetnet.rl_core.graph.finite.checked`
    updates: tf.Tensor | None  # how many: int32, is fed; None if it is always one


class AgeMirror(Protocol):
    """Keeps the target's age in Python, so that most updates need not ask whether a sync is due.

    Attributes:
      fed_age: is fed, for the end of an update at which nothing is due.
      age_in_python: None where it is not known; the graph is asked then.
    """

    fed_age: tf.Tensor
    age_in_python: int | None

    def count_one(self, period: int | None) -> int | None:
        """Counts one update: returns the age to feed, or None if something may be due."""

    def count_many(self, updates: int, period: int | None) -> None:
        """Counts several updates."""


class UpdateBatcher(Protocol):
    """Makes single updates together with those of others."""

    def update(self, values: Sequence[Any]) -> bool:
        """Makes one; returns False if it was not, because it was not finite."""


class _NotMade(Exception):
    """An update made together with others was not finite."""


class PhaseCalls(MemberPart):
    """Makes n updates by what there is for the exempt set.

    That is one fused call of all of them, n fused calls of one update each, or n calls of plain
    operations. In a population, one call can make one update for every member (`UpdateBatcher`).
    In each case an update sees what the one before it left. Results agree but for rounding, and
    which call serves depends on config and live values alone; so a repeat has the same bits.

    Args:
      engine: started or not; the callables are made at first use.
      ops: of the single update, of plain operations.
      moments: of both kinds of updates.
      done: runs a single update; done_without_sync: one in which no sync is due.
      stats: (named) tuple of tensors of the single update.
      fused: exempt set -> what serves it instead.
      min_updates: updates from which on it does.
      feeds: what both read, in the order of the values given to `run`.
      clock: whose age is fed to `done_without_sync`.

    Attributes:
      batcher: makes single updates of all blocks with those of other members; None: they are made
        here.
    """

    per_member: ClassVar = {"_calls": dict, "_singles": dict}

    def __init__(
        self,
        engine: Engine,
        ops: ApplyOps,
        moments: LoopMoments,
        done: tf.Operation,
        done_without_sync: tf.Operation,
        stats: Any,
        fused: Mapping[Exempt, FusedCalls],
        min_updates: int,
        feeds: Sequence[tf.Tensor],
        clock: AgeMirror,
    ) -> None:
        self._engine, self._ops, self._moments = engine, ops, moments
        self._done, self._done_without_sync = done, done_without_sync
        self._stats, self._fused, self._min_updates = stats, fused, min_updates
        # Exempt set -> why its call cannot be compiled. Members share it: the call is the same.
        self._not_compiled: dict[Exempt, str] = {}
        self._feeds, self._clock = tuple(feeds), clock
        self._calls: dict[tuple[Exempt, bool], Any] = {}
        self._singles: dict[tuple[Exempt, bool, bool], Any] = {}
        self.batcher: UpdateBatcher | None = None

    @property
    def not_compiled(self) -> str | None:
        """Why single updates are made where a fused call should have; None if it could."""
        return next(reversed(self._not_compiled.values()), None)

    def run(
        self,
        exempt: Exempt,
        updates: int,
        values: Sequence[Any],
        wanted: bool,
        period: int | None,
    ) -> Any:
        """Makes `updates` updates; returns the last one's statistics if `wanted`, else None.

        Raises:
          NotFinite: an update was not made, and none after it; those before it were.
        """
        try:
            if self.batcher and updates == 1 and not (wanted or exempt):
                return self._run_batched(self.batcher, values, period)
            return self._run(exempt, updates, values, wanted, period)
        except _NotMade:
            pass
        except tf.errors.InvalidArgumentError as error:
            if not was_not_finite(error):
                raise
        self._clock.age_in_python = None
        numerics = self._ops.numerics_of_next(self._engine, exempt, self._feeds)
        raise NotFinite(numerics(*values))

    def _run_batched(
        self, batcher: UpdateBatcher, values: Sequence[Any], period: int | None
    ) -> None:
        self._moments.to_loops()
        if not batcher.update(values):
            raise _NotMade
        self._clock.count_many(1, period)

    def _run(
        self,
        exempt: Exempt,
        updates: int,
        values: Sequence[Any],
        wanted: bool,
        period: int | None,
    ) -> Any:
        fused = self._fused.get(exempt)
        if fused and exempt not in self._not_compiled and updates >= self._min_updates:
            self._moments.to_loops()
            try:
                result = self._run_fused(exempt, fused, updates, values, wanted)
            except tf.errors.InvalidArgumentError as error:
                reason = why_not_compiled(error)
                if reason is None:
                    raise
                self._not_compiled[exempt] = reason
            else:
                self._clock.count_many(updates, period)
                return result
        self._moments.to_slots()
        for i in range(updates):
            last = wanted and i == updates - 1
            known = self._clock.count_one(period)
            if known is None:
                result = self._single(exempt, last)(*values)
            else:
                # The decision about a sync costs as much as five other operations.
                result = self._single(exempt, last, no_sync_due=True)(*values, np.int64(known))
        return result

    def _run_fused(
        self, exempt: Exempt, fused: FusedCalls, updates: int, values: Sequence[Any], wanted: bool
    ) -> Any:
        if fused.updates is not None:
            # With statistics or without, by the same call: to make another one takes 0.3 s.
            result = self._call(exempt, fused, True)(np.int32(updates), *values)
            return result if wanted else None
        for _ in range(updates - 1):
            self._call(exempt, fused, False)(*values)
        return self._call(exempt, fused, wanted)(*values)

    def _call(self, exempt: Exempt, fused: FusedCalls, wanted: bool) -> Any:
        key = (exempt, wanted)
        if key not in self._calls:
            count = [] if fused.updates is None else [fused.updates]
            self._calls[key] = self._engine.callable(
                fused.stats if wanted else None, [*count, *self._feeds], targets=[fused.check]
            )
        return self._calls[key]

    def _single(self, exempt: Exempt, wanted: bool, no_sync_due: bool = False) -> Any:
        key = (exempt, wanted, no_sync_due)
        if key not in self._singles:
            self._singles[key] = self._ops.callable(
                self._engine,
                exempt,
                fetches=self._stats if wanted else None,
                feeds=(*self._feeds, self._clock.fed_age) if no_sync_due else self._feeds,
                targets=[self._done_without_sync if no_sync_due else self._done],
            )
        return self._singles[key]
