"""Gradients of our own in place of those that TensorFlow derives."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.losses import huber
from targetnet.rl_core.own_gradient import OwnGradient

OF_TEST = OwnGradient("OfTest", lambda dy, x, count: [dy * 100.0 * x, None])


def test_it_is_used_in_place_of_the_one_that_would_be_derived(evaluate):
    x, count = tf.constant([1.0, 2.0]), tf.constant(3)
    y = OF_TEST(x * x * tf.cast(count, tf.float32), x, count)
    (dx,) = tf.gradients(5.0 * y, [x])
    np.testing.assert_array_equal(evaluate(y), [3, 12])
    np.testing.assert_array_equal(evaluate(dx), [500, 1000])


def test_two_uses_in_a_graph_and_one_inside_a_loop_do_not_mix(evaluate):
    x, n = tf.constant(2.0), tf.constant(1)

    def twice(i, value):
        return i + 1, OF_TEST(value * 2.0, value, n)

    _, inside = tf.while_loop(lambda i, _: i < 2, twice, [tf.constant(0), x])
    inner = OF_TEST(x + 1.0, x, n)
    outer = OF_TEST(inner * inner, inner, n)
    of_loop, of_two = tf.gradients(inside, x)[0], tf.gradients(outer, x)[0]
    assert evaluate(of_loop) == (100 * 2) * (100 * 4)
    assert evaluate(of_two) == (100 * 3) * (100 * 2)


@pytest.mark.slow
def test_it_keeps_no_graph_alive():
    """What `tf.custom_gradient` registers does, as long as the process lives."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None])
        tf.gradients(huber(x), [x])
    left = weakref.ref(graph)
    del graph, x
    gc.collect()
    assert left() is None
