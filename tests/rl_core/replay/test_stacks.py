"""Stacks of frames: a row stores one, and what is learned from is what the envs showed then."""

from collections import deque

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine, Stream
from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.replay import (
    NStepTransitions,
    PrioritizedSampler,
    ReplayContents,
    ReplayMemory,
    UniformSampler,
    ValidRows,
    joined_frames,
    newest_frame,
    transition_columns,
)

FRAME = (2, 3)  # two places of three channels


def shown(steps, num_envs, stack, seed=0, ends=0.2, dtype=np.int32):
    """Yields what envs show at each time step: stacks [N, 2, 3 k], rewards, ends, resets."""
    rng = np.random.default_rng(seed)
    nothing = [np.zeros(FRAME, dtype)] * stack
    frames = [deque(nothing, stack) for _ in range(num_envs)]
    autoreset = np.ones(num_envs, bool)
    for t in range(steps):
        for env in range(num_envs):
            if autoreset[env]:
                frames[env] = deque(nothing, stack)
            number = num_envs * t + env + 1
            frames[env].append(10 * number + np.arange(6, dtype=dtype).reshape(FRAME))
        stacks = np.stack([np.concatenate(of, axis=-1) for of in frames])
        ended = (rng.random(num_envs) < ends) & ~autoreset
        terminated = ended & (rng.random(num_envs) < 0.5)
        numbers = np.arange(num_envs * t, num_envs * (t + 1), dtype=np.int32)
        yield stacks, numbers, np.float32(numbers % 5), terminated, autoreset
        autoreset = ended


class Stacks:
    """A replay of stacks in an engine of its own, and everything that was ever shown to it."""

    def __init__(self, capacity, num_envs, stack, sampler="uniform", n_step=None, dtype=np.int32):
        self.num_envs, self.stack, self.shown = num_envs, stack, []
        self.engine = Engine()
        with self.engine.building():
            rows = ValidRows(capacity, num_envs, transition_columns(FRAME, dtype), stack=stack)
            n = None if n_step is None else (lambda: tf.constant(n_step))
            items = NStepTransitions(rows, lambda: tf.constant(0.5), n)
            if sampler == "uniform":
                drawn = UniformSampler(rows)
            else:
                drawn = PrioritizedSampler(rows, lambda: tf.constant(1.0), lambda: tf.constant(1.0))
            self.memory = memory = ReplayMemory(rows, drawn, items)
            one, many = memory.placeholders([num_envs]), memory.placeholders([None, num_envs])
            write, write_steps = memory.write(one), memory.write_steps(many)
            counter = tf.placeholder(tf.int64, [])
            batch = memory.sample(64, Stream(0, "s"), counter)
            fetched = batch.s_tm1, batch.a_tm1, batch.discount_t, batch.s_t, batch.row
            counters = rows.rows_written, rows.queue_tail
            given = [tf.placeholder(tf.int64, [1]) for _ in counters]
            set_counters = [v.assign(x).op for v, x in zip(counters, given, strict=True)]
            count, read = rows.count(), [v.read_value() for v in counters]
            self.contents = ReplayContents(self.engine, memory)
        self.engine.start()
        self._write = self.engine.callable(None, [*one.values()], [write])
        self._write_steps = self.engine.callable(None, [*many.values()], [write_steps])
        self._sample = self.engine.callable(fetched, [counter])
        self.count, self.counters = self.engine.callable(count), self.engine.callable(read)
        self.set_counters = self.engine.callable(None, given, set_counters)
        self.draws = 0

    def write(self, history):
        for step in history:
            self._write(newest_frame(step[0], self.stack), *step[1:])
            self.shown.append(step)

    def write_steps(self, history):
        columns = [np.stack(of) for of in zip(*history, strict=True)]
        self._write_steps(np.ascontiguousarray(newest_frame(columns[0], self.stack)), *columns[1:])
        self.shown += history

    def valid(self):
        """Numbers of the rows, counted from the first ever, that may be sampled."""
        T, N, now = self.memory.steps, self.num_envs, len(self.shown)
        oldest = max(0, now - T + self.stack - 1)
        return {
            N * t + env
            for t in range(oldest, now - 1)
            for env in range(N)
            if not self.shown[t + 1][4][env]
        }

    def check(self, n=1):
        """Draws a batch; each of its stacks is what was shown then. Returns the rows' numbers."""
        self.draws += 1
        s_tm1, number, discount, s_t, row = self._sample(np.int64(self.draws))
        assert set(number.tolist()) <= self.valid()
        np.testing.assert_array_equal(row, number % self.memory.capacity)
        for i, source in enumerate(number.tolist()):
            t, env = divmod(source, self.num_envs)
            np.testing.assert_array_equal(s_tm1[i], self.shown[t][0][env])
            steps = self.steps_from(t, env, n)
            np.testing.assert_array_equal(s_t[i], self.shown[t + steps][0][env])
            assert discount[i] == (0 if self.shown[t + steps][3][env] else 0.5**steps)
        return set(number.tolist())

    def steps_from(self, t, env, n):
        """How many steps a transition of up to n from there has."""
        for steps in range(1, n + 1):
            newest = t + steps == len(self.shown) - 1
            if newest or self.shown[t + steps][3][env] or self.shown[t + steps + 1][4][env]:
                return steps
        return n


@pytest.fixture
def make():
    made = []

    def stacks(*args, **options):
        made.append(Stacks(*args, **options))
        return made[-1]

    yield stacks
    for of in made:
        of.engine.close()


def test_by_hand_a_stack_is_the_frames_of_its_episode_and_zeros_before_it(make):
    stacks = make(30, 1, 3)
    frame = [np.full((1, *FRAME), value, np.int32) for value in (1, 2, 3, 4, 5)]
    # Two steps, of which the second ends the episode; the reset; one step of the next episode.
    resets = [True, False, False, True, False]
    for t in range(5):
        stacks._write(
            frame[t], np.int32([t]), np.float32([0]), np.array([t == 2]), np.array([resets[t]])
        )
    s_tm1, number, _, s_t, _ = stacks._sample(np.int64(0))
    found = {
        n: (a[0, ::3].tolist(), b[0, ::3].tolist())
        for n, a, b in zip(number.tolist(), s_tm1, s_t, strict=True)
    }
    assert found == {
        0: ([0, 0, 1], [0, 1, 2]),
        1: ([0, 1, 2], [1, 2, 3]),
        3: ([0, 0, 4], [0, 4, 5]),
    }


@pytest.mark.cases(0)
@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
@pytest.mark.parametrize(
    ("capacity", "num_envs", "stack", "n"), [(40, 1, 4, 1), (60, 3, 4, 1), (40, 2, 2, 3)]
)
def test_what_is_sampled_is_what_was_shown_whatever_happens(
    make, capacity, num_envs, stack, n, sampler
):
    stacks = make(capacity, num_envs, stack, sampler, n_step=None if n == 1 else n)
    for t, step in enumerate(shown(400, num_envs, stack)):
        stacks.write([step])
        if stacks.valid() and (t < 3 * stacks.memory.steps or t % 7 == 0):
            assert stacks.count() == len(stacks.valid())
            stacks.check(n)


@pytest.mark.slow  # it takes a minute
@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
def test_over_100_000_time_steps_what_is_sampled_is_what_was_shown(make, sampler):
    stacks, checked = make(900, 3, 4, sampler, n_step=2 if sampler == "uniform" else None), 0
    for t, step in enumerate(shown(100_000, 3, 4, ends=0.05)):
        stacks.write([step])
        if t % 20 == 19:
            checked += len(stacks.check(2 if sampler == "uniform" else 1))
    assert checked > 200_000


@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
def test_all_valid_rows_are_drawn_and_no_other(make, sampler):
    stacks = make(24, 2, 3, sampler)
    stacks.write(list(shown(50, 2, 3)))
    drawn = set()
    for _ in range(20):
        drawn |= stacks.check()
    assert drawn == stacks.valid() and len(drawn) < 24 - 2 * 3 + 1


@pytest.mark.cases(0)
@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_many_time_steps_at_once_leave_what_single_ones_leave(make, num_envs, sampler):
    one, other = (make(20 * num_envs, num_envs, 4, sampler) for _ in range(2))
    history = list(shown(120, num_envs, 4))
    sizes, begin = [1, 2, one.memory.rows.most_at_once, 5, 3, 9], 0
    assert sizes[2] == 16
    for size in sizes * 3:
        one.write(history[begin : begin + size])
        other.write_steps(history[begin : begin + size])
        begin += size
        for (name, a), (other_name, b) in zip(
            one.contents.chunks(), other.contents.chunks(), strict=True
        ):
            assert name == other_name
            np.testing.assert_array_equal(a, b)
        if one.valid():
            one.check(), other.check()
    kept = [[of.engine.run(v) for v in of.memory.sampler.kept_variables()] for of in (one, other)]
    for a, b in zip(*kept, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.thorough
def test_read_out_and_put_back_the_stacks_are_the_same(make):
    one, other = make(20, 2, 4), make(20, 2, 4)
    one.write(list(shown(37, 2, 4)))
    other.write(list(shown(37, 2, 4, seed=5)))
    written, tail = one.counters()
    other.contents.put([(27, one.contents.time_steps(27, 37))], 37, tail.item())
    other.set_counters(written, tail)
    other.shown = one.shown
    assert other.count() == one.count()
    for _ in range(5):
        assert other.check() == one.check()


def test_put_back_before_the_ring_is_full_the_first_episode_begins(make):
    """Whatever the memory held before: here, an episode that goes on over the ring's end."""
    one, other = make(30, 1, 3), make(30, 1, 3)
    one.write(shown(10, 1, 3))
    other.write(shown(35, 1, 3, seed=1, ends=0.0))
    _, tail = one.counters()
    other.contents.put([(0, one.contents.time_steps(0, 10))], 10, tail.item())
    other.set_counters(*one.counters())
    for draw in range(4):
        for a, b in zip(one._sample(np.int64(draw)), other._sample(np.int64(draw)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_frames_need_a_quarter_of_what_stacks_need():
    with Engine().building():
        rows = ValidRows(100_000, 1, transition_columns((84, 84, 1), np.uint8), stack=4)
        whole = ValidRows(100_000, 1, transition_columns((84, 84, 4), np.uint8), name="whole")
    assert rows.nbytes < 0.71e9 and whole.nbytes > 2.82e9


def test_a_replay_has_room_for_the_frames_of_one_transition():
    with Engine().building():
        ValidRows(6, 1, transition_columns(FRAME, np.int32), stack=4)
        said = "2 envs, with stacks of 4 frames, needs a capacity of at least 12 rows, got 11"
        with pytest.raises(ConfigError, match=said):
            ValidRows(11, 2, transition_columns(FRAME, np.int32), stack=4, name="more")


def test_frames_lie_side_by_side_oldest_first():
    engine = Engine()
    with engine.building():
        frames = tf.constant(np.arange(2 * 3 * 2 * 2, dtype=np.int32).reshape(2, 3, 2, 2))
        joined = joined_frames(frames)
    engine.start()
    found = engine.run(joined)
    assert found.shape == (2, 2, 6)
    assert found[0].tolist() == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]]
    np.testing.assert_array_equal(newest_frame(found, 3)[0], [[8, 9], [10, 11]])
    engine.close()
