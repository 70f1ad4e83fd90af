"""The config's network, built once, or as a chain whose networks learn from one another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from agents.config.model import DqnConfig
from agents.dqn.heads import head_of
from agents.dqn.own_network import OwnNetwork
from agents.dqn.torso import TORSOS, require_parts, torso_of
from rl_core.networks import (
    ONE_ARRAY,
    PLAIN,
    Conditions,
    Network,
    Observed,
    Streams,
    Values,
)
from rl_core.networks.network import STATELESS, Head, State

# Observations [B, ...] and conditions -> features [B, F], in scopes of their own.
Features = Callable[[tf.Tensor, Conditions], tf.Tensor]


class Halves(NamedTuple):
    """A network's two halves: what its actions share, and what becomes of that."""

    features: Features
    head: Head


def halves(
    config: DqnConfig,
    num_actions: int,
    observed: Observed = ONE_ARRAY,
    branches: Sequence[int] = (),
) -> Halves:
    """Returns those of the config's network.

    Args:
      num_actions: A.
      observed: the form of observations.
      branches: sizes of the branches of an action, with the sum A; (): it has none.

    Raises:
      ConfigError: the user's own network cannot be imported, or `part_networks` names no part.
    """
    kind = head_of(config)
    require_parts(config, observed)
    if config.network in TORSOS:
        torso = torso_of(config, observed)
    else:
        taken = {"value", "advantage"} if config.dueling else {"head"}
        taken |= kind.blocks | links_after_first(config)
        own = OwnNetwork(config.network, taken, config.live)

    def features(observation: tf.Tensor, conditions: Conditions) -> tf.Tensor:
        numbers = observed.floats(observation)
        if config.network not in TORSOS:
            return own(numbers, conditions)
        with tf.variable_scope("torso"):
            return torso(numbers)

    streams = Streams(
        num_actions, config.dueling, config.head_hidden, config.noisy, tuple(branches)
    )
    return Halves(features, kind.build(config, streams))


def build_network(
    config: DqnConfig,
    num_actions: int,
    observed: Observed = ONE_ARRAY,
    branches: Sequence[int] = (),
) -> Network:
    """Returns the config's network; of a chain the first one, whose policy is the agent's.

    Args and errors: as for `halves`.
    """
    features, head = halves(config, num_actions, observed, branches)

    def network(
        observation: tf.Tensor, state: State = STATELESS, conditions: Conditions = PLAIN
    ) -> tuple[Values, State]:
        return head(features(observation, conditions), conditions.draws), state

    return network


class Chain:
    """The K networks of a chain, below the scope that is open; without a chain, one.

        first network    right below the scope, as if it were alone
        link i + 1       below `link_2` ... `link_K`: all of a network, or a head of its own on the
                         torso of the first one

    Args:
      config: `chain` is K; `chain_torso` says which of the two links are.
      num_actions, observed, branches: as for `halves`.
    """

    def __init__(
        self,
        config: DqnConfig,
        num_actions: int,
        observed: Observed,
        branches: Sequence[int] = (),
    ) -> None:
        self.features, self._head = halves(config, num_actions, observed, branches)
        self._count, self._shared = config.chain, config.chain_torso == "shared"

    def __call__(
        self, observation: tf.Tensor, conditions: Conditions, features: tf.Tensor | None = None
    ) -> list[Values]:
        """Builds it, or calls it again where the scope is opened with `reuse`.

        Args:
          features: [B, F] on which the heads stand; None builds a torso.

        Returns:
          The values of each network, [K].
        """
        values = []
        for i in range(self._count):
            with _link(i):
                if features is None or (i and not self._shared):
                    features = self.features(observation, conditions)
                values.append(self._head(features, conditions.draws))
        return values


def link_name(i: int) -> str:
    """Returns the name of the scope of network i of a chain, i >= 1 counted from 0."""
    return f"link_{i + 1}"


def links_after_first(config: DqnConfig) -> set[str]:
    """Returns the names of the scopes of all networks of the config's chain but the first."""
    return {link_name(i) for i in range(1, config.chain)}


def of_first(config: DqnConfig, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the weights of the network that `build_network` builds, of those of all a chain."""
    links = links_after_first(config)
    return {name: of for name, of in weights.items() if name.split("/")[0] not in links}


@contextlib.contextmanager
def _link(i: int) -> Iterator[None]:
    if not i:
        yield
        return
    with tf.variable_scope(link_name(i)):
        yield
