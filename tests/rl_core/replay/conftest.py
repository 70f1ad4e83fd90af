"""Replays with a slow twin beside them that keeps every row it was ever given."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine
from tests.rl_core.replay.memories import named, uniform


class Ring:
    """A replay in an engine of its own, and what was written into it.

    An observation is the row's number, `num_envs * t + env` of the history.

    Args:
      build: function of the replay that returns {name: (fetches, feeds, targets)}; each becomes
        an attribute that can be called.
      kind: of replay.
    """

    def __init__(self, capacity, num_envs, build, kind=uniform, **options):
        self.engine = Engine()
        with self.engine.building():
            self.replay = kind(capacity, num_envs, (), np.int32, **options)
            types = (tf.int32, tf.int32, tf.float32, tf.bool, tf.bool)
            feeds = [tf.placeholder(dtype, [num_envs]) for dtype in types]
            written = self.replay.write(named(*feeds))
            calls = build(self.replay)
            anew = tf.group(*[v.initializer for v in tf.global_variables()])
            columns = self.replay.rows.ring.columns
            outcome = [columns[name] for name in ("reward", "terminated", "autoreset")]
            memory = [tf.placeholder(v.dtype, v.shape) for v in outcome]
            soiled = [v.assign(x, read_value=False) for v, x in zip(outcome, memory, strict=True)]
        self.engine.start()
        self._write = self.engine.callable(None, feeds, [written])
        self._anew = self.engine.callable(None, targets=[anew])
        self._soil = self.engine.callable(None, memory, soiled)
        for name, call in calls.items():
            setattr(self, name, self.engine.callable(*call))
        self.rows = []

    def restart(self):
        """An empty replay, and an empty twin."""
        self._anew()
        self.rows = []

    def soil(self, byte):
        """What was never written is memory that somebody used before; a bool of it is none."""
        bools = np.full(self.replay.capacity, byte, np.uint8).view(np.bool_)
        self._soil(np.full(self.replay.capacity, np.nan, np.float32), bools, bools)

    def write(self, terminated, autoreset, reward=None):
        N, t = self.replay.rows.num_envs, len(self.rows)
        numbers = np.arange(N * t, N * t + N, dtype=np.int32)
        reward = numbers % 5 if reward is None else reward
        row = numbers, numbers % 7, np.float32(reward), np.array(terminated), np.array(autoreset)
        self._write(*row)
        self.rows.append(row)

    def valid(self):
        """{row number: (time step, env)} of those that may be sampled."""
        T, N = self.replay.steps, self.replay.rows.num_envs
        now = len(self.rows)
        return {
            t % T * N + env: (t, env)
            for t in range(max(0, now - T), now - 1)
            for env in range(N)
            if not self.rows[t + 1][4][env]
        }

    def walk(self, t, env, n, discount):
        """(r_t, discount_t, observation at the destination) of up to n steps from there."""
        total, factor = 0.0, 1.0
        for at in range(t + 1, t + 1 + n):
            _, _, reward, terminated, _ = (part[env] for part in self.rows[at])
            total += factor * reward
            factor *= discount
            if terminated:
                return total, 0.0, self.rows[at][0][env]
            if at == len(self.rows) - 1 or self.rows[at + 1][4][env]:
                break
        return total, factor, self.rows[at][0][env]


def episodes(steps, num_envs, rng, ends=0.3):
    """(terminated, autoreset) as envs make them; half of the ends are truncations."""
    autoreset = np.ones(num_envs, bool)
    for _ in range(steps):
        ended = (rng.random(num_envs) < ends) & ~autoreset
        yield ended & (rng.random(num_envs) < 0.5), autoreset
        autoreset = ended


@pytest.fixture(scope="module")
def make_ring():
    made = []

    def make(*args, **options):
        made.append(Ring(*args, **options))
        return made[-1]

    yield make
    for ring in made:
        ring.engine.close()


@pytest.fixture(scope="session")
def make_episodes():
    return episodes
