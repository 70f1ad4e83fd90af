"""Reading rows out: what a slow twin remembers, whatever the ring does."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine, VariableValues
from targetnet.rl_core.errors import ScopeMismatch
from targetnet.rl_core.replay import ReplayContents
from tests.rl_core.replay.memories import named, uniform


class Ring:
    """A replay with a callable that writes, and a list that remembers everything."""

    def __init__(self, capacity, num_envs):
        self.N = num_envs
        self.engine = Engine()
        with self.engine.building():
            self.replay = uniform(capacity, num_envs, (2,), np.float32)
            feeds = [
                tf.placeholder(tf.float32, [num_envs, 2]),
                tf.placeholder(tf.int32, [num_envs]),
                tf.placeholder(tf.float32, [num_envs]),
                tf.placeholder(tf.bool, [num_envs]),
                tf.placeholder(tf.bool, [num_envs]),
            ]
            write = self.replay.write(named(*feeds))
            self.contents = ReplayContents(self.engine, self.replay)
            counters = {v.op.name: v for v in self.replay.saved_variables()}
            self.counters = VariableValues(self.engine, counters, "of this replay")
        self.engine.start()
        self._write = self.engine.callable(None, feeds, [write])
        self.rng = np.random.default_rng(0)
        self.observations, self.actions, self.outcomes = [], [], []

    def write(self, steps):
        rng, N = self.rng, self.N
        for _ in range(steps):
            observation = rng.normal(size=(N, 2)).astype(np.float32)
            action = rng.integers(0, 5, N).astype(np.int32)
            reward = rng.normal(size=N).astype(np.float32)
            terminated, autoreset = rng.random(N) < 0.2, rng.random(N) < 0.2
            self._write(observation, action, reward, terminated, autoreset)
            if self.observations:
                self.outcomes.append((reward, terminated, autoreset))
            self.observations.append(observation)
            self.actions.append(action)


@pytest.fixture(params=[(12, 1), (12, 3), (3000, 2)], ids=["1 env", "3 envs", "long"])
def ring(request):
    ring = Ring(*request.param)
    yield ring
    ring.engine.close()


def test_time_steps_are_those_that_were_written(ring):
    for steps in (1, 3, 2, 9, 40):
        ring.write(steps)
        written = len(ring.observations)
        begin = max(0, written - ring.replay.steps)
        rows = ring.contents.time_steps(begin, written)
        np.testing.assert_array_equal(rows["observation"], ring.observations[begin:])
        np.testing.assert_array_equal(rows["action"], ring.actions[begin:])
        known = ring.outcomes[begin:]
        for column, name in enumerate(("reward", "terminated", "autoreset") if known else ()):
            expected = [outcome[column] for outcome in known]
            np.testing.assert_array_equal(rows[name][: len(known)], expected)


def test_chunks_hold_everything_once_and_nothing_else(ring):
    ring.write(50)
    written = len(ring.observations)
    begin = max(0, written - ring.replay.steps)
    found = {}
    for name, array in ring.contents.chunks():
        found.setdefault(name, []).append(array)
    observations = np.concatenate(found["observation"])
    np.testing.assert_array_equal(observations, ring.observations[begin:])
    assert len(np.concatenate(found["reward"])) == len(ring.observations[begin:]) - 1
    assert found["rows_written"][0].tolist() == [written]
    (head, tail), *queue = found["queue"]
    # The queue: rows whose outcome is known and was no autoreset, those still in the ring.
    valid = []
    for step in range(begin, written - 1):
        resets = ring.outcomes[step][2]
        valid += [step % ring.replay.steps * ring.N + e for e in range(ring.N) if not resets[e]]
    assert np.concatenate(queue).tolist() == valid and tail - head == len(valid)


def test_an_empty_replay_has_nothing_but_its_counters(ring):
    assert {name: array.tolist() for name, array in ring.contents.chunks()} == {
        "rows_written": [0], "queue": [0, 0],
    }  # fmt: skip


def test_a_long_replay_comes_in_pieces(ring, monkeypatch):
    ring.write(30)
    whole = [array for name, array in ring.contents.chunks() if name == "observation"]
    ring.contents.chunk = 3
    pieces = [array for name, array in ring.contents.chunks() if name == "observation"]
    assert len(pieces) > len(whole) and max(map(len, pieces)) == 3
    np.testing.assert_array_equal(np.concatenate(pieces), np.concatenate(whole))


@pytest.mark.cases(3)
@pytest.mark.parametrize(("capacity", "num_envs"), [(12, 1), (12, 3)])
@pytest.mark.parametrize("written", [1, 3, 4, 11, 50])
def test_what_is_put_back_has_the_queue_that_the_graph_had(capacity, num_envs, written):
    """The queue is not saved: Python makes it anew, and the graph goes on with it."""
    one, other = (Ring(capacity, num_envs) for _ in range(2))
    one.write(written)
    begin = max(0, written - one.replay.steps)
    middle = (begin + written) // 2
    parts = [(at, end) for at, end in ((begin, middle), (middle, written)) if at < end]
    pieces = [(at, one.contents.time_steps(at, end)) for at, end in parts]
    counters = one.counters.read()
    other.contents.put(pieces, *(int(value.item()) for value in counters.values()))
    other.counters.load(counters)
    one.rng, other.rng = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(15):
        pairs = zip(one.contents.chunks(), other.contents.chunks(), strict=True)
        for (name, there), (same_name, back) in pairs:
            assert name == same_name
            np.testing.assert_array_equal(back, there, err_msg=name)
        one.write(1)
        other.write(1)
    one.engine.close()
    other.engine.close()


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("autoreset", np.zeros(4, np.bool_)),
        ("reward", np.zeros((4, 3), np.float64)),
        ("observation", np.zeros((4, 3, 5), np.float32)),
        ("terminated", np.zeros((3, 3), np.bool_)),
        ("action", np.zeros((4, 1), np.int32)),
    ],
)
def test_rows_of_another_form_are_refused_by_the_name_of_their_column(name, column):
    ring = Ring(12, 3)
    ring.write(4)
    rows = ring.contents.time_steps(0, 4) | {name: column}
    with pytest.raises(ScopeMismatch, match=r"not of this replay: wanted \w+ as \[\d, 3.*\] of"):
        ring.contents.put([(0, rows)], 4, 9)
    ring.engine.close()
