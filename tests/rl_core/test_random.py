"""Streams of random numbers: pure functions of (seed, name, counter)."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.rl_core.random import Draws, Keys, Stream

HUGE = 2**40


@pytest.fixture(scope="module")
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def uniform(session, counter, shape=(4,), *, seed=1, name="noise"):
    return session.run(Stream(seed, name).uniform(tf.constant(counter, tf.int64), list(shape)))


def integers(session, counter, shape, low, high, *, seed=1, name="noise"):
    numbers = (tf.constant(n, tf.int64) for n in (low, high))
    stream = Stream(seed, name)
    return session.run(stream.integers(tf.constant(counter, tf.int64), list(shape), *numbers))


def chi_square(counts):
    expected = np.sum(counts) / len(counts)
    return np.sum((np.asarray(counts) - expected) ** 2 / expected)


def test_the_same_seed_name_and_counter_give_the_same_numbers(session):
    np.testing.assert_array_equal(uniform(session, 7), uniform(session, 7))
    first, second = (integers(session, 7, [9], 0, HUGE) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_keys_begin_with_those_of_their_seed_and_take_those_of_another(engine):
    with engine.building():
        keys = Keys(1)
        streams = [Stream(keys, name) for name in ("noise", "sample")]
        drawn = [stream.uniform(tf.constant(7, tf.int64), [4]) for stream in streams]
    engine.start()
    for seed in (1, 2):
        if seed != 1:
            engine.callable(None, [keys.fed], keys.assign)(keys.values(seed))
        with tf.Graph().as_default(), tf.Session() as alone:
            wanted = [uniform(alone, 7, seed=seed, name=name) for name in ("noise", "sample")]
        np.testing.assert_array_equal(engine.run(drawn), wanted)


def test_the_numbers_do_not_depend_on_the_graph_they_are_made_in(session):
    expected = uniform(session, 7)
    with tf.Graph().as_default(), tf.Session() as other:
        tf.set_random_seed(99)
        tf.random.uniform([])  # an op more than in the other graph
        np.testing.assert_array_equal(uniform(other, 7), expected)


def test_running_a_stream_again_does_not_move_it_on(session):
    numbers = Stream(1, "noise").uniform(tf.constant(7, tf.int64), [4])
    np.testing.assert_array_equal(session.run(numbers), session.run(numbers))


@pytest.mark.parametrize("counter", [0, 1, 6, 8, 2**31, 2**32 + 7, 2**62])
def test_another_counter_gives_other_numbers(session, counter):
    assert not np.any(uniform(session, 7) == uniform(session, counter))


@pytest.mark.parametrize("seed", [0, 2, 2**31, 2**32 + 1, 2**63 - 1])
def test_another_seed_gives_other_numbers(session, seed):
    assert not np.any(uniform(session, 7) == uniform(session, 7, seed=seed))


def test_another_name_gives_other_numbers(session):
    assert not np.any(uniform(session, 7) == uniform(session, 7, name="other"))


def test_neighbouring_counters_do_not_give_one_sequence_shifted(session):
    """A counter must not be a place in one sequence: its batch would return in the next."""
    seen = np.concatenate([uniform(session, counter, [64]) for counter in range(32)])
    assert len(np.unique(seen)) > 0.99 * len(seen)


@pytest.mark.thorough
def test_uniform_numbers_are_at_least_0_and_below_1_and_evenly_spread(session):
    numbers = np.concatenate([uniform(session, counter, [1000]) for counter in range(10)])
    assert numbers.dtype == np.float32
    assert numbers.min() >= 0 and numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert chi_square(counts) < 27.9  # 99.9 % of chi-square with 9 degrees of freedom


def test_uniform_numbers_of_one_place_are_evenly_spread_over_counters(session):
    counter = tf.placeholder(tf.int64, [])
    first = Stream(3, "explore").uniform(counter, [1])
    numbers = [session.run(first, {counter: c})[0] for c in range(1000)]
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert chi_square(counts) < 27.9


def test_integers_reach_every_number_from_low_up_to_and_without_high_evenly(session):
    numbers = integers(session, 0, [6000], -2, 4)
    assert numbers.dtype == np.int64
    values, counts = np.unique(numbers, return_counts=True)
    assert values.tolist() == [-2, -1, 0, 1, 2, 3]
    assert chi_square(counts) < 20.5  # 99.9 % of chi-square with 5 degrees of freedom


def test_integers_beyond_32_bits_are_reached(session):
    numbers = integers(session, 0, [100], HUGE, 2 * HUGE)
    assert numbers.min() >= HUGE and numbers.max() < 2 * HUGE
    assert len(np.unique(numbers)) == 100


def test_integers_from_a_range_of_one_are_that_one(session):
    assert integers(session, 5, [3], 9, 10).tolist() == [9, 9, 9]


def test_the_bounds_of_integers_may_be_fed(session):
    high = tf.placeholder(tf.int64, [])
    low, counter = tf.constant(0, tf.int64), tf.constant(0, tf.int64)
    numbers = Stream(1, "rows").integers(counter, [1000], low, high)
    assert session.run(numbers, {high: 3}).max() == 2
    assert session.run(numbers, {high: 5}).max() == 4


# The numbers of one evaluation of a network.


def test_draws_differ_by_name_purpose_counter_and_seed_and_by_nothing_else(session):
    def draw(seed=1, purpose="now", counter=3, name="w"):
        return session.run(
            Draws(seed, purpose, tf.constant(counter, tf.int64)).normal(name, [5])
        ).tobytes()

    others = [draw(), draw(seed=2), draw(purpose="then"), draw(counter=4), draw(name="b")]
    assert len(set(others)) == 5 and draw() == others[0]


def test_draws_are_the_same_numbers_compiled_and_not(session):
    """Floats made from the generator's bits by the operation for it are not."""

    @tf2.function(jit_compile=True, autograph=False)
    def compiled(counter):
        return Draws(1, "now", counter).uniform("w", [100])

    counter = tf.constant(3, tf.int64)
    plain = Draws(1, "now", counter).uniform("w", [100])
    np.testing.assert_array_equal(*session.run([compiled(counter), plain]))


def test_uniform_draws_are_uniform_and_never_0_or_1(session):
    numbers = session.run(Draws(1, "now", tf.constant(0, tf.int64)).uniform("w", [100_000]))
    assert numbers.min() > 0 and numbers.max() < 1
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert chi_square(counts) < 43.8  # 0.1 % of 19 degrees of freedom


def test_normal_draws_have_the_moments_of_the_normal_distribution(session):
    numbers = session.run(Draws(1, "now", tf.constant(0, tf.int64)).normal("w", [200_000]))
    assert np.isfinite(numbers).all()
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        assert abs(np.mean(numbers.astype(float) ** power) - moment) < 0.05
