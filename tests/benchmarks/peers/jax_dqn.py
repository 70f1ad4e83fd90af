"""Network, update and replay of the programs written after CleanRL's and PureJaxRL's DQN.

The two publish the same ones: an MLP with ReLU, the mean squared error of one-step Q-learning, the
Adam of Optax, and a target network that moves towards the online one by `tau`.

    https://github.com/vwxyzjn/cleanrl/blob/fe8d8a0/cleanrl/dqn_jax.py
    https://github.com/luchris429/purejaxrl/blob/31756b1/purejaxrl/dqn.py

Here lists of arrays take the place of Flax's and Optax's states, which are not installed; XLA gets
the same number of arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

# Nothing here may run on import: XLA's threads start with the first call, and must be pinned.
import jax
import jax.numpy as jnp
import numpy as np

INPUTS, ACTIONS = 4, 2
DISCOUNT, LEARNING_RATE, TAU = 0.99, 1e-3, 1.0
_B1, _B2, _EPSILON = 0.9, 0.999, 1e-8  # defaults of optax.adam


class Learner(NamedTuple):
    """Weights and Adam's moments, each as [w, b, w, b, ...], and the number of updates."""

    online: list[Any]
    target: list[Any]
    m: list[Any]
    v: list[Any]
    updates: Any


class Batch(NamedTuple):
    """Transitions; `final_t` is 1 where nothing is expected after `s_t`, else 0."""

    s_tm1: Any  # [B, 4]
    a_tm1: Any  # [B]
    r_t: Any  # [B]
    final_t: Any  # [B]
    s_t: Any  # [B, 4]


class Replay:
    """Transitions of one env, of which the oldest is overwritten; batches are drawn uniformly."""

    def __init__(self, capacity: int, shape: tuple[int, ...] = (INPUTS,), seed: int = 0) -> None:
        # One column for each part, with an axis for envs: as a vector env speaks.
        self.rows = Batch(
            s_tm1=np.zeros((capacity, 1, *shape), np.float32),
            a_tm1=np.zeros((capacity, 1), np.int64),
            r_t=np.zeros((capacity, 1), np.float32),
            final_t=np.zeros((capacity, 1), np.float32),
            s_t=np.zeros((capacity, 1, *shape), np.float32),
        )
        self._capacity, self._stored = capacity, 0
        self._rng = np.random.default_rng(seed)

    def add(self, row: Batch) -> None:
        place = self._stored % self._capacity
        for column, part in zip(self.rows, row, strict=True):
            column[place] = part
        self._stored += 1

    def sample(self, size: int) -> Batch:
        places = self._rng.integers(0, min(self._stored, self._capacity), size)
        return Batch(*(column[places, 0] for column in self.rows))


def new_learner(key: Any, sizes: Sequence[int]) -> Learner:
    """Draws weights as Flax's Dense does; the target is a copy in arrays of its own.

    Args:
      sizes: of the inputs, of each hidden layer, and the number of actions.
    """
    draw = jax.nn.initializers.lecun_normal()
    online: list[Any] = []
    for shape in itertools.pairwise(sizes):
        key, own = jax.random.split(key)
        online += [draw(own, shape), jnp.zeros(shape[1:])]
    m, v = ([jnp.zeros_like(w) for w in online] for _ in range(2))
    return Learner(online, [jnp.array(w) for w in online], m, v, jnp.array(0))


def q_values(weights: list[Any], x: Any) -> Any:
    *hidden, (w, b) = zip(weights[::2], weights[1::2], strict=True)
    for w_hidden, b_hidden in hidden:
        x = jax.nn.relu(x @ w_hidden + b_hidden)
    return x @ w + b


def update(
    learner: Learner, batch: Batch, learning_rate: float = LEARNING_RATE
) -> tuple[Learner, Any]:
    """Makes one update; returns the loss too."""
    expected = q_values(learner.target, batch.s_t).max(axis=-1)  # [B]
    goal = batch.r_t + (1 - batch.final_t) * DISCOUNT * expected

    def loss_of(weights: list[Any]) -> Any:
        q_tm1 = q_values(weights, batch.s_tm1)  # [B, A]
        error = q_tm1[jnp.arange(len(q_tm1)), batch.a_tm1] - goal
        return (error**2).mean()

    loss, gradients = jax.value_and_grad(loss_of)(learner.online)
    t = learner.updates + 1
    m = [_B1 * m + (1 - _B1) * g for m, g in zip(learner.m, gradients, strict=True)]
    v = [_B2 * v + (1 - _B2) * g**2 for v, g in zip(learner.v, gradients, strict=True)]
    m_scale, v_scale = 1 - _B1**t, 1 - _B2**t
    online = [
        w - learning_rate * (m / m_scale) / (jnp.sqrt(v / v_scale) + _EPSILON)
        for w, m, v in zip(learner.online, m, v, strict=True)
    ]
    return Learner(online, learner.target, m, v, t), loss


def move_target(learner: Learner) -> Learner:
    """Moves the target towards the online network, by `TAU` of the way."""
    target = [
        TAU * new + (1 - TAU) * old for new, old in zip(learner.online, learner.target, strict=True)
    ]
    return learner._replace(target=target)
