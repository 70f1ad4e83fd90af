"""Networks that were built once, called again wherever one is needed."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.network_parts import Chain
from targetnet.rl_core.graph.scopes import stop_gradient_getter
from targetnet.rl_core.networks import Conditions, State, Values
from targetnet.rl_core.replay import Sequences


class NetworkOutputs:
    """Calls networks on the variables that they have; copies are guarded against gradients.

    Args:
      config: of the agent.
      chain: builds them.

    Attributes:
      targets: scopes of the target network and of its older copies, the newest first.
    """

    def __init__(self, config: DqnConfig, chain: Chain) -> None:
        self._chain, self._burn_in = chain, config.burn_in
        self.shared = config.chain_torso == "shared"
        self.targets: list[str] = []
        # Scopes, not their names: a name would be looked for below the scope that is open.
        self._scopes: dict[str, tf.VariableScope] = {}

    def add(self, scope: tf.VariableScope) -> str:
        """Takes the scope of a network that was built; returns its full name."""
        self._scopes[scope.name] = scope
        return scope.name

    def step(
        self,
        name: str,
        observation: tf.Tensor,
        state: State,
        conditions: Conditions,
        getter: Any = None,
    ) -> tuple[list[Values], State]:
        """Calls the network of scope `name`: values of each of a chain, and the state after.

        Args:
          state: before `observation`; STATELESS of a network that remembers nothing.
          getter: custom getter of its variables.
        """
        features = None
        if self.shared and name in self.targets:
            features = self.torso_of(next(iter(self._scopes)), observation, conditions)
        with tf.variable_scope(self._scopes[name], reuse=True, custom_getter=getter):
            if features is not None:
                return self._chain(observation, conditions, features), state
            return self._chain.step(observation, state, conditions)

    def torso_of(self, name: str, observation: tf.Tensor, conditions: Conditions) -> tf.Tensor:
        """Calls a torso alone, without gradient: features on which the target's heads stand."""
        scope = self._scopes[name]
        with tf.variable_scope(scope, reuse=True, custom_getter=stop_gradient_getter):
            return self._chain.features(observation, conditions)

    # Of sequences, in two halves.

    def unroll(self, name: str, sequences: Sequences, conditions: Conditions) -> tf.Tensor:
        """Features of all their time steps, [B, T, U]; no gradient flows into the burn-in."""
        with tf.variable_scope(self._scopes[name], reuse=True):
            return self._chain.unroll(sequences, conditions, self._burn_in)

    def on(
        self, name: str, features: tf.Tensor, conditions: Conditions, *, frozen: bool = False
    ) -> Values:
        """Values on features [n, U].

        Args:
          frozen: whether no gradient flows.
        """
        getter = stop_gradient_getter if frozen else None
        features = tf.stop_gradient(features) if frozen else features
        with tf.variable_scope(self._scopes[name], reuse=True, custom_getter=getter):
            return self._chain.on(features, conditions)
