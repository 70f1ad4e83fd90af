"""The next update, to be looked at: its gradients, and what its batch has observed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.networks import Networks
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.members import MemberHandle
from targetnet.rl_core.graph.scopes import variables_in
from targetnet.rl_core.optimizers.freeze import ApplyOps
from targetnet.rl_core.replay import ReplayMemory


class Gradients:
    """Reads the gradient of the loss by each weight, before clipping, and changes nothing.

    Make it while the graph is being built. Frozen blocks have gradients here too.

    Args:
      engine, networks, live, memory: of the agent.
      ops: of the update in a call of its own.
      observation: [B, ...] of its batch.
      remembered: [B, S] before each of these; None if the network remembers nothing.

    Attributes:
      names: of the weights, after the scope.
    """

    def __init__(
        self,
        engine: Engine,
        ops: ApplyOps,
        observation: tf.Tensor,
        remembered: tf.Tensor | None,
        networks: Networks,
        live: LiveFeeds,
        memory: ReplayMemory,
    ) -> None:
        self._engine, self._live = engine, live
        self._shown = [observation] if remembered is None else [observation, remembered]
        named = {v.op.name: name for name, v in variables_in(networks.online).items()}
        gradients = {named[name]: gradient for name, gradient in ops.gradients().items()}
        self.names, self._gradients = tuple(gradients), tuple(gradients.values())
        self._alpha = memory.sampler.alpha

    def of_member(self, place: MemberHandle, live: LiveFeeds) -> Gradients:
        """The same for a member, with live values of its own."""
        return place.copy(self, _live=live)

    def read(self) -> dict[str, np.ndarray]:
        """Returns them by name, of the batch that the next update draws; store waiting rows first.

        They are of the values that are live now, but for `priority_alpha`: another exponent would
        have all priorities recomputed, which is the update's part. It is that of the last update.
        """
        return dict(zip(self.names, self._call(*self._fed()), strict=True))

    def shown(self) -> list[np.ndarray]:
        """Returns what the batch that the next update draws has observed, [B, ...].

        After it comes what the network that acted remembered before, [B, S], if it remembers. The
        replay must have a transition; store waiting rows first.
        """
        call = self._engine.callable(self._shown, self._live.tensors)
        return list(call(*self._fed()))

    def _fed(self) -> Sequence[np.ndarray]:
        live = self._live.values()
        if self._alpha is not None:
            alpha = self._engine.run(self._alpha)
            live = self._live.with_value(live, "priority_alpha", float(alpha))
        return live

    @functools.cached_property
    def _call(self) -> Callable[..., Sequence[np.ndarray]]:
        # Made at first use: a run that never looks pays nothing for it.
        return self._engine.callable(self._gradients, self._live.tensors)
