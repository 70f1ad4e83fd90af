"""The large-margin loss of demonstrations, worked out by hand."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.losses import large_margin

ALL, NOT_LAST = [True, True, True], [True, True, False]
# Of margin 0.5 and weight 1.
# q_tm1             a  shown  legal     loss
ROWS = [
    ([1.0, 2.0, 4.0], 1, True, ALL, 2.5),  # 4 + 0.5 - 2
    ([1.0, 2.0, 4.0], 1, True, NOT_LAST, 0.0),  # max(1 + 0.5, 2) - 2: the best one is illegal
    ([1.0, 2.0, 4.0], 2, True, ALL, 0.0),  # better than 2 + 0.5
    ([1.0, 2.0, 2.25], 2, True, ALL, 0.25),  # the best one, but not by the margin: 2.5 - 2.25
    ([1.0, 1.0, 1.0], 0, True, ALL, 0.5),  # the margin itself
    ([1.0, 2.0, 4.0], 1, False, ALL, 0.0),  # no demonstration
    ([7.0, 99.0, 99.0], 0, True, [True, False, False], 0.0),  # the only legal one
]


def columns():
    q_tm1, a_tm1, shown, legal, wanted = zip(*ROWS, strict=True)
    return np.float32(q_tm1), np.int32(a_tm1), np.array(shown), np.array(legal), np.float32(wanted)


def test_loss_matches_hand_computed_rows(evaluate):
    q_tm1, a_tm1, shown, legal, wanted = columns()
    got = evaluate(large_margin(q_tm1, a_tm1, 0.5, 1.0, shown, legal))
    np.testing.assert_allclose(got, wanted)
    got = evaluate(large_margin(q_tm1, a_tm1, tf.constant(0.5), tf.constant(3.0), shown, legal))
    np.testing.assert_allclose(got, 3 * wanted)
    all_legal = legal.all(axis=1)
    got = evaluate(large_margin(q_tm1, a_tm1, 0.5, 1.0, shown))
    np.testing.assert_allclose(got[all_legal], wanted[all_legal])


def test_without_a_margin_it_is_the_distance_to_the_best_action(evaluate):
    q_tm1, a_tm1, *_ = columns()
    got = evaluate(large_margin(q_tm1, a_tm1, 0.0, 1.0, np.ones(len(q_tm1), bool)))
    np.testing.assert_allclose(got, [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 92.0])


def test_gradient_pulls_the_best_other_action_down_and_the_one_shown_up(evaluate):
    q_tm1, a_tm1, shown, legal, _ = columns()
    q_tm1 = tf.constant(q_tm1)
    loss = large_margin(q_tm1, tf.constant(a_tm1), 0.5, tf.constant(2.0), shown, legal)
    (by_q,) = tf.gradients(loss, [q_tm1])
    np.testing.assert_allclose(
        evaluate(by_q),
        [
            [0.0, -2.0, 2.0],
            [0.0, 0.0, 0.0],  # an illegal one receives none
            [0.0, 0.0, 0.0],
            [0.0, 2.0, -2.0],
            [-2.0, 1.0, 1.0],  # two that are as good share it
            [0.0, 0.0, 0.0],  # no demonstration
            [0.0, 0.0, 0.0],
        ],
    )


def test_no_gradient_flows_elsewhere_and_a_weight_of_0_leaves_nothing(evaluate):
    q_tm1 = tf.constant([[1.0, 2.0, 4.0]])
    loss = large_margin(q_tm1, tf.constant([1]), 0.5, tf.constant(0.0), tf.constant([True]))
    (by_q,) = tf.gradients(loss, [q_tm1])
    got, gradient = evaluate((loss, by_q))
    np.testing.assert_array_equal(got, [0.0])
    np.testing.assert_array_equal(gradient, [[0.0, 0.0, 0.0]])


def test_wrong_shapes_are_refused():
    q_tm1, a_tm1, shown = tf.zeros([2, 3]), tf.zeros([2], tf.int32), tf.ones([2], tf.bool)
    with pytest.raises(ShapeError, match="a_tm1"):
        large_margin(q_tm1, tf.zeros([2, 1], tf.int32), 0.8, 1.0, shown)
    with pytest.raises(ShapeError, match="demonstration"):
        large_margin(q_tm1, a_tm1, 0.8, 1.0, tf.ones([2, 1], tf.bool))
    with pytest.raises(ShapeError, match="legal"):
        large_margin(q_tm1, a_tm1, 0.8, 1.0, shown, tf.ones([3], tf.bool))
