"""Items that recurrent networks learn from: rows one after the other, with a state before them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.rl_core.replay.items import NStepTransitions, Span, Transitions
from targetnet.rl_core.replay.valid_rows import ValidRows

STATE = "state"  # the column: what the network that acted remembered before the row


class Sequences(NamedTuple):
    """A sampled batch of B sequences of T time steps each, of which L are learned from.

        time step   0 ... burn_in - 1   burn_in ... burn_in + L - 1   ... T - 1
                    only looked at      learned from                  where their steps lead

    A sequence goes on over the end of an episode: there the state begins anew, and the step that
    is only the reset is not learned from.
    """

    observation: tf.Tensor  # [B, T, ...]; zeros where there is no row yet
    begins: tf.Tensor  # [B, T] bool: an episode begins, or there is no row
    state: tf.Tensor  # [B, S] before the first time step
    states: tf.Tensor  # [B L, S] as stored, before each of the steps that may be learned from
    steps: Transitions  # [B L, ...] of the steps that may be learned from; `row` and `weight` too
    learned: tf.Tensor  # [B, L] bool: the steps that are
    first: int  # time step of the first of them
    destination: tf.Tensor  # [B, L] int32 time step that each leads to
    row: tf.Tensor  # [B] int64 number of the row of the first step that is learned from
    weight: tf.Tensor | None  # [B] float32 importance weight; None if all are 1

    @property
    def observed(self) -> tf.Tensor:
        """[at most B L, ...] observations of the steps that are learned from."""
        return tf.boolean_mask(self.steps.s_tm1, tf.reshape(self.learned, [-1]))

    @property
    def remembered(self) -> tf.Tensor:
        """[at most B L, S] what the network that acted remembered before each of these."""
        return tf.boolean_mask(self.states, tf.reshape(self.learned, [-1]))

    def mean(self, values: tf.Tensor) -> tf.Tensor:
        """[B L] -> [B], over the steps of each sequence that are learned from."""
        of_learned = self.only_learned(values)
        count = tf.reduce_sum(tf.cast(self.learned, tf.float32), axis=1)  # [B] >= 1
        return tf.reduce_sum(of_learned, axis=1) / count

    def largest(self, values: tf.Tensor) -> tf.Tensor:
        """[B L] >= 0 -> [B], over the same steps."""
        return tf.reduce_max(self.only_learned(values), axis=1)

    def only_learned(self, values: tf.Tensor) -> tf.Tensor:
        """[B L] -> [B, L], 0 where a step is not learned from."""
        shaped = tf.reshape(values, self.learned.shape)
        return tf.where_v2(self.learned, shaped, 0.0)


class StoredSequences:
    """Sequences around rows that were drawn.

    Kapturowski et al. (2019), https://openreview.net/forum?id=r1lyTjAqYX: with the stored state and
    a burn-in. There, sequences have fixed places in an episode; here one begins at any row, and
    what an episode's end or the newest row cuts off is masked.

    Args:
      rows: where they are stored; their `history` is at least `burn_in`. They have a column
        `state`, [S] of each row.
      steps: what a step is learned by.
      length: L.
      burn_in: time steps before, in which the state is only brought up to date.
      most_steps: n, that a step spans at most.
    """

    def __init__(
        self,
        rows: ValidRows,
        steps: NStepTransitions,
        *,
        length: int,
        burn_in: int,
        most_steps: int,
    ) -> None:
        self._rows, self._steps = rows, steps
        self._length, self._burn_in = length, burn_in
        self._time_steps = burn_in + length + most_steps

    def gather(self, row: tf.Tensor, weight: tf.Tensor | None) -> Sequences:
        """The sequences whose first learned step is that of rows `row`, [B] int64."""
        ring, N, L = self._rows.ring, self._rows.num_envs, self._length
        B, T = int(row.shape[0]), self._time_steps
        offsets = np.arange(-self._burn_in, T - self._burn_in, dtype=np.int64)  # [T]
        written = tf.reshape(self._rows.rows_written.read_value(), [])
        behind = (written - 1 - row // N) % ring.steps  # [B] time steps until the newest one
        ahead = offsets - behind[:, None]  # [B, T] of the newest one, if > 0
        there = tf.logical_and(ahead <= 0, written - 1 + ahead >= 0)
        numbers = (row[:, None] + offsets * N) % ring.capacity  # [B, T]
        flat = tf.reshape(numbers, [-1])
        seen = ring.observations(flat)
        seen = tf.reshape(seen, [B, T, *seen.shape.as_list()[1:]])
        mask = tf.reshape(there, [B, T, *[1] * (seen.shape.rank - 2)])
        # What was never written may be anything, and times 0 it may still be no number.
        seen = tf.where_v2(mask, seen, tf.zeros([], seen.dtype))
        before = (flat - N) % ring.capacity
        reset = tf.reshape(ring.at("autoreset", before), [B, T])
        learned_at = slice(self._burn_in, self._burn_in + L)
        outcome = ring.at("autoreset", tf.reshape(numbers[:, learned_at], [-1]))
        known = ahead[:, learned_at] < 0  # the newest row has no outcome yet
        learned = tf.logical_not(tf.where_v2(known, tf.reshape(outcome, [B, L]), True))
        steps, long = self._spanned(numbers[:, learned_at], learned)
        source = np.arange(self._burn_in, self._burn_in + L, dtype=np.int32)  # [L]
        return Sequences(
            observation=seen,
            begins=tf.where_v2(there, reset, True),
            state=ring.at(STATE, numbers[:, 0]),
            states=ring.at(STATE, tf.reshape(numbers[:, learned_at], [-1])),
            steps=steps,
            learned=learned,
            first=self._burn_in,
            destination=source + long,
            row=row,
            weight=weight,
        )

    def _spanned(self, source: tf.Tensor, learned: tf.Tensor) -> tuple[Transitions, tf.Tensor]:
        """The steps from rows `source` [B, L], and how many time steps each spans, [B, L]."""
        ring, good = self._rows.ring, tf.reshape(learned, [-1])
        rows = tf.reshape(source, [-1])  # [B L]
        span = self._steps.span(rows)
        # Of a step that is not learned from nothing may reach a gradient, not even times 0: what
        # was never written may be anything, and no action at all.
        span = Span(
            r_t=tf.where_v2(good, span.r_t, 0.0),
            discount_t=tf.where_v2(good, span.discount_t, 0.0),
            destination=tf.where_v2(good, span.destination, ring.after(rows)),
        )
        long = (span.destination - rows) % ring.capacity // ring.num_envs
        steps = self._steps.of_span(rows, span, None)
        masks = {"legal_tm1": steps.legal_tm1, "legal_t": steps.legal_t}
        steps = steps._replace(
            a_tm1=tf.where_v2(
                good if steps.a_tm1.shape.rank < 2 else good[:, None], steps.a_tm1, 0
            ),
            **{n: tf.where_v2(good[:, None], m, True) for n, m in masks.items() if m is not None},
        )
        return steps, tf.reshape(tf.cast(long, tf.int32), source.shape)
