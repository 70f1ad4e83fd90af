"""Values of several branches: side by side, apart, and less their means."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.branches import LOWEST, by_branch, centred
from targetnet.rl_core.epsilon_greedy_numpy import LOWEST as LOWEST_OUTSIDE
from targetnet.rl_core.epsilon_greedy_numpy import EpsilonGreedy
from targetnet.rl_core.epsilon_greedy_numpy import by_branch as by_branch_outside
from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.exploration import branching_epsilon_greedy
from targetnet.rl_core.philox import NumpyStream

ROWS = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]]
L = float(LOWEST)
# sizes, apart
APART = [
    ((2, 2, 2), [[[1, 2], [3, 4], [5, 6]], [[6, 5], [4, 3], [2, 1]]]),
    ((6,), [[[1, 2, 3, 4, 5, 6]], [[6, 5, 4, 3, 2, 1]]]),
    ((3, 1, 2), [[[1, 2, 3], [4, L, L], [5, 6, L]], [[6, 5, 4], [3, L, L], [2, 1, L]]]),
]


@pytest.mark.parametrize(("sizes", "apart"), APART, ids=str)
def test_branches_lie_one_after_the_other_and_smaller_ones_are_filled_up(evaluate, sizes, apart):
    np.testing.assert_array_equal(evaluate(by_branch(tf.constant(ROWS), sizes)), np.float32(apart))
    outside = by_branch_outside(np.float32(ROWS), sizes, LOWEST_OUTSIDE)
    np.testing.assert_array_equal(outside, np.float32(apart))


# sizes, less their means: those of ROWS[0] are 2, 4 and 5.5, or 1.5, 3.5 and 5.5
CENTRED = [
    ((3, 1, 2), [-1, 0, 1, 0, -0.5, 0.5]),
    ((2, 2, 2), [-0.5, 0.5, -0.5, 0.5, -0.5, 0.5]),
]


@pytest.mark.parametrize(("sizes", "less"), CENTRED, ids=str)
def test_each_branch_is_less_its_own_mean(evaluate, sizes, less):
    np.testing.assert_allclose(evaluate(centred(tf.constant(ROWS), sizes))[0], less)


@pytest.mark.parametrize("sizes", [(3, 1, 2), (2, 2, 2)], ids=str)
def test_numbers_behind_the_actions_stay_together(evaluate, sizes):
    """Such as the atoms of each action."""
    values = tf.constant(np.float32(ROWS)[:, :, None] * [1.0, 10.0])  # [2, 6, 2]
    apart, less = evaluate([by_branch(values, sizes, fill=0.0), centred(values, sizes)])
    for i, scale in enumerate([1.0, 10.0]):
        alone = tf.constant(np.float32(ROWS) * scale, tf.float32)
        one, other = evaluate([by_branch(alone, sizes, fill=0.0), centred(alone, sizes)])
        np.testing.assert_allclose(apart[..., i], one)
        np.testing.assert_allclose(less[..., i], other)


SIZES = (3, 1, 4)
#  coin  dice             without masks  legal                     with masks
EXPLORED = [
    (0.9, [0.9, 0.9, 0.9], [2, 0, 1], [1, 1, 1, 1, 1, 1, 1, 1], [2, 0, 1]),  # the best ones
    (0.1, [0.0, 0.9, 0.0], [0, 0, 0], [0, 1, 1, 1, 0, 0, 0, 1], [1, 0, 3]),  # the first legal ones
    (0.1, [0.4, 0.0, 0.9], [1, 0, 3], [1, 0, 1, 1, 1, 1, 0, 0], [0, 0, 1]),  # 0.4 * 2, 0.9 * 2
    (0.1, [0.6, 0.5, 0.6], [1, 0, 2], [1, 0, 1, 1, 1, 1, 1, 0], [2, 0, 1]),
]
BEST = [2, 0, 1]


@pytest.mark.parametrize(("coin", "dice", "free", "legal", "masked"), EXPLORED)
def test_one_coin_and_a_die_for_each_branch(evaluate, coin, dice, free, legal, masked):
    fed = tf.constant([BEST]), 0.5, tf.constant([coin]), tf.constant([dice]), SIZES
    mask = tf.constant(np.bool_([legal]))
    assert evaluate(branching_epsilon_greedy(*fed)).tolist() == [free]
    assert evaluate(branching_epsilon_greedy(*fed, mask)).tolist() == [masked]


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("sizes", [SIZES, (2, 2)], ids=str)
def test_exploring_outside_the_graph_is_that_of_the_graph(sizes, masks):
    N, D, A = 4, len(sizes), sum(sizes)
    stream, rng = NumpyStream(3, "act"), np.random.default_rng(0)
    explore = EpsilonGreedy(stream, N, A, sizes)
    numbers, seen = stream.uniform_in_numpy(0, 300, (1 + D, N)), set()
    with tf.Graph().as_default(), tf.Session() as session:
        coin, dice = tf.placeholder(tf.float32, [N]), tf.placeholder(tf.float32, [N, D])
        best, legal = tf.placeholder(tf.int32, [N, D]), tf.placeholder(tf.bool, [N, A])
        mask = legal if masks else None
        chosen = branching_epsilon_greedy(best, 0.5, coin, dice, sizes, mask)
        for t, drawn in enumerate(numbers):
            allowed = rng.random((N, A)) < 0.5
            greedy = rng.integers(0, sizes, (N, D)).astype(np.int32)
            fed = {best: greedy, legal: allowed, coin: drawn[0], dice: drawn[1:].T}
            wanted = session.run(chosen, fed)
            found = explore(lambda _, g=greedy: g, None, 0.5, t, allowed if masks else None)
            assert found.dtype == np.int32
            np.testing.assert_array_equal(found, wanted)
            seen |= {tuple(row) for row in (found - greedy).tolist()}
    assert len(seen) > D  # not one die for all


def test_choices_of_other_branches_are_refused(evaluate):
    with pytest.raises(ShapeError, match="D must be the same"):
        branching_epsilon_greedy(
            tf.constant([[0, 0]]), 0.5, tf.constant([0.1]), tf.constant([[0.1, 0.1, 0.1]]), SIZES
        )
