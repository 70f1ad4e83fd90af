"""Demonstrations: which rows of the replay are of a dataset, and not of the run's own envs."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.replay import ValidRows


class Demonstrations:
    """Tells demonstrations from other rows by their place in the ring.

    They were stored before all other rows, so no column has to say it. A run without a dataset has
    none, and in an offline run all rows are.

    Args:
      config: of the agent.
      rows: where they are stored.
    """

    def __init__(self, config: DqnConfig, rows: ValidRows) -> None:
        self._all, self._steps = bool(config.offline), config.demonstration_steps
        self._rows = rows

    def among(self, row: tf.Tensor) -> tf.Tensor:
        """Says which rows are demonstrations that are not overwritten yet.

        Args:
          row: [B] int64 numbers of rows.

        Returns:
          [B] bool.
        """
        if self._all:
            return tf.ones_like(row, tf.bool)
        time_step = row // self._rows.num_envs  # [B] the first that was stored at this place
        written = self._rows.rows_written.read_value()  # [1]
        there = written <= time_step + self._rows.steps
        return tf.logical_and(time_step < self._steps, there)
