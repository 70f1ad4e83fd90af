"""Time steps written at once, beside the same ones written one after the other."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from rl_core import Engine
from rl_core.replay import ReplayContents
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
            kept = self.replay.counters()[1:]
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
