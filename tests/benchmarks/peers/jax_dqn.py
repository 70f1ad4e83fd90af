"""What both JAX yardsticks do: the network, and one update by Adam on the Huber loss."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

PACKAGES = ("jax", "gymnasium", "numpy")
OBSERVATION, ACTIONS, HIDDEN = 4, 2, 64
SHAPES = [
    (OBSERVATION, HIDDEN), (HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN,), (HIDDEN, ACTIONS), (ACTIONS,)
]  # fmt: skip
Weights = list[Any]  # w, b, w, b, w, b


class Learner(NamedTuple):
    online: Weights
    target: Weights
    mean: Weights  # Adam's
    square: Weights  # Adam's
    updates: Any  # [] int32


class Batch(NamedTuple):
    s_tm1: Any  # [B, 4]
    a_tm1: Any  # [B] int32
    r_t: Any  # [B]
    discount_t: Any  # [B]
    s_t: Any  # [B, 4]


def initial() -> Learner:
    key = jax.random.PRNGKey(0)
    online = [
        jax.random.normal(jax.random.fold_in(key, i), shape) / np.sqrt(shape[0])
        if len(shape) > 1
        else jnp.zeros(shape)
        for i, shape in enumerate(SHAPES)
    ]
    mean, square = ([jnp.zeros_like(w) for w in online] for _ in range(2))
    return Learner(online, [w + 0 for w in online], mean, square, jnp.int32(0))


def q_values(weights: Weights, x: Any) -> Any:
    """Returns [..., 2] values of [..., 4] observations."""
    h = jax.nn.relu(x @ weights[0] + weights[1])
    h = jax.nn.relu(h @ weights[2] + weights[3])
    return h @ weights[4] + weights[5]


def update(learner: Learner, batch: Batch, learning_rate: Any) -> Learner:
    """One gradient step; the target is left as it is."""

    def loss(online: Weights) -> Any:
        q = jnp.take_along_axis(q_values(online, batch.s_tm1), batch.a_tm1[:, None], 1)[:, 0]
        best = q_values(learner.target, batch.s_t).max(1)
        error = jnp.abs(batch.r_t + batch.discount_t * best - q)
        return jnp.where(error < 1, 0.5 * error * error, error - 0.5).mean()

    gradients = jax.grad(loss)(learner.online)
    n = learner.updates.astype(jnp.float32) + 1
    step = learning_rate * jnp.sqrt(1 - 0.999**n) / (1 - 0.9**n)
    mean = [0.9 * m + 0.1 * g for m, g in zip(learner.mean, gradients, strict=True)]
    square = [0.999 * v + 0.001 * g * g for v, g in zip(learner.square, gradients, strict=True)]
    online = [
        w - step * m / (jnp.sqrt(v) + 1e-8)
        for w, m, v in zip(learner.online, mean, square, strict=True)
    ]
    return Learner(online, learner.target, mean, square, learner.updates + 1)
