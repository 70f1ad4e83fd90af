"""How observations are stored and actions are numbered."""

import gymnasium as gym
import numpy as np
import pytest

from targetnet.envs import make_envs
from targetnet.envs.spaces import make_contains_quick, read_spaces
from targetnet.rl_core.errors import EnvContractError, EnvError, EnvFailed
from tests.gymnasium_versions import GYMNASIUM

Box, Discrete = gym.spaces.Box, gym.spaces.Discrete


def fixed(**env_kwargs):
    return make_envs("test/Fixed-v0", seed=1, env_kwargs=env_kwargs)


# space                                   observation                      stored
STORED = [
    (Box(0, 1, (2,), np.float32), np.array([0.5, 1.0], np.float32), np.float32([0.5, 1.0])),
    (Box(0, 1, (2,), np.float64), np.array([0.5, 1.0], np.float64), np.float32([0.5, 1.0])),
    (Box(0, 1, (2,), np.float32), np.array([0.5, 1.0], np.float64), np.float32([0.5, 1.0])),
    (Box(0, 9, (2,), np.int64), np.array([3, 9]), np.float32([3, 9])),
    (Box(0, 9, (2,), np.int8), np.array([3, 9], np.int8), np.float32([3, 9])),
    (Box(0, 255, (1, 2), np.uint8), np.array([[3, 255]], np.uint8), np.uint8([[3, 255]])),
    (Box(0, 1, (2,), np.bool_), np.array([True, False]), np.array([True, False])),
    (Box(0, 1, (2,), np.float32), [0.5, 1.0], np.float32([0.5, 1.0])),
    (Box(0, 1, (), np.float32), 0.5, np.float32(0.5)),
    (Discrete(3), 2, np.float32([0, 0, 1])),
    (Discrete(3, start=-1), np.int64(-1), np.float32([1, 0, 0])),
    (Discrete(3, start=5), np.array(6), np.float32([0, 1, 0])),
    (Discrete(3, start=-1), np.uint8(1), np.float32([0, 0, 1])),
    (Discrete(3, start=300), np.uint16(301), np.float32([0, 1, 0])),
]


@pytest.mark.parametrize(("space", "observation", "stored"), STORED)
def test_observations_are_stored_as_they_should(space, observation, stored):
    envs = fixed(observation_space=space, observation=observation)
    assert (envs.observation_shape, envs.observation_dtype) == (stored.shape, stored.dtype)
    for step in (envs.reset(), envs.step(np.array([0]))):
        assert step.observation.dtype == stored.dtype
        np.testing.assert_array_equal(step.observation, stored[np.newaxis])


LOWS, HIGHS = np.arange(16).reshape(1, 4, 4), np.arange(20, 36).reshape(1, 4, 4)
BYTES = [
    (Box(0, 255, (2,), np.uint8), None),
    (Box(0, 255, (2,), np.float32), None),
    (Box(0, 1, (2,), np.bool_), None),
    (Discrete(3), None),
    (Box(0, 1, (2,), np.uint8), (0, 1)),
    (Box(7, 7, (2,), np.uint8), (7, 7)),
    (Box(0, 9, (), np.uint8), (0, 9)),
    (Box(np.uint8([0, 1]), np.uint8([255, 2]), dtype=np.uint8), ([0, 1], [255, 2])),
    # Channels come last in a row, and so do their bounds.
    (Box(LOWS.astype(np.uint8), HIGHS.astype(np.uint8), dtype=np.uint8),
     (LOWS.reshape(4, 4, 1), HIGHS.reshape(4, 4, 1))),
]  # fmt: skip


@pytest.mark.parametrize(("space", "bounds"), BYTES, ids=lambda value: str(value)[:40])
def test_the_bounds_of_bytes_are_those_of_the_space_unless_0_and_255(space, bounds):
    envs = fixed(observation_space=space, observation=space.sample())
    if bounds is None:
        assert envs.byte_bounds is None
        return
    for ours, wanted in zip(envs.byte_bounds, bounds, strict=True):
        assert ours.dtype == np.uint8
        np.testing.assert_array_equal(ours, wanted)
        assert ours.shape in ((), envs.observation_shape)


def test_discrete_observations_of_a_vector_env_become_one_hot_rows():
    class Places(gym.vector.VectorEnv):
        metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012
        single_observation_space = Discrete(3, start=1)
        single_action_space = Discrete(2, start=10)

        def __init__(self, num_envs):
            self.num_envs = num_envs

        def reset(self, *, seed=None, options=None):
            return np.array([3, 1]), {}

        def step(self, actions):
            none = np.zeros(2, bool)
            return np.array([1, 2]), actions, none, none, {}

    gym.register("test/Places-v0", vector_entry_point=Places)
    envs = make_envs("test/Places-v0", 2, vectorization="vector_entry_point", seed=1)
    assert envs.reset().observation.tolist() == [[0, 0, 1], [1, 0, 0]]
    step = envs.step(np.array([0, 1], np.int32))
    assert step.observation.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert step.reward.tolist() == [10, 11]  # the actions the env was given
    del gym.registry["test/Places-v0"]


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.uint64])
def test_several_numbers_become_one_hot_rows_whatever_their_dtype(dtype):
    space = gym.spaces.MultiDiscrete([3, 2], dtype=dtype, start=[1, 5])
    envs = fixed(observation=np.array([3, 5], dtype), observation_space=space)
    assert envs.reset().observation.tolist() == [[0, 0, 1, 1, 0]]


@pytest.mark.parametrize(
    "space",
    [gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(3), gym.spaces.MultiDiscrete([3, 2]),
     gym.spaces.MultiBinary(2)],
    ids=lambda space: type(space).__name__,
)  # fmt: skip
def test_an_observation_that_is_no_array_is_told_in_a_line(space):
    """As a wrapper gives it whose `reset` returns what `reset` returned, and a dict."""
    ragged = (np.zeros(2), {})
    with pytest.raises(EnvError, match=r"reset must give an observation .* got a tuple of 2"):
        fixed(observation=ragged, observation_space=space)
    spaces = read_spaces("test/Fixed-v0", space, gym.spaces.Discrete(2))
    rows = np.zeros((1, *spaces.observation_shape), spaces.observation_dtype)
    with pytest.raises(EnvContractError, match="got a tuple of 2"):  # at any later step
        spaces.writer(rows[0])(ragged)


def test_actions_count_from_0_wherever_the_env_begins():
    envs = fixed(action_space=Discrete(3, start=-1))
    envs.reset()
    assert envs.num_actions == 3
    paid = [envs.step(np.array([action])).reward[0] for action in range(3)]
    assert paid == [-1, 0, 1]  # the actions the env was given


ENDS_BEYOND_ITS_DTYPE = pytest.param(
    {"n": 9, "start": 120, "dtype": np.int8},
    marks=pytest.mark.skipif(GYMNASIUM < (1, 4), reason="Gymnasium answers by an OverflowError"),
)


@pytest.mark.parametrize(
    "settings", [{"n": 3}, {"n": 3, "start": -1}, ENDS_BEYOND_ITS_DTYPE], ids=str
)
def test_a_discrete_space_that_is_asked_quickly_contains_what_it_did(settings):
    asked, twin = Discrete(**settings, seed=7), Discrete(**settings, seed=7)
    make_contains_quick(asked)
    wholes = [*range(-3, 4), *range(117, 131)]
    others = [True, 1.0, np.int64(1), np.int32(-1), np.array(2), np.array([2]), "1", None]
    for x in (*wholes, *others):
        assert asked.contains(x) is twin.contains(x), x
    assert asked == twin and repr(asked) == repr(twin) and asked.sample() == twin.sample()


def test_an_env_that_asks_at_each_step_whether_its_action_is_one_does_not_ask_numpy(monkeypatch):
    envs = make_envs("CartPole-v1", 2, seed=1)
    envs.reset()
    monkeypatch.delattr(Discrete, "contains")
    envs.step(np.array([0, 1]))
    # What is no action is asked of gymnasium still.
    with pytest.raises(EnvFailed, match="NotImplementedError"):
        envs.step(np.array([0, 2]))


def test_a_real_env_with_a_discrete_observation_trains_on_one_hot():
    envs = make_envs("FrozenLake-v1", seed=1, env_kwargs={"is_slippery": False})
    assert (envs.observation_shape, envs.num_actions) == ((16,), 4)
    assert np.argmax(envs.reset().observation[0]) == 0
    assert np.argmax(envs.step(np.array([2])).observation[0]) == 1  # one to the right
