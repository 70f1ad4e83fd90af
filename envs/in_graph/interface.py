"""What an env in the graph is: rules as tensors, for N copies at once, without any randomness.

All random numbers are handed in, so a step is a function of what is given: it can be checked
against other rules, compiled, and repeated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf


class Moved(NamedTuple):
    """What a step led to."""

    state: Any  # as `begin` gives it
    reward: tf.Tensor  # [N] float32
    terminated: tf.Tensor  # [N] bool; never for a time limit, which is not of the rules


class InGraphEnv(ABC):
    """Rules of one env.

    Attributes:
      observation_shape, observation_dtype: of one env; float32 or bool.
      num_actions: A; actions are 0 .. A - 1.
      max_episode_steps: after so many steps an episode is truncated; None: never.
      begin_draws, step_draws: uniform numbers that one env needs.
    """

    observation_shape: ClassVar[tuple[int, ...]]
    observation_dtype: ClassVar[type[np.generic]]
    num_actions: ClassVar[int]
    max_episode_steps: ClassVar[int | None]
    begin_draws: ClassVar[int]
    step_draws: ClassVar[int]

    @abstractmethod
    def begin(self, uniform: tf.Tensor) -> Any:
        """First states of N episodes: a NamedTuple of tensors [N, ...] of static shapes.

        Args:
          uniform: [N, begin_draws] float32 in [0, 1).
        """

    @abstractmethod
    def step(self, state: Any, action: tf.Tensor, uniform: tf.Tensor) -> Moved:
        """One step of N envs, none of whose episodes has ended.

        Args:
          state: as `begin` or the last step gave it.
          action: [N] int32.
          uniform: [N, step_draws] float32 in [0, 1).
        """

    @abstractmethod
    def observe(self, state: Any) -> tf.Tensor:
        """[N, *observation_shape] of observation_dtype."""
