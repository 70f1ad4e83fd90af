"""C51's projection and loss: by hand, against a slow twin, and as properties."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2
from hypothesis import given, settings
from hypothesis import strategies as st

from targetnet.rl_core.errors import BoundsError, ShapeError
from targetnet.rl_core.losses import (
    categorical_projection,
    categorical_q_learning,
    legal_only,
    support,
)

ATOMS = np.array([0, 1, 2], np.float32)
# z_p            p                projected on 0, 1, 2
PROJECTIONS = [
    ([0.0, 1.0], [0.3, 0.7], [0.3, 0.7, 0.0]),  # on atoms: nothing moves
    ([0.5, 1.0], [1.0, 0.0], [0.5, 0.5, 0.0]),  # half way between two
    ([0.25, 1.75], [0.4, 0.6], [0.3, 0.25, 0.45]),  # 0.4 * 3/4;  0.4 * 1/4 + 0.6 * 1/4;  0.6 * 3/4
    ([-9.0, 2.5], [0.2, 0.8], [0.2, 0.0, 0.8]),  # beyond either end: to the end
    ([1.0, 1.0], [0.5, 0.5], [0.0, 1.0, 0.0]),  # discount 0: all atoms in one place
    ([-np.inf, np.inf], [0.1, 0.9], [0.1, 0.0, 0.9]),
]


def projected(z_p, p, z_q):
    """One row, atom by atom, as in algorithm 1 of the paper."""
    q = np.zeros(len(z_q))
    for z, mass in zip(z_p, p, strict=True):
        b = (np.clip(z, z_q[0], z_q[-1]) - z_q[0]) / (z_q[1] - z_q[0])
        lower = min(int(b), len(z_q) - 2)
        q[lower] += mass * (lower + 1 - b)
        q[lower + 1] += mass * (b - lower)
    return q


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def twin(logits_tm1, a_tm1, r_t, discount_t, p_t, q_t_selector, atoms_z):
    z = atoms_z.astype(np.float64)
    rows = []
    for i, a in enumerate(a_tm1):
        m = projected(r_t[i] + discount_t[i] * z, p_t[i, q_t_selector[i].argmax()], z)
        now = softmax(logits_tm1[i, a])
        rows.append((-(m * np.log(now)).sum(), m @ z, m @ z - now @ z))
    return np.transpose(rows)


def arguments():
    B, A, N = 7, 4, 11
    rng = np.random.default_rng(0)
    floats = {
        "logits_tm1": rng.normal(size=[B, A, N]),
        "r_t": rng.normal(size=B),
        "discount_t": rng.choice([0, 0.9, 0.99], B),
        "p_t": softmax(rng.normal(size=[B, A, N])),
        "q_t_selector": rng.normal(size=[B, A]),
    }
    return {
        **{name: value.astype(np.float32) for name, value in floats.items()},
        "a_tm1": rng.integers(0, A, B).astype(np.int32),
        "atoms_z": support(-2, 3, N),
    }


def with_gradient(logits_tm1, **others):
    td = categorical_q_learning(logits_tm1, **others)
    return (*td, tf.gradients(td.loss, logits_tm1)[0])


@pytest.fixture(scope="module")
def project():
    """(z_p, p, z_q) of any sizes -> the projection, from one graph."""
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = [tf.placeholder(tf.float32, shape) for shape in ([None, None],) * 2 + ([None],)]
        projection = categorical_projection(*feeds)
        yield lambda *values: session.run(projection, dict(zip(feeds, values, strict=True)))


def test_support_is_evenly_spaced_and_has_both_ends():
    np.testing.assert_array_equal(support(-10, 10, 5), [-10, -5, 0, 5, 10])
    assert support(-10, 10, 51).dtype == np.float32


@pytest.mark.parametrize(
    ("wrong", "message"), [((1, 1, 51), "v_min .* below v_max, got 1 and 1"), ((0, 1, 1), ">= 2")]
)
def test_support_refuses_what_has_no_spacing(wrong, message):
    with pytest.raises(BoundsError, match=message):
        support(*wrong)


@pytest.mark.parametrize(("z_p", "p", "expected"), PROJECTIONS)
def test_projection_matches_hand_computed_rows(project, z_p, p, expected):
    np.testing.assert_allclose(project([z_p], [p], ATOMS)[0], expected, rtol=1e-6)


def test_projection_on_its_own_atoms_changes_nothing(project):
    z = support(-10, 10, 51)  # a spacing, 0.4, that no float is
    p = softmax(np.random.default_rng(1).normal(size=[1, 51])).astype(np.float32)
    np.testing.assert_allclose(project(z[None], p, z), p, rtol=1e-4)


def test_projection_takes_atoms_of_any_number_in_any_order(project):
    rng = np.random.default_rng(2)
    z_p, p, z_q = rng.normal(size=[5, 8]), softmax(rng.normal(size=[5, 8])), support(-1, 2, 4)
    expected = [projected(z, mass, z_q) for z, mass in zip(z_p, p, strict=True)]
    np.testing.assert_allclose(project(z_p, p, z_q), expected, rtol=1e-4, atol=1e-6)


@settings(deadline=None)
@given(st.data())
def test_projection_keeps_the_mass_and_inside_the_support_the_mean(project, data):
    size, atoms = data.draw(st.integers(1, 9)), data.draw(st.integers(2, 60))
    v_min, width = data.draw(st.floats(-100, 100)), data.draw(st.floats(0.5, 200))
    inside = st.floats(v_min, v_min + width)
    z_p = data.draw(st.lists(inside, min_size=size, max_size=size))
    mass = data.draw(st.lists(st.floats(0.01, 1), min_size=size, max_size=size))
    p, z_q = np.divide(mass, sum(mass)), support(v_min, v_min + width, atoms)
    q = project([z_p], [p], z_q)[0].astype(np.float64)
    assert q.min() >= 0
    assert q.sum() == pytest.approx(1, abs=1e-6)
    assert q @ z_q == pytest.approx(p @ z_p, abs=1e-5 * (abs(v_min) + width))
    far = data.draw(st.lists(st.floats(-1e30, 1e30), min_size=size, max_size=size))
    assert project([far], [p], z_q).sum() == pytest.approx(1, abs=1e-6)


def test_loss_of_two_atoms_by_hand(evaluate):
    got = evaluate(
        categorical_q_learning(
            logits_tm1=[[[0.0, 0.0], [0.0, np.log(3.0)]]],
            a_tm1=[1],  # probabilities 1/4, 3/4: expected value 0.75
            r_t=[0.2],
            discount_t=[0.5],
            p_t=[[[0.4, 0.6], [1.0, 0.0]]],
            q_t_selector=[[0.6, 0.0]],  # the first: 0.4 at 0.2, 0.6 at 0.7
            atoms_z=np.array([0, 1], np.float32),
        )
    )
    # on atom 1: 0.4 * 0.2 + 0.6 * 0.7 = 0.5, so on atom 0: 0.5
    np.testing.assert_allclose(got.target, [0.5], rtol=1e-6)
    np.testing.assert_allclose(got.td_error, [-0.25], rtol=1e-6)
    np.testing.assert_allclose(got.loss, [-0.5 * np.log(1 / 4) - 0.5 * np.log(3 / 4)], rtol=1e-6)


def test_where_the_episode_terminated_the_target_is_the_reward(evaluate):
    terminal = arguments() | {"discount_t": np.zeros(7, np.float32)}
    got = evaluate(categorical_q_learning(**terminal))
    np.testing.assert_allclose(got.target, terminal["r_t"], rtol=1e-5, atol=1e-6)


def test_it_agrees_with_the_slow_twin(evaluate):
    inputs = arguments()
    np.testing.assert_allclose(
        evaluate(categorical_q_learning(**inputs)), twin(**inputs), rtol=1e-5, atol=1e-6
    )


def test_xla_gives_the_same_and_the_same_gradient(evaluate):
    inputs = {name: tf.constant(value) for name, value in arguments().items()}
    compiled = tf2.function(with_gradient, jit_compile=True, autograph=False)(**inputs)
    plain, compiled = evaluate([with_gradient(**inputs), compiled])
    for got, expected in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_the_gradient_is_the_distribution_minus_the_target_at_the_taken_action(evaluate):
    logits = tf.constant([[[0.0, 0.0], [5.0, 1.0]]])
    selector = tf.constant([[1.0, 0.0]])
    p_t = tf.constant([[[0.1, 0.9], [1.0, 0.0]]])
    td = categorical_q_learning(logits, [0], [0.0], [1.0], p_t, selector, [0.0, 1.0])
    gradient = evaluate(tf.gradients(td.loss, logits)[0])
    np.testing.assert_allclose(gradient, [[[0.4, -0.4], [0, 0]]], rtol=1e-6)  # 1/2 - (0.1, 0.9)


def test_nothing_but_the_online_logits_receives_gradient(evaluate):
    inputs = {name: tf.constant(value) for name, value in arguments().items()}
    td = categorical_q_learning(**inputs)
    others = [inputs[n] for n in ("r_t", "discount_t", "p_t", "q_t_selector", "atoms_z")]
    for output in td:
        assert tf.gradients(output, others) == [None] * 5
    assert tf.gradients(td.target, inputs["logits_tm1"]) == [None]


def test_double_with_the_targets_own_expected_values_is_plain(evaluate):
    """The selector alone makes it double: only its order matters."""
    inputs = arguments()
    own = (inputs["p_t"] * inputs["atoms_z"]).sum(2)
    plain, double, other = (
        evaluate(categorical_q_learning(**inputs | {"q_t_selector": selector}))
        for selector in (own, 3 * own + 1, -own)
    )
    np.testing.assert_array_equal(plain, double)
    assert np.any(plain.target != other.target)


def test_a_mask_of_ones_changes_nothing_and_a_masked_action_is_never_bootstrapped_from(evaluate):
    inputs = arguments()
    selector = inputs.pop("q_t_selector")
    masks = [np.ones([7, 4], bool), np.arange(4) != selector.argmax(1)[:, None]]
    unmasked, ones, masked = (
        evaluate(categorical_q_learning(**inputs, q_t_selector=q))
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
    with pytest.raises(ShapeError, match=rf"^categorical_q_learning: {argument} must[^;]*$"):
        categorical_q_learning(**inputs)


@pytest.mark.parametrize("argument", ["z_p", "p", "z_q"])
def test_the_projection_refuses_a_wrong_rank_by_the_arguments_name(evaluate, argument):
    inputs = {"z_p": np.zeros([1, 3]), "p": np.zeros([1, 3]), "z_q": ATOMS}
    inputs[argument] = inputs[argument][None]
    with pytest.raises(ShapeError, match=rf"^categorical_projection: {argument} must[^;]*$"):
        categorical_projection(**inputs)
