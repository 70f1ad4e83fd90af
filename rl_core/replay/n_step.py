"""What followed a row, one or more steps later, gathered from the rows behind it."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from rl_core.replay.rows import Ring


class Outcome(NamedTuple):
    """Of B steps or runs of steps."""

    r_t: tf.Tensor  # [B] float32
    discount_t: tf.Tensor  # [B] float32; 0 where the destination is terminal
    destination: tf.Tensor  # [B] int64 row number


def one_step(ring: Ring, source: tf.Tensor, discount: tf.Tensor) -> Outcome:
    """The step that followed rows `source`, int64 [B]."""
    terminated = tf.gather(ring.columns.terminated, source)
    return _step(ring, source, terminated, discount)


def n_steps(
    ring: Ring, source: tf.Tensor, written: tf.Tensor, discount: tf.Tensor, n_step: tf.Tensor
) -> Outcome:
    """Up to `n_step` steps that followed rows `source`, as one.

        r_t        = sum_{k < m} discount ** k * r_{t + k}
        discount_t = discount ** m, or 0 if the m-th step terminated
        m          = n_step, or fewer

    Sutton (1988), https://doi.org/10.1007/BF00115009; at sample time, as in Hessel et al.
    (2018), https://arxiv.org/abs/1710.02298. It ends early where the episode terminated, where
    it was truncated (its true final observation is the destination), and at the newest row,
    whose own outcome is not known yet.

    Args:
      ring: the rows.
      source: [B] int64 row numbers of steps whose outcome is known and was no autoreset.
      written: int64 scalar or [1], time steps written so far.
      discount: float32 scalar.
      n_step: integer scalar >= 1; both may be fed, and change from call to call.
    """
    columns = ring.columns
    terminated = tf.gather(columns.terminated, source)
    first = _step(ring, source, terminated, discount)

    # All that more than one step needs is in here: a loop that does not run costs little.
    def longer(
        k: tf.Tensor,
        alive: tf.Tensor,
        terminated: tf.Tensor,
        r_t: tf.Tensor,
        discount_t: tf.Tensor,
        at: tf.Tensor,
    ) -> tuple[tf.Tensor, ...]:
        older = tf.not_equal(at // ring.num_envs, (written - 1) % ring.steps)
        over = tf.logical_or(terminated, tf.gather(columns.autoreset, at))
        # False first: of the newest row nothing is known, and what was never written is no bool,
        # of which `not` makes what `or` and `and` take for true.
        alive = tf.logical_and(tf.logical_and(alive, older), tf.logical_not(over))
        terminated = tf.gather(columns.terminated, at)
        step = _step(ring, at, terminated, discount)
        return (
            tf.where(tf.reduce_any(alive), k + 1, n_step),
            alive,
            terminated,
            tf.where(alive, r_t + discount_t * step.r_t, r_t),
            tf.where(alive, discount_t * step.discount_t, discount_t),
            tf.where(alive, step.destination, at),
        )

    start = tf.ones([], n_step.dtype), tf.ones(source.shape, tf.bool), terminated, *first
    _, _, _, *final = tf.while_loop(lambda k, *_: k < n_step, longer, start, parallel_iterations=1)
    return Outcome(*final)


def _step(ring: Ring, source: tf.Tensor, terminated: tf.Tensor, discount: tf.Tensor) -> Outcome:
    # A time limit is not an end: only `terminated` cuts the bootstrap off.
    discounts = tf.fill(source.shape, discount)  # [B], as a select that broadcasts is slow
    return Outcome(
        r_t=tf.gather(ring.columns.reward, source),
        discount_t=tf.where(terminated, tf.zeros_like(discounts), discounts),
        destination=ring.after(source),
    )
