"""One target for all branches of an action, by hand."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.branches import LOWEST
from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.losses import branching_target, double_q_learning

L = float(LOWEST)
# r    disc  value                      selector                   target
ROWS = [
    (1.0, 0.5, [[1.0, 3.0], [5.0, 0.0]], [[1.0, 3.0], [5.0, 0.0]], 3.0),  # 1 + 0.5 * (3 + 5) / 2
    (1.0, 0.5, [[1.0, 3.0], [5.0, 0.0]], [[9.0, 3.0], [0.0, 9.0]], 1.25),  # 1 + 0.5 * (1 + 0) / 2
    (2.0, 0.0, [[9.0, 9.0], [9.0, 9.0]], [[0.0, 1.0], [0.0, 1.0]], 2.0),  # terminal
    (0.0, 1.0, [[-4.0, L], [2.0, 1.0]], [[-4.0, L], [2.0, 1.0]], -1.0),  # a branch of one choice
]


def columns():
    return [tf.constant(np.float32(of)) for of in zip(*ROWS, strict=True)]


def test_the_target_is_the_mean_of_the_best_choices_of_all_branches(evaluate):
    *arguments, target = columns()
    np.testing.assert_allclose(*evaluate([branching_target(*arguments), target]))


def test_no_gradient_flows_through_it():
    with tf.Graph().as_default():
        *arguments, _ = columns()
        assert tf.gradients(branching_target(*arguments), arguments) == [None] * 4


def test_it_is_the_usual_target_where_there_is_one_branch(evaluate):
    rng = np.random.default_rng(0)
    r, q, selector = rng.normal(size=7), rng.normal(size=(7, 1, 4)), rng.normal(size=(7, 1, 4))
    r, q, selector = (tf.constant(of, tf.float32) for of in (r, q, selector))
    action = tf.zeros([7], tf.int32)
    usual = double_q_learning(q[:, 0], action, r, r, q[:, 0], selector[:, 0]).target
    np.testing.assert_array_equal(*evaluate([branching_target(r, r, q, selector), usual]))


def test_values_without_branches_are_refused():
    r, discount, value, selector, _ = columns()
    with pytest.raises(ShapeError, match="branching_target: q_t_value must have rank 3"):
        branching_target(r, discount, value[:, 0], selector)
