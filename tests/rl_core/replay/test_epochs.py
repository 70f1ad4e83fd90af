"""Passes over all valid rows, in an order that is new in each."""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.random import Stream
from targetnet.rl_core.replay import EpochSampler, ReplayMemory, ValidRows, transition_columns
from targetnet.rl_core.replay.items import NStepTransitions

STEPS, BATCH = 9, 4


def in_epochs(capacity, num_envs, shape, dtype):
    rows = ValidRows(capacity, num_envs, transition_columns(shape, dtype))
    items = NStepTransitions(rows, lambda: tf.constant(0.5))
    return ReplayMemory(rows, EpochSampler(rows, BATCH), items)


@pytest.fixture(scope="module")
def ring(make_ring):
    """Nine time steps of two envs: 16 rows with an outcome, 4 batches of 4."""

    def build(replay):
        counter = tf.placeholder(tf.int64, [])
        row = replay.sample(BATCH, Stream(3, "sample"), counter).row
        return {"draw": (row, [counter])}

    return make_ring(STEPS * 2, 2, build, in_epochs)


@pytest.fixture
def full(ring, make_episodes):
    """Filled almost twice over; some steps are resets."""
    ring.restart()
    for terminated, autoreset in make_episodes(17, 2, np.random.default_rng(1)):
        ring.write(terminated, autoreset)
    return ring


def pass_of(ring, first):
    return np.concatenate([ring.draw(np.int64(first + i)) for i in range(4)]).tolist()


def test_a_pass_has_every_row_once_where_none_is_a_reset(ring):
    ring.restart()
    for t in range(STEPS):
        ring.write([False] * 2, [t == 0] * 2)
    assert sorted(pass_of(ring, 0)) == sorted(ring.valid()) and len(ring.valid()) == 16


def test_where_some_rows_are_resets_the_first_of_the_order_come_again(full):
    valid = full.valid()
    assert 8 < len(valid) < 16
    drawn = pass_of(full, 4)
    assert set(drawn) == set(valid)
    assert drawn[len(valid) :] == drawn[: 16 - len(valid)]


def test_each_pass_has_an_order_of_its_own_and_the_same_counter_the_same(full):
    first, second = pass_of(full, 0), pass_of(full, 4)
    assert first != second
    assert (pass_of(full, 0), pass_of(full, 4)) == (first, second)


def test_every_row_is_as_often_the_first_one(full, chi_square_of_first=60.0):
    """1,200 passes; among 13 rows or so, chi-square above 60 has a probability below 1e-7."""
    valid = full.valid()
    firsts = collections.Counter(full.draw(np.int64(4 * i))[0] for i in range(1_200))
    expected = 1_200 / len(valid)
    assert firsts.keys() == valid.keys()
    assert sum((n - expected) ** 2 / expected for n in firsts.values()) < chi_square_of_first
