"""Uniform replay: rows in a ring, and a queue of those that may be sampled.

A row's number enters the queue when its outcome is known and was not an autoreset, and leaves
when the ring overwrites it (the queue's head is the place at which the oldest time step
entered). A uniform draw from the queue is thus a uniform draw from the valid rows, always
exactly B of them, without any rejection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from rl_core.errors import ConfigError
from rl_core.memory import check_memory
from rl_core.random import Stream
from rl_core.replay.n_step import n_steps, one_step
from rl_core.replay.rows import Ring, Rows, lazy_variable, row_bytes, write_at


class Transitions(NamedTuple):
    """A sampled batch."""

    s_tm1: tf.Tensor  # [B, ...] observation at the source
    a_tm1: tf.Tensor  # [B] int32
    r_t: tf.Tensor  # [B] float32; of n steps: the discounted sum of rewards
    discount_t: tf.Tensor  # [B] float32; 0 where the destination is terminal
    s_t: tf.Tensor  # [B, ...] observation at the destination
    legal_tm1: tf.Tensor | None  # [B, A] bool, of s_tm1; None without masks
    legal_t: tf.Tensor | None  # [B, A] bool, of s_t; None without masks
    row: tf.Tensor  # [B] int64 number of the source's row
    weight: tf.Tensor | None  # [B] float32 importance weight; None if all are 1


class UniformReplay:
    """Ring of `capacity // num_envs` time steps of `num_envs` rows each.

    Its memory is committed by the operating system as rows are written, not at the start.

    Args:
      capacity: rows in all; rounded down to a multiple of num_envs.
      num_envs: N.
      observation_shape, observation_dtype: of one env, stored as they are.
      num_actions: A, if the envs say which actions are legal; else None, and there is no column
        for it.
      name: variable scope.

    Attributes:
      rows_written: int64 [1] variable: time steps written so far, the newest one's outcome pending.
      queue_tail: int64 [1] variable: rows that ever entered the queue.
      nbytes: bytes of all rows, once written.

    Raises:
      ConfigError: fewer than three time steps fit (a step, its end and the reset after it).
      MemoryLimitError: the rows need more memory than there is; says how much of each.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        observation_shape: Sequence[int],
        observation_dtype: Any,
        *,
        num_actions: int | None = None,
        name: str = "replay",
    ) -> None:
        self.num_envs = num_envs
        self.steps = capacity // num_envs
        if self.steps < 3:
            raise ConfigError(
                f"a replay for {num_envs} envs needs a capacity of at least {3 * num_envs} rows, "
                f"got {capacity}"
            )
        self.capacity = self.steps * num_envs
        dtype = tf.as_dtype(observation_dtype)
        self.nbytes = self.capacity * row_bytes(observation_shape, dtype, num_actions)
        self.nbytes += self._other_bytes()
        check_memory(self.nbytes, f"a replay of {self.capacity:,} rows")
        with tf.variable_scope(name) as scope:
            self._scope = scope
            self._ring = Ring(self.steps, num_envs, observation_shape, dtype, num_actions)
            # N more places: where the numbers of rows that must not be sampled are put.
            self._queue = lazy_variable("queue", tf.int64, [self.capacity + num_envs])
            # The queue's tail when a time step was written: the place of its own first row.
            self._tail_at = lazy_variable("tail_at", tf.int64, [self.steps])
            self.rows_written = _counter("rows_written")
            self.queue_tail = _counter("queue_tail")

    def write(
        self,
        observation: tf.Tensor,
        action: tf.Tensor,
        reward: tf.Tensor,
        terminated: tf.Tensor,
        autoreset: tf.Tensor,
        legal: tf.Tensor | None = None,
    ) -> tf.Operation:
        """Appends one time step and completes the one before it.

        Args:
          observation: [N, ...] what the envs show now.
          action: [N] int32, taken on it.
          reward, terminated, autoreset: [N], of the step that led to `observation`.
          legal: [N, A] bool, the actions that may be taken on it; None without masks.
        """
        with tf.name_scope("write"):
            now, tail = self.rows_written.read_value(), self.queue_tail.read_value()
            rows, before = self._ring.numbers(now), self._ring.numbers(now - 1)
            entering = self._entering(now, autoreset)  # [N]
            place, entered = self._places(tail, entering)
            new_tail = tail + entered
            shown = Rows(observation, action, None, None, None, legal)
            outcome = Rows(None, None, reward, terminated, autoreset)
            writes = [
                write_at(self._queue, place, before),
                write_at(self._tail_at, now % self.steps, new_tail),
                *self._ring.writes(rows, shown),
                *self._ring.writes(before, outcome),
                *self._turn_valid(before, rows, entering),
            ]
            with tf.control_dependencies(writes):
                return tf.group(
                    self.rows_written.assign_add([1], read_value=False),
                    self.queue_tail.assign(new_tail, read_value=False),
                )

    def write_steps(self, rows: Rows) -> tf.Operation:
        """Appends P time steps at once, as P calls of `write` one after the other would.

        Args:
          rows: tensors [P, N, ...], 1 <= P < steps, which need not be known before the call.
            `reward`, `terminated` and `autoreset` are of the step that led to the observation
            in the same row, as for `write`.
        """
        with tf.name_scope("write_steps"):
            now, tail = self.rows_written.read_value(), self.queue_tail.read_value()
            P = tf.shape(rows.autoreset, out_type=tf.int64)[0]
            steps = now + tf.range(P)  # [P]
            numbers = self._ring.numbers_of_steps(steps)  # [P N]
            before = self._ring.numbers_of_steps(steps - 1)
            entering = self._entering(tf.expand_dims(steps, 1), rows.autoreset)  # [P, N]
            entering = tf.reshape(entering, [-1])  # [P N]
            tails = tail + tf.cumsum(entering)  # [P N] after each row
            # Also those that do not enter are put somewhere: behind all places.
            place = tf.where_v2(entering > 0, (tails - 1) % self.capacity, self.capacity)
            named = rows.columns().items()
            at = {n: tf.reshape(c, [-1, *c.shape[2:]]) for n, c in named}
            outcome = Rows(None, None, at["reward"], at["terminated"], at["autoreset"])
            shown = Rows(at["observation"], at["action"], None, None, None, at.get("legal"))
            tail_at = tails if self.num_envs == 1 else tails[self.num_envs - 1 :: self.num_envs]
            written, new_tail = tf.reshape(P, [1]), tails[-1:]
            writes = [
                write_at(self._queue, place, before),
                write_at(self._tail_at, steps % self.steps, tail_at),
                *self._ring.writes(numbers, shown),
                *self._ring.writes(before, outcome),
                *self._turn_valid(before[: self.num_envs], numbers, entering),
            ]
            with tf.control_dependencies(writes):
                return tf.group(
                    self.rows_written.assign_add(written, read_value=False),
                    self.queue_tail.assign(new_tail, read_value=False),
                )

    def sample(
        self,
        batch_size: int,
        stream: Stream,
        counter: tf.Tensor,
        discount: tf.Tensor,
        n_step: tf.Tensor | None = None,
    ) -> Transitions:
        """Exactly `batch_size` valid transitions, uniformly, with replacement.

        There must be a valid row: what an empty replay gives is undefined.

        Args:
          batch_size: B.
          stream, counter: of the random numbers; the counter is an int64 scalar. The same
            (stream, counter) and rows give the same batch.
          discount: float32 scalar, usually fed.
          n_step: integer scalar >= 1, usually fed: steps that a transition spans at most, see
            `rl_core.replay.n_step.n_steps`. None is one step, without the cost of asking.
        """
        with tf.name_scope("sample"):
            head, tail = self.queue()
            place = stream.integers(counter, [batch_size], head, tail)  # [B]
            return self._transitions(self.queue_at(place), discount, n_step)

    def queue(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Places [head, tail) of the queue hold the rows that may be sampled; int64 scalars."""
        # Gathered, not read and then reshaped: one operation instead of two.
        written, tail = tf.gather(self.rows_written, 0), tf.gather(self.queue_tail, 0)
        entered = tf.gather(self._tail_at, written % self.steps)  # by the oldest time step
        return tf.where(written > self.steps, entered, tf.zeros_like(entered)), tail

    def owns(self, variable: tf.Variable) -> bool:
        """Whether it is one of the replay's own."""
        return variable.op.name.startswith(self._scope.name + "/")

    def kept_variables(self) -> list[tf.Variable]:
        """What a checkpoint has to keep beside the rows and the two counters."""
        return []

    def rebuild(self) -> tf.Operation | None:
        """Makes anew what follows from `kept_variables`, after these were set; None if nothing."""
        return None

    def rows_at(self, numbers: tf.Tensor) -> Rows:
        """The rows of these numbers, int64 [M] in [0, capacity)."""
        return self._ring.at(numbers)

    def put_rows(self, numbers: tf.Tensor, rows: Rows) -> tf.Operation:
        """Writes whole rows where they were, int64 [M] numbers."""
        return tf.group(*self._ring.writes(numbers, rows))

    def put_queue(
        self, places: tf.Tensor, numbers: tf.Tensor, steps: tf.Tensor, tails: tf.Tensor
    ) -> tf.Operation:
        """Puts row numbers into places of the queue, and the tails at which steps began."""
        return tf.group(
            write_at(self._queue, places % self.capacity, numbers),
            write_at(self._tail_at, steps, tails),
        )

    def queue_at(self, places: tf.Tensor) -> tf.Tensor:
        """The numbers of the rows that entered the queue at these places, int64 [M]."""
        return tf.gather(self._queue, places % self.capacity)

    def _other_bytes(self) -> int:
        """Beside the rows: the queue and the tails."""
        return 8 * (self.capacity + self.num_envs + self.steps)

    def _transitions(
        self,
        source: tf.Tensor,
        discount: tf.Tensor,
        n_step: tf.Tensor | None,
        weight: tf.Tensor | None = None,
    ) -> Transitions:
        """Those that begin at rows `source`, [B]."""
        ring = self._ring
        if n_step is None:
            outcome = one_step(ring, source, discount)
        else:
            written = self.rows_written.read_value()
            outcome = n_steps(ring, source, written, discount, n_step)
        legal, destination = ring.columns.legal, outcome.destination
        return Transitions(
            s_tm1=tf.gather(ring.columns.observation, source),
            a_tm1=tf.gather(ring.columns.action, source),
            r_t=outcome.r_t,
            discount_t=outcome.discount_t,
            s_t=tf.gather(ring.columns.observation, destination),
            legal_tm1=None if legal is None else tf.gather(legal, source),
            legal_t=None if legal is None else tf.gather(legal, destination),
            row=source,
            weight=weight,
        )

    def _turn_valid(
        self, before: tf.Tensor, written: tf.Tensor, entering: tf.Tensor
    ) -> list[tf.Operation]:
        """What else is to be done when P time steps are written.

        Args:
          before: [N] rows of the time step before; written: [P N] those of the steps.
          entering: [P N] int64, 1 where a row of `before`, and then of `written`, becomes valid.
            The N last, and all others, are not.
        """
        return []

    def _entering(self, now: tf.Tensor, autoreset: tf.Tensor) -> tf.Tensor:
        """[.., N] 1 where the row before time step `now` becomes valid by it, else 0; int64."""
        # 0 also for the very first row: there is nothing before it to complete.
        return tf.minimum(1 - tf.cast(autoreset, tf.int64), now)

    def _places(self, tail: tf.Tensor, entering: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Where N rows go in the queue, [N], and how many of them really enter it, [1].

        The place at `tail` is always free, since the newest row is never in the queue. With one
        env a row that must not enter is put there too, and `tail` stays.
        """
        if self.num_envs == 1:
            return tail % self.capacity, entering
        place = (tail + tf.cumsum(entering, exclusive=True)) % self.capacity
        aside = self.capacity + np.arange(self.num_envs, dtype=np.int64)
        return tf.where(entering > 0, place, aside), tf.reduce_sum(entering, keepdims=True)


def _counter(name: str) -> tf.Variable:
    # [1], not a scalar: with one env it is a vector of row numbers as it stands, and the
    # hottest call needs no reshaping.
    return tf.get_variable(name, [1], tf.int64, tf.zeros_initializer(), trainable=False)
