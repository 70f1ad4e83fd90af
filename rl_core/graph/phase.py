"""Running a phase of updates with the calls that serve it best.

Imports: rl_core.graph. Never agents, never envs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from rl_core.graph.engine import Engine
from rl_core.graph.freeze import ApplyOps, Exempt
from rl_core.graph.loop_adam import LoopMoments
from rl_core.graph.sync import TargetAge


class PhaseCalls:
    """Makes n updates: one fused call where there is a loop for the exempt set, else n calls.

    Either way each update sees what the one before it left, so the results agree.

    Args:
      engine: started or not; the callables are made at first use.
      ops: of the single update.
      moments: of both kinds of updates.
      end: the operation that ends a single update.
      stats: (named) tuple of tensors of the single update.
      fused: exempt set -> (the same tensors of the loop, of its last update; the loop itself).
      count: the loops' number of updates, int32.
      feeds: what both read, in the order of the values given to `run`.
      age: of the target, after a single update; is fed where it is known.
    """

    def __init__(
        self,
        engine: Engine,
        ops: ApplyOps,
        moments: LoopMoments,
        end: tf.Operation,
        stats: Any,
        fused: Mapping[Exempt, tuple[Any, tf.Operation]],
        count: tf.Tensor,
        feeds: Sequence[tf.Tensor],
        age: tf.Tensor,
    ) -> None:
        self._engine, self._ops, self._moments, self._end = engine, ops, moments, end
        self._stats, self._fused = stats, fused
        self._count, self._feeds, self._age = count, tuple(feeds), age
        self._loops: dict[tuple[Exempt, bool], Any] = {}
        self._singles: dict[tuple[Exempt, bool, bool], Any] = {}

    def run(
        self,
        exempt: Exempt,
        updates: int,
        values: Sequence[Any],
        wanted: bool,
        age: TargetAge,
        period: int,
    ) -> Any:
        """Makes `updates` updates; returns the last one's statistics if `wanted`, else None."""
        if updates > 1 and exempt in self._fused:
            self._moments.to_loops()
            result = self._loop(exempt, wanted)(np.int32(updates), *values)
            age.pass_by(updates, period)
            return result
        self._moments.to_slots()
        for i in range(updates):
            last = wanted and i == updates - 1
            known = age.pass_one(period)
            if known is None:
                result = self._single(exempt, last)(*values)
            else:
                # The decision about a copy costs as much as five other operations.
                result = self._single(exempt, last, young=True)(*values, np.int64(known))
        return result

    def _loop(self, exempt: Exempt, wanted: bool) -> Any:
        key = (exempt, wanted)
        if key not in self._loops:
            stats, loop = self._fused[exempt]
            self._loops[key] = self._engine.callable(
                stats if wanted else None, [self._count, *self._feeds], targets=[loop]
            )
        return self._loops[key]

    def _single(self, exempt: Exempt, wanted: bool, young: bool = False) -> Any:
        key = (exempt, wanted, young)
        if key not in self._singles:
            self._singles[key] = self._ops.callable(
                self._engine,
                exempt,
                fetches=self._stats if wanted else None,
                feeds=(*self._feeds, self._age) if young else self._feeds,
                targets=[self._end],
            )
        return self._singles[key]
