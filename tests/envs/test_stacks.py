"""Observations of several frames: the newest one last, zeros before an episode's first."""

from collections import deque

import gymnasium as gym
import numpy as np
import pytest

from targetnet.envs import make_envs
from targetnet.rl_core.errors import EnvFault, RlCoreError

FORMS = {
    "single number": ((), np.float32),
    "vector": ((3,), np.float32),
    "picture": ((4, 5), np.uint8),
    "picture with channels": ((4, 5, 2), np.uint8),
    "channels first": ((2, 6, 5), np.uint8),
    "flags": ((4,), np.bool_),
}


class Counting(gym.Env):
    """Counts on from a number of its own, in a form of one's choice; ends now and then."""

    def __init__(self, form="vector", broken_at=None):
        self._shape, self._dtype = FORMS[form]
        high = {np.uint8: 250, np.bool_: 1}.get(self._dtype, np.inf)
        self.observation_space = gym.spaces.Box(0, high, self._shape, self._dtype)
        self.action_space = gym.spaces.Discrete(2)
        self._broken_at = broken_at

    def _observation(self):
        self._shown += 1
        if self._length == self._broken_at:
            return np.full(self._shape, np.nan, self._dtype)
        size = int(np.prod(self._shape))
        values = self._shown + np.arange(size).reshape(self._shape)
        return (values % 2 if self._dtype is np.bool_ else values % 251).astype(self._dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._length, self._shown = 0, int(self.np_random.integers(200))
        self._ends_at = int(self.np_random.integers(1, 8))
        return self._observation(), {}

    def step(self, action):
        self._length += 1
        ended = self._length >= self._ends_at
        return self._observation(), 1.0, ended and action == 0, ended and action == 1, {}


class ManyCounting(gym.vector.SyncVectorEnv):
    """As a vector env of its own."""

    def __init__(self, num_envs=1, **kwargs):
        super().__init__([lambda: Counting(**kwargs)] * num_envs)


@pytest.fixture(scope="module", autouse=True)
def registered():
    name = "test/Counting-v0"
    gym.register(name, Counting, vector_entry_point=ManyCounting)
    yield
    del gym.registry[name]


def make(stack, num_envs=1, vectorization="sync", **kwargs):
    return make_envs(
        "test/Counting-v0", num_envs, vectorization=vectorization, seed=3, env_kwargs=kwargs,
        frame_stack=stack,
    )  # fmt: skip


def twin(steps, stack, place):
    """Stacks made of single observations by hand, [..., k * C]."""
    first = steps[0].observation
    channels = first if first.ndim not in (1, 3) or place == "channels" else first[..., None]
    nothing, frames = np.zeros_like(channels), []
    for step in steps:
        now = step.observation.reshape(channels.shape)
        if not frames:
            frames = [deque([nothing[0]] * stack, stack) for _ in now]
        for env, of in enumerate(frames):
            if step.autoreset[env]:
                of.extend([nothing[0]] * stack)
            of.append(now[env])
        yield np.stack([np.concatenate(of, axis=-1) for of in frames])


def copied(step):
    return step._replace(observation=step.observation.copy(), autoreset=step.autoreset.copy())


def played(envs, time_steps=60):
    rng, steps = np.random.default_rng(0), [copied(envs.reset())]
    for _ in range(time_steps):
        steps.append(copied(envs.step(rng.integers(0, 2, envs.num_envs))))
    envs.close()
    return steps


@pytest.mark.parametrize("vectorization", ["sync", "vector_entry_point"])
@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_a_stack_is_what_was_shown_in_the_episode(form, num_envs, vectorization):
    one = played(make(1, num_envs, vectorization, form=form))
    four = make(4, num_envs, vectorization, form=form)
    shape = four.observation_shape
    several = played(four)
    place = "channels" if len(FORMS[form][0]) in (1, 3) else "none"
    assert sum(step.autoreset.sum() for step in one) > 5 * num_envs
    for step, wanted in zip(several, twin(one, 4, place), strict=True):
        assert step.observation.shape == (num_envs, *shape) == wanted.shape
        assert step.observation.dtype == wanted.dtype
        np.testing.assert_array_equal(step.observation, wanted)


def test_in_worker_processes_they_are_the_same():
    here, there = (played(make(3, 3, way, form="picture"), 20) for way in ("sync", "async"))
    for a, b in zip(here, there, strict=True):
        np.testing.assert_array_equal(a.observation, b.observation)


def test_numbers_become_one_hot_rows_side_by_side():
    envs = make_envs("FrozenLake-v1", seed=0, frame_stack=2, env_kwargs={"is_slippery": False})
    assert envs.observation_shape == (32,)
    first = envs.reset().observation.copy()
    second = envs.step(np.array([2])).observation
    assert first[0].nonzero()[0].tolist() == [16] and second[0].nonzero()[0].tolist() == [0, 17]
    envs.close()


def test_bounds_of_bytes_are_those_of_each_frame(monkeypatch):
    def init(self, **kwargs):
        made(self, form="picture with channels")
        low = np.zeros((4, 5, 2), np.uint8)
        self.observation_space = gym.spaces.Box(low, low + np.uint8([100, 200]), dtype=np.uint8)

    made = Counting.__init__
    monkeypatch.setattr(Counting, "__init__", init)
    low, high = make(3).byte_bounds
    assert low.shape == high.shape == (4, 5, 6)
    assert high[0, 0].tolist() == [100, 200, 100, 200, 100, 200]


def test_envs_that_were_brought_back_show_the_same_frames():
    envs, again = make(4, 2), make(4, 2)
    envs.reset()
    for _ in range(9):
        step = envs.step(np.zeros(2, np.int64))
    back, problems = again.restore(envs.state())
    assert problems == []
    np.testing.assert_array_equal(back.observation, step.observation)
    for of in (envs, again):
        of.close()


def test_a_broken_observation_is_told_and_the_frames_before_it_stay():
    envs = make(3, broken_at=1)
    before = envs.reset().observation.copy()
    with pytest.raises(EnvFault, match="must be finite"):
        envs.step(np.zeros(1, np.int64))
    np.testing.assert_array_equal(envs._step.observation, before)
    envs.close()


@pytest.mark.parametrize("stack", [0, -1, 1.5])
def test_a_stack_is_at_least_one_frame(stack):
    with pytest.raises(RlCoreError, match="frame_stack must be a whole number >= 1"):
        make(stack)
