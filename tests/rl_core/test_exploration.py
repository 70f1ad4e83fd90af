"""Exploring actions: which, how often, and never an illegal one."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2
from hypothesis import given, settings
from hypothesis import strategies as st

from targetnet.rl_core.errors import ShapeError
from targetnet.rl_core.exploration import boltzmann, epsilon_greedy
from targetnet.rl_core.random import Stream

BELOW_1 = np.nextafter(np.float32(1), np.float32(0))
DRAWS = 20_000
# 99.9 % of chi-square by degrees of freedom.
CHI_SQUARE = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47}


def chi_square(counts, probabilities):
    expected = np.sum(counts) * np.asarray(probabilities)
    return np.sum((counts - expected) ** 2 / expected)


def uniform(*shape, name="explore", seed=3):
    return Stream(seed, name).uniform(tf.constant(0, tf.int64), list(shape))


def rows(legal, n=DRAWS):
    return np.tile(np.array(legal, bool), [n, 1])


@pytest.fixture(scope="module")
def dice():
    """(die, legal) -> (with the mask, without), the coin always for exploring."""
    with tf.Graph().as_default(), tf.Session() as session:
        die, legal = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.bool, [None, None])
        best, coin = tf.zeros_like(die, tf.int32), tf.zeros_like(die)
        A = tf.cast(tf.shape(legal)[1], tf.float32)
        both = [epsilon_greedy(best, 1.0, coin, die, A, mask) for mask in (legal, None)]
        yield lambda *values: session.run(both, dict(zip((die, legal), values, strict=True)))


# Epsilon-greedy.


def test_the_coin_decides_between_the_best_and_what_the_die_says(evaluate):
    best, coin, die = [2, 2, 2, 2], [0.0, 0.09, 0.1, 0.9], [0.0, 0.4, 0.4, 0.0]
    action = evaluate(epsilon_greedy(best, 0.1, coin, die, 3))
    assert action.tolist() == [0, 1, 2, 2]  # floor(0.4 * 3) = 1; a coin of 0.1 is not below 0.1
    assert action.dtype == np.int32


def test_with_a_mask_the_die_counts_legal_actions_only(evaluate):
    legal = [[False, True, False, True, True]]
    for die, action in [(0.0, 1), (0.3, 1), (0.34, 3), (0.66, 3), (0.67, 4), (BELOW_1, 4)]:
        assert evaluate(epsilon_greedy([0], 1, [0.0], [die], 5, legal)) == [action]


def test_epsilon_0_never_explores_and_1_always_does(evaluate):
    coin = np.array([0, 0.5, BELOW_1], np.float32)
    for epsilon, action in [(0, 1), (1, 0)]:
        got = evaluate(epsilon_greedy([1, 1, 1], epsilon, coin, [0.0] * 3, 2))
        assert got.tolist() == [action] * 3


@pytest.mark.thorough
@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.floats(0, 1, exclude_max=True, width=32), min_size=1, max_size=20),
    st.integers(1, 40),
)
def test_a_mask_of_ones_changes_no_action(dice, die, actions):
    """Not only for numbers our streams make: for every float32 in [0, 1)."""
    masked, unmasked = dice([*die, BELOW_1], np.ones([len(die) + 1, actions], bool))
    np.testing.assert_array_equal(masked, unmasked)
    assert masked.min() >= 0 and masked.max() < actions


@settings(deadline=None, max_examples=200)
@given(
    st.floats(0, 1, exclude_max=True, width=32),
    st.lists(st.booleans(), min_size=1, max_size=20).filter(any),
)
def test_the_die_picks_the_legal_action_of_its_place(dice, die, legal):
    choices = np.flatnonzero(legal)
    place = int(np.float32(die) * np.float32(len(choices)))
    assert dice([die], [legal])[0] == [choices[place]]


def test_where_no_action_is_legal_what_comes_is_an_action_still(dice):
    assert dice([0.0, 0.99], np.zeros([2, 3], bool))[0].tolist() == [2, 2]


def test_exploring_actions_are_as_frequent_as_they_should_be(evaluate):
    coin, die = tf.unstack(uniform(2, DRAWS))
    best = np.full(DRAWS, 2)
    action, masked = evaluate(
        [
            epsilon_greedy(tf.constant(best, tf.int32), 0.3, coin, die, 4, legal)
            for legal in (None, rows([1, 0, 1, 1]))
        ]
    )
    # 0.3 shared by all, and 0.7 more for the best.
    counts = np.bincount(action, minlength=4)
    assert chi_square(counts, [0.075, 0.075, 0.775, 0.075]) < CHI_SQUARE[3]
    counts = np.bincount(masked, minlength=4)
    assert counts[1] == 0
    assert chi_square(counts[[0, 2, 3]], [0.1, 0.8, 0.1]) < CHI_SQUARE[2]


# Boltzmann.


def test_the_largest_of_log_probability_and_gumbel_noise_is_taken(evaluate):
    # Gumbel noise of 1/e is 0, of 1/2 is 0.367, of 0.9 is 2.25.
    noise = [[np.exp(-1), 0.5], [np.exp(-1), 0.9], [0.9, 0.5]]
    q = [[1.0, 0.0]] * 3
    assert evaluate(boltzmann(q, 1.0, noise)).tolist() == [0, 1, 0]  # 1 : 0.37;  1 : 2.25;  3.25
    assert evaluate(boltzmann(q, 0.1, noise)).tolist() == [0, 0, 0]  # 10 : 2.25


@pytest.mark.parametrize("legal", [[1, 1, 1, 1], [1, 0, 1, 1], [0, 0, 1, 1]])
def test_actions_are_as_frequent_as_the_softmax_says(evaluate, legal):
    q, temperature = np.array([0.0, 3.0, 0.5, -0.5]), 0.7
    mask = rows(legal)
    values = np.tile(q.astype(np.float32), [DRAWS, 1])
    action = evaluate(boltzmann(values, temperature, uniform(DRAWS, 4), mask))
    assert action.dtype == np.int32
    weight = np.exp(q / temperature)[np.array(legal, bool)]
    counts = np.bincount(action, minlength=4)
    assert counts[~np.array(legal, bool)].sum() == 0
    counts = counts[np.array(legal, bool)]
    assert chi_square(counts, weight / weight.sum()) < CHI_SQUARE[len(weight) - 1]


def test_a_mask_of_ones_changes_no_drawn_action(evaluate):
    q = np.random.default_rng(1).normal(size=[1000, 5]).astype(np.float32)
    numbers = uniform(1000, 5)
    masked, unmasked = evaluate(
        [boltzmann(q, 0.5, numbers, legal) for legal in (np.ones([1000, 5], bool), None)]
    )
    np.testing.assert_array_equal(masked, unmasked)


@pytest.mark.parametrize("number", [0.0, BELOW_1])
@pytest.mark.parametrize("temperature", [1e-30, 1.0, 1e30])
def test_the_ends_of_the_uniform_numbers_never_choose_an_illegal_action(
    evaluate, number, temperature
):
    q = np.array([[50.0, 0.0, 9.0]] * 3, np.float32)
    legal = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], bool)
    # The legal action has the given number, the illegal ones the other end.
    numbers = np.where(legal, np.float32(number), BELOW_1 - np.float32(number))
    action = evaluate(boltzmann(q, temperature, numbers, legal))
    assert action.tolist() == [1, 2, 0]


def test_uniform_numbers_that_are_all_0_leave_the_best_action(evaluate):
    assert evaluate(boltzmann([[0.0, 2.0, 1.0]], 1.0, np.zeros([1, 3], np.float32))) == [1]


def test_near_temperature_0_it_is_greedy(evaluate):
    q = 100 * np.random.default_rng(2).normal(size=[500, 5]).astype(np.float32)
    for temperature in (1e-4, 1e-37):  # the last: beyond float32 but for the best
        action = evaluate(boltzmann(q, temperature, uniform(500, 5)))
        np.testing.assert_array_equal(action, q.argmax(1))


# Both.


def test_xla_gives_the_same(evaluate):
    rng = np.random.default_rng(4)
    legal = rng.uniform(size=[50, 4]) < 0.7
    legal[:, 0] = True
    q, noise = rng.normal(size=[50, 4]), rng.uniform(size=[50, 4])
    coin, die = rng.uniform(size=[2, 50]).astype(np.float32)

    def both(q, noise, coin, die, legal):
        best = tf.argmax(q, axis=1, output_type=tf.int32)
        chosen = (
            epsilon_greedy(best, 0.5, coin, die, 4),
            epsilon_greedy(best, 0.5, coin, die, 4, legal),
        )
        return (*chosen, boltzmann(q, 0.5, noise), boltzmann(q, 0.5, noise, legal))

    inputs = [tf.constant(x, tf.float32) for x in (q, noise, coin, die)] + [tf.constant(legal)]
    compiled = tf2.function(both, jit_compile=True, autograph=False)(*inputs)
    for got, expected in zip(*evaluate([compiled, both(*inputs)]), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("argument", ["best", "epsilon", "coin", "die", "legal"])
def test_epsilon_greedy_refuses_a_wrong_rank_by_the_arguments_name(evaluate, argument):
    inputs = {
        "best": np.zeros(2, np.int32),
        "epsilon": 0.1,
        "coin": np.zeros(2, np.float32),
        "die": np.zeros(2, np.float32),
        "legal": np.ones([2, 3], bool),
    }
    inputs[argument] = np.asarray(inputs[argument])[..., None]
    with pytest.raises(ShapeError, match=rf"^epsilon_greedy: {argument} must[^;]*$"):
        epsilon_greedy(**inputs, num_actions=3)


@pytest.mark.parametrize("argument", ["q", "temperature", "uniform", "legal"])
def test_boltzmann_refuses_a_wrong_rank_by_the_arguments_name(evaluate, argument):
    numbers = np.zeros([2, 3], np.float32)
    inputs = {"q": numbers, "temperature": 0.1, "uniform": numbers, "legal": numbers == 0}
    inputs[argument] = np.asarray(inputs[argument], inputs["q"].dtype)[..., None]
    with pytest.raises(ShapeError, match=rf": {argument} must[^;]*$"):
        boltzmann(**inputs)
