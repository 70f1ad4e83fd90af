"""Adam with fewer operations than TensorFlow's class."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf


class Adam(tf.train.AdamOptimizer):
    """Adam with the same variables, names and numbers as `tf.train.AdamOptimizer`.

    Kingma & Ba (2015), https://arxiv.org/abs/1412.6980. This class reads the step counters once
    per update; the parent reads them once per variable and once more to advance them.

    Attributes:
      counters: the variables beta1 ** t and beta2 ** t, which stand for the step t.
    """

    def _prepare(self) -> None:
        super()._prepare()
        self.counters = super()._get_beta_accumulators()
        self._powers = tuple(counter.read_value() for counter in self.counters)

    def _get_beta_accumulators(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns tensors instead of variables; the parent uses tensors without another read."""
        return self._powers

    def _finish(self, update_ops: Sequence[tf.Operation], name_scope: str) -> tf.Operation:
        counted = zip(self.counters, self._powers, (self._beta1_t, self._beta2_t), strict=True)
        with tf.control_dependencies(update_ops):
            counts = [of.assign(power * beta, read_value=False) for of, power, beta in counted]
        return tf.group(*counts, name=name_scope)
