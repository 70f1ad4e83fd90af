"""The config's network, built once, or as a chain whose networks learn from one another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.heads import head_of
from targetnet.agents.dqn.normalizer import NORMALIZE, normalized
from targetnet.agents.dqn.own_network import OwnNetwork
from targetnet.agents.dqn.torso import TORSOS, recurrent_of, require_parts, torso_of
from targetnet.rl_core.networks import (
    ONE_ARRAY,
    PLAIN,
    STATELESS,
    Conditions,
    Network,
    ObservationForm,
    Recurrent,
    State,
    Streams,
    Values,
)
from targetnet.rl_core.networks.network import Head
from targetnet.rl_core.replay import Sequences

_RECURRENT = "recurrent"  # the block
# Observations [B, ...] and conditions -> features [B, F], in scopes of their own.
Features = Callable[[tf.Tensor, Conditions], tf.Tensor]


class NetworkParts(NamedTuple):
    """A network's pieces: what its actions share, what it remembers, and what becomes of both."""

    features: Features
    recurrent: Recurrent | None
    head: Head


def pieces(
    config: DqnConfig,
    num_actions: int,
    observed: ObservationForm = ONE_ARRAY,
    branches: Sequence[int] = (),
) -> NetworkParts:
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
        taken |= {_RECURRENT} if config.is_recurrent else set()
        taken |= {NORMALIZE} if config.normalize_observations else set()
        own = OwnNetwork(config.network, taken, config.live)

    def features(observation: tf.Tensor, conditions: Conditions) -> tf.Tensor:
        numbers = observed.floats(observation)
        if config.normalize_observations:
            numbers = normalized(numbers, observed, _stored_dtype(observation))
        if config.network not in TORSOS:
            return own(numbers, conditions)
        with tf.variable_scope("torso"):
            return torso(numbers)

    streams = Streams(
        num_actions, config.dueling, config.head_hidden, config.noisy, tuple(branches)
    )
    return NetworkParts(features, recurrent_of(config), kind.build(config, streams))


def _stored_dtype(observation: Any) -> tf.DType:
    # Of parts that are fed one by one it does not matter.
    return tf.float32 if isinstance(observation, dict) else observation.dtype


def build_network(
    config: DqnConfig,
    num_actions: int,
    observed: ObservationForm = ONE_ARRAY,
    branches: Sequence[int] = (),
) -> Network:
    """Returns the config's network; of a chain the first one, whose policy is the agent's.

    With a recurrent layer the state is [B, S], and zeros where an episode begins; without one it
    goes through as it is.

    Args and errors: as for `pieces`.
    """
    chain = Chain(config.model_copy(update={"chain": 1}), num_actions, observed, branches)

    def network(
        observation: tf.Tensor, state: State = STATELESS, conditions: Conditions = PLAIN
    ) -> tuple[Values, State]:
        (values,), state = chain.step(observation, state, conditions)
        return values, state

    return network


class Chain:
    """The K networks of a chain, below the scope that is open; without a chain, one.

        first network    right below the scope, as if it were alone
        link i + 1       below `link_2` ... `link_K`: all of a network, or a head of its own on the
                         torso of the first one

    Args:
      config: `chain` is K; `chain_torso` says which of the two links are.
      num_actions, observed, branches: as for `pieces`.

    Attributes:
      features: builds the first network's torso.
      recurrent: its recurrent layer; None if it remembers nothing.
    """

    def __init__(
        self,
        config: DqnConfig,
        num_actions: int,
        observed: ObservationForm,
        branches: Sequence[int] = (),
    ) -> None:
        self.features, self.recurrent, self._head = pieces(config, num_actions, observed, branches)
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

    def on(self, features: tf.Tensor, conditions: Conditions) -> Values:
        """Builds the first network's head once more, on features [B, F]."""
        return self._head(features, conditions.draws)

    def step(
        self, observation: tf.Tensor, state: State, conditions: Conditions
    ) -> tuple[list[Values], State]:
        """Builds it for one time step: also given the state before it, also returns that after."""
        if self.recurrent is None:
            return self(observation, conditions), state
        features = self.features(observation, conditions)
        with tf.variable_scope(_RECURRENT):
            features, state = self.recurrent.step(features, state)
        return [self.on(features, conditions)], state

    def unroll(self, sequences: Sequences, conditions: Conditions, burn_in: int) -> tf.Tensor:
        """Returns the features on which the heads stand, of all time steps: [B, T, U].

        Only where the scope is opened with `reuse`. No gradient flows into the burn-in.
        """
        assert self.recurrent is not None
        shown = tf.transpose(sequences.observation, _swapped(sequences.observation))  # [T, B, ...]
        T, B, *shape = shown.shape.as_list()
        features = self.features(tf.reshape(shown, [T * B, *shape]), conditions)
        features = tf.reshape(features, [T, B, features.shape[-1]])
        with tf.variable_scope(_RECURRENT):
            features = self.recurrent.unroll(
                features, sequences.state, tf.transpose(sequences.begins), burn_in
            )
        return tf.transpose(features, _swapped(features))


def _swapped(x: tf.Tensor) -> list[int]:
    """The order of the dimensions in which the first two have changed places."""
    return [1, 0, *range(2, x.shape.rank)]


def link_name(i: int) -> str:
    """Returns the name of the scope of network i of a chain, i >= 1 counted from 0."""
    return f"link_{i + 1}"


def links_after_first(config: DqnConfig) -> set[str]:
    """Returns the names of the scopes of all networks of the config's chain but the first."""
    return {link_name(i) for i in range(1, config.chain)}


def torsos(config: DqnConfig) -> tuple[str, ...]:
    """Returns the first parts of the names of weights, of networks with a torso of their own."""
    if config.chain_torso == "shared":
        return ("",)
    return ("", *(f"{link_name(i)}/" for i in range(1, config.chain)))


def is_learned(config: DqnConfig, name: str) -> bool:
    """Says whether a weight is learned; the moments of observations are not.

    Args:
      name: after the scope of a network or chain.
    """
    if not config.normalize_observations:
        return True
    return not name.startswith(tuple(f"{torso}{NORMALIZE}/" for torso in torsos(config)))


def taken_whole(config: DqnConfig) -> Callable[[str], bool]:
    """Returns what says which weights a soft copy takes over whole: the moments of observations.

    A share of the way to new moments would be those of no observations at all.
    """
    return lambda name: not is_learned(config, name)


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
