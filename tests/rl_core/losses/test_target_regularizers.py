"""Blends to bootstrap from, and functional regularization, worked out by hand."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.losses import blend, functional_penalty

TARGET, ONLINE = [[4.0, 1.0, 2.0]], [[2.0, 3.0, 2.5]]
LOWER = [[True, False, False]]
# online_weight  min_weight  blend
BLENDS = [
    (0.0, 0.0, [4.0, 1.0, 2.0]),
    (1.0, 0.0, [2.0, 3.0, 2.5]),
    (0.0, 1.0, [2.0, 1.0, 2.0]),  # the smaller one of each action
    (1.0, 1.0, [2.0, 1.0, 2.0]),
    (0.5, 0.0, [3.0, 2.0, 2.25]),
    (0.0, 0.5, [3.0, 1.0, 2.0]),  # half-way from the target's to the smaller
    (0.5, 0.5, [2.5, 1.5, 2.125]),  # half-way from (3, 2, 2.25) to (2, 1, 2)
]


@pytest.mark.parametrize(("online_weight", "min_weight", "wanted"), BLENDS)
def test_blend_matches_hand_computed_rows(evaluate, online_weight, min_weight, wanted):
    arguments = np.float32(TARGET), np.float32(ONLINE), np.array(LOWER)
    got = evaluate(blend(*arguments, online_weight, min_weight))
    np.testing.assert_array_equal(got, [wanted])


def test_distributions_are_blended_action_by_action(evaluate):
    target = np.float32([[[0.5, 0.5], [1.0, 0.0]]])
    online = np.float32([[[0.0, 1.0], [0.5, 0.5]]])
    lower = np.array([[False, True]])
    got = evaluate(blend(target, online, lower, 0.0, 1.0))
    np.testing.assert_array_equal(got, [[[0.5, 0.5], [0.5, 0.5]]])
    got = evaluate(blend(target, online, lower, 0.5, 0.0))
    np.testing.assert_array_equal(got, [[[0.25, 0.75], [0.75, 0.25]]])


def test_weights_of_0_and_1_give_the_bits_of_one_of_both(evaluate):
    """0.1 + 1 * (0.7 - 0.1) is no 0.7 in float32."""
    rng = np.random.default_rng(0)
    target, online = rng.normal(size=(2, 50, 4)).astype(np.float32)
    lower = online < target
    for weights, wanted in (
        ((0.0, 0.0), target),
        ((1.0, 0.0), online),
        ((0.0, 1.0), np.minimum(target, online)),
    ):
        got = evaluate(blend(target, online, lower, *map(tf.constant, weights)))
        assert got.tobytes() == wanted.tobytes()


def test_functional_penalty_is_half_the_weighted_square_at_the_action_taken(evaluate):
    q_tm1, q_target = np.float32([[1.0, 5.0], [2.0, 0.0]]), np.float32([[0.0, 2.0], [9.0, 1.0]])
    got = evaluate(functional_penalty(q_tm1, np.int32([1, 1]), q_target, 0.5))
    np.testing.assert_array_equal(got, [2.25, 0.25])  # 0.5 / 2 * 3 ** 2, 0.5 / 2 * 1 ** 2


def test_functional_penalty_draws_the_value_of_the_action_taken_alone(evaluate):
    q_tm1, q_target = tf.constant([[1.0, 5.0]]), tf.constant([[0.0, 2.0]])
    penalty = functional_penalty(q_tm1, tf.constant([1]), q_target, 0.5)
    by_q_tm1, by_target = tf.gradients(penalty, [q_tm1, q_target])
    assert by_target is None
    np.testing.assert_array_equal(evaluate(by_q_tm1), [[0.0, 1.5]])  # 0.5 * (5 - 2)


def test_wrong_shapes_are_refused():
    with pytest.raises(ShapeError, match="of_online"):
        blend(tf.zeros([2, 3]), tf.zeros([3]), tf.zeros([2, 3], tf.bool), 0.0, 0.0)
    with pytest.raises(ShapeError, match="q_tm1_target"):
        functional_penalty(tf.zeros([2, 3]), tf.zeros([2], tf.int32), tf.zeros([2]), 1.0)
