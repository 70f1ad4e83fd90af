"""Sequences are what the envs showed, with what acting remembered, and nothing from elsewhere."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine, Stream
from targetnet.rl_core.replay import (
    STATE,
    Column,
    NStepTransitions,
    PrioritizedSampler,
    ReplayMemory,
    StoredSequences,
    UniformSampler,
    ValidRows,
    transition_columns,
)

DISCOUNT = 0.5


class Memory:
    """A replay of sequences in an engine of its own, and everything that was shown to it."""

    def __init__(self, capacity, num_envs, length, burn_in, n_step=1, most=None, sampler="uniform"):
        self.N, self.L, self.burn_in, self.n_step = num_envs, length, burn_in, n_step
        self.T = burn_in + length + (most or n_step)
        self.steps = capacity // num_envs
        self.engine, self.shown = Engine(), []
        with self.engine.building():
            columns = [*transition_columns((1,), np.float32), Column(STATE, tf.float32, (2,))]
            self.rows = rows = ValidRows(capacity, num_envs, columns, history=burn_in)
            n = (lambda: tf.constant(n_step)) if (most or n_step) > 1 else None
            steps = NStepTransitions(rows, lambda: tf.constant(DISCOUNT), n)
            items = StoredSequences(
                rows, steps, length=length, burn_in=burn_in, most_steps=most or n_step
            )
            drawn = UniformSampler(rows)
            if sampler == "prioritized":
                drawn = PrioritizedSampler(rows, lambda: tf.constant(1.0), lambda: tf.constant(1.0))
            memory = ReplayMemory(rows, drawn, items)
            one = memory.placeholders([num_envs])
            write = memory.write(one)
            counter = tf.placeholder(tf.int64, [])
            batch = memory.sample(32, Stream(0, "s"), counter)
            self.fields = {
                "observation": batch.observation, "begins": batch.begins, "state": batch.state,
                "learned": batch.learned, "destination": batch.destination, "row": batch.row,
                "a": batch.steps.a_tm1, "r": batch.steps.r_t, "discount": batch.steps.discount_t,
                "s_tm1": batch.steps.s_tm1,
            }  # fmt: skip
            count = rows.count()
        self.engine.start()
        self.write = self.engine.callable(None, [*one.values()], [write])
        self._sample = self.engine.callable([*self.fields.values()], [counter])
        self.count = self.engine.callable(count)
        self.draws = 0

    def show(self, time_steps, seed=0, ends=0.15):
        rng = np.random.default_rng(seed)
        begins = np.ones(self.N, bool)
        for t in range(time_steps):
            ended = (rng.random(self.N) < ends) & ~begins
            terminated = ended & (rng.random(self.N) < 0.5)
            number = np.float32(np.arange(self.N * t, self.N * (t + 1)) + 1)
            step = {
                "observation": number[:, None], "action": np.int32(number % 3),
                "reward": np.where(begins, 0, number % 5).astype(np.float32),
                "terminated": terminated, "autoreset": begins,
                "state": np.stack([number / 2, -number], axis=1),
            }  # fmt: skip
            self.shown.append(step)
            self.write(*step.values())
            begins = ended
            if t > self.burn_in + 3:
                yield t

    def sample(self):
        self.draws += 1
        values = self._sample(np.int64(self.draws))
        return dict(zip(self.fields, values, strict=True))

    def outcome(self, t, env):
        """Reward, whether it terminated, whether it was only a reset: of the step from t on."""
        after = self.shown[t + 1]
        return (after[name][env] for name in ("reward", "terminated", "autoreset"))

    def require_right(self, batch, b):
        newest = len(self.shown) - 1
        step, env = divmod(int(batch["row"][b]), self.N)
        first = newest - (newest - step) % self.steps  # time step of the first learned one
        begin = first - self.burn_in
        assert begin > newest - self.steps, "its history was overwritten"
        np.testing.assert_array_equal(
            batch["state"][b], self.shown[begin]["state"][env] if begin >= 0 else batch["state"][b]
        )
        for i in range(self.T):
            t = begin + i
            there = 0 <= t <= newest
            seen = self.shown[t]["observation"][env] if there else [0]
            np.testing.assert_array_equal(batch["observation"][b, i], seen)
            assert batch["begins"][b, i] == (not there or self.shown[t]["autoreset"][env])
        assert batch["learned"][b, 0]
        for j in range(self.L):
            t, i = first + j, b * self.L + j
            known = t < newest and not self.shown[t + 1]["autoreset"][env]
            assert batch["learned"][b, j] == known
            if not known:
                assert batch["r"][i] == batch["discount"][i] == 0
                continue
            r, discount, length = 0.0, 1.0, 0
            while length < self.n_step:
                if t + length >= newest:
                    break
                reward, terminated, reset = self.outcome(t + length, env)
                if reset:
                    break
                r, length = r + discount * reward, length + 1
                discount *= 0.0 if terminated else DISCOUNT
                if terminated:
                    break
            assert batch["destination"][b, j] == self.burn_in + j + length
            assert (batch["r"][i], batch["discount"][i]) == (r, discount)
            assert batch["a"][i] == self.shown[t]["action"][env]
            assert batch["s_tm1"][i] == self.shown[t]["observation"][env]


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("num_envs", "length", "burn_in", "n_step", "sampler"),
    [
        (1, 5, 3, 1, "uniform"), (2, 4, 0, 1, "prioritized"), (3, 1, 2, 3, "uniform"),
        (2, 6, 2, 2, "prioritized"),
    ],
)  # fmt: skip
def test_every_sequence_is_what_was_shown(num_envs, length, burn_in, n_step, sampler):
    memory = Memory(30 * num_envs, num_envs, length, burn_in, n_step, sampler=sampler)
    rows = set()
    for t in memory.show(140):  # several times around the ring
        batch = memory.sample()
        rows |= set(batch["row"].tolist())
        for b in range(0, 32, 5):
            memory.require_right(batch, b)
        if t > 60:
            left = [
                not memory.shown[s + 1]["autoreset"][env]
                for s in range(len(memory.shown) - memory.steps + burn_in, len(memory.shown) - 1)
                for env in range(num_envs)
            ]
            assert memory.count() == sum(left)
    assert len(rows) > 25 * num_envs
    memory.engine.close()


def test_the_run_begins_with_nothing_before_it():
    memory = Memory(40, 1, 3, 8)
    for t in memory.show(20, ends=0):
        if t == 13:
            break
    batch = memory.sample()
    early = [b for b in range(32) if batch["row"][b] < 8]
    assert early
    for b in early:
        memory.require_right(batch, b)
        before = 8 - int(batch["row"][b])
        assert batch["begins"][b, : before + 1].all() and not batch["begins"][b, before + 1 :][0]
    memory.engine.close()


def test_a_shorter_step_than_there_is_room_for():
    memory = Memory(60, 2, 4, 2, n_step=2, most=5)
    for _ in memory.show(50):
        pass
    batch = memory.sample()
    assert batch["observation"].shape[1] == 2 + 4 + 5
    for b in range(32):
        memory.require_right(batch, b)
    memory.engine.close()
