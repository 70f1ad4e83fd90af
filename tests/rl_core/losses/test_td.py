"""TD losses against numbers worked out by hand, one row per idea."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.losses import double_q_learning, huber, q_learning, squared

# q_tm1          a   r     disc  q_t              target  td_error
ROWS = [
    ([1.0, 2.0, 0.0], 1, 1.0, 0.5, [0.0, 4.0, 2.0], 3.0, 1.0),  # 1 + 0.5 * 4;  3 - 2
    ([1.0, 2.0, 0.0], 0, -1.0, 0.0, [9.0, 9.0, 9.0], -1.0, -2.0),  # terminal: q_t is ignored
    ([1.0, 2.0, 0.0], 2, 0.0, 1.0, [-3.0, -1.0, -2.0], -1.0, -1.0),  # the largest is negative
    ([1.0, 2.0, 0.0], 0, 2.0, 0.25, [8.0, 8.0, 0.0], 4.0, 3.0),  # 2 + 0.25 * 8; a tie
]

# q_tm1     a  r    disc  q_t_value          q_t_selector       target  td_error
DOUBLE_ROWS = [
    ([1.0, 2.0], 1, 1.0, 0.5, [4.0, 2.0], [0.0, 9.0], 2.0, 0.0),  # 9 is second: 1 + 0.5 * 2
    ([1.0, 2.0], 0, 1.0, 0.5, [4.0, 2.0], [9.0, 0.0], 3.0, 2.0),  # 9 is first: 1 + 0.5 * 4
    ([1.0, 2.0], 0, -1.0, 0.0, [4.0, 2.0], [9.0, 0.0], -1.0, -2.0),  # terminal
]

#       td_error  delta  loss
HUBER_ROWS = [
    (0.5, 1.0, 0.125),  # 0.5 ** 2 / 2
    (-0.5, 1.0, 0.125),
    (1.0, 1.0, 0.5),  # the corner: both branches agree
    (3.0, 1.0, 2.5),  # 1 * (3 - 0.5)
    (-3.0, 1.0, 2.5),
    (3.0, 2.0, 4.0),  # 2 * (3 - 1)
    (-3.0, 4.0, 4.5),  # 3 ** 2 / 2
    (0.0, 1.0, 0.0),
]


def columns(rows):
    return [
        np.array(column, np.int32 if isinstance(column[0], int) else np.float32)
        for column in zip(*rows, strict=True)
    ]


def good_arguments():
    """Of B = 2, A = 3, for either loss but for its bootstrap values."""
    return {
        "q_tm1": tf.zeros([2, 3]),
        "a_tm1": tf.zeros([2], tf.int32),
        "r_t": tf.zeros([2]),
        "discount_t": tf.zeros([2]),
    }


def test_q_learning_matches_hand_computed_rows(evaluate):
    *inputs, target, td_error = columns(ROWS)
    got = evaluate(q_learning(*inputs))
    np.testing.assert_allclose(got.target, target)
    np.testing.assert_allclose(got.td_error, td_error)
    np.testing.assert_allclose(got.loss, td_error**2 / 2)


def test_q_learning_gives_one_value_per_transition(evaluate):
    *inputs, _, _ = columns(ROWS)
    assert [tensor.shape.as_list() for tensor in q_learning(*inputs)] == [[4]] * 3


def test_q_learning_gradient_is_minus_td_error_at_the_taken_action(evaluate):
    *inputs, _, _ = columns(ROWS)
    q_tm1, a_tm1, r_t, discount_t, q_t = map(tf.constant, inputs)
    loss = q_learning(q_tm1, a_tm1, r_t, discount_t, q_t).loss
    gradient = evaluate(tf.gradients(loss, q_tm1)[0])
    # td_errors 1, -2, -1, 3 at actions 1, 0, 2, 0.
    np.testing.assert_allclose(gradient, [[0, -1, 0], [2, 0, 0], [0, 0, 1], [-3, 0, 0]])


def test_q_learning_gives_no_gradient_to_anything_in_the_target(evaluate):
    *inputs, _, _ = columns(ROWS)
    q_tm1, a_tm1, r_t, discount_t, q_t = map(tf.constant, inputs)
    td = q_learning(q_tm1, a_tm1, r_t, discount_t, q_t)
    assert tf.gradients(td.loss, [r_t, discount_t, q_t]) == [None, None, None]
    assert tf.gradients(td.target, [q_tm1, r_t, discount_t, q_t]) == [None] * 4


def test_q_learning_takes_actions_of_either_integer_type(evaluate):
    *inputs, target, _ = columns(ROWS)
    inputs[1] = inputs[1].astype(np.int64)
    np.testing.assert_allclose(evaluate(q_learning(*inputs)).target, target)


def test_double_q_learning_matches_hand_computed_rows(evaluate):
    *inputs, target, td_error = columns(DOUBLE_ROWS)
    got = evaluate(double_q_learning(*inputs))
    np.testing.assert_allclose(got.target, target)
    np.testing.assert_allclose(got.td_error, td_error)
    np.testing.assert_allclose(got.loss, td_error**2 / 2)


def test_double_q_learning_with_one_network_for_both_is_plain_q_learning(evaluate):
    q_tm1, a_tm1, r_t, discount_t, q_t, *_ = columns(ROWS)
    plain = evaluate(q_learning(q_tm1, a_tm1, r_t, discount_t, q_t))
    double = evaluate(double_q_learning(q_tm1, a_tm1, r_t, discount_t, q_t, q_t))
    np.testing.assert_array_equal(plain, double)


def test_double_q_learning_gradient_is_minus_td_error_at_the_taken_action_and_nowhere_else(
    evaluate,
):
    *inputs, _, _ = columns(DOUBLE_ROWS)
    q_tm1, a_tm1, r_t, discount_t, q_t_value, q_t_selector = map(tf.constant, inputs)
    loss = double_q_learning(q_tm1, a_tm1, r_t, discount_t, q_t_value, q_t_selector).loss
    by_q_tm1, *others = tf.gradients(loss, [q_tm1, r_t, discount_t, q_t_value, q_t_selector])
    assert others == [None] * 4
    # td_errors 0, 2, -2 at actions 1, 0, 0.
    np.testing.assert_allclose(evaluate(by_q_tm1), [[0, 0], [-2, 0], [2, 0]])


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("q_tm1", [2]),
        ("a_tm1", [2, 1]),
        ("r_t", [2, 1]),  # [B, 1] would broadcast to [B, B] without a word
        ("discount_t", []),
        ("q_t", [2, 3, 1]),
    ],
)
def test_q_learning_refuses_a_wrong_rank_by_the_arguments_name(evaluate, argument, wrong):
    arguments = good_arguments() | {"q_t": tf.zeros([2, 3])}
    arguments[argument] = tf.zeros(wrong, arguments[argument].dtype)
    with pytest.raises(ShapeError, match=rf"\b{argument}\b") as caught:
        q_learning(**arguments)
    others = set(arguments) - {argument}
    assert not [name for name in others if f"{name} " in str(caught.value)]


@pytest.mark.parametrize("argument", ["q_tm1", "q_t_value", "q_t_selector", "r_t"])
def test_double_q_learning_refuses_a_wrong_rank_by_the_arguments_name(evaluate, argument):
    arguments = good_arguments() | {
        "q_t_value": tf.zeros([2, 3]),
        "q_t_selector": tf.zeros([2, 3]),
    }
    arguments[argument] = tf.zeros([2, 3, 1])
    with pytest.raises(ShapeError, match=rf"double_q_learning.*\b{argument}\b"):
        double_q_learning(**arguments)


def test_huber_matches_hand_computed_rows(evaluate):
    for td_error, delta, loss in HUBER_ROWS:
        np.testing.assert_allclose(evaluate(huber(tf.constant([td_error]), delta)), [loss])


def test_huber_is_quadratic_up_to_1_by_default(evaluate):
    np.testing.assert_allclose(evaluate(huber(tf.constant([1.0, 2.0]))), [0.5, 1.5])


def test_huber_gradient_is_the_td_error_clipped_to_delta(evaluate):
    td_error = tf.constant([-5.0, -2.0, -0.5, 0.0, 0.5, 2.0, 5.0])
    gradient = tf.gradients(huber(td_error, 2.0), td_error)[0]
    np.testing.assert_allclose(evaluate(gradient), [-2, -2, -0.5, 0, 0.5, 2, 2])


def test_huber_gradient_of_what_is_no_number_is_no_number(evaluate):
    td_error = tf.constant([np.nan] * 9 + [np.inf, -np.inf])
    gradient = evaluate(tf.gradients(huber(td_error, 2.0), td_error)[0])
    np.testing.assert_array_equal(gradient, [np.nan] * 9 + [2, -2])  # a clipped NaN would hide it


def test_huber_delta_may_be_fed(evaluate):
    delta = tf.placeholder(tf.float32, [])
    loss = huber(tf.constant([3.0, -1.0]), delta)
    np.testing.assert_allclose(evaluate(loss, {delta: 1.0}), [2.5, 0.5])
    np.testing.assert_allclose(evaluate(loss, {delta: 2.0}), [4.0, 0.5])  # 2 * (3 - 1)


def test_squared_is_half_the_square_per_transition_and_its_gradient_the_td_error(evaluate):
    td_error = tf.constant([0.0, 2.0, -3.0])
    loss = squared(td_error)
    np.testing.assert_allclose(evaluate(loss), [0, 2, 4.5])
    np.testing.assert_allclose(evaluate(tf.gradients(loss, td_error)[0]), [0, 2, -3])
