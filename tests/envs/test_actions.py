"""Actions of several numbers: the agent's form, the env's, and their masks."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from targetnet.envs import make_envs
from targetnet.envs.actions import action_form
from targetnet.rl_core.errors import EnvContractError, EnvError
from tests.agents.lamps import Levers

NEXT_STEP = gym.vector.AutoresetMode.NEXT_STEP
# space, branches, the agent's action, the env's
FORMS = [
    (Discrete(3), (), 2, 2),
    (Discrete(3, start=-5), (), 2, -3),
    (MultiDiscrete([3, 2]), (3, 2), [2, 0], [2, 0]),
    (MultiDiscrete([3, 2], start=[-1, 7]), (3, 2), [2, 0], [1, 7]),
    (MultiDiscrete([[3, 2], [1, 4]]), (3, 2, 1, 4), [2, 0, 0, 3], [[2, 0], [0, 3]]),
    (MultiDiscrete([4], np.int8, start=[124]), (4,), [3], [127]),
    (MultiBinary(3), (2, 2, 2), [1, 0, 1], [1, 0, 1]),
    (MultiBinary([2, 2]), (2,) * 4, [1, 0, 0, 1], [[1, 0], [0, 1]]),
]


@pytest.mark.parametrize(("space", "branches", "ours", "theirs"), FORMS, ids=str)
def test_actions_count_from_0_in_each_branch(space, branches, ours, theirs):
    form = action_form("x", space)
    assert form.branches == branches
    assert form.outputs == (sum(branches) if branches else 3)
    one, several = form.one_to_env()(ours), form.to_env(np.array([ours, ours], np.int32))
    for given in (one, several[0], several[1]):
        assert np.array_equal(given, theirs)
        assert space.contains(given if branches else int(given))
    if branches:
        assert one.dtype == several.dtype == space.dtype
        assert one is not form.one_to_env()(ours)  # an env may keep it
    else:
        assert type(one) is int


@pytest.mark.parametrize(
    ("action", "has"),
    [
        ([2, 0], True), ([0, 1], True), ([3, 0], False), ([0, -1], False), ([0], False),
        ([0, 0, 0], False), (0, False),
    ],
)  # fmt: skip
def test_it_says_what_is_an_action(action, has):
    assert action_form("x", MultiDiscrete([3, 2])).has(action) is has
    assert action_form("x", Discrete(2)).has([0]) is False


class Told(gym.Env):
    """Keeps what it is given, and gives the masks that it was made with."""

    observation_space = Box(0, 1, (1,), np.float32)

    def __init__(self, space, masks=None, ends=False):
        self.action_space, self._masks, self._ends, self.given = space, masks, ends, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), self._info(0)

    def step(self, action):
        self.given.append(action)
        return np.zeros(1, np.float32), 0.0, self._ends, False, self._info(len(self.given))

    def _info(self, at):
        return {} if self._masks is None else {"action_mask": self._masks[min(at, 1)]}


class ToldVector(gym.vector.VectorEnv):
    """Two of them as one vector env."""

    def __init__(self, num_envs, space, masks=None):
        self.num_envs, self._masks, self.given = num_envs, masks, []
        self.single_action_space, self.single_observation_space = space, Box(0, 1, (1,))
        self.metadata = {"autoreset_mode": NEXT_STEP}

    def reset(self, *, seed=None, options=None):
        return np.zeros((2, 1), np.float32), self._info()

    def step(self, actions):
        self.given.append(actions)
        no = np.zeros(2, bool)
        return np.zeros((2, 1), np.float32), np.zeros(2), no, no, self._info()

    def _info(self):
        return {} if self._masks is None else {"action_mask": self._masks}


@pytest.fixture(autouse=True)
def told():
    gym.register("Told-v0", Told, vector_entry_point=ToldVector)
    yield
    gym.registry.pop("Told-v0")


SPACE = MultiDiscrete([[3, 2]], start=[[-1, 7]])


def test_single_envs_are_given_arrays_of_their_own_space():
    envs = make_envs("Told-v0", 2, seed=1, env_kwargs={"space": SPACE})
    envs.reset()
    envs.step(np.array([[2, 0], [0, 1]], np.int32))
    given = [lane.env.unwrapped.given for lane in envs._lanes]
    assert [of[0].tolist() for of in given] == [[[1, 7]], [[-1, 8]]]
    assert all(SPACE.contains(of[0]) for of in given)


def test_a_vector_env_is_given_all_at_once():
    how = {"vectorization": "vector_entry_point", "env_kwargs": {"space": SPACE}}
    envs = make_envs("Told-v0", 2, seed=1, **how)
    envs.reset()
    envs.step(np.array([[2, 0], [0, 1]], np.int32))
    (given,) = envs._env.given
    assert given.tolist() == [[[1, 7]], [[-1, 8]]] and given.dtype == np.int64


LEVERS = "tests.agents.lamps:Levers-v0"


def choices(step, rng):
    """Random legal actions, [N, 3]."""
    apart = np.split(step.legal, [3, 4], axis=1)
    return np.stack(
        [[rng.choice(np.flatnonzero(row)) for row in of] for of in apart], axis=1
    ).astype(np.int32)


def test_the_masks_of_all_branches_are_in_the_row_of_their_observation():
    envs, rng = make_envs(LEVERS, 3, seed=2), np.random.default_rng(0)
    assert envs.branches == (3, 1, 4) and envs.num_actions == 8 and envs.has_action_masks
    step = envs.reset()
    for _ in range(200):
        for row, lane in zip(step.legal, envs._lanes, strict=True):
            assert row.tolist() == np.concatenate(lane.env.unwrapped._legal).tolist()
        step = envs.step(choices(step, rng))


def test_worker_processes_give_the_same_rows():
    sync, asynchronous = (
        make_envs(LEVERS, 3, seed=2, vectorization=how) for how in ("sync", "async")
    )
    rng = np.random.default_rng(0)
    one, other = sync.reset(), asynchronous.reset()
    for _ in range(100):
        for name in ("observation", "reward", "terminated", "autoreset", "legal"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        actions = choices(one, rng)
        one, other = sync.step(actions), asynchronous.step(actions)
    assert sync.state() == asynchronous.state()
    with pytest.raises(ValueError, match=r"got shape \(3,\)"):
        asynchronous.step(np.zeros(3, np.int32))
    asynchronous.close()


def test_envs_come_back_by_seed_and_vectors_of_actions():
    envs, rng = make_envs(LEVERS, 2, seed=3), np.random.default_rng(1)
    step = envs.reset()
    for _ in range(57):
        step = envs.step(choices(step, rng))
    saved = json.loads(json.dumps(envs.state()))
    assert any(len(lane["actions"]) > 1 for lane in saved["lanes"])
    other = make_envs(LEVERS, 2, seed=3)
    back, problems = other.restore(saved)
    assert problems == []
    np.testing.assert_array_equal(back.observation, step.observation)
    np.testing.assert_array_equal(back.legal, step.legal)
    assert other.state() == envs.state()


# space, a mask, as it is stored
I8 = np.int8
MASKS = [
    (MultiDiscrete([3, 2]), [0, 1, 1, 1, 0], "01110"),
    (MultiDiscrete([3, 2]), np.array([0, 1, 1, 1, 0], I8), "01110"),
    (MultiDiscrete([3, 2]), (0, 1, 1, 1, 0), "01110"),
    (MultiDiscrete([3, 2]), (np.array([0, 1, 1], I8), np.array([1, 0], I8)), "01110"),
    (MultiDiscrete([3, 2]), ([0, 1, 1], [True, False]), "01110"),
    (MultiDiscrete([[3, 2]]), ((np.array([0, 1, 1], I8), np.array([1, 0], I8)),), "01110"),
    (MultiBinary(3), [0, 1, 1, 0, 1, 1], "011011"),
    (MultiBinary(3), np.array([0, 1, 2], I8), "100111"),  # only 0, only 1, both
    (MultiBinary([1, 2]), np.array([[2, 1]], I8), "1101"),
]


@pytest.mark.parametrize(("space", "mask", "stored"), MASKS, ids=str)
def test_a_mask_is_flat_or_as_the_space_samples_by_it(space, mask, stored):
    envs = make_envs("Told-v0", seed=1, env_kwargs={"space": space, "masks": [mask, mask]})
    assert "".join(str(int(of)) for of in envs.reset().legal[0]) == stored


@pytest.mark.parametrize(("space", "mask", "stored"), [MASKS[i] for i in (3, 5, 7, 8)], ids=str)
def test_a_mask_says_what_gymnasium_samples_by_it(space, mask, stored):
    form, seen = action_form("x", space), set()
    for _ in range(100):
        flat = space.sample(mask=mask).reshape(-1) - form.first
        seen |= set((flat + np.cumsum((0, *form.branches[:-1]))).tolist())
    assert seen == {i for i, of in enumerate(stored) if of == "1"}


def objects(*masks):
    array = np.empty(len(masks), object)
    array[:] = masks
    return array


B0, B1 = np.array([[0, 1, 1], [1, 0, 0]]), np.array([[1, 0], [1, 1]])
VECTOR_MASKS = [
    (MultiDiscrete([3, 2]), np.array([[0, 1, 1, 1, 0], [1, 0, 0, 1, 1]])),
    (MultiDiscrete([3, 2]), (B0, B1)),
    (MultiDiscrete([3, 2]), objects((B0[0], B1[0]), (B0[1], B1[1]))),
]


@pytest.mark.parametrize(("space", "masks"), VECTOR_MASKS, ids=["flat", "tuple", "objects"])
def test_a_vector_envs_masks_are_those_of_all_envs(space, masks):
    envs = make_envs(
        "Told-v0", 2, seed=1, vectorization="vector_entry_point",
        env_kwargs={"space": space, "masks": masks},
    )  # fmt: skip
    assert envs.reset().legal.astype(int).tolist() == [[0, 1, 1, 1, 0], [1, 0, 0, 1, 1]]


WRONG = [
    ([0, 0, 0, 1, 1], "got [0, 0, 0, 1, 1]"),  # a branch without a legal choice
    ([1, 1, 1, 2, 0], "got [1, 1, 1, 2, 0]"),
    ([1, 1, 1, 1], "got one of shape (4,)"),
    ((np.ones(3), np.ones(3)), "got a tuple of arrays of the shapes [(3,), (3,)]"),
    ((np.ones(3),), "got a tuple of arrays of the shapes [(3,)]"),
    ([[1, 1, 1], [1, 1]], "got one of shape () and dtype object"),
    ("all", "got one of shape () and dtype <U3"),
]
WANTED = (
    "info['action_mask'] must be 0 or 1 for each of 5 actions, with at least one 1 in each of 2 "
    "branches unless the episode ended"
)


@pytest.mark.parametrize(("mask", "got"), WRONG, ids=str)
def test_a_mask_of_another_form_is_refused_in_one_line(mask, got):
    good = [1, 1, 1, 1, 1]
    for masks in ([mask, good], [good, mask]):
        kwargs = {"space": MultiDiscrete([3, 2]), "masks": masks}
        with pytest.raises(EnvError if mask is masks[0] else EnvContractError) as refused:
            envs = make_envs("Told-v0", seed=1, env_kwargs=kwargs)
            envs.reset()
            envs.step(np.zeros((1, 2), np.int32))
        text = str(refused.value)
        assert WANTED in text and got in text and "\n" not in text


def test_a_number_that_is_no_mask_of_a_bit_is_refused():
    kwargs = {"space": MultiBinary(3), "masks": [[0, 3, 1]] * 2}
    with pytest.raises(EnvError, match=r"got \[0, 3, 1\]"):
        make_envs("Told-v0", seed=1, env_kwargs=kwargs)


def test_where_an_episode_ends_a_branch_without_a_legal_choice_has_all():
    kwargs = {
        "space": MultiDiscrete([3, 2]), "ends": True,
        "masks": [[1, 0, 0, 0, 1], [0, 0, 0, 0, 1]],
    }  # fmt: skip
    envs = make_envs("Told-v0", seed=1, env_kwargs=kwargs)
    assert envs.reset().legal.astype(int).tolist() == [[1, 0, 0, 0, 1]]
    step = envs.step(np.zeros((1, 2), np.int32))
    assert step.terminated[0] and step.legal.astype(int).tolist() == [[1, 1, 1, 0, 1]]


def test_the_levers_are_as_they_say():
    env = Levers()
    _, info = env.reset(seed=0)
    assert [len(of) for of in info["action_mask"]] == [3, 1, 4]
    with pytest.raises(AssertionError):
        env.step(np.array([-2, 5, 0]))


def test_gymnasiums_own_wrapper_makes_branches_of_continuous_actions():
    pytest.importorskip("Box2D")
    envs = make_envs(
        "LunarLander-v3", seed=1, env_kwargs={"continuous": True},
        wrapper="gymnasium.wrappers:DiscretizeAction",
        wrapper_kwargs={"bins": [5, 3], "multidiscrete": True},
    )  # fmt: skip
    assert envs.branches == (5, 3)
    envs.reset()
    assert np.isfinite(envs.step(np.array([[4, 1]])).reward).all()
    envs.close()
