"""The replay against a slow obvious twin that keeps every row it was ever given.

Everything a row holds is made from its number, so a sampled transition can be recognised.
"""

import collections
import itertools
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.errors import MemoryLimitError
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.random import Stream
from targetnet.rl_core.replay import check_memory, format_bytes
from tests.rl_core.replay.memories import named, uniform

ROOT = Path(__file__).parents[3]
FALSE, TRUE = np.array([False]), np.array([True])
Batch = collections.namedtuple("Batch", "s_tm1 a_tm1 r_t terminated s_t")


class Replay:
    """A uniform replay in an engine of its own, fed and sampled by hand.

    Its rows begin as memory that was used for something else before, as they may.
    """

    def __init__(self, capacity, num_envs=1, batch=64, shape=(), dtype=np.int32, seed=0):
        self.engine = Engine()
        with self.engine.building():
            self.replay = uniform(capacity, num_envs, shape, dtype)
            row = [num_envs]
            feeds = [
                tf.placeholder(dtype, row + list(shape)),
                tf.placeholder(tf.int32, row),
                tf.placeholder(tf.float32, row),
                tf.placeholder(tf.bool, row),
                tf.placeholder(tf.bool, row),
            ]
            written = self.replay.write(named(*feeds))
            counter = tf.placeholder(tf.int64, [])
            batch = self.replay.sample(batch, Stream(seed, "replay"), counter)
            batch = batch[:5]
            queue = self.replay.rows.queue()
        self.engine.start()
        self._use_memory_for_something_else()
        self.write = self.engine.callable(None, feeds, targets=[written])
        self._sample = self.engine.callable(batch, [counter])
        self.queue = self.engine.callable(queue)
        self.draws = 0

    def _use_memory_for_something_else(self):
        with self.engine.graph.as_default():
            for variable in tf.global_variables():
                if variable.initial_value.op.type == "Empty":
                    dtype = variable.dtype.as_numpy_dtype
                    variable.load(np.full(variable.shape, 77, dtype), self.engine.session)

    def sample(self, counter):
        """A batch: s_tm1, a_tm1, r_t, terminated, s_t."""
        s_tm1, a_tm1, r_t, discount_t, s_t = self._sample(counter)
        assert set(discount_t.tolist()) <= {0.0, 0.5}
        return Batch(s_tm1, a_tm1, r_t, discount_t == 0, s_t)

    def draw(self):
        """The next batch, as a list of (s_tm1, a_tm1, r_t, terminated, s_t)."""
        self.draws += 1
        batch = self.sample(np.int64(self.draws))
        return list(zip(*(part.tolist() for part in batch), strict=True))

    def put(self, observation, terminated=False, autoreset=False):
        """One row of one env: the action on row n is n % 7, the reward for reaching it n / 2."""
        self.write(*row([observation], [terminated], [autoreset]))


class Twin:
    """Keeps everything; says which transitions may be sampled."""

    def __init__(self, capacity, num_envs):
        self.time_steps = capacity // num_envs
        self.rows = []

    def write(self, *row):
        self.rows.append(row)

    def valid(self):
        kept = self.rows[-self.time_steps :]
        found = set()
        for now, then in itertools.pairwise(kept):
            for env in range(len(now[0])):
                observation, action, _, _, _ = (part[env].item() for part in now)
                next_observation, _, reward, terminated, autoreset = (p[env].item() for p in then)
                if not autoreset:
                    found.add((observation, action, reward, terminated, next_observation))
        return found


def row(numbers, terminated, autoreset):
    numbers = np.int32(numbers)
    return (
        numbers,
        numbers % 7,
        np.float32(numbers) / 2,
        np.array(terminated, bool),
        np.array(autoreset, bool),
    )


def random_rows(steps, num_envs, seed):
    """Rows as envs make them: an end is followed by a reset, and some ends are truncations."""
    rng = np.random.default_rng(seed)
    autoreset = np.ones(num_envs, bool)
    for t in range(steps):
        ended = (rng.random(num_envs) < 0.3) & ~autoreset
        terminated = ended & (rng.random(num_envs) < 0.5)
        yield row(num_envs * t + np.arange(num_envs), terminated, autoreset)
        autoreset = ended


def rows_of_any_kind(steps, num_envs, seed):
    """Also what no env does: resets upon resets, and a first row that is no reset."""
    rng = np.random.default_rng(seed)
    for t in range(steps):
        flags = rng.random((2, num_envs)) < rng.choice([0.1, 0.5, 0.9])
        yield row(num_envs * t + np.arange(num_envs), *flags)


@pytest.mark.cases(5)
@pytest.mark.parametrize("source", [random_rows, rows_of_any_kind])
@pytest.mark.parametrize(
    ("capacity", "num_envs"), [(3, 1), (4, 1), (11, 1), (9, 3), (10, 3), (17, 3), (25, 8)]
)
def test_what_is_sampled_is_exactly_what_a_slow_twin_says_is_valid(source, capacity, num_envs):
    fast = Replay(capacity, num_envs, batch=256)
    twin = Twin(capacity, num_envs)
    for new in source(400, num_envs, seed=capacity):
        fast.write(*new)
        twin.write(*new)
        valid = twin.valid()
        head, tail = fast.queue()
        assert tail - head == len(valid)
        if not valid:
            continue
        # Missing one of V rows in 256 draws is likely at V = 20, so draw until it is not.
        drawn = set(fast.draw())
        while valid - drawn and fast.draws < 100_000:
            drawn |= set(fast.draw())
        assert drawn == valid


def test_the_first_row_makes_no_transition_out_of_nothing():
    """Whatever its flags say: there is no row before it."""
    for autoreset in (False, True):
        replay = Replay(5)
        replay.put(10, autoreset=autoreset)
        head, tail = replay.queue()
        assert head == tail
        replay.put(11)
        assert set(replay.draw()) == {(10, 3, 5.5, False, 11)}  # 10 % 7, 11 / 2


def test_the_queue_of_an_empty_replay_is_empty_whatever_was_in_its_memory():
    for num_envs in (1, 3):
        head, tail = Replay(9, num_envs).queue()
        assert head == tail


def test_a_transition_is_known_as_soon_as_its_next_row_is_written():
    replay = Replay(5)
    replay.put(0, autoreset=True)
    replay.put(1)
    assert set(replay.draw()) == {(0, 0, 0.5, False, 1)}
    replay.put(2, terminated=True)
    assert set(replay.draw()) == {(0, 0, 0.5, False, 1), (1, 1, 1.0, True, 2)}


def test_a_truncated_step_leads_to_the_true_final_observation_and_is_not_terminated():
    replay = Replay(9)
    replay.put(0, autoreset=True)
    replay.put(1)
    replay.put(2)  # truncated here: 2 is the final observation
    replay.put(3, autoreset=True)  # the next episode
    replay.put(4)
    assert set(replay.draw()) == {
        (0, 0, 0.5, False, 1),
        (1, 1, 1.0, False, 2),
        (3, 3, 2.0, False, 4),
    }


def test_the_step_from_a_final_observation_to_a_reset_is_never_sampled():
    replay = Replay(9, batch=1000)
    replay.put(0, autoreset=True)
    replay.put(1, terminated=True)
    replay.put(2, autoreset=True)
    replay.put(3, terminated=True)
    assert {(s, s_next) for s, _, _, _, s_next in replay.draw()} == {(0, 1), (2, 3)}


def test_envs_end_their_episodes_at_different_times():
    replay = Replay(12, num_envs=2)
    replay.write(*row([0, 10], [False, False], [True, True]))
    replay.write(*row([1, 11], [True, False], [False, False]))
    replay.write(*row([2, 12], [False, True], [True, False]))
    replay.write(*row([3, 13], [False, False], [False, True]))
    assert {(s, s_next, end) for s, _, _, end, s_next in replay.draw()} == {
        (0, 1, True),
        (2, 3, False),
        (10, 11, False),
        (11, 12, True),
    }


def test_nothing_is_sampled_across_the_place_where_the_ring_is_written_next():
    replay = Replay(4, batch=1000)
    for number in range(30):
        replay.put(number)
        if number:
            pairs = {(s, s_next) for s, _, _, _, s_next in replay.draw()}
            assert pairs == {(n, n + 1) for n in range(max(0, number - 3), number)}


def test_one_valid_row_fills_a_whole_batch():
    replay = Replay(5, batch=64)
    replay.put(0, autoreset=True)
    replay.put(1)
    replay.put(2, autoreset=True)
    assert replay.draw() == [(0, 0, 0.5, False, 1)] * 64


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_a_batch_has_exactly_the_rows_asked_for(batch):
    replay = Replay(9, 3, batch=batch)
    for new in random_rows(20, 3, seed=0):
        replay.write(*new)
    assert len(replay.draw()) == batch


def test_sampling_is_uniform_over_valid_rows():
    replay = Replay(14, batch=1000)
    twin = Twin(14, 1)
    for new in random_rows(40, 1, seed=5):
        replay.write(*new)
        twin.write(*new)
    valid = sorted(twin.valid())
    assert 5 < len(valid) < 13  # some of the 13 steps held are pseudo-steps
    counts = dict.fromkeys(valid, 0)
    for _ in range(20):
        for transition in replay.draw():
            counts[transition] += 1
    expected = 20_000 / len(valid)
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    assert statistic < 32.9  # 99.9 % of chi-square with 12 degrees of freedom, or fewer


def test_the_same_counter_gives_the_same_batch_and_another_one_another():
    replay = Replay(100)
    for new in random_rows(200, 1, seed=0):
        replay.write(*new)
    first, again, other = (
        np.stack([part.astype(np.float64) for part in replay.sample(np.int64(c))])
        for c in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_another_seed_gives_another_batch():
    batches = []
    for seed in (1, 2):
        replay = Replay(100, seed=seed)
        for new in random_rows(200, 1, seed=0):
            replay.write(*new)
        batches.append(replay.draw())
    assert batches[0] != batches[1]


def test_a_capacity_is_rounded_down_to_whole_time_steps():
    replay = Replay(11, num_envs=3, batch=1000)
    assert replay.replay.capacity == 9
    for new in rows_with_no_end(20, 3):
        replay.write(*new)
    # Three time steps of three rows; the newest is pending, so two of three are whole.
    assert len(set(replay.draw())) == 6


def rows_with_no_end(steps, num_envs):
    none = np.zeros(num_envs, bool)
    for t in range(steps):
        yield row(num_envs * t + np.arange(num_envs), none, none)


@pytest.mark.parametrize(("capacity", "num_envs"), [(0, 1), (2, 1), (8, 3), (-5, 1), (23, 8)])
def test_a_capacity_of_fewer_than_three_time_steps_is_refused(capacity, num_envs):
    with Engine().building(), pytest.raises(ValueError, match=rf"{capacity}\b"):
        uniform(capacity, num_envs, (4,), np.float32)


@pytest.mark.parametrize(("capacity", "num_envs"), [(3, 1), (9, 3)])
def test_a_capacity_of_three_time_steps_will_do(capacity, num_envs):
    with Engine().building():
        assert uniform(capacity, num_envs, (4,), np.float32).capacity == capacity


def test_more_memory_than_there_is_is_refused_with_the_numbers():
    # 10**9 rows of 10**6 floats of 4 bytes: 4e15 bytes, which is 4 PB.
    with Engine().building(), pytest.raises(MemoryLimitError) as caught:
        uniform(10**9, 1, (10**6,), np.float32)
    message = str(caught.value)
    assert "\n" not in message
    assert "1,000,000,000" in message or "1000000000" in message
    assert (
        "4e+03 TB" in message or "4,000 TB" in message or "4.00 PB" in message or "4 PB" in message
    )


def test_memory_up_to_the_limit_is_allowed_and_a_byte_more_is_not():
    check_memory(1000, "10 rows", limit=1000)
    with pytest.raises(MemoryLimitError, match=r"10 rows.*1 kB") as caught:
        check_memory(2_500, "10 rows", limit=1000)
    assert "2.5 kB" in str(caught.value)
    with pytest.raises(MemoryLimitError):
        check_memory(1001, "10 rows", limit=1000)


@pytest.mark.parametrize(
    ("count", "text"),
    [(999, "999 B"), (1_500, "1.5 kB"), (1_500_000_000, "1.5 GB"), (123_400_000, "123 MB")],
)
def test_bytes_read_in_decimal_units(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.float32])
def test_observations_are_kept_in_their_dtype(dtype):
    replay = Replay(5, shape=(2, 2), dtype=dtype)
    first, second = np.array([[[[0, 1], [1, 1]]], [[[1, 0], [0, 1]]]]).astype(dtype)
    for observation, autoreset in [(first, TRUE), (second, FALSE)]:
        replay.write(observation, np.int32([0]), np.float32([0]), FALSE, autoreset)
    batch = replay.sample(np.int64(0))
    assert batch.s_tm1.dtype == batch.s_t.dtype == dtype
    np.testing.assert_array_equal(batch.s_tm1[0], first[0])
    np.testing.assert_array_equal(batch.s_t[0], second[0])


def test_bytes_take_a_quarter_of_the_memory_of_floats():
    def nbytes(dtype):
        with Engine().building():
            return uniform(1000, 1, (100,), dtype).nbytes

    assert nbytes(np.float32) - nbytes(np.uint8) == 1000 * 100 * 3
    assert nbytes(np.uint8) < 1000 * (100 + 30)


@pytest.mark.parametrize(
    ("capacity", "shape", "dtype"),
    [(1_000_000, (4,), np.float32), (1_000_000, (100, 100), np.uint8)],
    ids=["CartPole", "10 GB of pixels"],
)
def test_a_replay_knows_its_size_and_may_be_named(capacity, shape, dtype):
    with Engine().building():
        replay = uniform(capacity, 1, shape, dtype, name="other")
        names = [v.op.name for v in tf.global_variables()]
    assert replay.nbytes >= capacity * np.prod(shape) * np.dtype(dtype).itemsize
    assert names and all(name.startswith("other/") for name in names)


def test_two_replays_may_share_a_graph():
    engine = Engine()
    with engine.building():
        first = uniform(9, 1, (), np.int32, name="a")
        second = uniform(9, 1, (), np.int32, name="b")
        new = [tf.constant([5]), tf.constant([0]), tf.constant([0.0])]
        written = first.write(named(*new, tf.constant([False]), tf.constant([False])))
    engine.start()
    engine.callable(None, targets=[written])()
    assert engine.run([memory.rows.rows_written for memory in (first, second)]) == [1, 0]


COMMITTED = """
    import sys
    import numpy as np, tensorflow.compat.v1 as tf
    from targetnet.rl_core.graph.engine import Engine
    from tests.rl_core.replay.memories import named, uniform

    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

    def started(*sizes):
        engine = Engine()
        with engine.building():
            replay = uniform(*sizes)
            written = replay.write(named(
                tf.zeros([1, *sizes[2]], sizes[3]), tf.constant([0]), tf.constant([0.0]),
                tf.constant([False]), tf.constant([False])))
        engine.start()
        write = engine.callable(None, targets=[written])
        write()
        return replay, write, engine

    started(10, 1, (4,), np.float32)  # what TensorFlow itself needs, once
    before = resident()
    small = started(1_000_000, 1, (4,), np.float32)
    large = started(1_000_000, 1, (50, 100), np.uint8)
    after = resident()
    for _ in range(10_000):
        large[1]()
    print(large[0].nbytes / 1e6, after - before, resident() - after)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_memory_is_committed_before_rows_are_written():
    code = textwrap.dedent(COMMITTED)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    needed, at_start, after_rows = map(float, done.stdout.split())
    assert needed > 5_000  # MB
    assert at_start < 20
    assert 40 < after_rows < 80  # 10,000 rows of 5,000 bytes: 50 MB
