"""Prioritized replay against plain arrays from which everything is computed anew."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Stream, fused_updates
from tests.rl_core.replay.memories import prioritized, uniform

BATCH = 32
UNIT = 2.0**-20


def fed(*args, **options):
    """A prioritized replay whose two exponents are fed."""
    exponents = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    replay = prioritized(*args, alpha=exponents[0], beta=exponents[1], **options)
    replay.exponents = exponents
    return replay


def calls(replay):
    """`draw` samples; `learn` samples and updates, `loop` does so often, compiled or not."""
    counter, row = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [BATCH])
    alpha, beta = replay.exponents
    priority, count = tf.placeholder(tf.float32, [BATCH]), tf.placeholder(tf.int32, [])
    stream = Stream(0, "sample")
    updates = tf.get_variable("updates", [], tf.int64, tf.zeros_initializer(), trainable=False)

    def draw(counter):
        batch = replay.sample(BATCH, stream, counter)
        return [batch.s_tm1, batch.s_t, batch.row, batch.weight]

    def update(carried):
        now = updates.read_value()
        batch = draw(now)
        # A TD error as good as any: another one each time, far apart, of either sign.
        error = tf.cast((batch[2] * 7919 + now * 104_729) % 1009 - 500, tf.float32) / 100
        with tf.control_dependencies(batch):
            changed = replay.update_priorities(batch[2], error)
        with tf.control_dependencies(changed):
            return batch, carried, updates.assign_add(1, read_value=False), None

    drawn = draw(counter)
    like = [tf.zeros(part.shape, part.dtype) for part in drawn]
    feeds = [count, alpha, beta]
    state = [v.read_value() for v in (*replay.sampler.kept_variables(), replay.sampler._tree._sums)]
    return {
        "_draw": (drawn, [counter, alpha, beta]),
        "_update": (None, [row, priority], replay.update_priorities(row, priority)),
        "_plain": (fused_updates(update, count, like, compiled=False), feeds),
        "_compiled": (fused_updates(update, count, like), feeds),
        "_rebuild": (None, [], [replay.sampler.rebuild()]),
        "_state": (state,),
    }


class Prioritized:
    """A ring and the arrays it should be made of."""

    def __init__(self, ring):
        self.ring, self.largest, self.draws = ring, 1.0, 0
        self.p = np.zeros(ring.replay.capacity, np.float32)

    def write(self, terminated, autoreset):
        ring, N = self.ring, self.ring.replay.rows.num_envs
        before = ring.valid()
        ring.write(terminated, autoreset)
        after = ring.valid()
        self.p[[*(before.keys() - after.keys())]] = 0
        self.p[[*(after.keys() - before.keys())]] = self.largest
        newest = (len(ring.rows) - 1) % ring.replay.steps * N
        assert not self.p[newest : newest + N].any()

    def draw(self, alpha, beta=0.5):
        self.draws += 1
        return self.ring._draw(np.int64(self.draws), np.float32(alpha), np.float32(beta))

    def update(self, rows, errors):
        self.ring._update(rows, errors)
        new = {}
        for row, error in zip(rows, errors, strict=True):
            if self.p[row] > 0:
                new[row] = max(new.get(row, 0), np.abs(error) + np.float32(1e-6))
        for row, value in new.items():
            self.p[row] = value
        self.largest = max([self.largest, *new.values()])

    def probabilities(self, alpha):
        powers = np.where(self.p > 0, self.p.astype(np.float64) ** alpha, 0)
        return powers / powers.sum()

    def weights(self, rows, alpha, beta):
        n = np.count_nonzero(self.p)
        every = (n * self.probabilities(alpha)[rows]) ** -beta
        return every / every.max()

    def check(self, alpha):
        priority, largest, of, leaves, sums = self.ring._state()
        np.testing.assert_array_equal(priority, self.p)
        assert set(np.flatnonzero(self.p)) == self.ring.valid().keys()
        assert largest == np.float32(self.largest) and of == np.float32(alpha)
        leaf = leaves.reshape(-1)[: len(self.p)]
        wanted = np.where(self.p > 0, self.p.astype(np.float64) ** alpha, 0) / UNIT
        np.testing.assert_allclose(leaf, wanted, rtol=1e-6, atol=1)  # in whole units
        assert ((leaf > 0) == (self.p > 0)).all()
        # Of the lowest level of sums; what the others are made of is SumTree's own test.
        rows = sums[self.ring.replay.sampler._tree._begins[0] :]
        blocks = np.diff(rows, axis=1, prepend=0).reshape(-1)
        np.testing.assert_array_equal(blocks[: len(leaves)], leaves.sum(axis=1, dtype=np.float64))


# The smallest and the largest in the slow run: the tree's own test has all depths.
@pytest.fixture(
    scope="module",
    params=[
        pytest.param((11, 1), marks=pytest.mark.slow),
        (20, 3),
        (400, 1),
        pytest.param((5000, 3), marks=pytest.mark.slow),
    ],
)
def large_or_small(request, make_ring):
    return make_ring(*request.param, calls, fed)


@pytest.fixture(scope="module")
def ring(make_ring):
    return make_ring(40, 2, calls, fed)


@pytest.fixture
def twin(ring, make_episodes):
    """Forty rows of two envs, some of them resets."""
    ring.restart()
    twin = Prioritized(ring)
    for flags in make_episodes(33, 2, np.random.default_rng(0)):
        twin.write(*flags)
    return twin


def four_rows(ring, priorities):
    """A twin of two envs whose only valid rows are the first four, of these priorities."""
    ring.restart()
    twin = Prioritized(ring)
    for _ in range(3):
        twin.write([False] * 2, [False] * 2)
    assert [*ring.valid()] == [0, 1, 2, 3]
    rows = np.resize(np.arange(4), BATCH)
    twin.update(rows, np.float32(priorities)[rows])
    return twin


@pytest.mark.cases(0, 2)
def test_ten_thousand_random_operations_leave_what_a_slow_twin_has(large_or_small, make_episodes):
    ring = large_or_small
    ring.restart()
    twin, rng = Prioritized(ring), np.random.default_rng(0)
    flags = make_episodes(10**9, ring.replay.rows.num_envs, rng, ends=0.2)
    alpha = 1.0
    for operation in range(2_500):  # times four rings
        choice = rng.random()
        if choice < 0.5 or not ring.valid():
            twin.write(*next(flags))
        elif choice < 0.95:
            beta = rng.random()
            s_tm1, s_t, rows, weight = twin.draw(alpha, beta)
            valid = ring.valid()
            for source, destination, row in zip(s_tm1, s_t, rows, strict=True):
                t, env = valid[row]
                assert source == ring.rows[t][0][env] and destination == ring.rows[t + 1][0][env]
            wanted = twin.weights(rows, alpha, beta)
            np.testing.assert_allclose(weight, wanted, rtol=2e-3)  # leaves are whole units
            twin.update(rows, np.float32(rng.normal(size=BATCH) * 10 ** rng.uniform(-3, 3)))
        else:
            alpha = rng.choice([0.0, 0.4, 0.7, 1.0])
            twin.draw(alpha)
        if operation % 25 == 0:
            twin.check(alpha)
    twin.check(alpha)


@pytest.mark.thorough
def test_rows_are_sampled_with_the_twins_probabilities(twin):
    rng = np.random.default_rng(1)
    twin.update(twin.draw(0.7)[2], np.float32(rng.uniform(0, 3, BATCH)))
    counts = np.zeros(len(twin.p))
    for _ in range(2_000):
        np.add.at(counts, twin.draw(0.7)[2], 1)
    expected = twin.probabilities(0.7) * 2_000 * BATCH
    at = expected > 0
    assert 20 < at.sum() < 40 and not counts[~at].any()
    statistic = ((counts - expected)[at] ** 2 / expected[at]).sum()
    assert statistic < 72.1  # 99.9 % with 39 degrees of freedom, or fewer


# p        alpha  leaf = p ** alpha     beta   (smallest leaf / leaf) ** beta
WEIGHTS = [
    ([1, 1, 1, 1], 1.0, 1.0, [1, 1, 1, 1]),
    ([1, 4, 2, 8], 1.0, 1.0, [1, 1 / 4, 1 / 2, 1 / 8]),
    ([1, 4, 16, 64], 0.5, 1.0, [1, 1 / 2, 1 / 4, 1 / 8]),  # leaves 1, 2, 4, 8
    ([1, 4, 16, 64], 0.5, 0.5, [1, 2**-0.5, 1 / 2, 8**-0.5]),
    ([1, 4, 16, 64], 1.0, 0.0, [1, 1, 1, 1]),  # nothing is taken back
    ([1, 4, 16, 64], 0.0, 1.0, [1, 1, 1, 1]),  # uniform
]


@pytest.mark.parametrize(("priorities", "alpha", "beta", "weights"), WEIGHTS)
def test_weights_of_four_rows_by_hand(ring, priorities, alpha, beta, weights):
    twin = four_rows(ring, priorities)
    found = {}
    for _ in range(20):
        _, _, rows, weight = twin.draw(alpha, beta)
        if 0 in rows:
            found |= dict(zip(rows.tolist(), weight.tolist(), strict=True))
    np.testing.assert_allclose([found[row] for row in range(4)], weights, rtol=1e-5)


def test_importance_weights_not_normalised(ring):
    """A known bug of others: weights above 1 scale the step up. Here the largest is 1, always."""
    twin = four_rows(ring, [1e-4, 1e-2, 1, 100])
    for alpha in (0.0, 0.6, 1.0):
        for beta in (0.0, 0.4, 1.0):
            weight = twin.draw(alpha, beta)[3]
            assert weight.max() == 1 and (weight > 0).all()


def test_a_new_row_enters_with_the_largest_priority_ever_seen(ring):
    twin = four_rows(ring, [0.5, 0.5, 0.5, 0.5])
    twin.write([False] * 2, [False] * 2)
    assert ring._state()[0][4:6].tolist() == [1, 1]  # as in the beginning
    twin.update(np.resize(np.arange(4), BATCH), np.full(BATCH, -7, np.float32))
    twin.update(np.resize(np.arange(4), BATCH), np.full(BATCH, 2, np.float32))
    twin.write([False] * 2, [False] * 2)
    assert ring._state()[0][:8].tolist() == pytest.approx([2, 2, 2, 2, 1, 1, 7, 7], rel=1e-6)


def test_an_error_of_zero_does_not_make_a_row_vanish(ring):
    twin = four_rows(ring, [0, 0, 0, 0])
    assert ring._state()[0][:4].tolist() == pytest.approx([1e-6] * 4)
    for alpha in (0.0, 1.0, 3.0):  # 1e-18 is less than a unit, and still a leaf
        assert set(twin.draw(alpha)[2].tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("error", [np.nan, np.inf, -np.inf])
def test_an_error_that_is_not_finite_counts_as_the_largest_priority_so_far(twin, error):
    rows = twin.draw(1.0)[2]
    before = twin.ring._state()[1]
    errors = np.ones(BATCH, np.float32)
    errors[rows == rows[0]] = error
    twin.ring._update(rows, errors)
    priority, largest, _, leaf, sums = twin.ring._state()
    assert np.isfinite(leaf).all() and np.isfinite(sums).all()
    assert largest == max(before, np.float32(1 + 1e-6))
    assert priority[rows[0]] == before
    assert leaf.reshape(-1)[rows[0]] == np.round(before * 2**20)
    assert set(twin.draw(1.0)[2]) <= twin.ring.valid().keys()


@pytest.mark.thorough
def test_without_leave_no_priority_changes(make_ring):
    """Rows occur twice, and the leaves are of another power than plain operations would make."""

    def with_leave(replay):
        row, new = tf.placeholder(tf.int64, [BATCH]), tf.placeholder(tf.float32, [BATCH])
        allowed = tf.placeholder(tf.bool, [])
        update = replay.update_priorities(row, new, allowed)
        leaf = replay.sampler.leaf
        raised = leaf.assign(leaf.read_value() * 3)
        return calls(replay) | {
            "_update_if": (None, [row, new, allowed], update),
            "_raise": (None, [], [raised]),
        }

    ring = make_ring(20, 2, with_leave, fed)
    four_rows(ring, [1, 2, 3, 4])
    ring._raise()
    ring._rebuild()
    before = ring._state()
    rows = np.int64(np.resize([0, 1, 1, 2, 7], BATCH))
    for error in (5.0, np.nan, np.inf):
        ring._update_if(rows, np.full(BATCH, error, np.float32), np.False_)
        assert all(map(np.array_equal, ring._state(), before))
    ring._update_if(rows, np.full(BATCH, 5, np.float32), np.True_)
    assert ring._state()[0][:4].tolist() == pytest.approx([5, 5, 5, 4])


@pytest.mark.thorough
def test_priorities_of_an_old_checkpoint_that_are_not_finite_become_the_largest_that_is(make_ring):
    def with_loads(replay):
        kept = replay.sampler.priority, replay.sampler.max_priority
        of = [tf.placeholder(tf.float32, v.shape) for v in kept]
        loads = [v.assign(value) for v, value in zip(kept, of, strict=True)]
        return calls(replay) | {"_load": (None, of, loads)}

    ring = make_ring(20, 2, with_loads, fed)
    twin = four_rows(ring, [1, 2, 3, 4])
    priority, largest, *_ = ring._state()
    priority = priority.copy()
    priority[1] = np.inf
    ring._load(priority, np.float32(np.inf))
    ring._rebuild()
    priority, largest, _, leaf, sums = ring._state()
    assert priority[:4].tolist() == pytest.approx([1, 4, 3, 4]) and largest == priority[3]
    assert leaf.reshape(-1)[1] == leaf.reshape(-1)[3] and np.isfinite(sums).all()
    twin.p[1], twin.largest = priority[1], largest
    twin.draw(1.0)
    twin.check(1.0)


def test_of_a_row_that_occurs_twice_the_larger_priority_stays(ring):
    twin = four_rows(ring, [1, 1, 1, 1])
    for errors in ([3.0, -5.0], [-5.0, 3.0], [5.0, 5.0]):
        twin.update(np.zeros(BATCH, np.int64), np.float32(np.resize(errors, BATCH)))
        assert ring._state()[0][0] == pytest.approx(5)


def test_a_row_that_was_overwritten_meanwhile_is_left_alone(twin):
    """Its number is that of the newest row now, or of a reset."""
    for _ in range(60):
        rows = twin.draw(0.6)[2]
        for _ in range(5):
            twin.write([False] * 2, [True, False])
        twin.update(rows, np.full(BATCH, 9, np.float32))
        twin.draw(0.6)
        twin.check(0.6)


@pytest.mark.cases(0)
@pytest.mark.parametrize("loop", ["_plain", pytest.param("_compiled", marks=pytest.mark.slow)])
def test_saved_and_restored_it_draws_the_same(make_ring, make_episodes, loop):
    def with_contents(replay):
        made = calls(replay)
        kept = replay.saved_variables()
        values = [tf.placeholder(v.dtype, v.shape) for v in kept]
        loads = [v.assign(value) for v, value in zip(kept, values, strict=True)]
        return made | {
            "load": (None, values, loads),
            "saved": ([v.read_value() for v in kept],),
        }

    one, other = (make_ring(900, 3, with_contents, fed) for _ in range(2))
    for flags in make_episodes(400, 3, np.random.default_rng(0)):
        one.write(*flags)
    for alpha in (0.4, 0.7):
        getattr(one, loop)(np.int32(60), np.float32(alpha), np.float32(1))
    for row in one.rows:
        other.write(*row[3:], reward=row[2])
    other.load(*[np.array(value) for value in one.saved()])
    other._rebuild()
    for now, then in zip(other._state(), one._state(), strict=True):
        np.testing.assert_array_equal(now, then)
    for counter in range(20):
        key = np.int64(counter), np.float32(0.7), np.float32(0.4)
        for now, then in zip(other._draw(*key), one._draw(*key), strict=True):
            np.testing.assert_array_equal(now, then)


@pytest.mark.slow  # in the default run the tree alone is compared so
def test_compiled_and_plain_updates_draw_the_same_rows(make_ring, make_episodes):
    rings = [make_ring(900, 3, calls, fed) for _ in range(2)]
    for alpha in (0.6, 0.5):
        for ring in rings:
            for flags in make_episodes(350, 3, np.random.default_rng(0)):
                ring.write(*flags)
        for _ in range(40):
            key = np.int32(2), np.float32(alpha), np.float32(0.4)
            plain, compiled = rings[0]._plain(*key), rings[1]._compiled(*key)
            for one, other in zip(plain[:3], compiled[:3], strict=True):
                np.testing.assert_array_equal(one, other)
            np.testing.assert_allclose(plain[3], compiled[3], rtol=1e-5)
        for one, other in zip(rings[0]._state(), rings[1]._state(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1)


@pytest.mark.thorough
def test_two_runs_are_the_same_bit_for_bit(ring, make_episodes):
    """Also where most of a batch is one row."""
    ends = []
    for _ in range(2):
        ring.restart()
        for flags in make_episodes(20, 2, np.random.default_rng(3)):
            ring.write(*flags)
        for _ in range(20):
            ring._compiled(np.int32(5), np.float32(0.9), np.float32(0.4))
        ends.append(ring._state())
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)


def test_alpha_of_zero_is_uniform_over_valid_rows(twin):
    twin.update(twin.draw(0.6)[2], np.float32(np.arange(BATCH)))
    twin.draw(0.0)
    leaf = twin.ring._state()[3].reshape(-1)
    assert set(leaf[: len(twin.p)][twin.p > 0].tolist()) == {1 / UNIT}
    assert not leaf[: len(twin.p)][twin.p == 0].any()


def test_its_memory_is_counted():
    with tf.Graph().as_default(), tf.variable_scope("x", use_resource=True):
        plain = uniform(100_000, 1, (4,), np.float32, name="plain")
        replay = prioritized(100_000, 1, (4,), np.float32)
        held = sum(
            v.shape.num_elements() * v.dtype.size
            for v in tf.global_variables()
            if replay.owns(v) and v not in replay.saved_variables()[:2]
        )
        names = {v.op.name for v in tf.global_variables() if replay.owns(v)}
    assert replay.nbytes == held
    assert 800_000 < replay.nbytes - plain.nbytes < 900_000  # 8.5 bytes a row
    assert {"x/replay/priority", "x/replay/leaf", "x/replay/sums"} <= names


def test_a_uniform_replay_has_nothing_of_its_own_to_keep():
    with tf.Graph().as_default(), tf.variable_scope("x", use_resource=True):
        sampler = uniform(9, 1).sampler
    assert sampler.kept_variables() == [] and sampler.rebuild() is None
