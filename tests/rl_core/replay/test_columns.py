"""A column more than transitions need: declared once, then stored, read out, put back, sampled."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine, Stream
from targetnet.rl_core.replay import (
    Column,
    NStepTransitions,
    ReplayContents,
    ReplayMemory,
    UniformSampler,
    ValidRows,
    transition_columns,
)

N = 2
MORE = [Column("state", tf.float32, (3,)), Column("cost", tf.int32, of_outcome=True)]


class Memory:
    """A replay of two envs with two columns more: one of the row, one of its outcome."""

    def __init__(self):
        self.engine = Engine()
        with self.engine.building():
            rows = ValidRows(10 * N, N, transition_columns((), np.int32) + MORE)
            items = NStepTransitions(rows, lambda: tf.constant(0.5))
            self.memory = ReplayMemory(rows, UniformSampler(rows), items)
            one, many = self.memory.placeholders([N]), self.memory.placeholders([None, N])
            self.columns = list(one)
            batch = self.memory.sample(64, Stream(0, "s"), tf.constant(0, tf.int64))
            more = [rows.ring.at(name, batch.row) for name in ("state", "cost")]
            calls = [self.memory.write(one)], [self.memory.write_steps(many)]
            self.contents = ReplayContents(self.engine, self.memory)
        self.engine.start()
        self._write = self.engine.callable(None, [*one.values()], calls[0])
        self._write_steps = self.engine.callable(None, [*many.values()], calls[1])
        self.sample = self.engine.callable([batch.s_tm1, *more])

    def write(self, history, begin, end):
        for t in range(begin, end):
            self._write(*(history[name][t] for name in self.columns))

    def write_steps(self, history, begin, end):
        self._write_steps(*(history[name][begin:end] for name in self.columns))

    def everything(self):
        return [(name, array.tolist()) for name, array in self.contents.chunks()]


def history(steps):
    """Everything follows from the row's number; costs are told with the row after."""
    numbers = np.arange(N * steps, dtype=np.int32).reshape(steps, N)
    none = np.zeros((steps, N), bool)
    return {
        "observation": numbers,
        "action": numbers,
        "reward": np.float32(numbers),
        "terminated": none,
        "autoreset": none,
        "state": np.float32(numbers[..., None] + [0.25, 0.5, 0.75]),
        "cost": 7 * (numbers - N),
    }


@pytest.fixture
def two():
    made = Memory(), Memory()
    yield made
    for memory in made:
        memory.engine.close()


def test_a_row_has_its_own_state_and_the_cost_that_came_after_it(two):
    memory, _ = two
    memory.write(history(25), 0, 25)
    numbers, states, costs = memory.sample()
    np.testing.assert_array_equal(states, numbers[:, None] + [0.25, 0.5, 0.75])
    np.testing.assert_array_equal(costs, 7 * numbers)


def test_many_time_steps_at_once_leave_what_single_ones_leave(two):
    one, other = two
    one.write(history(25), 0, 25)
    for begin in range(0, 25, 5):
        other.write_steps(history(25), begin, begin + 5)
    assert one.everything() == other.everything()


def test_the_digest_has_them_and_leaves_out_the_cost_that_is_not_known_yet(two):
    memory, _ = two
    memory.write(history(4), 0, 4)
    found = dict(memory.contents.chunks())
    assert len(found["state"]) == 4 and len(found["cost"]) == 3


def test_read_out_and_put_back_they_are_the_same(two):
    one, other = two
    one.write(history(25), 0, 25)
    other.write(history(40), 10, 35)
    rows = one.contents.time_steps(15, 25)
    assert list(rows) == one.columns
    other.contents.put([(15, rows)], 25, 48)
    for now, then in zip(other.sample(), one.sample(), strict=True):
        np.testing.assert_array_equal(now, then)


def test_its_bytes_are_counted(two):
    with Engine().building():
        rows = ValidRows(1000, 1, transition_columns((), np.int32))
        more = ValidRows(1000, 1, transition_columns((), np.int32) + MORE, name="more")
    assert more.nbytes - rows.nbytes == 1000 * (3 * 4 + 4)
