"""Copies of the online network outside updates, and how far the target is from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from targetnet.agents.dqn.networks import Networks
from targetnet.agents.dqn.target_clock import TargetClock
from targetnet.rl_core.graph.engine import Call, Engine


class Inspection(NamedTuple):
    """State read from the graph, for logs."""

    target_age: Any  # updates since the target was copied; None without a target network
    divergence: Any  # global L2 norm of online - target; None without one


class Copies:
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
