"""A network is a torso and a head, each in scopes of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.observation_parts import Part
from targetnet.rl_core.random import Draws


class Values(NamedTuple):
    """A network's estimates for a batch of observations.

    q is always there. The other fields are set by heads that learn the return's distribution.
    """

    q: tf.Tensor  # [B, A] expected returns
    logits: tf.Tensor | None = None  # [B, A, N] of the atoms' probabilities
    z: tf.Tensor | None = None  # [B, A, N] quantiles
    taus: tf.Tensor | None = None  # [N] or [B, N] which quantiles
    own: Any = None  # what the losses of single blocks need, in an update


# What a network remembers from one observation to the next: a nest of tensors [B, ...], which
# is empty in a network that remembers nothing.
State = Any
STATELESS: State = ()

Torso = Callable[[tf.Tensor], tf.Tensor]  # observations [B, ...] -> features [B, F]
Head = Callable[[tf.Tensor, Draws | None], Values]  # features [B, F] -> values


class LiveScalars(Protocol):
    """Live values in the graph: float32 scalars by name. Look one up where it is used."""

    def __getitem__(self, name: str, /) -> tf.Tensor: ...


class Conditions(NamedTuple):
    """Conditions under which a network is called, beside its observations.

    Attributes:
      draws: random numbers of this call. Without them a network that has noise shows its mean,
        and an implicit head fixed quantiles.
      live: live values of the user's own, and perhaps others.
      training: True for the calls of an update.
    """

    draws: Draws | None = None
    live: LiveScalars = MappingProxyType({})
    training: bool = False


PLAIN = Conditions()


class Network(Protocol):
    """Observations [B, ...] and the state before them -> values, and the state after them."""

    def __call__(
        self,
        observation: tf.Tensor,
        state: State = STATELESS,
        conditions: Conditions = PLAIN,
    ) -> tuple[Values, State]: ...


def q_network(torso: Torso, head: Head) -> Network:
    """A network of a torso, in the scope `torso`, and a head, which names its own scopes.

    It remembers nothing: the state goes through as it is.
    """

    def network(
        observation: tf.Tensor, state: State = STATELESS, conditions: Conditions = PLAIN
    ) -> tuple[Values, State]:
        with tf.variable_scope("torso"):
            features = torso(as_float(observation))  # [B, F]
        return head(features, conditions.draws), state

    return network


class ByteBounds(NamedTuple):
    """The least and the greatest byte that observations may have.

    Each is one number, or one for each element of an observation.
    """

    low: np.ndarray  # [] or [...] uint8
    high: np.ndarray  # [] or [...] uint8


class ObservationForm(NamedTuple):
    """The form of stored observations.

    Attributes:
      bounds: of observations of bytes; None: 0 and 255.
      parts: of packed rows; (): each is one array.
    """

    bounds: ByteBounds | None = None
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(
        cls, byte_bounds: tuple[np.ndarray, np.ndarray] | None, parts: Sequence[Part] = ()
    ) -> ObservationForm:
        """Makes it of bounds as pairs."""
        return cls(None if byte_bounds is None else ByteBounds(*byte_bounds), tuple(parts))

    def floats(self, observation: Any) -> Any:
        """Returns what a network sees: float32 [B, ...], or a dict of that by the parts' names.

        Args:
          observation: [B, ...] as stored; of several parts packed rows, or a dict of the parts.
        """
        if not self.parts:
            return as_float(scaled_bytes(observation, self.bounds))
        stored = observation
        if not isinstance(stored, dict):
            stored = unpacked(observation, self.parts)
        return {
            part.name: as_float(scaled_bytes(stored[part.name], _bounds(part)))
            for part in self.parts
        }


ONE_ARRAY = ObservationForm()


def _bounds(part: Part) -> ByteBounds | None:
    return None if part.byte_bounds is None else ByteBounds(*part.byte_bounds)


def unpacked(observation: tf.Tensor, parts: Sequence[Part]) -> dict[str, tf.Tensor]:
    """[B, n] packed rows -> the parts by their names, [B, ...] each, as stored."""
    found = {}
    for part in parts:
        end = part.begin + part.nbytes // observation.dtype.size
        own = observation[:, part.begin : end]  # [B, m]
        if observation.dtype == tf.uint8 and part.dtype == np.float32:
            own = tf.bitcast(tf.reshape(own, [-1, part.nbytes // 4, 4]), tf.float32)
        own = tf.cast(own, part.dtype)
        found[part.name] = tf.reshape(own, [-1, *part.shape])
    return found


def scaled_bytes(observation: tf.Tensor, bounds: ByteBounds | None) -> tf.Tensor:
    """Returns observations whose bytes are scaled to [0, 1] by their `bounds`, as float32.

        (byte - low) / (high - low)

    A byte that can only be one number, low = high, becomes 0. None returns them as they are, and
    a network divides bytes by 255.
    """
    if bounds is None:
        return observation
    low, high = (np.asarray(bound, np.float32) for bound in bounds)
    span = np.where(high > low, high - low, np.float32(1))
    return (tf.cast(observation, tf.float32) - low) / span


def as_float(observation: tf.Tensor) -> tf.Tensor:
    """float32 of the same shape; bytes are pixels here, and are divided by 255."""
    if observation.dtype == tf.uint8:
        return tf.cast(observation, tf.float32) / 255.0
    return tf.cast(observation, tf.float32)
