"""Munchausen losses: by hand, against a twin in float64, their limits, and masks."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.losses import (
    legal_only,
    log_policy,
    munchausen_bonus,
    munchausen_q_learning,
    munchausen_quantile,
    q_learning,
    quantile_midpoints,
    quantile_q_learning,
    soft_bootstrap,
)
from tests.rl_core.losses.test_quantile import huber_twin

LOWEST = np.finfo(np.float32).min
LOG3 = np.log(3.0).astype(np.float32)
QUARTERS = np.array([[LOG3, 0.0]], np.float32)  # at temperature 1: pi = 3/4, 1/4
SOFT = {"alpha": 0.9, "temperature": 0.3, "clip": -1.0}


def log_policy_twin(q, temperature, legal):
    x = np.where(legal, q.astype(np.float64) / temperature, -np.inf)
    top = x.max(1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(1, keepdims=True))


def target_twin(a_tm1, r_t, discount_t, z_t, q_t, q_tm1_target, legal_tm1, legal_t):
    """[B, M], action by action."""
    B, A = q_t.shape
    alpha, temperature, clip = SOFT.values()
    before = log_policy_twin(q_tm1_target, temperature, legal_tm1)
    after = log_policy_twin(q_t, temperature, legal_t)
    rows = []
    for i in range(B):
        bonus = alpha * np.clip(temperature * before[i, a_tm1[i]], clip, 0)
        value = sum(
            np.exp(after[i, a]) * (z_t[i, a] - temperature * after[i, a])
            for a in range(A)
            if legal_t[i, a]
        )
        rows.append(r_t[i] + bonus + discount_t[i] * value)
    return np.array(rows)


def transition():
    rng = np.random.default_rng(0)
    B, A = 7, 4
    floats = {
        "r_t": rng.normal(size=B),
        "discount_t": rng.choice([0, 0.9, 0.99], B),
        "q_t": rng.normal(size=[B, A]),
        "q_tm1_target": rng.normal(size=[B, A]),
    }
    a_tm1 = rng.integers(0, A, B).astype(np.int32)
    taken = np.arange(A) == a_tm1[:, None]
    return {
        **{name: value.astype(np.float32) for name, value in floats.items()},
        "a_tm1": a_tm1,
        "legal_tm1": taken | (rng.uniform(size=[B, A]) < 0.5),
        "legal_t": np.eye(A, dtype=bool)[rng.integers(0, A, B)] | (rng.uniform(size=[B, A]) < 0.5),
    }


def scalar_arguments():
    q_tm1 = np.random.default_rng(1).normal(size=[7, 4]).astype(np.float32)
    return {"q_tm1": q_tm1, **transition()}


def quantile_arguments():
    rng = np.random.default_rng(2)
    return {
        "z_tm1": rng.normal(size=[7, 4, 5]).astype(np.float32),
        "taus_tm1": quantile_midpoints(5),
        "z_t": rng.normal(size=[7, 4, 3]).astype(np.float32),
        "kappa": np.float32(0.7),
        **transition(),
    }


LOSSES = [
    (munchausen_q_learning, scalar_arguments, "q_tm1"),
    (munchausen_quantile, quantile_arguments, "z_tm1"),
]
either = pytest.mark.parametrize(("loss", "arguments", "learned"), LOSSES)


def close(got, expected):
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


# The policy.


def test_log_policy_by_hand(evaluate):
    got = evaluate(log_policy(QUARTERS, 1.0))
    np.testing.assert_allclose(got, np.log([[0.75, 0.25]]), rtol=1e-6)
    # At half the temperature the odds are squared: 9 to 1.
    np.testing.assert_allclose(np.exp(evaluate(log_policy(QUARTERS, 0.5))), [[0.9, 0.1]], rtol=1e-6)


def test_log_policy_of_large_values_at_a_low_temperature_keeps_its_digits(evaluate):
    # 100000.03 / 0.03 has no room for the thirds of a step between actions; a softmax of the
    # difference, 0.03125 / 0.03, has.
    got = evaluate(log_policy(np.array([[1e5, 1e5 + 0.03125]], np.float32), 0.03))
    odds = np.exp(0.03125 / 0.03)
    np.testing.assert_allclose(np.exp(got), [[1 / (1 + odds), odds / (1 + odds)]], rtol=1e-5)


def test_illegal_actions_have_probability_0_and_a_finite_log_probability(evaluate):
    q = np.array([[LOG3, 1e6, 0.0], [np.nan, 5.0, np.inf]], np.float32)
    legal = np.array([[True, False, True], [False, True, False]])
    got = evaluate(log_policy(q, 1.0, legal))
    np.testing.assert_allclose(np.exp(got), [[0.75, 0, 0.25], [0, 1, 0]], rtol=1e-6)
    assert (got[~legal] == LOWEST).all()


def test_where_no_action_is_legal_every_probability_is_0_and_the_value_too(evaluate):
    q, none = QUARTERS, np.zeros([1, 2], bool)
    for temperature in (0.03, 30.0):
        policy, value = evaluate(
            (tf.exp(log_policy(q, temperature, none)), soft_bootstrap(q, q, temperature, none))
        )
        assert policy.tolist() == [[0, 0]] and value.tolist() == [0]


# The bonus.


@pytest.mark.parametrize(
    ("action", "alpha", "temperature", "clip", "bonus"),
    [
        (0, 0.5, 1.0, -1.0, 0.5 * np.log(0.75)),  # log 3/4 = -0.29: does not bind
        (1, 0.5, 1.0, -1.0, -0.5),  # log 1/4 = -1.39: the clip binds
        (1, 0.5, 1.0, -2.0, 0.5 * np.log(0.25)),  # a lower clip does not
        (1, 1.0, 0.5, -1e9, 0.5 * np.log(0.1)),  # odds of 9 to 1, times the temperature
        (1, 0.0, 1.0, -1.0, 0.0),
    ],
)
def test_bonus_by_hand(evaluate, action, alpha, temperature, clip, bonus):
    got = evaluate(munchausen_bonus(QUARTERS, [action], alpha, temperature, clip))
    np.testing.assert_allclose(got, [bonus], rtol=1e-6)


def test_its_numbers_may_be_fed(evaluate):
    alpha, temperature, clip = feeds = [tf.placeholder(tf.float32, []) for _ in range(3)]
    bonus = munchausen_bonus(QUARTERS, [1], alpha, temperature, clip)
    assert evaluate(bonus, dict(zip(feeds, [0.5, 1.0, -1.0], strict=True))) == [-0.5]
    assert evaluate(bonus, dict(zip(feeds, [0.5, 1.0, -0.5], strict=True))) == [-0.25]


def test_the_bonus_alone_gives_no_gradient_either(evaluate):
    q = tf.constant(QUARTERS)
    assert tf.gradients(munchausen_bonus(q, [1], 0.5, 1.0, -2.0), q) == [None]


# The bootstrap.


def test_soft_bootstrap_of_its_own_values_is_their_log_sum_exp(evaluate):
    got = evaluate(soft_bootstrap(QUARTERS, QUARTERS, 1.0))
    np.testing.assert_allclose(got, [np.log(4.0)], rtol=1e-6)  # log(3 + 1)


def test_soft_bootstrap_of_quantiles_adds_the_entropy_to_each(evaluate):
    z = np.array([[[4.0, 8.0], [0.0, 4.0]]], np.float32)
    entropy = -0.75 * np.log(0.75) - 0.25 * np.log(0.25)
    got = evaluate(soft_bootstrap(QUARTERS, z, 1.0))
    np.testing.assert_allclose(got, [[3 + entropy, 7 + entropy]], rtol=1e-6)  # 3/4, 1/4


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("temperature", [1e-30, 0.5, 1e3])
def test_illegal_and_impossible_actions_add_exactly_0(evaluate, temperature, compiled):
    q = np.array([[5.0, 1e6, -1e9]], np.float32)
    z = np.array([[[1.0, 2.0], [np.inf, np.nan], [7.0, 7.0]]], np.float32)
    only, two = np.array([[True, False, False]]), np.array([[True, False, True]])
    function = tf2.function(soft_bootstrap, jit_compile=compiled, autograph=False)
    assert evaluate(function(q, z, tf.constant(temperature), only)).tolist() == [[1, 2]]
    # -1e9 is too far below 5 even at the highest of these temperatures.
    first_and_last = evaluate(function(q, z, tf.constant(temperature), two))
    np.testing.assert_allclose(first_and_last, [[1, 2]], rtol=1e-6)


# The losses.


def test_m_dqn_by_hand(evaluate):
    got = evaluate(
        munchausen_q_learning(
            [[1.0, 2.0]], [1], [1.0], [0.5], QUARTERS, QUARTERS,
            alpha=0.5, temperature=1.0, clip=-1.0,
        )
    )  # fmt: skip
    target = 1 - 0.5 + 0.5 * np.log(4)  # reward, clipped bonus, discounted soft value
    np.testing.assert_allclose(got.target, [target], rtol=1e-6)
    np.testing.assert_allclose(got.td_error, [target - 2], rtol=1e-6)
    np.testing.assert_allclose(got.loss, [(target - 2) ** 2 / 2], rtol=1e-6)


def test_m_dqn_agrees_with_the_slow_twin(evaluate):
    inputs = scalar_arguments()
    got = evaluate(munchausen_q_learning(**inputs, **SOFT))
    q_tm1 = inputs.pop("q_tm1")
    target = target_twin(**inputs, z_t=inputs["q_t"])
    td_error = target - q_tm1[np.arange(7), inputs["a_tm1"]]
    close(got, (td_error**2 / 2, target, td_error))


def test_m_iqn_agrees_with_the_slow_twin(evaluate):
    inputs = quantile_arguments()
    got = evaluate(munchausen_quantile(**inputs, **SOFT))
    z_tm1, taus, kappa = (inputs.pop(name) for name in ("z_tm1", "taus_tm1", "kappa"))
    y = target_twin(**inputs)
    now = z_tm1[np.arange(7), inputs["a_tm1"]]
    close(got, (huber_twin(now, taus, y, kappa), y.mean(1), y.mean(1) - now.mean(1)))


@either
def test_xla_gives_the_same_and_the_same_gradient(evaluate, loss, arguments, learned):
    def with_gradient(**inputs):
        td = loss(**inputs, **SOFT)
        return (*td, tf.gradients(td.loss, inputs[learned])[0])

    inputs = {name: tf.constant(value) for name, value in arguments().items()}
    compiled = tf2.function(with_gradient, jit_compile=True, autograph=False)(**inputs)
    plain, compiled = evaluate([with_gradient(**inputs), compiled])
    close(compiled, plain)


@either
def test_only_the_online_values_receive_gradient(evaluate, loss, arguments, learned):
    inputs = {name: tf.constant(value) for name, value in arguments().items()}
    td = loss(**inputs, **SOFT)
    unlearned = {learned, "a_tm1", "legal_tm1", "legal_t", "kappa"}
    others = [tensor for name, tensor in inputs.items() if name not in unlearned]
    for output in td:
        assert tf.gradients(output, others) == [None] * len(others)
    assert tf.gradients(td.target, inputs[learned]) == [None]
    gradient = evaluate(tf.gradients(td.loss, inputs[learned])[0]).reshape(7, 4, -1)
    taken = np.arange(4) == arguments()["a_tm1"][:, None]
    np.testing.assert_array_equal(np.any(gradient != 0, axis=2), taken)


@either
def test_a_mask_of_ones_changes_nothing(evaluate, loss, arguments, learned):
    ones = np.ones([7, 4], bool)
    inputs = arguments()
    masked = evaluate(loss(**inputs | {"legal_tm1": ones, "legal_t": ones}, **SOFT))
    unmasked = evaluate(loss(**inputs | {"legal_tm1": None, "legal_t": None}, **SOFT))
    np.testing.assert_array_equal(masked, unmasked)


@pytest.mark.parametrize("legal", [True, False])
def test_m_dqn_without_bonus_at_a_tiny_temperature_is_q_learning(evaluate, legal):
    inputs = scalar_arguments()
    masks = [inputs.pop(name) if legal else None for name in ("legal_tm1", "legal_t")]
    del inputs["q_tm1_target"]
    if not legal:
        del inputs["legal_tm1"], inputs["legal_t"]
    plain = q_learning(**inputs | {"q_t": legal_only(inputs["q_t"], masks[1])})
    soft = munchausen_q_learning(
        **inputs, q_tm1_target=inputs["q_t"], legal_tm1=masks[0], legal_t=masks[1],
        alpha=0.0, temperature=1e-8, clip=-1.0,
    )  # fmt: skip
    close(*evaluate([soft, plain]))


def test_m_iqn_without_bonus_at_a_tiny_temperature_is_quantile_q_learning(evaluate):
    inputs = quantile_arguments()
    soft = munchausen_quantile(**inputs, alpha=0.0, temperature=1e-8, clip=-1.0)
    legal_t = inputs.pop("legal_t")
    del inputs["legal_tm1"], inputs["q_tm1_target"]
    selector = legal_only(inputs.pop("q_t"), legal_t)
    close(*evaluate([soft, quantile_q_learning(**inputs, q_t_selector=selector)]))


def test_as_the_temperature_goes_to_0_the_target_goes_to_that_of_q_learning(evaluate):
    inputs = scalar_arguments() | {"legal_tm1": None, "legal_t": None}
    plain = {name: inputs[name] for name in ("q_tm1", "a_tm1", "r_t", "discount_t", "q_t")}
    hard = q_learning(**plain).target
    gaps = [
        np.abs(evaluate(soft.target - hard)).max()
        for temperature in (1.0, 0.1, 0.01, 0.001)
        for soft in [munchausen_q_learning(**inputs, alpha=0.0, temperature=temperature, clip=-1.0)]
    ]
    assert gaps == sorted(gaps, reverse=True) and gaps[-1] < 1e-6 < 0.5 < gaps[0]


@pytest.mark.parametrize(
    ("loss", "arguments", "argument"),
    [(loss, made, name) for loss, made, _ in LOSSES for name in sorted(made())],
)
def test_a_wrong_rank_is_refused_by_the_arguments_name(evaluate, loss, arguments, argument):
    inputs = arguments()
    inputs[argument] = np.asarray(inputs[argument])[..., None, None]
    with pytest.raises(ShapeError, match=rf"^\w+: {argument} must[^;]*$"):
        loss(**inputs, **SOFT)


def test_the_parts_refuse_a_wrong_rank_by_the_arguments_name(evaluate):
    with pytest.raises(ShapeError, match="log_policy: q must have rank 2"):
        log_policy(QUARTERS[0], 1.0)
    with pytest.raises(ShapeError, match="log_policy: temperature must have rank 0"):
        log_policy(QUARTERS, [1.0, 1.0])
    with pytest.raises(ShapeError, match="munchausen_bonus: a_tm1 must have rank 1"):
        munchausen_bonus(QUARTERS, 1, 0.9, 0.03, -1.0)
    with pytest.raises(ShapeError, match="soft_bootstrap: z_t must have rank 2 or 3"):
        soft_bootstrap(QUARTERS, QUARTERS[0], 0.03)
