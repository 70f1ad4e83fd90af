"""Rescaled values, by hand."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.losses import rescaled, unscaled


@pytest.fixture(scope="module")
def both():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None])
        there, back = rescaled(x), unscaled(x)
        yield (lambda of: session.run(there, {x: of}), lambda of: session.run(back, {x: of}))


def test_returns_by_hand(both):
    # sqrt(4) - 1 + 0.003; sqrt(100) - 1 + 0.099; and the other way round below 0.
    np.testing.assert_allclose(both[0]([0, 3, 99, -3, -99]), [0, 1.003, 9.099, -1.003, -9.099])


def test_the_inverse_gives_the_return_back(both):
    returns = np.float32([-1e5, -300, -1, -1e-4, 0, 1e-6, 0.5, 3, 1e3, 1e6])
    np.testing.assert_allclose(both[1](both[0](returns)), returns, rtol=2e-6)


def test_the_inverse_is_the_papers_formula(both):
    y, e = np.float32([-40.0, -2.0, 0.25, 7.0]), 1e-3
    root = (np.sqrt(1 + 4 * e * (np.abs(y.astype(np.float64)) + 1 + e)) - 1) / (2 * e)
    np.testing.assert_allclose(both[1](y), np.sign(y) * (root**2 - 1), rtol=1e-5)
