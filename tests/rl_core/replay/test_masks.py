"""Which actions are legal: a column of the rows, where there are masks at all."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine, Stream
from targetnet.rl_core.digest import checksums
from targetnet.rl_core.errors import ScopeMismatch
from targetnet.rl_core.replay import ReplayContents
from tests.rl_core.replay.memories import NAMES, named, prioritized, uniform

A = 3


class Masked:
    """A replay of two envs whose row r has the mask r % 2, r % 3 < 2, True."""

    def __init__(self, num_actions=A, first=0):
        self.engine = Engine()
        with self.engine.building():
            self.replay = uniform(14, 2, num_actions=num_actions)
            types = [tf.int32, tf.int32, tf.float32, tf.bool, tf.bool]
            feeds = [tf.placeholder(dtype, [2]) for dtype in types]
            if num_actions:
                feeds.append(tf.placeholder(tf.bool, [2, num_actions]))
            written = self.replay.write(named(*feeds))
            counter = tf.placeholder(tf.int64, [])
            batch = self.replay.sample(64, Stream(0, "s"), counter)
            self.contents = ReplayContents(self.engine, self.replay)
        self.engine.start()
        self._write = self.engine.callable(None, feeds, [written])
        parts = [batch.s_tm1, batch.s_t]
        parts += [batch.legal_tm1, batch.legal_t] if num_actions else []
        self._sample = self.engine.callable(parts, [counter])
        self.batch, self.time_steps = batch, first

    def write(self, steps):
        for _ in range(steps):
            numbers = np.arange(2 * self.time_steps, 2 * self.time_steps + 2, dtype=np.int32)
            none = np.zeros(2, bool)
            row = [numbers, numbers, np.float32(numbers), none, none]
            self._write(*row, *([mask(numbers)] if self.batch.legal_t is not None else []))
            self.time_steps += 1

    def sample(self, counter=0):
        return self._sample(np.int64(counter))


def mask(numbers):
    return np.stack([numbers % 2 > 0, numbers % 3 < 2, numbers >= 0], axis=-1)


@pytest.fixture
def masked():
    made = Masked()
    yield made
    made.engine.close()


def test_a_transition_has_the_masks_of_both_its_observations(masked):
    for steps in (2, 3, 20):
        masked.write(steps)
        s_tm1, s_t, legal_tm1, legal_t = masked.sample()
        np.testing.assert_array_equal(legal_tm1, mask(s_tm1))
        np.testing.assert_array_equal(legal_t, mask(s_t))
        assert (s_t == s_tm1 + 2).all()


def test_without_masks_there_is_no_column_and_no_memory():
    def sizes(**options):
        with Engine().building():
            replay = uniform(1000, 1, (4,), np.float32, **options)
            return replay.nbytes, {v.op.name for v in tf.global_variables()}

    without, names = sizes()
    with_masks, more = sizes(num_actions=5)
    assert with_masks - without == 1000 * 5
    assert more - names == {"replay/legal"}
    plain = Masked(num_actions=None)
    assert plain.batch.legal_tm1 is None and plain.batch.legal_t is None
    plain.engine.close()


def test_rows_read_out_by_name_come_back_by_name(masked):
    masked.write(20)
    contents = masked.contents
    files = [
        (13, contents.time_steps(13, 16)),
        (16, contents.time_steps(16, 20)),
    ]
    assert [*files[0][1]] == [*NAMES]
    np.testing.assert_array_equal(files[0][1]["legal"], mask(files[0][1]["observation"]))
    other = Masked(first=500)
    other.write(20)
    other.contents.put(iter(files), 20, 38)
    for part, same in zip(other.sample(), masked.sample(), strict=True):
        np.testing.assert_array_equal(part, same)
    other.engine.close()


def test_the_digest_has_the_masks_in_it(masked):
    masked.write(5)
    assert "legal" in {name for name, _ in masked.contents.chunks()}


@pytest.mark.parametrize("of_masks", [True, False])
def test_rows_of_another_kind_of_replay_are_refused(of_masks):
    source, target = Masked(A if of_masks else None), Masked(None if of_masks else A)
    source.write(4)
    rows = source.contents.time_steps(0, 4)
    with pytest.raises(ScopeMismatch, match="legal"):
        target.contents.put([(0, rows)], 4, 6)
    source.engine.close()
    target.engine.close()


def test_checksums_of_rows_without_masks_are_those_of_the_other_columns():
    columns = [np.arange(6).reshape(3, 2), np.float32([[1, 2]] * 3)]
    np.testing.assert_array_equal(checksums([*columns, None]), checksums(columns))
    legal = np.array([[[True]], [[False]], [[True]]])
    assert (checksums([*columns, legal]) != checksums(columns)).any()


def test_prioritized_rows_have_masks_too():
    engine = Engine()
    with engine.building():
        replay = prioritized(9, 1, num_actions=A)
        batch = replay.sample(4, Stream(0, "s"), tf.constant(0, tf.int64))
    assert batch.legal_t.shape == (4, A)
