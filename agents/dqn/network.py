"""The config's network: torso, recurrent layer and head; built once or as a chain, called again.

A torso is that of one array, or of the parts of an observation; or a function of the user's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.network_keys import FRAMES
from targetnet.agents.dqn.heads import head_of
from targetnet.agents.dqn.normalizer import NORMALIZE, normalized
from targetnet.agents.dqn.own_network import OwnNetwork
from targetnet.rl_core.errors import ConfigError, did_you_mean, quoted
from targetnet.rl_core.graph.scopes import stop_gradient_getter
from targetnet.rl_core.networks import (
    ACTIVATIONS,
    ONE_ARRAY,
    PLAIN,
    RECURRENT,
    STATELESS,
    Conditions,
    Network,
    ObservationForm,
    Recurrent,
    State,
    Streams,
    Values,
    impala_torso,
    minatar_torso,
    mlp_torso,
    nature_torso,
)
from targetnet.rl_core.networks.network import Head, Torso
from targetnet.rl_core.observation_parts import Part, part_scope
from targetnet.rl_core.replay import Sequences

TORSOS: dict[str, Callable[..., Torso]] = {
    "mlp": mlp_torso,
    "minatar": minatar_torso,
    "nature": nature_torso,
    "impala": impala_torso,
}


def torso_of(config: DqnConfig, observed: ObservationForm) -> Callable[[Any], tf.Tensor]:
    """Returns the torso; it is called in a scope of its own.

    Of several parts, each picture [H, W, C] goes through the convolutions of its network, below a
    scope with the part's name, and everything else is flattened. Side by side they are the input
    of the dense layers.
    """
    how: dict[str, Any] = {
        "normalise": config.layer_norm,
        "activation": ACTIVATIONS[config.activation],
    }

    def of_name(name: str, hidden: Sequence[int]) -> Torso:
        more = {"compute": tf.as_dtype(config.compute)} if name in FRAMES else {}
        return TORSOS[name](hidden, **how, **more)

    if not observed.parts:
        return of_name(config.network, config.hidden)
    dense = mlp_torso(config.hidden, **how)
    flat = mlp_torso(())

    def torso(parts: Mapping[str, tf.Tensor]) -> tf.Tensor:
        features = []
        for part in observed.parts:
            name = network_of(config, part)
            own = flat if name == "mlp" else of_name(name, ())
            with tf.variable_scope(part_scope(part.name)):
                features.append(own(parts[part.name]))
        return dense(tf.concat(features, axis=1))

    return torso


def network_of(config: DqnConfig, part: Part) -> str:
    """Returns the name of the network that looks at a part of an observation; mlp flattens it."""
    usual = config.network if _is_picture(part) else "mlp"
    return config.part_networks.get(part.name) or usual


def recurrent_of(config: DqnConfig) -> Recurrent | None:
    """Returns the recurrent layer, which has no variables yet; None without one."""
    return RECURRENT[config.recurrent](config.recurrent_units) if config.is_recurrent else None


def _is_picture(part: Part) -> bool:
    return len(part.shape) == 3  # [H, W, C]


def require_parts(config: DqnConfig, observed: ObservationForm) -> None:
    """Checks that `part_networks` names parts, and that convolutions have pictures to look at.

    Raises:
      ConfigError: it does not, or they have none; or the network is the user's own.
    """
    if config.part_networks and config.network not in TORSOS:
        raise ConfigError(
            f"part_networks needs a network of ours, got network = {quoted(config.network)}, which "
            "gets all parts itself; leave part_networks out"
        )
    parts = {part.name: part for part in observed.parts}
    for name, network in config.part_networks.items():
        if name not in parts:
            has = f"the parts {', '.join(parts)}" if parts else "one part alone"
            raise ConfigError(
                f"part_networks names {quoted(name)}, but the observations have {has}"
                f"{did_you_mean(name, parts)}"
            )
        if network != "mlp" and not _is_picture(parts[name]):
            raise ConfigError(
                f"part_networks: {network} needs a picture [H, W, C], got {quoted(name)} of shape "
                f"{list(parts[name].shape)}"
            )
    convolves = config.network in TORSOS and config.network != "mlp"
    if convolves and parts and not any(map(_is_picture, observed.parts)):
        shapes = ", ".join(f"{name} {list(part.shape)}" for name, part in parts.items())
        raise ConfigError(
            f"network = {quoted(config.network)} needs a part that is a picture [H, W, C], got "
            f'{shapes}; set network = "mlp"'
        )


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
    """Returns torso, recurrent layer and head of the config's network, which are not built yet.

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
        num_actions,
        config.dueling,
        config.head_hidden,
        config.noisy,
        tuple(branches),
        ACTIVATIONS[config.activation],
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
        # A stored scope keeps the getter that it was built with, which stops the gradient of copies
        # (`_guarded_copy_getter`); a getter of None does not take it away.
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
