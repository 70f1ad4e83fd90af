"""The same random numbers without a graph, bit for bit."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine
from targetnet.rl_core.random import Stream


@pytest.mark.parametrize("shape", [(1,), (2, 1), (2, 3), (2, 8), (5, 7, 2)], ids=str)
@pytest.mark.parametrize("first", [0, 1, 12_345, 2**33 + 5, 2**62])
def test_numbers_drawn_outside_are_those_of_the_graph(shape, first):
    engine, stream = Engine(), Stream(3, "act")
    with engine.building():
        counter = tf.placeholder(tf.int64, [1])
        numbers = stream.uniform(counter, list(shape))
    engine.start()
    draw = engine.callable(numbers, [counter])
    inside = [draw(np.array([first + i])) for i in range(6)]
    np.testing.assert_array_equal(stream.uniform_in_numpy(first, 6, shape), inside)


def test_other_seeds_and_names_give_other_numbers():
    numbers = [Stream(s, n).uniform_in_numpy(0, 4, (8,)) for s, n in [(0, "a"), (1, "a"), (0, "b")]]
    assert len({n.tobytes() for n in numbers}) == 3
    assert all(n.min() >= 0 and n.max() < 1 for n in numbers)
