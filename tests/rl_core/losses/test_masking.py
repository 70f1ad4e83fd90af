"""Illegal actions are never chosen, and never make anything infinite."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.losses import double_q_learning, legal_only, q_learning

LOWEST = np.finfo(np.float32).min
Q = np.array([[1, 9, 3], [-5, -7, -6]], np.float32)
LEGAL = np.array([[True, False, True], [False, True, True]])
MASKED = [[1, LOWEST, 3], [LOWEST, -7, -6]]
TRANSITION = {
    "q_tm1": np.zeros([2, 3], np.float32),
    "a_tm1": np.array([0, 1], np.int32),
    "r_t": np.array([1, 2], np.float32),
    "discount_t": np.array([0.5, 0.5], np.float32),
}


def test_illegal_actions_get_the_lowest_finite_value_and_legal_ones_keep_theirs(evaluate):
    np.testing.assert_array_equal(evaluate(legal_only(Q, LEGAL)), MASKED)
    assert np.isfinite(MASKED).all()


def test_xla_gives_the_same(evaluate):
    masked = tf2.function(legal_only, jit_compile=True, autograph=False)(Q, LEGAL)
    np.testing.assert_array_equal(evaluate(masked), MASKED)


def test_without_a_mask_the_same_tensor_comes_back():
    assert legal_only(Q, None) is Q


def test_a_mask_of_ones_changes_nothing(evaluate):
    np.testing.assert_array_equal(evaluate(legal_only(Q, np.ones([2, 3], bool))), Q)


def test_an_illegal_value_that_is_not_a_number_does_no_harm(evaluate):
    np.testing.assert_array_equal(evaluate(legal_only(np.where(LEGAL, Q, np.nan), LEGAL)), MASKED)


def test_only_legal_actions_receive_gradient(evaluate):
    q = tf.constant(Q)
    gradient = tf.gradients(legal_only(q, tf.constant(LEGAL)), q)[0]
    np.testing.assert_array_equal(evaluate(gradient), LEGAL.astype(np.float32))


def test_q_learning_bootstraps_from_the_best_legal_action(evaluate):
    got = evaluate(q_learning(**TRANSITION, q_t=legal_only(Q, LEGAL)))
    np.testing.assert_array_equal(got.target, [2.5, -1])  # 1 + 0.5 * 3;  2 + 0.5 * -6


def test_double_q_learning_chooses_among_legal_actions_only(evaluate):
    selector = np.array([[0, 9, 1], [9, 0, 1]], np.float32)  # legal best: 2, 2
    got = evaluate(double_q_learning(**TRANSITION, q_t_value=Q, q_t_selector=selector))
    np.testing.assert_array_equal(got.target, [5.5, -0.5])  # the 9s: 1 + 0.5 * 9;  2 + 0.5 * -5
    masked = legal_only(selector, LEGAL)
    got = evaluate(double_q_learning(**TRANSITION, q_t_value=Q, q_t_selector=masked))
    np.testing.assert_array_equal(got.target, [2.5, -1])


def test_where_no_action_is_legal_because_the_episode_ended_the_target_is_the_reward(evaluate):
    terminal = TRANSITION | {"discount_t": np.zeros(2, np.float32)}
    got = evaluate(q_learning(**terminal, q_t=legal_only(Q, np.zeros([2, 3], bool))))
    np.testing.assert_array_equal(got.target, [1, 2])


@pytest.mark.parametrize("argument", ["q", "legal"])
def test_a_wrong_rank_is_refused_by_the_arguments_name(evaluate, argument):
    arguments = {"q": Q, "legal": LEGAL}
    arguments[argument] = arguments[argument][0]  # [A] for every row alike
    with pytest.raises(ShapeError, match=rf"legal_only: {argument} must have rank 2, got .*3"):
        legal_only(**arguments)
