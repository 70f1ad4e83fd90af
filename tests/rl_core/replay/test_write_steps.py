"""Time steps written at once, beside the same ones written one after the other."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine
from targetnet.rl_core.replay import ReplayContents
from tests.rl_core.replay.memories import named, prioritized, uniform

NUM_ACTIONS = 3


class Filled:
    """A replay with masks, what it holds, and its priorities if it has any."""

    def __init__(self, kind, capacity, num_envs, at_once):
        self.engine = Engine()
        with self.engine.building():
            self.replay = kind(capacity, num_envs, [2], np.float32, num_actions=NUM_ACTIONS)
            lead = [None, num_envs] if at_once else [num_envs]
            rows = (
                tf.placeholder(tf.float32, [*lead, 2]),
                tf.placeholder(tf.int32, lead),
                tf.placeholder(tf.float32, lead),
                tf.placeholder(tf.bool, lead),
                tf.placeholder(tf.bool, lead),
                tf.placeholder(tf.bool, [*lead, NUM_ACTIONS]),
            )
            write = (self.replay.write_steps if at_once else self.replay.write)(named(*rows))
            self.contents = ReplayContents(self.engine, self.replay)
            kept = self.replay.saved_variables()[1:]
            kept = [v.read_value() for v in kept]
        self.engine.start()
        self.write = self.engine.callable(None, rows, [write])
        self.kept = self.engine.callable(kept)

    def everything(self):
        return [(name, array.tolist()) for name, array in self.contents.chunks()]


def history(steps, num_envs, rng):
    autoreset = rng.random((steps, num_envs)) < 0.3
    autoreset[0] = True
    return (
        rng.normal(size=(steps, num_envs, 2)).astype(np.float32),
        rng.integers(NUM_ACTIONS, size=(steps, num_envs)).astype(np.int32),
        rng.normal(size=(steps, num_envs)).astype(np.float32),
        rng.random((steps, num_envs)) < 0.3,
        autoreset,
        rng.random((steps, num_envs, NUM_ACTIONS)) < 0.8,
    )


@pytest.mark.cases(2)
@pytest.mark.parametrize("kind", [uniform, prioritized])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_steps_written_at_once_are_what_single_writes_leave(kind, num_envs):
    """Through several turns of the ring, in pieces of 1 to all but one of its time steps."""
    capacity, rng = 10 * num_envs, np.random.default_rng(num_envs)
    single = Filled(kind, capacity, num_envs, at_once=False)
    pieces = Filled(kind, capacity, num_envs, at_once=True)
    rows, begin = history(70, num_envs, rng), 0
    while begin < 70:
        end = min(70, begin + int(rng.integers(1, 10)))
        for t in range(begin, end):
            single.write(*(column[t] for column in rows))
        pieces.write(*(column[begin:end] for column in rows))
        assert pieces.everything() == single.everything()
        for one, many in zip(single.kept(), pieces.kept(), strict=True):
            np.testing.assert_array_equal(many, one)
        begin = end


def test_rows_may_enter_with_priorities_of_their_own():
    engine = Engine()
    with engine.building():
        replay = prioritized(20, 2, [2], np.float32, num_actions=None)
        rows = replay.placeholders([None, 2])
        given = tf.placeholder(tf.float32, [None, 2])
        write = replay.write_steps(rows, given)
        kept = [replay.sampler.priority, replay.sampler.max_priority, replay.sampler.leaf]
        kept = [v.read_value() for v in kept]
    engine.start()
    steps = engine.callable(None, [*rows.values(), given], [write])
    read = engine.callable(kept)

    def store(priorities, autoreset):
        count = len(priorities)
        columns = {
            "observation": np.zeros((count, 2, 2), np.float32),
            "action": np.zeros((count, 2), np.int32),
            "reward": np.zeros((count, 2), np.float32),
            "terminated": np.zeros((count, 2), bool),
            "autoreset": np.array(autoreset),
        }
        steps(*(columns[name] for name in rows), np.float32(priorities))

    first = [[True, True], [False, False], [False, True]]
    store([[0.5, 3.0], [2.0, 9.0], [7.0, 7.0]], first)
    priority, largest, leaf = read()
    # Row 3 leads to an autoreset, rows 4 and 5 have no outcome: none of them is sampled.
    np.testing.assert_allclose(priority[:6], [0.5, 3.0, 2.0, 0, 0, 0], atol=2e-6)
    assert largest == np.float32(3.000001)  # 9 and 7 did not enter
    # What brings no number enters as the largest; the rows before are not asked for theirs.
    store([[-4.0, np.nan], [1.0, np.inf], [0.0, 0.0]], first)
    priority, largest, leaf = read()
    np.testing.assert_allclose(priority[4:12], [0, 0, 4.0, 3.0, 1.0, 0, 0, 0], atol=2e-6)
    assert largest == np.float32(4.000001)
    np.testing.assert_array_equal(leaf.reshape(-1)[:20] > 0, priority > 0)
    engine.close()
