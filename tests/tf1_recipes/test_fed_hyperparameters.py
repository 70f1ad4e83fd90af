"""A hyperparameter that is a Python value when the graph is built is in the graph for good.

Fed, the same one changes at the next call, in the same session, with no operation added.
"""

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

X = np.float32([-2, 0.25, 0.5, 3])


class Case(NamedTuple):
    """y = build(x, value), for two values of one hyperparameter."""

    build: Any
    values: tuple[Any, Any]
    wanted: tuple[Any, Any]


CASES = {
    "threshold": Case(
        lambda x, threshold: tf.cast(tf.greater_equal(x, threshold), tf.float32),
        (np.float32(0.5), np.float32(0.25)),
        ([0, 0, 1, 1], [0, 1, 1, 1]),
    ),
    "clip range": Case(
        lambda x, limit: tf.clip_by_value(x, -limit, limit),
        (np.float32(1), np.float32(2.5)),
        ([-1, 0.25, 0.5, 1], [-2, 0.25, 0.5, 2.5]),
    ),
    "mask": Case(
        lambda x, mask: x * mask,
        (np.float32([1, 0, 1, 0]), np.float32([0, 0, 1, 1])),
        ([-2, 0, 0.5, 0], [0, 0, 0.5, 3]),
    ),
    # All is dropped but for a share of 1e-7, or nothing is.
    "dropout rate": Case(
        lambda x, rate: tf.nn.dropout(x, rate=rate),
        (np.float32(1 - 1e-7), np.float32(0)),
        ([0, 0, 0, 0], X),
    ),
}
each = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def test_the_cases_can_be_told_apart():
    assert all(not np.array_equal(*case.wanted) for case in CASES.values())


@each
def test_as_a_graph_constant_it_stays_what_it_was_when_the_graph_was_built(engine, case):
    options = SimpleNamespace(value=case.values[0])
    with engine.building():
        x = tf.placeholder(tf.float32, [4])
        y = case.build(x, options.value)
    engine.start()
    call = engine.callable(y, [x])
    np.testing.assert_allclose(call(X), case.wanted[0])
    options.value = case.values[1]
    np.testing.assert_allclose(call(X), case.wanted[0])  # the change is lost, and nothing says so


@each
def test_fed_it_changes_at_the_next_call_without_rebuilding(engine, case):
    options = SimpleNamespace(value=case.values[0])
    with engine.building():
        x = tf.placeholder(tf.float32, [4])
        value = tf.placeholder(tf.float32, np.shape(options.value))
        y = case.build(x, value)
    engine.start()
    session, operations = engine.session, len(engine.graph.get_operations())
    call = engine.callable(y, [x, value])
    for turn in (0, 1, 1, 0, 1):
        options.value = case.values[turn]
        np.testing.assert_allclose(call(X, options.value), case.wanted[turn])
    assert engine.session is session
    assert len(engine.graph.get_operations()) == operations


def test_a_fed_dropout_rate_drops_its_share_and_scales_what_is_left(engine):
    with engine.building():
        tf.set_random_seed(0)
        rate = tf.placeholder(tf.float32, [])
        y = tf.nn.dropout(tf.ones([10_000]), rate=rate)
    engine.start()
    call = engine.callable(y, [rate])
    for value in (0.5, 0.2, 0.75):
        kept = call(np.float32(value))
        assert set(np.round(kept, 4)) == {0, np.float32(round(1 / (1 - value), 4))}
        assert np.mean(kept == 0) == pytest.approx(value, abs=0.03)  # 6 standard deviations


def test_a_dropout_rate_of_zero_as_a_constant_leaves_no_dropout_to_change():
    with tf.Graph().as_default() as graph:
        tf.nn.dropout(tf.ones([4]), rate=0.0)
        assert not [op for op in graph.get_operations() if "Random" in op.type]


def test_a_mask_used_inside_and_outside_the_graph_is_one_mask_only_if_it_is_fed(engine):
    """Inside it takes a sum, outside it counts: for a mean they must be of the same elements."""
    mask = np.float32([1, 1, 0, 0])
    with engine.building():
        x, fed = tf.placeholder(tf.float32, [4]), tf.placeholder(tf.float32, [4])
        by_constant = tf.reduce_sum(x * mask)
        by_feed = tf.reduce_sum(x * fed)
    engine.start()
    constant, feed = engine.callable(by_constant, [x]), engine.callable(by_feed, [x, fed])
    x = np.float32([2, 4, 6, 8])

    def means():
        outside = mask.sum()
        return constant(x) / outside, feed(x, mask) / outside

    assert means() == (3, 3)  # (2 + 4) / 2
    mask[:] = [0, 1, 1, 1]
    assert means() == (2, 6)  # 6 / 3 is wrong, (4 + 6 + 8) / 3 is right


def test_a_fed_learning_rate_is_the_length_of_the_very_next_step(engine):
    with engine.building():
        rate = tf.placeholder(tf.float32, [])
        w = tf.get_variable("w", initializer=np.float32(10))
        step = tf.train.GradientDescentOptimizer(rate).minimize(w)
    engine.start()
    update = engine.callable(None, [rate], [step])
    seen = []
    for value in (1, 0.5, 2, 0):
        update(np.float32(value))
        seen.append(engine.run(w))
    assert seen == [9, 8.5, 6.5, 6.5]
