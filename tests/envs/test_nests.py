"""Observations that are dicts and tuples: each array a part of one row, or one array alone."""

import copy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from targetnet.envs import make_envs
from targetnet.rl_core.errors import EnvError, EnvFault
from targetnet.rl_core.observation_parts import Part, placed

SPACES = {
    "camera": Box(0, 255, (4, 5, 3), np.uint8),
    "arm": Dict({"angles": Box(-np.inf, np.inf, (3,)), "holds": Discrete(2, start=1)}),
    "wheels": MultiDiscrete([3, 2]),
    "lamps": MultiBinary(4),
    "pair": Tuple((Box(-1, 1, (2,), np.float64), Box(0, 1, (2, 2), np.bool_))),
}


class Robot(gym.Env):
    """Shows samples of a space, the same for the same seed."""

    def __init__(self, space=None, breaks=None):
        # A copy: a space has a random state.
        self.observation_space = copy.deepcopy(Dict(SPACES) if space is None else space)
        self.action_space = Discrete(2)
        self._breaks, self._steps = breaks, 0

    def _shown(self):
        shown = self.observation_space.sample()
        return shown if self._breaks is None or self._steps < 2 else self._breaks(shown)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps, self._ends_at = 0, 4
        self.observation_space.seed(seed)
        return self._shown(), {}

    def step(self, action):
        self._steps += 1
        return self._shown(), 1.0, self._steps >= self._ends_at, False, {}


class Robots(gym.vector.SyncVectorEnv):
    def __init__(self, num_envs=1, **kwargs):
        super().__init__([lambda: Robot(**kwargs)] * num_envs)


@pytest.fixture(scope="module", autouse=True)
def registered():
    gym.register("test/Robot-v0", Robot, vector_entry_point=Robots)
    yield
    del gym.registry["test/Robot-v0"]


def made(num_envs=1, vectorization="sync", keys=(), **kwargs):
    return make_envs(
        "test/Robot-v0", num_envs, vectorization=vectorization, seed=7, env_kwargs=kwargs,
        observation_keys=keys,
    )  # fmt: skip


def parts_of(envs, rows):
    return {part.name: part.of(rows) for part in envs.parts}


def wanted(shown):
    """The parts of an observation of the robot, by hand."""
    return {
        "camera": shown["camera"],
        "arm.angles": shown["arm"]["angles"],
        "arm.holds": np.eye(2, dtype=np.float32)[shown["arm"]["holds"] - 1],
        "wheels": np.concatenate([np.eye(3)[shown["wheels"][0]], np.eye(2)[shown["wheels"][1]]]),
        "lamps": shown["lamps"].astype(bool),
        "pair.0": shown["pair"][0].astype(np.float32),
        "pair.1": shown["pair"][1],
    }


def single(seed):
    env = Robot()
    observation, _ = env.reset(seed=seed)
    yield observation
    while True:
        yield env.step(0)[0]


def test_a_row_has_every_part_in_its_place():
    envs = made()
    assert [part.name for part in envs.parts] == sorted(wanted(next(single(0))))  # as Dict sorts
    assert envs.observation_dtype == np.uint8 and envs.observation_shape == (60 + 4 * 12 + 8,)
    from targetnet.envs import episode_seed

    step = envs.reset()
    for shown in [*zip(range(4), single(episode_seed(7, env=0, episode=0)), strict=False)]:
        found = parts_of(envs, step.observation[0])
        for name, value in wanted(shown[1]).items():
            assert (
                found[name].dtype == {"b": bool, "u": np.uint8, "f": np.float32}[value.dtype.kind]
            )
            np.testing.assert_array_equal(found[name], value)
        step = envs.step(np.zeros(1, np.int64))
    envs.close()


@pytest.mark.parametrize("vectorization", ["async", "vector_entry_point"])
def test_several_envs_show_the_same_in_every_way(vectorization):
    one, other = made(3), made(3, vectorization)
    a, b = one.reset(), other.reset()
    if vectorization == "vector_entry_point":  # it is seeded otherwise
        assert b.observation.shape == a.observation.shape
        for name, part in parts_of(other, b.observation).items():
            assert part.shape == parts_of(one, a.observation)[name].shape
            assert len({of.tobytes() for of in part}) > 1 or name in ("arm.holds", "pair.1")
    else:
        for _ in range(6):
            np.testing.assert_array_equal(a.observation, b.observation)
            a, b = one.step(np.zeros(3, np.int64)), other.step(np.zeros(3, np.int64))
    one.close(), other.close()


def test_numbers_alone_make_a_row_of_numbers():
    envs = made(keys=("arm", "wheels"))
    assert envs.observation_dtype == np.float32 and envs.observation_shape == (3 + 2 + 5,)
    envs.close()


def test_one_part_alone_is_its_array():
    envs, all_of_it = made(keys=("camera",)), made()
    assert envs.parts == () and envs.observation_shape == (4, 5, 3)
    camera = parts_of(all_of_it, all_of_it.reset().observation)["camera"]
    np.testing.assert_array_equal(envs.reset().observation, camera)
    envs.close(), all_of_it.close()


def test_pictures_of_a_dict_may_be_stacked():
    envs = make_envs("test/Robot-v0", seed=7, observation_keys=("camera",), frame_stack=2)
    first = envs.reset().observation.copy()
    second = envs.step(np.zeros(1, np.int64)).observation
    assert first.shape == (1, 4, 5, 6) and not first[..., :3].any()
    np.testing.assert_array_equal(second[..., :3], first[..., 3:])
    envs.close()


@pytest.mark.parametrize("num_envs", [1, 2])
def test_a_part_may_be_a_single_number(num_envs):
    space = Dict({"height": Box(-1, 1, ()), "place": Box(-1, 1, (2,))})
    envs = made(num_envs, space=space)
    shown = envs.reset().observation
    assert shown.shape == (num_envs, 3)
    height = next(part for part in envs.parts if part.name == "height")
    np.testing.assert_array_equal(height.of(shown), shown[:, 0])
    assert height.of(shown[0]).shape == ()
    assert shown.all()
    envs.close()


def test_parts_lie_at_multiples_of_four_bytes_numbers_first():
    parts, dtype, size = placed([
        Part("a", (3,), np.dtype(np.uint8)), Part("b", (2,), np.dtype(np.float32)),
        Part("c", (2,), np.dtype(np.bool_)),
    ])  # fmt: skip
    assert [(part.name, part.begin) for part in parts] == [("a", 8), ("b", 0), ("c", 11)]
    assert (dtype, size) == (np.uint8, 16)


def without(key):
    return lambda shown: {name: value for name, value in shown.items() if name != key}


def with_part(key, value):
    return lambda shown: shown | {key: value}


@pytest.mark.parametrize(
    ("breaks", "line"),
    [
        (without("lamps"), "the observation must have a part 'lamps', got"),
        (with_part("arm", {"holds": 1}), "must have at 'arm' a part 'angles', got"),
        (with_part("pair", (np.zeros(2),)), "must have at 'pair' a part 1, got a tuple of 1"),
        (lambda shown: 3, "must have a part 'arm', got 3"),
        (with_part("lamps", np.array([0, 1, 2, 0])), "at 'lamps', .*zeros and ones, got 2"),
        (with_part("lamps", np.zeros(3, int)), r"at 'lamps', .*zeros and ones of shape \(4,\)"),
        (with_part("wheels", np.array([0, 2])), "at 'wheels', .*at 1 a whole number from 0 to 1"),
        (with_part("camera", np.zeros((4, 5))), r"at 'camera', .*of shape \(4, 5, 3\), got shape"),
        (with_part("arm", {"angles": np.full(3, np.nan), "holds": 1}), "at 'arm.angles', .*finite"),
    ],
)
def test_a_part_that_is_wrong_is_named(breaks, line):
    envs = made(breaks=breaks)
    envs.reset()
    envs.step(np.zeros(1, np.int64))
    with pytest.raises(EnvFault, match=line) as told:
        envs.step(np.zeros(1, np.int64))
    assert "\n" not in str(told.value) and "step 2 of its episode 0" in str(told.value)
    envs.close()


WITH_TEXT = Dict({"mission": Text(9), "at": Box(0, 9, (2,)), "map": Box(0, 9, (2,))})


@pytest.mark.parametrize(
    ("space", "keys", "line"),
    [
        (WITH_TEXT, (), r"at 'mission' the .* leave it out: observation_keys = ..at., .map..$"),
        (WITH_TEXT, ("att",), "observation_keys names 'att', .* has at, map, mission; did you"),
        (Box(0, 1, (2,)), ("x",), "observation_keys names 'x', but its observation is no dict"),
        # TensorFlow takes two names of an operation that differ in case alone for one.
        (Dict({"A": Box(0, 1, (2,)), "a": Box(0, 1, (3,))}), (), "names are too much alike: A, a;"),
        (
            Dict({"a": Box(0, 1, (0,)), "b": Box(0, 1, (2,))}),
            (),
            "shows nothing: .* at 'a' has the",
        ),
        (Box(0, 1, (3, 0)), (), r"shows nothing: its observation has the shape \(3, 0\)"),
        (
            Dict({"a.b": Box(0, 1, (2,)), "a": Dict({"b": Box(0, 1, (3,))})}),
            (),
            r"whose names are too much alike: a\.b, a\.b; leave one out",
        ),
        (Dict({"a": Tuple(())}), (), "has an observation space without any part in it"),
        (Text(3), (), "has the observation space Text.* learns from arrays and numbers"),
    ],
)
def test_a_space_that_does_not_fit_is_one_line(space, keys, line):
    with pytest.raises(EnvError, match=line) as told:
        made(space=space, keys=keys)
    assert "\n" not in str(told.value)


def test_several_parts_have_no_frames():
    with pytest.raises(EnvError, match="frame_stack = 4 needs observations of one array, and"):
        make_envs("test/Robot-v0", seed=0, frame_stack=4)


def test_what_a_text_is_left_out_of_can_be_learned_from():
    envs = made(space=WITH_TEXT, keys=("at", "map"))
    assert [part.name for part in envs.parts] == ["at", "map"]
    envs.close()


@pytest.mark.parametrize(
    ("space", "shown", "row"),
    [
        (MultiDiscrete([2, 3]), [1, 2], [0, 1, 0, 0, 1]),
        (MultiDiscrete([2, 2], start=[5, 1]), [5, 2], [1, 0, 0, 1]),
        (MultiBinary([2, 2]), [[0, 1], [1, 1]], [[0, 1], [1, 1]]),
    ],
)
def test_several_numbers_at_once_are_a_space_of_their_own(space, shown, row, monkeypatch):
    monkeypatch.setattr(Robot, "_shown", lambda self: np.array(shown))
    envs = made(space=space)
    np.testing.assert_array_equal(envs.reset().observation[0], row)
    envs.close()


def test_a_dict_may_have_numbers_for_keys():
    space = gym.spaces.Dict({1: gym.spaces.Box(0, 9, (2,)), 0: gym.spaces.Box(0, 9, (1,))})
    shown = {0: np.float32([3]), 1: np.float32([4, 5])}
    how = {"observation_space": space, "observation": shown}
    step = make_envs("test/Fixed-v0", seed=1, env_kwargs=how).reset()
    assert sorted(step.observation[0].tolist()) == [3, 4, 5]
