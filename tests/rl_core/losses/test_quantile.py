"""Quantile losses: by hand, against a three-line twin, and what they estimate."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.losses import (
    fraction_loss,
    legal_only,
    quantile_huber,
    quantile_midpoints,
    quantile_q_learning,
)

# z            taus          target       kappa  loss
HUBER_ROWS = [
    ([0.0], [0.25], [2.0], 1.0, 0.375),  # u = 2: 1/4 * (2 - 1/2)
    ([0.0], [0.25], [-2.0], 1.0, 1.125),  # u = -2: 3/4 * (2 - 1/2)
    ([0.0], [0.25], [0.5], 1.0, 0.03125),  # u = 1/2: 1/4 * 1/8
    ([1.0], [0.25], [1.0], 1.0, 0.0),
    ([0.0], [0.5], [1.0, -3.0], 1.0, 0.75),  # mean of 1/2 * 1/2 and 1/2 * 5/2
    ([0.0, 1.0], [0.25, 0.75], [2.0], 1.0, 0.75),  # the sum of 1/4 * 3/2 and 3/4 * 1/2
    ([0.0], [0.5], [2.0], 2.0, 0.5),  # 1/2 * 2 / 2
    ([0.0], [0.5], [2.0], 0.5, 0.875),  # 1/2 * 1/2 * (2 - 1/4) / (1/2)
]


def huber_twin(z, taus, target, kappa):
    u = target[:, None, :].astype(np.float64) - z[:, :, None]
    huber = np.where(abs(u) <= kappa, u**2 / 2, kappa * (abs(u) - kappa / 2))
    return (abs(taus[..., None] - (u < 0)) * huber / kappa).mean(2).sum(1)


def twin(z_tm1, taus_tm1, a_tm1, r_t, discount_t, z_t, q_t_selector, kappa):
    row = np.arange(len(a_tm1))
    y = r_t[:, None] + discount_t[:, None] * z_t[row, q_t_selector.argmax(1)]
    now = z_tm1[row, a_tm1]
    return huber_twin(now, taus_tm1, y, kappa), y.mean(1), y.mean(1) - now.mean(1)


def arguments():
    B, A, N, M = 7, 4, 5, 3
    rng = np.random.default_rng(0)
    floats = {
        "z_tm1": rng.normal(size=[B, A, N]),
        "taus_tm1": rng.uniform(size=[B, N]),
        "r_t": rng.normal(size=B),
        "discount_t": rng.choice([0, 0.9, 0.99], B),
        "z_t": rng.normal(size=[B, A, M]),
        "q_t_selector": rng.normal(size=[B, A]),
    }
    return {
        **{name: value.astype(np.float32) for name, value in floats.items()},
        "a_tm1": rng.integers(0, A, B).astype(np.int32),
        "kappa": np.float32(0.7),
    }


def with_gradient(z_tm1, **others):
    td = quantile_q_learning(z_tm1, **others)
    return (*td, tf.gradients(td.loss, z_tm1)[0])


def test_midpoints_are_the_middles_of_equal_shares():
    np.testing.assert_array_equal(quantile_midpoints(4), [0.125, 0.375, 0.625, 0.875])
    assert quantile_midpoints(3).dtype == np.float32


@pytest.mark.parametrize(("z", "taus", "target", "kappa", "loss"), HUBER_ROWS)
def test_quantile_huber_matches_hand_computed_rows(evaluate, z, taus, target, kappa, loss):
    np.testing.assert_allclose(evaluate(quantile_huber([z], taus, [target], kappa)), [loss])


@pytest.mark.parametrize("taus", [np.array([0.1, 0.5, 0.6]), np.array([[0.1, 0.5, 0.6]] * 6)])
def test_quantile_huber_agrees_with_the_three_line_twin(evaluate, taus):
    rng = np.random.default_rng(3)
    z, target = (rng.normal(size=[6, n]).astype(np.float32) for n in (3, 8))
    taus = taus.astype(np.float32)
    for kappa in (0.3, 1, 5.0):
        got = evaluate(quantile_huber(z, taus, target, kappa))
        np.testing.assert_allclose(got, huber_twin(z, taus, target, kappa), rtol=1e-5)


def test_each_transition_may_have_fractions_of_its_own(evaluate):
    loss = quantile_huber([[0.0], [0.0]], [[0.25], [0.75]], [[2.0], [2.0]], 1.0)
    np.testing.assert_allclose(evaluate(loss), [0.375, 1.125])  # 1/4 * 3/2;  3/4 * 3/2


def test_targets_may_have_masses_of_their_own(evaluate):
    """0.5 * (0.75 * 0.5 + 0.25 * 2.5) of errors 1 and -3; the mean is that of equal masses."""
    z, taus, target = [[0.0]], [0.5], [[1.0, -3.0]]
    loss = quantile_huber(z, taus, target, 1.0, [[0.75, 0.25]])
    np.testing.assert_allclose(evaluate(loss), [0.5])
    equal = quantile_huber(z, taus, target, 1.0, [[0.5, 0.5]])
    np.testing.assert_allclose(*evaluate([equal, quantile_huber(z, taus, target, 1.0)]))


def test_kappa_may_be_fed(evaluate):
    kappa = tf.placeholder(tf.float32, [])
    loss = quantile_huber([[0.0]], [0.5], [[2.0]], kappa)
    assert [evaluate(loss, {kappa: k}).item() for k in (2.0, 0.5)] == [0.5, 0.875]


def test_quantile_huber_gradient_is_the_weight_of_each_side_times_the_clipped_error(evaluate):
    z = tf.constant([[0.0, 0.0]])
    taus, target = tf.constant([0.25, 0.75]), tf.constant([[4.0, -0.5]])
    loss = quantile_huber(z, taus, target, 1.0)
    # (-1/4 * 1 + 3/4 * 1/2) / 2;  (-3/4 * 1 + 1/4 * 1/2) / 2
    np.testing.assert_allclose(evaluate(tf.gradients(loss, z)[0]), [[0.0625, -0.3125]])
    assert tf.gradients(loss, [taus, target]) == [None, None]


def test_its_least_value_is_at_the_quantiles(evaluate):
    """Descent on 1 ... 100 ends where 10, 50 and 90 per cent lie below."""
    target = np.arange(1, 101, dtype=np.float32)[None]
    z = tf.Variable(tf.zeros([1, 3]), use_resource=True)
    loss = quantile_huber(z, [0.1, 0.5, 0.9], target, 0.01)
    step = z.assign_sub(20 * tf.gradients(loss, z)[0])
    for _ in range(1500):
        evaluate(step)
    np.testing.assert_allclose(evaluate(z)[0], [10.5, 50.5, 90.5], atol=0.6)


def test_loss_by_hand(evaluate):
    got = evaluate(
        quantile_q_learning(
            z_tm1=[[[9.0, 9.0], [0.0, 1.0]]],
            taus_tm1=[0.25, 0.75],
            a_tm1=[1],
            r_t=[1.0],
            discount_t=[0.5],
            z_t=[[[2.0], [7.0]]],
            q_t_selector=[[2.0, 1.0]],
        )
    )
    assert got.target == [2.0]  # 1 + 0.5 * 2
    assert got.td_error == [1.5]  # 2 - (0 + 1) / 2
    assert got.loss == [0.75]  # 1/4 * 3/2 + 3/4 * 1/2, kappa 1


@pytest.mark.parametrize("fixed", [True, False])
def test_it_agrees_with_the_slow_twin(evaluate, fixed):
    inputs = arguments() | ({"taus_tm1": quantile_midpoints(5)} if fixed else {})
    for got, expected in zip(evaluate(quantile_q_learning(**inputs)), twin(**inputs), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_xla_gives_the_same_and_the_same_gradient(evaluate):
    inputs = {name: tf.constant(value) for name, value in arguments().items()}
    compiled = tf2.function(with_gradient, jit_compile=True, autograph=False)(**inputs)
    plain, compiled = evaluate([with_gradient(**inputs), compiled])
    for got, expected in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_nothing_but_the_online_quantiles_of_the_taken_action_receives_gradient(evaluate):
    inputs = arguments()
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    td = quantile_q_learning(**tensors)
    others = [tensors[n] for n in ("taus_tm1", "r_t", "discount_t", "z_t", "q_t_selector")]
    for output in td:
        assert tf.gradients(output, others) == [None] * 5
    assert tf.gradients(td.target, tensors["z_tm1"]) == [None]
    gradient = evaluate(tf.gradients(td.loss, tensors["z_tm1"])[0])
    touched = np.any(gradient != 0, axis=2)
    np.testing.assert_array_equal(touched, np.arange(4) == inputs["a_tm1"][:, None])


def test_double_with_the_targets_own_means_is_plain(evaluate):
    inputs = arguments()
    own = inputs["z_t"].mean(2)
    plain, double, other = (
        evaluate(quantile_q_learning(**inputs | {"q_t_selector": selector}))
        for selector in (own, 3 * own + 1, -own)
    )
    np.testing.assert_array_equal(plain, double)
    assert np.any(plain.target != other.target)


def test_a_mask_of_ones_changes_nothing_and_a_masked_action_is_never_bootstrapped_from(evaluate):
    inputs = arguments()
    selector = inputs.pop("q_t_selector")
    masks = [np.ones([7, 4], bool), np.arange(4) != selector.argmax(1)[:, None]]
    unmasked, ones, masked = (
        evaluate(quantile_q_learning(**inputs, q_t_selector=q))
        for q in (selector, *(legal_only(selector, mask) for mask in masks))
    )
    np.testing.assert_array_equal(unmasked, ones)
    second = np.where(masks[1], selector, -np.inf)
    expected = twin(**inputs, q_t_selector=second)
    np.testing.assert_allclose(masked, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("argument", sorted(arguments()))
def test_a_wrong_rank_is_refused_by_the_arguments_name(evaluate, argument):
    inputs = arguments()
    inputs[argument] = inputs[argument][..., None]
    with pytest.raises(ShapeError, match=rf"^quantile_\w+: {argument} must[^;]*$"):
        quantile_q_learning(**inputs)


def test_a_wrong_rank_of_the_fractions_names_both_that_will_do(evaluate):
    with pytest.raises(ShapeError, match=r"taus must have rank 1 or 2, got shape \(\)"):
        quantile_huber([[0.0]], 0.5, [[1.0]], 1.0)


# Fractions that are proposed.

# shares, z at their middles, z at their edges, entropy weight, loss, gradient
FRACTION_ROWS = [
    # slopes 2 * 1.5 - 1 - 2 = 0 and 2 * 3.5 - 2 - 4 = 1, edges 0.5 and 0.75
    ([0.5, 0.25, 0.25], [1.0, 2.0, 4.0], [1.5, 3.5], 0.0, 0.75, [1.0, 1.0, 0.0]),
    # slopes 2 and -4: 2 * 0.25 - 4 * 0.5
    ([0.25, 0.25, 0.5], [0.0, 2.0, 8.0], [2.0, 3.0], 0.0, -1.5, [-2.0, -4.0, 0.0]),
    # no slope; entropy 0.5 ln 2 + 2 * 0.25 ln 4 = 1.5 ln 2, by a share -(ln share + 1)
    ([0.5, 0.25, 0.25], [0.0, 2.0, 4.0], [1.0, 3.0], 2.0, -3 * np.log(2),
     [2 * (1 - np.log(2)), 2 * (1 - np.log(4)), 2 * (1 - np.log(4))]),
]  # fmt: skip


@pytest.mark.parametrize("shares, z, z_edges, weight, loss, gradient", FRACTION_ROWS)
def test_fraction_loss_and_its_gradient_by_hand(
    evaluate, shares, z, z_edges, weight, loss, gradient
):
    shares, other = tf.constant([shares]), [9.0, -9.0, 9.0]
    got = fraction_loss(shares, [[other[:2], z_edges]], [[other, z]], [1], weight)
    np.testing.assert_allclose(evaluate(got), [loss], rtol=1e-6)
    np.testing.assert_allclose(evaluate(tf.gradients(got, shares)[0]), [gradient], rtol=1e-5)


def test_the_gradient_of_the_fraction_loss_is_that_of_the_1_wasserstein_distance(evaluate):
    """Between a quantile function and its steps: F(tau) = tau ** 3, steps at its values there."""

    def distance(shares):
        edges = np.append(0.0, np.cumsum(shares))
        tau = (np.arange(1_000_000) + 0.5) / 1_000_000
        step = np.clip(np.searchsorted(edges, tau) - 1, 0, len(shares) - 1)
        middle = (edges[:-1] + edges[1:]) / 2
        return np.abs(tau**3 - middle[step] ** 3).mean()

    shares = np.array([0.2, 0.4, 0.1, 0.3])
    edges, tiny = np.cumsum(shares), 1e-3
    slopes = []  # by each edge: one share grows, the next one shrinks
    for i in range(3):
        change = tiny * (np.eye(4)[i] - np.eye(4)[i + 1])
        slopes.append((distance(shares + change) - distance(shares - change)) / (2 * tiny))
    given = tf.constant(shares[None], tf.float32)
    z_edges, z = (np.float32(of)[None, None] ** 3 for of in (edges[:-1], edges - shares / 2))
    loss = fraction_loss(given, z_edges, z, [0], 0.0)
    by_share = evaluate(tf.gradients(loss, given)[0])[0]
    np.testing.assert_allclose(by_share[:-1] - by_share[1:], slopes, atol=1e-4)


def test_nothing_but_the_shares_receives_gradient_of_the_fraction_loss(evaluate):
    z, z_edges = tf.zeros([1, 1, 3]), tf.ones([1, 1, 2])
    loss = fraction_loss([[0.5, 0.25, 0.25]], z_edges, z, [0], 0.1)
    assert tf.gradients(loss, [z, z_edges]) == [None, None]


def test_a_share_that_is_too_small_for_float32_has_a_finite_loss_and_gradient(evaluate):
    shares = tf.constant([[1.0, 0.0]])
    loss = fraction_loss(shares, [[[1.0]]], [[[0.0, 2.0]]], [0], 1.0)
    assert np.isfinite(evaluate([loss, tf.gradients(loss, shares)[0]])[1]).all()
    np.testing.assert_allclose(evaluate(loss), [0.0], atol=1e-6)


@pytest.mark.parametrize("argument", ["shares", "z_edges", "z", "a_tm1", "entropy_weight"])
def test_a_wrong_rank_of_the_fraction_loss_is_refused_by_name(evaluate, argument):
    inputs = {
        "shares": np.full([2, 3], 1 / 3, np.float32), "z_edges": np.zeros([2, 4, 2], np.float32),
        "z": np.zeros([2, 4, 3], np.float32), "a_tm1": np.zeros(2, np.int32),
        "entropy_weight": np.float32(0.1),
    }  # fmt: skip
    inputs[argument] = inputs[argument][..., None]
    with pytest.raises(ShapeError, match=rf"^fraction_loss: {argument} must[^;]*$"):
        fraction_loss(**inputs)
