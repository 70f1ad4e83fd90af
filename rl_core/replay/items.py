"""Items that batches consist of: n-step transitions, gathered from rows when they are sampled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import tensorflow.compat.v1 as tf

from targetnet.rl_core.replay.rows import Ring
from targetnet.rl_core.replay.valid_rows import ValidRows

# Stored rewards [B] -> rewards that are learned from.
RewardTransform = Callable[[tf.Tensor], tf.Tensor]


def _as_stored(reward: tf.Tensor) -> tf.Tensor:
    return reward


class Transitions(NamedTuple):
    """A sampled batch."""

    s_tm1: tf.Tensor  # [B, ...] observation at the source
    a_tm1: tf.Tensor  # [B] int32, or [B, D] with branches
    r_t: tf.Tensor  # [B] float32; of n steps: the discounted sum of rewards
    discount_t: tf.Tensor  # [B] float32; 0 where the destination is terminal
    s_t: tf.Tensor  # [B, ...] observation at the destination
    legal_tm1: tf.Tensor | None  # [B, A] bool, of s_tm1; None without masks
    legal_t: tf.Tensor | None  # [B, A] bool, of s_t; None without masks
    row: tf.Tensor  # [B] int64 number of the source's row
    weight: tf.Tensor | None  # [B] float32 importance weight; None if all are 1

    @property
    def observed(self) -> tf.Tensor:
        """[B, ...] observations of the steps that are learned from."""
        return self.s_tm1

    @property
    def remembered(self) -> None:
        """Steps by themselves have no state before them."""
        return None


class Items(Protocol):
    """Makes items of rows that were drawn."""

    def gather(self, row: tf.Tensor, weight: tf.Tensor | None) -> Any:
        """The items that begin at rows `row`, [B] int64, with their weights, [B].

        Returns:
          `Transitions`, or another batch that has their `observed`, `remembered`, `row` and
          `weight`.
        """


class NStepTransitions:
    """Transitions over up to n steps.

    Args:
      rows: where they are stored.
      discount: returns a float32 scalar, usually fed.
      n_step: returns an integer scalar >= 1, usually fed: steps that a transition spans at most,
        see `n_step_span`. None is one step, without the cost of asking.
      learned: from stored rewards [B] to those that are learned from; None learns from them as
        they are.
    """

    def __init__(
        self,
        rows: ValidRows,
        discount: Callable[[], tf.Tensor],
        n_step: Callable[[], tf.Tensor] | None = None,
        learned: RewardTransform | None = None,
    ) -> None:
        self._rows, self._discount, self._n_step = rows, discount, n_step
        self._learned = learned or _as_stored

    def gather(self, row: tf.Tensor, weight: tf.Tensor | None) -> Transitions:
        """Returns the transitions that begin at rows `row`, [B] int64, with their weights."""
        return self.of_span(row, self.span(row), weight)

    def span(self, row: tf.Tensor) -> Span:
        """Returns what followed rows `row`, [B] int64."""
        ring, discount = self._rows.ring, self._discount()
        if self._n_step is None:
            return one_step_span(ring, row, discount, self._learned)
        written = self._rows.rows_written.read_value()
        return n_step_span(ring, row, written, discount, self._n_step(), self._learned)

    def of_span(self, row: tf.Tensor, span: Span, weight: tf.Tensor | None) -> Transitions:
        """Returns the transitions from rows `row`, [B] int64, over their spans."""
        ring = self._rows.ring
        masks = "legal" in ring.columns
        return Transitions(
            s_tm1=ring.observations(row),
            a_tm1=ring.at("action", row),
            r_t=span.r_t,
            discount_t=span.discount_t,
            s_t=ring.observations(span.destination),
            legal_tm1=ring.at("legal", row) if masks else None,
            legal_t=ring.at("legal", span.destination) if masks else None,
            row=row,
            weight=weight,
        )


class Span(NamedTuple):
    """One step, or several as one, from each of B rows on."""

    r_t: tf.Tensor  # [B] float32
    discount_t: tf.Tensor  # [B] float32; 0 where the destination is terminal
    destination: tf.Tensor  # [B] int64 row number


def one_step_span(
    ring: Ring, source: tf.Tensor, discount: tf.Tensor, learned: RewardTransform = _as_stored
) -> Span:
    """The step that followed rows `source`, int64 [B]."""
    terminated = ring.at("terminated", source)
    return _step(ring, source, terminated, discount, learned)


def n_step_span(
    ring: Ring,
    source: tf.Tensor,
    written: tf.Tensor,
    discount: tf.Tensor,
    n_step: tf.Tensor,
    learned: RewardTransform = _as_stored,
) -> Span:
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
      learned: applied to each reward before it is added.
    """
    terminated = ring.at("terminated", source)
    first = _step(ring, source, terminated, discount, learned)

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
        over = tf.logical_or(terminated, ring.at("autoreset", at))
        # `alive` is false first: the newest row has no outcome yet, and memory that was never
        # written is no bool: `not` makes something of it that `or` and `and` take for true.
        alive = tf.logical_and(tf.logical_and(alive, older), tf.logical_not(over))
        terminated = ring.at("terminated", at)
        step = _step(ring, at, terminated, discount, learned)
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
    return Span(*final)


def _step(
    ring: Ring,
    source: tf.Tensor,
    terminated: tf.Tensor,
    discount: tf.Tensor,
    learned: RewardTransform,
) -> Span:
    # A time limit is not an end: only `terminated` cuts the bootstrap off.
    discounts = tf.fill(source.shape, discount)  # [B], as a select that broadcasts is slow
    return Span(
        r_t=learned(ring.at("reward", source)),
        discount_t=tf.where(terminated, tf.zeros_like(discounts), discounts),
        destination=ring.after(source),
    )
