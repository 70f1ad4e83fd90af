"""The actions that are legal at each row, as the env's infos say."""

import gymnasium as gym
import numpy as np
import pytest

from targetnet.envs import make_envs
from targetnet.rl_core.errors import EnvError
from tests.gymnasium_versions import TAXI

GO_ON, TERMINATE, TRUNCATE = 0, 1, 2
WANTED = (
    "info['action_mask'] must be 0 or 1 for each of 3 actions, with at least one 1 unless the "
    "episode ended"
)


def masked(*masks, num_envs=1, **env_kwargs):
    return make_envs("test/Masked-v0", num_envs, seed=1, env_kwargs={"masks": masks, **env_kwargs})


def masked_vector(*infos):
    return make_envs(
        "test/Masked-v0",
        2,
        vectorization="vector_entry_point",
        seed=1,
        env_kwargs={"infos": infos},
    )


def refusal(envs, actions) -> str:
    """Returns the one line with which the last of `actions`, [T, N], is refused."""
    envs.reset()
    for row in actions[:-1]:
        envs.step(np.array(row))
    with pytest.raises(EnvError) as refused:
        envs.step(np.array(actions[-1]))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_the_masks_of_taxi_are_in_the_row_of_their_observation():
    envs = make_envs(TAXI, 2, seed=3)
    rng = np.random.default_rng(0)
    assert envs.has_action_masks
    step, resets = envs.reset(), 0
    for _ in range(1000):
        assert step.legal.shape == (2, 6) and step.legal.dtype == bool
        assert step.legal.flags.c_contiguous
        for i, lane in enumerate(envs._lanes):
            taxi = lane.env.unwrapped
            assert step.legal[i].tolist() == taxi.action_mask(taxi.s).astype(bool).tolist()
            assert np.argmax(step.observation[i]) == taxi.s
        resets += int(step.autoreset.sum())
        step = envs.step(rng.integers(6, size=2))
    assert resets > 5


def test_an_env_without_masks_has_no_legal_rows():
    envs = make_envs("CartPole-v1", seed=1)
    assert not envs.has_action_masks
    assert envs.reset().legal is None
    assert envs.step(np.array([0])).legal is None


def test_a_mask_that_only_steps_give_is_none():
    envs = masked(None, [1, 0, 0])
    assert not envs.has_action_masks
    envs.reset()
    assert envs.step(np.array([GO_ON])).legal is None


NUMBERS = [
    [1, 0, 1],
    (True, False, True),
    np.array([1, 0, 1], np.int8),
    np.array([1, 0, 1], bool),
    np.float32([1, 0, 1]),
]


@pytest.mark.parametrize("mask", NUMBERS, ids=str)
def test_a_mask_may_be_of_bool_or_of_0_and_1(mask):
    envs = masked(mask)
    assert envs.reset().legal.tolist() == [[True, False, True]]


def test_each_row_has_the_mask_of_its_own_observation():
    envs = masked([1, 0, 0], [0, 1, 0], [0, 0, 1], num_envs=2)
    assert envs.reset().legal.tolist() == [[1, 0, 0], [1, 0, 0]]
    assert envs.step(np.array([GO_ON, TERMINATE])).legal.tolist() == [[0, 1, 0], [0, 1, 0]]
    # Env 1 begins its next episode.
    assert envs.step(np.array([GO_ON, GO_ON])).legal.tolist() == [[0, 0, 1], [1, 0, 0]]


def test_the_legal_rows_are_overwritten_by_the_next_step():
    envs = masked([1, 0, 0], [0, 1, 0])
    kept = envs.reset().legal
    assert envs.step(np.array([GO_ON])).legal is kept


@pytest.mark.parametrize("end", [TERMINATE, TRUNCATE])
def test_where_an_episode_ends_with_nothing_legal_all_is(end):
    envs = masked([1, 0, 0], [0, 0, 0])
    envs.reset()
    step = envs.step(np.array([end]))
    assert step.legal.tolist() == [[True, True, True]]
    assert envs.step(np.array([GO_ON])).legal.tolist() == [[True, False, False]]


@pytest.mark.parametrize("end", [TERMINATE, TRUNCATE])
def test_where_an_episode_ends_with_something_legal_the_mask_is_kept(end):
    envs = masked([1, 0, 0], [0, 1, 0])
    envs.reset()
    assert envs.step(np.array([end])).legal.tolist() == [[False, True, False]]


def test_a_mask_counts_from_the_first_action():
    envs = masked([0, 1, 1], start=5)
    step = envs.reset()
    assert envs.spaces.actions.first == 5
    assert step.legal.tolist() == [[False, True, True]]
    assert envs.step(np.array([TERMINATE])).terminated[0]  # the env was given 5 + 1


def test_the_masks_come_back_with_their_episode():
    masks = [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]
    envs = masked(*masks)
    envs.reset()
    for _ in range(2):
        envs.step(np.array([GO_ON]))
    again, problems = masked(*masks).restore(envs.state())
    assert (problems, again.legal.tolist()) == ([], [[False, False, True]])


# what the first step gives        got
BROKEN = [
    (None,                         "none, though the first reset gave one"),
    ([1, 1],                       "one of shape (2,) and dtype int64"),
    ([[1, 1, 1]],                  "one of shape (1, 3) and dtype int64"),
    (["a", "b", "c"],              "one of shape (3,) and dtype <U1"),
    ([0, 2, 1],                    "[0, 2, 1]"),
    ([0, -1, 1],                   "[0, -1, 1]"),
    ([0.0, 0.5, 1.0],              "[0.0, 0.5, 1.0]"),
    ([0.0, float("nan"), 1.0],     "[0.0, nan, 1.0]"),
    ([0, 0, 0],                    "[0, 0, 0]"),
    (([1, 1], [1]),                "one of shape () and dtype object"),
]  # fmt: skip


@pytest.mark.parametrize(("mask", "got"), BROKEN)
def test_a_mask_that_cannot_be_used_names_env_index_and_what_came(mask, got):
    message = f"{WANTED}, got {got}; correct the env"
    where = "(test/Masked-v0), step 1 of its episode 0"
    assert refusal(masked([1, 1, 1], mask), [[GO_ON]]) == f"env 0 {where}: {message}"
    # Env 0 begins its second episode while env 1 goes on to the second mask.
    envs = masked([1, 1, 1], [1, 1, 1], mask, num_envs=2)
    where = "(test/Masked-v0), step 2 of its episode 0"
    assert refusal(envs, [[TERMINATE, GO_ON], [GO_ON, GO_ON]]) == f"env 1 {where}: {message}"


@pytest.mark.parametrize("mask", [mask for mask, _ in BROKEN[1:]], ids=str)
def test_a_first_mask_that_cannot_be_used_is_refused_before_the_run(mask):
    with pytest.raises(EnvError, match=r"env 0 \(test/Masked-v0\): info\['action_mask'\] must"):
        masked(mask)


@pytest.mark.parametrize("end", [TERMINATE, TRUNCATE])
def test_also_the_row_that_ends_an_episode_must_have_a_mask(end):
    assert "got none" in refusal(masked([1, 1, 1], None), [[end]])


ALL = np.ones((2, 3), np.int8)


def test_a_vector_env_gives_the_masks_of_all_its_envs():
    present = np.array([True, True])
    envs = masked_vector(
        {"action_mask": ALL},
        {"action_mask": np.array([[1, 0, 0], [0, 1, 1]]), "_action_mask": present},
        {"action_mask": np.array([[0, 0, 0], [0, 1, 0]]), "_action_mask": present},
    )
    assert envs.has_action_masks
    step = envs.reset()
    assert (step.legal.dtype, step.legal.tolist()) == (bool, ALL.astype(bool).tolist())
    assert envs.step(np.array([GO_ON, GO_ON])).legal.tolist() == [[1, 0, 0], [0, 1, 1]]
    # Env 0 ends with nothing legal.
    assert envs.step(np.array([TRUNCATE, GO_ON])).legal.tolist() == [[1, 1, 1], [0, 1, 0]]


def test_a_vector_env_without_masks_has_no_legal_rows():
    envs = masked_vector({}, {"action_mask": ALL})
    assert not envs.has_action_masks
    assert envs.reset().legal is None
    assert envs.step(np.array([GO_ON, GO_ON])).legal is None


ONE_OF_TWO = WANTED.replace("3 actions", "2 envs and 3 actions")
# what the second step gives                                   of          got
BROKEN_VECTORS = [
    ({},                                                       "envs 0 to 1", "none, though"),
    ({"action_mask": ALL[0]},                                  "envs 0 to 1", "one of shape (3,)"),
    ({"action_mask": ALL, "_action_mask": np.array([1, 0])},   "env 1",       "none, though"),
    ({"action_mask": np.array([[1, 1, 1], [3, 0, 0]])},        "env 1",       "[3, 0, 0];"),
    ({"action_mask": np.array([[0, 0, 0], [0, 0, 0]])},        "env 1",       "[0, 0, 0];"),
]  # fmt: skip


@pytest.mark.parametrize(("info", "owner", "got"), BROKEN_VECTORS)
def test_a_mask_of_a_vector_env_that_cannot_be_used_names_the_env(info, owner, got):
    envs = masked_vector({"action_mask": ALL}, info)
    message = refusal(envs, [[TERMINATE, GO_ON]])
    when = "step 1 of its episode 0" if owner == "env 1" else "step"
    assert message.startswith(f"{owner} (test/Masked-v0), {when}: {ONE_OF_TWO}, got {got}")


def test_the_presence_array_of_gymnasiums_own_vector_envs_is_understood():
    def taxis(num_envs):
        return gym.vector.SyncVectorEnv([lambda: gym.make(TAXI)] * num_envs)

    gym.register("test/Taxis-v0", vector_entry_point=taxis)
    envs = make_envs("test/Taxis-v0", 3, vectorization="vector_entry_point", seed=1)
    step = envs.reset()
    for _ in range(450):  # over two time limits of 200
        for i, env in enumerate(envs._env.unwrapped.envs):
            taxi = env.unwrapped
            assert step.legal[i].tolist() == taxi.action_mask(taxi.s).astype(bool).tolist()
        step = envs.step(np.array([0, 1, 2]))
    del gym.registry["test/Taxis-v0"]
