"""Masks in the forms of other libraries: a part of the observations, and a method."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from targetnet.envs import make_envs
from targetnet.rl_core.errors import EnvError, EnvFailed
from tests.envs.masked import ID, NUM_ACTIONS


def made(num_envs=1, seed=1, how="sync", **given):
    keys = {name: given.pop(name) for name in ("action_masks", "observation_keys") if name in given}
    wrapper = given.pop("wrapper", "")
    return make_envs(
        ID, num_envs, seed=seed, vectorization=how, wrapper=wrapper, env_kwargs=given, **keys
    )


def copied(step):
    return step._replace(**{k: v.copy() for k, v in step._asdict().items() if hasattr(v, "copy")})


def legal_action(step, rng):
    return np.array([rng.choice(np.flatnonzero(row)) for row in step.legal])


def play(envs, steps=60, seed=0):
    """Makes legal steps; the env itself refuses others. Returns the rows."""
    rng, rows = np.random.default_rng(seed), [copied(envs.reset())]
    for _ in range(steps):
        rows.append(copied(envs.step(legal_action(rows[-1], rng))))
    return rows


WAYS = [
    {"by": ("info",)},
    {"by": ("part",)},
    {"by": ("method",)},
    {"wrapper": "tests.envs.masked:masker", "by": ("method",)},
    {"wrapper": "tests.envs.masked:masker", "by": (), "right": "method"},
    # Those before say the wrong thing if they were asked.
    {"by": ("info", "part", "method")},
    {"by": ("part", "method")},
    {"by": ("part",), "name": "mask", "action_masks": "mask"},
    {"by": ("info", "part", "method"), "right": "part", "name": "mask", "action_masks": "mask"},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_mask_is_read_where_it_is_and_is_no_observation(way, num_envs):
    envs = made(num_envs, **way)
    assert envs.has_action_masks and envs.observation_shape == (2,) and envs.parts == ()
    rows = play(envs)
    for row in rows:
        over = row.terminated
        assert row.legal.shape == (num_envs, NUM_ACTIONS)
        assert row.legal[over].all() and (row.legal[~over].sum(axis=1) == 2).all()
        assert np.abs(row.observation).max() < 6  # normal numbers, and no mask among them
    assert sum(row.terminated.sum() for row in rows) > 2
    assert sum(row.truncated.sum() for row in rows) > 1
    envs.close()


@pytest.mark.parametrize(
    ("by", "action_masks", "has_masks"),
    [
        (("info",), "info", True),
        (("info",), "off", False),
        (("part",), "info", False),
        (("part",), "off", False),
        (("info", "part"), "info", True),
        (("method",), "info", False),
        (("method",), "off", False),
    ],
)
def test_only_what_the_key_names_is_used(by, action_masks, has_masks):
    envs = made(by=by, action_masks=action_masks)
    assert envs.has_action_masks == (envs.reset().legal is not None) == has_masks
    # A part that is not used as a mask is an observation as before.
    seen = ["action_mask", "observation"] if "part" in by else []
    assert sorted(part.name for part in envs.parts) == seen


def test_a_part_that_is_named_among_the_wanted_ones_is_seen_too():
    envs = made(observation_keys=("observation", "action_mask"))
    assert envs.has_action_masks
    assert sorted(part.name for part in envs.parts) == ["action_mask", "observation"]
    envs = made(observation_keys=("observation",))
    assert envs.has_action_masks and envs.observation_shape == (2,)


def test_a_method_is_asked_where_an_episode_is_truncated_and_not_where_it_is_over():
    """Its values count there for the bootstrap; and it fails where the game is over."""
    envs = made(by=("method",), limit=4)
    env = envs._lanes[0].env.unwrapped
    rows = play(envs, 100)
    asked = sum(not row.terminated[0] for row in rows)
    # And once more by the first reset of all, which looks at what the env is.
    assert env.calls == asked + 1
    assert any(row.truncated[0] and not row.terminated[0] for row in rows)


def test_the_masks_come_back_with_their_episode():
    for by in ("part", "method"):
        envs, again = made(by=(by,)), made(by=(by,))
        rows = play(envs, 25)
        back, problems = again.restore(envs.state())
        assert problems == []
        if not rows[-1].terminated[0] and not rows[-1].truncated[0]:
            np.testing.assert_array_equal(back.legal, rows[-1].legal)


@pytest.mark.parametrize("by", ["part", "method"])
def test_workers_give_the_same_masks(by):
    one, other = (made(3, how=how, by=(by,)) for how in ("sync", "async"))
    try:
        for here, there in zip(play(one), play(other), strict=True):
            np.testing.assert_array_equal(here.legal, there.legal)
            np.testing.assert_array_equal(here.observation, there.observation)
    finally:
        one.close(), other.close()


@pytest.mark.parametrize("by", ["part", "method"])
def test_a_vector_env_says_it_of_all_its_envs(by):
    envs = made(3, how="vector_entry_point", by=(by,))
    assert envs.has_action_masks and envs.observation_shape == (2,)
    for row in play(envs):
        assert set(row.legal.sum(axis=1).tolist()) <= {2, NUM_ACTIONS}


class Said(gym.Env):
    """Says in a part what it is given; two branches of 2 and 3, or three bits."""

    def __init__(self, space, mask, action_space):
        self.action_space, self.mask = action_space, mask
        self.observation_space = Dict({"x": Box(-1, 1, (1,)), "action_mask": space})

    def reset(self, *, seed=None, options=None):
        return {"x": np.zeros(1, np.float32), "action_mask": self.mask}, {}

    def step(self, action):
        return {"x": np.zeros(1, np.float32), "action_mask": self.mask}, 0.0, False, False, {}


@pytest.fixture
def said():
    gym.register("test/Said-v0", Said)

    def envs(space, mask, action_space=None, **how):
        actions = action_space or Discrete(3)
        kwargs = {"space": space, "mask": mask, "action_space": actions}
        return make_envs("test/Said-v0", seed=0, env_kwargs=kwargs, **how)

    yield envs
    del gym.registry["test/Said-v0"]


FIVE = np.array([1, 0, 0, 1, 1], np.int8)
PIECES = Tuple((MultiBinary(2), MultiBinary(3)))


@pytest.mark.parametrize(
    ("space", "mask", "action_space", "legal"),
    [
        (MultiBinary(5), FIVE, MultiDiscrete([2, 3]), FIVE),
        (PIECES, (FIVE[:2], FIVE[2:]), MultiDiscrete([2, 3]), FIVE),
        (MultiDiscrete([3, 3, 3]), np.array([2, 0, 1]), MultiBinary(3), [1, 1, 1, 0, 0, 1]),
        (Box(0, 1, (3,)), np.float32([1, 0, 1]), Discrete(3), [1, 0, 1]),
        (Box(0, 1, (1, 3)), np.float32([[1, 0, 1]]), Discrete(3), None),  # of another shape
    ],
)
def test_a_part_has_any_form_that_an_info_may_have(said, space, mask, action_space, legal):
    if legal is None:
        with pytest.raises(EnvError, match=r"one of shape \(1, 3\).*action_masks = \"off\""):
            said(space, mask, action_space)
        return
    envs = said(space, mask, action_space)
    assert envs.observation_shape == (1,)
    assert envs.reset().legal.tolist() == [np.array(legal).astype(bool).tolist()]


def test_a_part_of_another_size_is_an_observation_unless_it_is_named(said):
    envs = said(MultiBinary(5), FIVE)
    assert not envs.has_action_masks
    assert [part.name for part in envs.parts] == ["action_mask", "x"]
    with pytest.raises(EnvError) as refused:
        said(MultiBinary(5), FIVE, action_masks="action_mask")
    assert str(refused.value) == (
        "env 'test/Said-v0': action_masks names 'action_mask', which has 5 numbers, and a mask of "
        "its actions has 3"
    )
    with pytest.raises(EnvError, match=r"the parts action_mask, x; did you mean 'action_mask'"):
        said(MultiBinary(5), FIVE, action_masks="action_masc")
    with pytest.raises(EnvError, match="its observation has no parts"):
        make_envs("CartPole-v1", seed=0, action_masks="mask")


@pytest.mark.parametrize("mask", [np.int8([1, 2, 0]), np.int8([0, 0, 0])], ids=str)
def test_a_part_that_is_no_mask_after_all_says_where_and_how_to_go_on(said, mask):
    with pytest.raises(EnvError) as refused:
        said(Box(0, 2, (3,), np.int8), mask)
    assert str(refused.value) == (
        "env 0 (test/Said-v0): the part 'action_mask' of an observation must be 0 or 1 for each of "
        "3 actions, with at least one 1 unless the episode ended, got "
        f'{mask.tolist()}; correct the env, or set action_masks = "off"'
    )


def test_a_method_that_fails_is_named_with_its_moment(monkeypatch):
    envs = made(by=("method",))
    envs.reset()
    env = envs._lanes[0].env.unwrapped
    monkeypatch.setattr(env, "said", lambda way: 1 / 0)
    with pytest.raises(EnvFailed, match=r"step 1 of its episode 0: ZeroDivisionError was raised"):
        envs.step(np.array([np.argmax(env.legal)]))
