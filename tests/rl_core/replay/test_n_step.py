"""Steps gathered at sample time against a twin that walks the recorded episodes."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine, Stream, fused_updates
from targetnet.rl_core.replay import NStepTransitions, ReplayMemory
from tests.rl_core.replay.memories import returns, uniform

BATCH = 40  # not all of it in whole vectors
HALF = np.float32(0.5)


def draws(replay, *, fused=False):
    """`one` draws single steps; `some` is fed n; `compiled` is `some` in a compiled loop."""
    counter, discount = tf.placeholder(tf.int64, []), tf.placeholder(tf.float32, [])
    n = tf.placeholder(tf.int64, [])
    stream = Stream(0, "sample")

    def parts(n_step):
        items = NStepTransitions(
            replay.rows, returns(discount), None if n_step is None else returns(n_step)
        )
        memory = ReplayMemory(replay.rows, replay.sampler, items)
        return [p for p in memory.sample(BATCH, stream, counter) if p is not None]

    calls = {
        "one": (parts(None), [counter, discount]),
        "some": (some := parts(n), [counter, discount, n]),
    }
    if fused:
        count = tf.placeholder(tf.int32, [])
        loop = fused_updates(lambda kept: (parts(n), kept, tf.no_op(), None), count, some)
        calls["compiled"] = (loop, [count, counter, discount, n])
    return calls


RINGS = [(9, 1), pytest.param((20, 1), marks=pytest.mark.slow), (27, 3)]
RINGS += [pytest.param((60, 3), marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=RINGS)
def ring(request, make_ring):
    return make_ring(*request.param, draws)


def check(ring, batch, n, discount=0.5):
    s_tm1, a_tm1, r_t, discount_t, s_t, row = batch
    valid = ring.valid()
    for i, number in enumerate(row):
        t, env = valid[number]
        wanted = ring.walk(t, env, n, discount)
        assert (r_t[i], discount_t[i], s_t[i]) == wanted
        assert (s_tm1[i], a_tm1[i]) == (ring.rows[t][0][env], ring.rows[t][1][env])


@pytest.mark.cases(1)
def test_n_steps_are_what_a_twin_finds_by_walking(ring, make_episodes):
    """Rewards are small whole numbers and the discount is 1/2, so sums are exact."""
    rng = np.random.default_rng(ring.replay.capacity)
    counter = 0
    for _ in range(600):
        ring.restart()
        steps = rng.integers(2, 3 * ring.replay.steps)
        for flags in make_episodes(steps, ring.replay.rows.num_envs, rng, rng.choice([0.05, 0.4])):
            ring.write(*flags)
        for n in rng.integers(1, 9, 3) if ring.valid() else ():
            counter += 1
            check(ring, ring.some(np.int64(counter), HALF, np.int64(n)), n)


def test_n_steps_hold_where_no_env_goes_too(ring):
    """Ends without a reset after them, resets upon resets, a first row that is none."""
    rng = np.random.default_rng(0)
    for counter in range(200):
        ring.restart()
        for _ in range(rng.integers(2, 2 * ring.replay.steps)):
            ring.write(*(rng.random((2, ring.replay.rows.num_envs)) < rng.choice([0.1, 0.5])))
        if ring.valid():
            check(ring, ring.some(np.int64(counter), HALF, np.int64(4)), 4)


@pytest.fixture(scope="module")
def fused_ring(make_ring):
    return make_ring(60, 1, lambda replay: draws(replay, fused=True))


@pytest.mark.cases(4)
@pytest.mark.parametrize("byte", [0x02, 0x36, 0x37, 0xFF], ids=hex)
@pytest.mark.parametrize("way", ["plain", "compiled"])
def test_what_was_never_written_is_never_looked_at(fused_ring, make_episodes, way, byte):
    ring = fused_ring
    rng = np.random.default_rng(byte)
    for counter in range(40):
        ring.restart()
        ring.soil(byte)
        for flags in make_episodes(rng.integers(4, 50), 1, rng, 0.1):
            ring.write(*flags)
        if ring.valid():
            key = np.int64(counter), HALF, np.int64(4)
            check(ring, ring.some(*key) if way == "plain" else ring.compiled(np.int32(1), *key), 4)


def test_one_of_n_steps_is_a_single_step_bit_for_bit(ring, make_episodes):
    ring.restart()
    rng = np.random.default_rng(1)
    for counter, flags in enumerate(make_episodes(200, ring.replay.rows.num_envs, rng)):
        ring.write(*flags, reward=rng.normal(size=ring.replay.rows.num_envs))
        if counter > 3:
            key = np.int64(counter), np.float32(rng.random())
            for single, first in zip(ring.one(*key), ring.some(*key, np.int64(1)), strict=True):
                np.testing.assert_array_equal(single, first)


@pytest.mark.thorough
def test_compiled_steps_are_the_same_steps(make_ring, make_episodes):
    ring = make_ring(60, 3, lambda replay: draws(replay, fused=True))
    rng = np.random.default_rng(2)
    for counter, flags in enumerate(make_episodes(120, 3, rng)):
        ring.write(*flags)
        if counter > 10:
            key = np.int64(counter), HALF, np.int64(rng.integers(1, 9))
            batch = ring.compiled(np.int32(1), *key)
            check(ring, batch, key[-1])
            for plain, compiled in zip(ring.some(*key), batch, strict=True):
                np.testing.assert_array_equal(plain, compiled)


# One env that terminates or is truncated at row 3; rewards for reaching rows 1, 2, 3: 1, 2, 4.
#  n  r_t                      discount_t of row 0      s_t
THREE = [
    (1, 1.0, 0.5, 1),
    (2, 2.0, 0.25, 2),  # 1 + 2 / 2
    (3, 3.0, None, 3),  # 1 + 2 / 2 + 4 / 4
    (9, 3.0, None, 3),  # it ends there
]


@pytest.mark.cases(7)
@pytest.mark.parametrize(("terminated", "last"), [(True, 0.0), (False, 0.125)])
@pytest.mark.parametrize(("n", "r_t", "discount_t", "s_t"), THREE)
def test_three_steps_by_hand(make_ring, terminated, last, n, r_t, discount_t, s_t):
    ring = make_ring(9, 1, draws)
    ring.write([False], [True], [0.0])
    for reward, end in [(1.0, False), (2.0, False), (4.0, terminated)]:
        ring.write([end], [False], [reward])
    ring.write([False], [True], [100.0])  # the reset: never stepped over
    ring.write([False], [False], [100.0])
    batch = ring.some(np.int64(0), HALF, np.int64(n))
    first = batch[5].tolist().index(0)
    wanted = r_t, last if discount_t is None else discount_t, s_t
    assert tuple(part[first] for part in batch[2:5]) == wanted


def test_the_newest_row_is_as_far_as_it_goes(make_ring):
    ring = make_ring(9, 1, draws)
    ring.write([False], [True], [0.0])
    ring.write([False], [False], [1.0])
    ring.write([False], [False], [2.0])
    batch = ring.some(np.int64(0), HALF, np.int64(100))
    got = {tuple(float(part[i]) for part in batch[2:5]) for i in range(BATCH)}
    assert got == {(2.0, 0.25, 2.0), (2.0, 0.5, 2.0)}  # 1 + 2 / 2 from row 0; 2 from row 1


def test_without_n_there_is_no_loop():
    engine = Engine()
    with engine.building() as graph:
        counter = tf.placeholder(tf.int64, [])
        uniform(9, 1).sample(4, Stream(0, "sample"), counter)
        assert not [op for op in graph.get_operations() if "While" in op.type]
        more = uniform(9, 1, n_step=tf.constant(2), name="more")
        more.sample(4, Stream(0, "sample"), counter)
        assert [op for op in graph.get_operations() if "While" in op.type]
