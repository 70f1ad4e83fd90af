"""Interface of an env in the graph: deterministic rules as tensors, for N copies at once.

The caller passes all random numbers, so a step is a pure function: it can be compared with other
rules, compiled, and repeated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf


def float32_columns(columns: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns float64 columns, each [N], as observations [N, columns] float32."""
    # XLA keeps what is concatenated, and makes everything else again where it is used. Along the
    # last axis it concatenates one number at a time.
    return tf.transpose(tf.stack([tf.cast(column, tf.float32) for column in columns]))


class EnvStep(NamedTuple):
    """Results of a step."""

    state: Any  # of the same type as the state that `begin` returns
    reward: tf.Tensor  # [N] float32
    terminated: tf.Tensor  # [N] bool; a time limit is no part of the rules and never sets it


class InGraphEnv(ABC):
    """Rules of an env.

    Attributes:
      observation_shape, observation_dtype: shape and dtype (float32 or bool) of one observation.
      num_actions: A; actions are 0 .. A - 1.
      max_episode_steps: number of steps after which an episode is truncated; None: no limit.
      begin_draws, step_draws: number of uniform draws per env in `begin` and `step`.
    """

    observation_shape: ClassVar[tuple[int, ...]]
    observation_dtype: ClassVar[type[np.generic]]
    num_actions: ClassVar[int]
    max_episode_steps: ClassVar[int | None]
    begin_draws: ClassVar[int]
    step_draws: ClassVar[int]

    @abstractmethod
    def begin(self, uniform: tf.Tensor) -> Any:
        """Returns the first states of N episodes: a NamedTuple of tensors [N, ...].

        The shapes after N must be static.

        Args:
          uniform: [N, begin_draws] float32 in [0, 1).
        """

    @abstractmethod
    def step(self, state: Any, action: tf.Tensor, uniform: tf.Tensor) -> EnvStep:
        """Makes one step of N envs, all in a running episode.

        Args:
          state: the state from `begin` or the last step.
          action: [N] int32.
          uniform: [N, step_draws] float32 in [0, 1).
        """

    @abstractmethod
    def observe(self, state: Any) -> tf.Tensor:
        """Returns the observations, [N, *observation_shape] of observation_dtype."""
