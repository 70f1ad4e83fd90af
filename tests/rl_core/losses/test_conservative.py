"""Conservative Q-learning's penalty, worked out by hand."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.losses import conservative_penalty

LN = np.log
# q_tm1                    a  legal                 penalty of weight 1
ROWS = [
    ([LN(1), LN(2), LN(5)], 2, [True, True, True], LN(8) - LN(5)),
    ([LN(1), LN(2), LN(5)], 0, [True, True, True], LN(8) - LN(1)),
    ([LN(1), LN(2), LN(5)], 0, [True, True, False], LN(3) - LN(1)),  # an illegal one is left out
    ([0.0, 0.0, 0.0], 1, [True, True, True], LN(3)),
    ([100.0, 0.0, 0.0], 0, [True, True, True], 0.0),  # by far the best one; no overflow either
    ([7.0, 99.0, 99.0], 0, [True, False, False], 0.0),  # the only legal one
]


def columns():
    q_tm1, a_tm1, legal, wanted = zip(*ROWS, strict=True)
    return np.float32(q_tm1), np.int32(a_tm1), np.array(legal), np.float32(wanted)


def test_penalty_matches_hand_computed_rows(evaluate):
    q_tm1, a_tm1, legal, wanted = columns()
    got = evaluate(conservative_penalty(q_tm1, a_tm1, 1.0, legal))
    np.testing.assert_allclose(got, wanted, atol=1e-6)
    got = evaluate(conservative_penalty(q_tm1, a_tm1, tf.constant(0.25), legal))
    np.testing.assert_allclose(got, wanted / 4, atol=1e-6)
    all_legal = legal.all(axis=1)
    got = evaluate(conservative_penalty(q_tm1, a_tm1, 1.0))
    np.testing.assert_allclose(got[all_legal], wanted[all_legal], atol=1e-6)


def test_gradient_is_the_softmax_less_one_at_the_action_taken(evaluate):
    q_tm1 = tf.constant(np.float32([np.log([1.0, 2.0, 5.0])]))
    weight = tf.constant(2.0)
    penalty = conservative_penalty(q_tm1, tf.constant([2]), weight)
    (by_q,) = tf.gradients(penalty, [q_tm1])
    # 2 * (1/8, 2/8, 5/8 - 1)
    np.testing.assert_allclose(evaluate(by_q), [[0.25, 0.5, -0.75]], rtol=1e-6)


def test_illegal_actions_receive_no_gradient(evaluate):
    q_tm1 = tf.constant(np.float32([np.log([1.0, 3.0, 5.0])]))
    legal = tf.constant([[True, True, False]])
    (by_q,) = tf.gradients(conservative_penalty(q_tm1, tf.constant([0]), 1.0, legal), [q_tm1])
    np.testing.assert_allclose(evaluate(by_q), [[-0.75, 0.75, 0.0]], rtol=1e-6)


def test_wrong_shapes_are_refused():
    with pytest.raises(ShapeError, match="a_tm1"):
        conservative_penalty(tf.zeros([2, 3]), tf.zeros([2, 1], tf.int32), 1.0)
    with pytest.raises(ShapeError, match="legal"):
        conservative_penalty(tf.zeros([2, 3]), tf.zeros([2], tf.int32), 1.0, tf.ones([3], tf.bool))
