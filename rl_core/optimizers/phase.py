"""Running a phase of updates with the calls that serve it best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.finite import NotFinite, was_not_finite
from targetnet.rl_core.graph.scopes import MemberPart
from targetnet.rl_core.graph.xla import why_not_compiled
from targetnet.rl_core.optimizers.freeze import ApplyOps
from targetnet.rl_core.optimizers.freeze_schedule import Exempt
from targetnet.rl_core.optimizers.packed_adam import LoopMoments


class FusedCalls(NamedTuple):
    """Updates in one call, as `targetnet.rl_core.optimizers.fused.fused_updates` builds them."""

    stats: Any  # (named) tuple of tensors of the last one
    end: tf.Operation  # raises as `targetnet.rl_core.graph.finite.checked`
    updates: tf.Tensor | None  # how many: int32, is fed; None if it is always one


class Clock(Protocol):
    """Keeps the target's age in Python, so that most updates need not ask whether a copy is due.

    Attributes:
      known_age: is fed, for the end of an update at which nothing is due.
      now: None where nobody knows; the graph is asked then.
    """

    known_age: tf.Tensor
    now: int | None

    def pass_one(self, period: int | None) -> int | None:
        """One update later: the age to feed, or None if something is due or nobody knows."""

    def pass_by(self, updates: int, period: int | None) -> None:
        """Several updates later."""


class UpdateBatcher(Protocol):
    """Makes single updates together with those of others."""

    def update(self, values: Sequence[Any]) -> bool:
        """Makes one; returns False if it was not, because a sign of it is not finite."""


class _NotMade(Exception):
    """A joint update has a sign that is not finite."""


class PhaseCalls(MemberPart):
    """Makes n updates by what there is for the exempt set.

    That is one fused call of all of them, n fused calls of one update each, or n calls of plain
    operations. In a population, one call can make one update for every member (`UpdateBatcher`).
    In each case an update sees what the one before it left, so the results agree.

    Args:
      engine: started or not; the callables are made at first use.
      ops: of the single update, of plain operations.
      moments: of both kinds of updates.
      end: the operation that ends a single update; end_without_sync: one in which no copy is due.
      stats: (named) tuple of tensors of the single update.
      fused: exempt set -> what serves it instead.
      min_updates: updates from which on it does.
      feeds: what both read, in the order of the values given to `run`.
      clock: whose known age is fed to `end_without_sync`.

    Attributes:
      batcher: makes single updates of all blocks with those of other members; None: they are made
        here.
      not_compiled: why single updates are made where a fused call should have; None if it could.
    """

    per_member: ClassVar = {"_calls": dict, "_singles": dict}

    def __init__(
        self,
        engine: Engine,
        ops: ApplyOps,
        moments: LoopMoments,
        end: tf.Operation,
        end_without_sync: tf.Operation,
        stats: Any,
        fused: Mapping[Exempt, FusedCalls],
        min_updates: int,
        feeds: Sequence[tf.Tensor],
        clock: Clock,
    ) -> None:
        self._engine, self._ops, self._moments = engine, ops, moments
        self._end, self._end_without_sync = end, end_without_sync
        self._stats, self._fused, self._min_updates = stats, dict(fused), min_updates
        self.not_compiled: str | None = None
        self._feeds, self._clock = tuple(feeds), clock
        self._calls: dict[tuple[Exempt, bool], Any] = {}
        self._singles: dict[tuple[Exempt, bool, bool], Any] = {}
        self.batcher: UpdateBatcher | None = None

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
                return self._run_jointly(self.batcher, values, period)
            return self._run(exempt, updates, values, wanted, period)
        except _NotMade:
            pass
        except tf.errors.InvalidArgumentError as error:
            if not was_not_finite(error):
                raise
        self._clock.now = None
        signs = self._ops.signs_of_next(self._engine, exempt, self._feeds)
        raise NotFinite(signs(*values))

    def _run_jointly(
        self, jointly: UpdateBatcher, values: Sequence[Any], period: int | None
    ) -> None:
        self._moments.to_loops()
        if not jointly.update(values):
            raise _NotMade
        self._clock.pass_by(1, period)

    def _run(
        self,
        exempt: Exempt,
        updates: int,
        values: Sequence[Any],
        wanted: bool,
        period: int | None,
    ) -> Any:
        fused = self._fused.get(exempt)
        if fused is not None and updates >= self._min_updates:
            self._moments.to_loops()
            try:
                result = self._run_fused(exempt, fused, updates, values, wanted)
            except tf.errors.InvalidArgumentError as error:
                self.not_compiled = why_not_compiled(error)
                if self.not_compiled is None:
                    raise
                del self._fused[exempt]
            else:
                self._clock.pass_by(updates, period)
                return result
        self._moments.to_slots()
        for i in range(updates):
            last = wanted and i == updates - 1
            known = self._clock.pass_one(period)
            if known is None:
                result = self._single(exempt, last)(*values)
            else:
                # The decision about a copy costs as much as five other operations.
                result = self._single(exempt, last, young=True)(*values, np.int64(known))
        return result

    def _run_fused(
        self, exempt: Exempt, fused: FusedCalls, updates: int, values: Sequence[Any], wanted: bool
    ) -> Any:
        if fused.updates is not None:
            return self._call(exempt, fused, wanted)(np.int32(updates), *values)
        for _ in range(updates - 1):
            self._call(exempt, fused, False)(*values)
        return self._call(exempt, fused, wanted)(*values)

    def _call(self, exempt: Exempt, fused: FusedCalls, wanted: bool) -> Any:
        key = (exempt, wanted)
        if key not in self._calls:
            count = [] if fused.updates is None else [fused.updates]
            self._calls[key] = self._engine.callable(
                fused.stats if wanted else None, [*count, *self._feeds], targets=[fused.end]
            )
        return self._calls[key]

    def _single(self, exempt: Exempt, wanted: bool, young: bool = False) -> Any:
        key = (exempt, wanted, young)
        if key not in self._singles:
            self._singles[key] = self._ops.callable(
                self._engine,
                exempt,
                fetches=self._stats if wanted else None,
                feeds=(*self._feeds, self._clock.known_age) if young else self._feeds,
                targets=[self._end_without_sync if young else self._end],
            )
        return self._singles[key]
