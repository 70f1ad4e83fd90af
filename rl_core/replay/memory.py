"""A replay memory: rows, a sampler that draws some of them, and the items they are made into."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import tensorflow.compat.v1 as tf

from targetnet.rl_core.machine import check_memory
from targetnet.rl_core.random import Stream
from targetnet.rl_core.replay.items import Items, Transitions
from targetnet.rl_core.replay.rows import Rows
from targetnet.rl_core.replay.samplers import Sampler
from targetnet.rl_core.replay.sequences import Sequences
from targetnet.rl_core.replay.valid_rows import ValidRows


class ReplayMemory:
    """Stores time steps and gives batches of items.

        rows = ValidRows(10_000, 1, transition_columns((4,), np.float32))
        items = NStepTransitions(rows, lambda: discount)
        memory = ReplayMemory(rows, UniformSampler(rows), items)

    Args:
      rows: where time steps are stored.
      sampler: draws rows of `rows`.
      items: what a batch consists of, made of drawn rows of `rows`.

    Attributes:
      capacity: rows in all; steps: time steps.
      nbytes: bytes of everything, once written.

    Raises:
      MemoryLimitError: all together needs more memory than there is; says both numbers.
    """

    def __init__(self, rows: ValidRows, sampler: Sampler, items: Items) -> None:
        self.rows, self.sampler, self._items = rows, sampler, items
        self.capacity, self.steps = rows.capacity, rows.steps
        self.nbytes = rows.nbytes + sampler.nbytes
        check_memory(self.nbytes, f"a replay of {self.capacity:,} rows")

    def placeholders(self, lead: list[int | None]) -> Rows:
        """Returns placeholders for every column, with the leading dimensions `lead`."""
        return {
            name: tf.placeholder(of.dtype.base_dtype, [*lead, *of.shape[1:]], name)
            for name, of in self.rows.ring.columns.items()
        }

    def write(self, rows: Mapping[str, Any], now: tf.Tensor | None = None) -> tf.Operation:
        """Appends one time step and completes the one before it.

        Args:
          rows: column name -> tensor [N, ...]. `reward`, `terminated` and `autoreset` are of the
            step that led to `observation`; `action` is the one taken on it.
          now: [1] `rows.rows_written`, if it was read already.
        """
        with tf.name_scope("write"):
            now = self.rows.rows_written.read_value() if now is None else now
            return self.rows.write(rows, now, self.sampler.written)

    def write_steps(
        self, rows: Mapping[str, Any], priority: tf.Tensor | None = None
    ) -> tf.Operation:
        """Appends P time steps at once, as P calls of `write` one after the other would.

        Args:
          rows: column name -> tensor [P, N, ...], 1 <= P <= `rows.most_at_once`, which need not be
            known before the call.
          priority: [P, N] float32, with which the rows enter the sampler; None: it chooses.
        """
        with tf.name_scope("write_steps"):
            given = None if priority is None else tf.reshape(priority, [-1])  # [P N]
            return self.rows.write_steps(rows, partial(self.sampler.written, priority=given))

    def sample(
        self, batch_size: int, stream: Stream, counter: tf.Tensor
    ) -> Transitions | Sequences:
        """A batch of exactly `batch_size` items, see `Items`; an empty memory gives anything.

        Args:
          stream, counter: of the random numbers; the counter is an int64 scalar. The same
            (stream, counter) and rows give the same batch.
        """
        with tf.name_scope("sample"):
            drawn = self.sampler.draw(batch_size, stream, counter)
            return self._items.gather(drawn.row, drawn.weight)

    def update_priorities(
        self, row: tf.Tensor, priority: tf.Tensor, only_if: tf.Tensor | None = None
    ) -> list[tf.Operation]:
        """Hands priorities of sampled rows to the sampler; see `Sampler.update`."""
        with tf.name_scope("update_priorities"):
            return self.sampler.update(row, priority, only_if)

    def saved_variables(self) -> list[tf.Variable]:
        """The variables, beside the rows, that a checkpoint has to keep."""
        rows = self.rows
        return [rows.rows_written, rows.queue_tail, *self.sampler.kept_variables()]

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for a variable of this memory."""
        return variable.op.name.startswith(self.rows.scope.name + "/")
