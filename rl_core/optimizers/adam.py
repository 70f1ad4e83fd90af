"""Adam in fewer operations than TensorFlow's own class builds."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf


class Adam(tf.train.AdamOptimizer):
    """`tf.train.AdamOptimizer`: the same variables, names and numbers.

    Kingma & Ba (2015), https://arxiv.org/abs/1412.6980. Its step counters are read once per
    update; the parent reads them once per variable, and again to count.

    Attributes:
      counters: variables of beta1 ** t and beta2 ** t, which it keeps instead of t.
    """

    def _prepare(self) -> None:
        super()._prepare()
        self.counters = super()._get_beta_accumulators()
        self._powers = tuple(counter.read_value() for counter in self.counters)

    def _get_beta_accumulators(self) -> tuple[tf.Tensor, tf.Tensor]:
        """The parent takes these for variables, and reads what is none as it is."""
        return self._powers

    def _finish(self, update_ops: Sequence[tf.Operation], name_scope: str) -> tf.Operation:
        counted = zip(self.counters, self._powers, (self._beta1_t, self._beta2_t), strict=True)
        with tf.control_dependencies(update_ops):
            counts = [of.assign(power * beta, read_value=False) for of, power, beta in counted]
        return tf.group(*counts, name=name_scope)
