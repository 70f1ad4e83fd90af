"""Adam with fewer operations than TensorFlow's class, and optimizers with the same variables.

Each is built in two forms, single updates and loops of them (targetnet.rl_core.optimizers.
packed_adam), from the same formulas; only Adam's single update is TensorFlow's own operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

Pull = Callable[[tf.Variable, tf.Tensor], tf.Tensor]
_LARGEST_STEP = 1e30  # less than half of the last place of the largest float32


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
      uses_gradient: whether a step needs the gradient beside the moments.
    """

    uses_gradient = False

    def __init__(self, *args: Any, pull: Pull | None = None, **how: Any) -> None:
        super().__init__(*args, **how)
        self.pull = pull

    def next_m(self, g: tf.Tensor, m: tf.Tensor) -> tf.Tensor:
        """Returns the first moment after a gradient `g`."""
        return m + (g - m) * (1 - np.float32(self._beta1))

    def next_v(self, g: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        """Returns the second moment after a gradient `g`."""
        return v + (tf.square(g) - v) * (1 - np.float32(self._beta2))

    def rate(self, rate: tf.Tensor, power1: tf.Tensor, power2: tf.Tensor) -> tf.Tensor:
        """Returns the step size of a step, with Adam's correction of the moments.

        Args:
          rate: [] or [blocks], the learning rate.
          power1, power2: the step counters before it.
        """
        return rate * tf.sqrt(1 - power2) / (1 - power1)

    def step(self, g: tf.Tensor | None, m: tf.Tensor, v: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        """Returns what a step takes off a variable.

        Args:
          g: its gradient, if the class `uses_gradient`.
          m, v: its moments after that.
          rate: as `rate` returns it.
        """
        return m * rate / (tf.sqrt(v) + self._epsilon)

    def _stepped(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return super()._resource_apply_dense(grad, var)

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        if self.pull is None:
            return self._stepped(grad, var)
        taken = self.pull(var, var.read_value())
        with tf.control_dependencies([taken]):
            stepped = self._stepped(grad, var)
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


def bounded(step: tf.Tensor) -> tf.Tensor:
    """Returns a step that no weight becomes infinite by; see `targetnet.rl_core.graph.finite`."""
    return tf.clip_by_value(step, -_LARGEST_STEP, _LARGEST_STEP)


class _PlainOptimizer(Adam):
    """An optimizer with Adam's variables, whose step size is the learning rate."""

    def rate(self, rate: tf.Tensor, power1: tf.Tensor, power2: tf.Tensor) -> tf.Tensor:
        """Returns the learning rate, for each block of the step counters."""
        return rate + tf.zeros_like(power1)

    def _stepped(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        slots = [self.get_slot(var, name) for name in ("m", "v")]
        m, v = (slot.read_value() for slot in slots)
        now = self.next_m(grad, m), self.next_v(grad, v)
        taken = self.step(grad, *now, self._lr_t)
        changes = [of.assign(new, read_value=False) for of, new in zip(slots, now, strict=True)]
        return tf.group(*changes, var.assign_sub(taken, read_value=False))


class CenteredRmsProp(_PlainOptimizer):
    """The RMSProp of Mnih et al. (2015), https://doi.org/10.1038/nature14236.

        m <- decay * m + (1 - decay) * g
        v <- decay * v + (1 - decay) * g^2
        w <- w - rate * g / sqrt(v - m^2 + epsilon)

    Graves (2013), https://arxiv.org/abs/1308.0850, equations 38 to 40, without its momentum.
    """

    uses_gradient = True

    def __init__(self, rate: tf.Tensor, decay: float, epsilon: float, *, pull: Pull | None) -> None:
        super().__init__(rate, decay, decay, epsilon, name="RMSProp", pull=pull)

    def step(self, g: tf.Tensor | None, m: tf.Tensor, v: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        """Returns rate * g / sqrt(v - m^2 + epsilon)."""
        # Of gradients that are all alike and large the difference may round to less than 0.
        variance = tf.maximum(v - tf.square(m), 0.0)
        return bounded(g / tf.sqrt(variance + self._epsilon) * rate)


class Sgd(_PlainOptimizer):
    """Gradient descent with momentum, in the form that PyTorch and TensorFlow have.

        m <- momentum * m + g
        w <- w - rate * m

    Rumelhart et al. (1986), https://doi.org/10.1038/323533a0, equation 9, there with the rate
    within the sum. The second moment stays 0.

    Args:
      momentum: called where a step is built; returns the number [].
    """

    def __init__(
        self, rate: tf.Tensor, momentum: Callable[[], tf.Tensor], *, pull: Pull | None
    ) -> None:
        super().__init__(rate, name="SGD", pull=pull)
        self._momentum = momentum

    def next_m(self, g: tf.Tensor, m: tf.Tensor) -> tf.Tensor:
        """Returns momentum * m + g."""
        return self._momentum() * m + g

    def next_v(self, g: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        """Returns v as it is."""
        return v

    def step(self, g: tf.Tensor | None, m: tf.Tensor, v: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        """Returns rate * m."""
        return bounded(m * rate)
