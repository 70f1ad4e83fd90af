"""Adam with fewer operations than TensorFlow's class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

Pull = Callable[[tf.Variable, tf.Tensor], tf.Tensor]


class Adam(tf.train.AdamOptimizer):
    """Adam with the same variables, names and numbers as `tf.train.AdamOptimizer`.

    Kingma & Ba (2015), https://arxiv.org/abs/1412.6980. This class reads the step counters once
    per update; the parent reads them once per variable and once more to advance them.

    Args:
      pull: (variable, its value before a step) -> what each step takes off it besides, decoupled
        from the moments as in Loshchilov & Hutter (2019), https://arxiv.org/abs/1711.05101; None:
        nothing.
      args, how: as for the parent.

    Attributes:
      pull: the same.
      counters: the variables beta1 ** t and beta2 ** t, which stand for the step t.
    """

    def __init__(self, *args: Any, pull: Pull | None = None, **how: Any) -> None:
        super().__init__(*args, **how)
        self.pull = pull

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        if self.pull is None:
            return super()._resource_apply_dense(grad, var)
        taken = self.pull(var, var.read_value())
        with tf.control_dependencies([taken]):
            stepped = super()._resource_apply_dense(grad, var)
        with tf.control_dependencies([stepped]):
            return var.assign_sub(taken, read_value=False)

    def reset(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        """Returns the op that gives some of `variables()` the values they had at first.

        Args:
          variables: the step counters, after which the next step counts as the first one, or all.
        """
        first = self.first_powers()
        starts = [first.get(of.op.name, tf.zeros(of.shape)) for of in variables]
        pairs = zip(variables, starts, strict=True)
        return tf.group(*[of.assign(start, read_value=False) for of, start in pairs])

    def first_powers(self) -> dict[str, float]:
        """Returns the values of the step counters before the first step, by their full names."""
        return {self.counters[0].op.name: self._beta1, self.counters[1].op.name: self._beta2}

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
