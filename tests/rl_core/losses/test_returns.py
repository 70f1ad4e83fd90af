"""Lambda-returns by hand, against a slow twin, and as properties."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.losses import lambda_returns

# Three steps of one env, discount 1/2 and lambda 1/2 unless said otherwise.
#  r_t          discount_t         v_t             lambda_t          returns, from the last one on
ROWS = [
    # 3 + 8/2 = 7; 2 + (4 + 7)/4 = 4.75; 1 + (2 + 4.75)/4 = 2.6875
    ([1, 2, 3], [0.5, 0.5, 0.5], [2.0, 4.0, 8.0], [0.5, 0.5, 0.5], [2.6875, 4.75, 7.0]),
    # lambda 0, one step: 3 + 8/2; 2 + 4/2; 1 + 2/2
    ([1, 2, 3], [0.5, 0.5, 0.5], [2.0, 4.0, 8.0], [0.0, 0.0, 0.0], [2.0, 4.0, 7.0]),
    # lambda 1, all steps: 7; 2 + 7/2 = 5.5; 1 + 5.5/2
    ([1, 2, 3], [0.5, 0.5, 0.5], [2.0, 4.0, 8.0], [1.0, 1.0, 1.0], [3.75, 5.5, 7.0]),
    # the second step terminates: 2, whatever comes after; 1 + (2 + 2)/4 = 2
    ([1, 2, 3], [0.5, 0.0, 0.5], [2.0, 4.0, 8.0], [0.5, 0.5, 0.5], [2.0, 2.0, 7.0]),
    # the second step is truncated: 2 + 4/2 = 4, its own destination; 1 + (2 + 4)/4 = 2.5
    ([1, 2, 3], [0.5, 0.5, 0.5], [2.0, 4.0, 8.0], [0.5, 0.0, 0.5], [2.5, 4.0, 7.0]),
]


def twin(r_t, discount_t, v_t, lambda_t):
    """Step by step backwards, env by env."""
    returns = np.zeros_like(r_t, np.float64)
    for env in range(r_t.shape[1]):
        after = float(v_t[-1, env])
        for t in reversed(range(len(r_t))):
            mixed = (1 - lambda_t[t, env]) * v_t[t, env] + lambda_t[t, env] * after
            after = returns[t, env] = r_t[t, env] + discount_t[t, env] * mixed
    return returns


def arguments():
    rng = np.random.default_rng(0)
    shape = 9, 4
    values = {
        "r_t": rng.normal(size=shape),
        "discount_t": rng.choice([0, 0.9, 0.99], shape),
        "v_t": rng.normal(size=shape),
        "lambda_t": rng.choice([0, 0.65, 1], shape),
    }
    return {name: value.astype(np.float32) for name, value in values.items()}


@pytest.mark.parametrize("row", ROWS)
def test_returns_match_hand_computed_rows(evaluate, row):
    *given, wanted = (np.float32(column)[:, None] for column in row)
    np.testing.assert_array_equal(evaluate(lambda_returns(*given)), wanted)


def test_they_agree_with_the_slow_twin_compiled_or_not(evaluate):
    inputs = arguments()
    compiled = tf2.function(lambda_returns, jit_compile=True, autograph=False)
    both = lambda_returns(**inputs), compiled(**{n: tf.constant(v) for n, v in inputs.items()})
    for got in evaluate(both):
        np.testing.assert_allclose(got, twin(**inputs), rtol=1e-5, atol=1e-6)


def test_no_gradient_flows_through_them(evaluate):
    inputs = {name: tf.constant(value) for name, value in arguments().items()}
    assert tf.gradients(lambda_returns(**inputs), [*inputs.values()]) == [None] * 4


@pytest.mark.parametrize("argument", sorted(arguments()))
def test_a_wrong_rank_is_refused_by_the_arguments_name(evaluate, argument):
    inputs = arguments()
    inputs[argument] = inputs[argument][..., None]
    with pytest.raises(ShapeError, match=rf"^lambda_returns: {argument} must[^;]*$"):
        lambda_returns(**inputs)
