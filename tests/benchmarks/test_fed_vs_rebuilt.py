"""Going through many settings: one graph that is fed, against a graph and session for each.

make bench
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine, dense
from tests.benchmarks.timing import interleaved, ratio, seconds_of

pytestmark = pytest.mark.benchmark
X = np.ones((64, 8), np.float32)
SETTINGS = [np.float32(i / 20) for i in range(20)]  # of a threshold


def build(engine, threshold):
    with engine.building():
        x = tf.placeholder(tf.float32, [64, 8])
        y = dense(tf.nn.relu(dense(x, 64, "a")), 1, "b")
        if threshold is None:
            threshold = tf.placeholder(tf.float32, [])
        share = tf.reduce_mean(tf.cast(tf.greater_equal(y, threshold), tf.float32))
    engine.start()
    return engine.callable(share, [x, threshold] if tf.is_tensor(threshold) else [x])


def rebuild_for_each():
    for threshold in SETTINGS:
        engine = Engine()
        build(engine, threshold)(X)
        engine.close()


def test_a_setting_that_is_fed_costs_at_most_a_fiftieth_of_a_rebuilt_one():
    engine = Engine()
    once = seconds_of(lambda: build(engine, None))
    call = build(Engine(), None)

    def feed_each():
        for threshold in SETTINGS:
            call(X, threshold)

    times = interleaved({"rebuilt": rebuild_for_each, "fed": feed_each}, 5)
    print(f"\nbuilt once: {once * 1e3:.0f} ms")
    assert ratio(times, "rebuilt", "fed") >= 50
