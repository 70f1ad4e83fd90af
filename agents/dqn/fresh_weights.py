"""First weights of the online network, drawn again by other seeds."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from targetnet.agents.dqn.networks import Networks
from targetnet.agents.dqn.own_network import ancestors
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.scopes import Root, variables_in
from targetnet.rl_core.philox import stream_key


class FreshWeights:
    """Draws first weights of one network. Make it while the graph is being built.

    The initializers are in the graph already, and their seed can be fed; so nothing is added to it.

    Args:
      engine, root, networks: of the agent.
    """

    def __init__(self, engine: Engine, root: Root, networks: Networks) -> None:
        self._engine, self._networks, self._seed = engine, networks, root.seed
        variables = variables_in(networks.online)
        self._names, self._first = tuple(variables), [v.initial_value for v in variables.values()]
        # Stateful operations would go on with their numbers, which no resumed run could repeat.
        drawing = [op.node_def for value in self._first for op in ancestors(value.op)]
        self._apart = any("seed2" in node.attr for node in drawing)

    def draw(self, seed: int, number: int) -> dict[str, np.ndarray]:
        """Returns weights by name: a function of the agent's seed and the number of the draw."""
        key = stream_key(seed, f"renewal {number}")
        own = int(key[0] >> np.uint64(1))  # seeds are below 2 ** 63
        if self._apart:
            return self._networks.first_weights(own)
        return dict(zip(self._names, self._call(np.int64(own)), strict=True))

    @functools.cached_property
    def _call(self) -> Any:
        return self._engine.callable(self._first, [self._seed])
