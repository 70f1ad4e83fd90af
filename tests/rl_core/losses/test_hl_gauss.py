"""HL-Gauss: the histogram and the loss by hand, against a slow twin, and as properties."""

import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2
from hypothesis import given, settings
from hypothesis import strategies as st

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.losses import gaussian_histogram, hl_gauss, support

# Bins from 0 to 4, each 1 wide.
CENTRES = np.array([0.5, 1.5, 2.5, 3.5], np.float32)
# Of a normal distribution: within one, within two standard deviations, and beyond.
ONE, TWO = 0.6826895, 0.9544997
# target  sigma  masses before they are divided by their sum
HISTOGRAMS = [
    # at an edge: half of what is within one on either side, then what is between one and two
    (2.0, 1.0, [(TWO - ONE) / 2, ONE / 2, ONE / 2, (TWO - ONE) / 2]),
    (1.5, 0.5, [0.1573054, ONE, 0.1573054, 0.0013496]),  # edges 1 and 3, 1 and 3, 3 away
    (0.0, 1.0, [ONE / 2, (TWO - ONE) / 2, 0.0214002, 0.0013182]),  # the lower half is cut off
    (-7.0, 1.0, [ONE / 2, (TWO - ONE) / 2, 0.0214002, 0.0013182]),  # beyond: as at the edge
    (1e30, 1.0, [0.0013182, 0.0214002, (TWO - ONE) / 2, ONE / 2]),
    (2.25, 0.01, [0.0, 0.0, 1.0, 0.0]),  # narrow: the bin that it is in
    (3.0, 0.01, [0.0, 0.0, 0.5, 0.5]),
]


def histogram(target, centres, sigma):
    """One row, bin by bin, by the distribution function of a normal distribution."""
    width = (centres[-1] - centres[0]) / (len(centres) - 1)
    low, high = centres[0] - width / 2, centres[-1] + width / 2
    target = min(max(target, low), high)

    def below(y):
        return 0.5 * (1 + math.erf((y - target) / (math.sqrt(2) * sigma * width)))

    masses = [below(z + width / 2) - below(z - width / 2) for z in centres]
    return np.array(masses) / (below(high) - below(low))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def twin(logits_tm1, a_tm1, target, atoms_z, sigma):
    z = atoms_z.astype(np.float64)
    half = (z[1] - z[0]) / 2
    rows = []
    for logits, a, wanted in zip(logits_tm1, a_tm1, target, strict=True):
        p, m = softmax(logits[a].astype(np.float64)), histogram(wanted, z, sigma)
        clipped = np.clip(wanted, z[0] - half, z[-1] + half)
        rows.append((-(m * np.log(p)).sum(), clipped, clipped - p @ z))
    return np.transpose(rows)


def arguments():
    B, A, N = 7, 4, 11
    rng = np.random.default_rng(0)
    return {
        "logits_tm1": rng.normal(size=[B, A, N]).astype(np.float32),
        "a_tm1": rng.integers(0, A, B).astype(np.int32),
        "target": rng.uniform(-3, 4, B).astype(np.float32),  # some beyond the bins
        "atoms_z": support(-2, 3, N),
        "sigma": np.float32(0.75),
    }


@pytest.fixture(scope="module")
def masses():
    """(target, atoms_z, sigma) of any sizes -> the histogram, from one graph."""
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = [tf.placeholder(tf.float32, shape) for shape in ([None], [None], [])]
        built = gaussian_histogram(*feeds)
        yield lambda *values: session.run(built, dict(zip(feeds, values, strict=True)))


@pytest.mark.parametrize(("target", "sigma", "expected"), HISTOGRAMS)
def test_histogram_matches_hand_computed_rows(masses, target, sigma, expected):
    got = masses([target], CENTRES, sigma)[0]
    np.testing.assert_allclose(got, np.divide(expected, sum(expected)), atol=1e-6)


@settings(deadline=None)
@given(st.data())
def test_histogram_is_that_of_the_slow_twin_and_a_distribution(masses, data):
    bins = data.draw(st.integers(2, 60))
    v_min, width = data.draw(st.floats(-100, 100)), data.draw(st.floats(0.1, 5))
    centres = v_min + width * (np.arange(bins, dtype=np.float32) + np.float32(0.5))
    target = data.draw(st.floats(v_min - width, v_min + width * (bins + 1)))
    sigma = data.draw(st.floats(0.3, 100))
    got = masses([target], centres, sigma)[0]
    assert got.min() >= 0 and got.sum() == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(got, histogram(target, centres, sigma), atol=2e-3)


def test_no_mass_is_negative_where_erf_falls_by_its_last_bit(masses):
    centres = np.arange(25, dtype=np.float32) + np.float32(0.5)
    for sigma in np.linspace(3, 8, 401, dtype=np.float32):
        assert masses([0.0], centres, sigma).min() >= 0


def test_the_mean_of_the_histogram_is_the_target_away_from_the_edges(masses):
    target = np.linspace(1.0, 9.0, 33, dtype=np.float32)
    centres = np.arange(11, dtype=np.float32)  # bins from -0.5 to 10.5
    near = masses(target[8:-8], centres, 0.75) @ centres
    np.testing.assert_allclose(near, target[8:-8], atol=2e-3)
    # At an edge half of the distribution is cut off, and the mean is inside.
    assert masses([10.5], centres, 0.75) @ centres < 10.1


def test_bounds_of_sigma_give_a_distribution(masses):
    centres = support(-10, 10, 51)
    for sigma in (0.01, 100.0):
        got = masses(np.float32([-1e30, -10.0, 0.2, 3.0, 1e30]), centres, sigma)
        assert np.isfinite(got).all() and got.min() >= 0
        np.testing.assert_allclose(got.sum(1), 1, atol=1e-3)


def test_loss_of_two_bins_by_hand(evaluate):
    got = evaluate(
        hl_gauss(
            logits_tm1=[[[0.0, 0.0], [0.0, np.log(3.0)]]],
            a_tm1=[1],  # probabilities 1/4, 3/4: expected value 0.5 / 4 + 1.5 * 3 / 4 = 1.25
            target=[1.0],  # half in each bin
            atoms_z=np.array([0.5, 1.5], np.float32),
            sigma=0.75,
        )
    )
    np.testing.assert_allclose(got.target, [1.0], rtol=1e-6)
    np.testing.assert_allclose(got.td_error, [-0.25], rtol=1e-6)
    np.testing.assert_allclose(got.loss, [-0.5 * np.log(1 / 4) - 0.5 * np.log(3 / 4)], rtol=1e-6)


def test_it_agrees_with_the_slow_twin(evaluate):
    inputs = arguments()
    np.testing.assert_allclose(evaluate(hl_gauss(**inputs)), twin(**inputs), rtol=1e-5, atol=1e-6)


def test_xla_gives_the_same_and_the_same_gradient(evaluate):
    def with_gradient(logits_tm1, **others):
        # The atoms of a head are known when the graph is built.
        td = hl_gauss(logits_tm1, atoms_z=arguments()["atoms_z"], **others)
        return (*td, tf.gradients(td.loss, logits_tm1)[0])

    inputs = {n: tf.constant(value) for n, value in arguments().items() if n != "atoms_z"}
    compiled = tf2.function(with_gradient, jit_compile=True, autograph=False)(**inputs)
    plain, compiled = evaluate([with_gradient(**inputs), compiled])
    for got, expected in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_the_gradient_is_the_distribution_minus_the_histogram_at_the_taken_action(evaluate):
    logits = tf.constant([[[0.0, 0.0, 0.0, 0.0], [5.0, 1.0, 0.0, 0.0]]])
    td = hl_gauss(logits, [0], [2.25], CENTRES, 0.01)
    gradient = evaluate(tf.gradients(td.loss, logits)[0])
    wanted = [[[0.25, 0.25, -0.75, 0.25], [0.0] * 4]]  # 1/4 each, less 1 in the third bin
    np.testing.assert_allclose(gradient, wanted, atol=1e-6)


def test_nothing_but_the_online_logits_receives_gradient(evaluate):
    inputs = {name: tf.constant(value) for name, value in arguments().items()}
    td = hl_gauss(**inputs)
    others = [inputs[n] for n in ("target", "atoms_z", "sigma")]
    for output in td:
        assert tf.gradients(output, others) == [None] * 3
    assert tf.gradients(td.target, inputs["logits_tm1"]) == [None]


@pytest.mark.parametrize("argument", ["logits_tm1", "a_tm1", "target", "atoms_z"])
def test_a_wrong_rank_is_refused_by_the_arguments_name(evaluate, argument):
    inputs = arguments()
    inputs[argument] = inputs[argument][..., None]
    with pytest.raises(ShapeError, match=rf"^hl_gauss: {argument} must[^;]*$"):
        hl_gauss(**inputs)
