"""ALE's own vector env: its rows follow the contract of Step. Without the package it says so."""

import sys
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

from envs import Episode, episode_seed, make_envs
from rl_core.errors import EnvError

SPACE_INVADERS = "ale_py:ALE/SpaceInvaders-v5"
FRAMES = 200  # of an episode, unless a game ends before: 4 for each step


def made(num_envs, env_id=SPACE_INVADERS, **env_kwargs):
    kwargs = {"max_num_frames_per_episode": FRAMES} | env_kwargs
    return make_envs(
        env_id, num_envs, vectorization="vector_entry_point", seed=3, env_kwargs=kwargs
    )


def actions_for(envs, steps):
    rng = np.random.default_rng(0)
    return rng.integers(envs.num_actions, size=(steps, envs.num_envs)).astype(np.int32)


def copied(step):
    return step._replace(**{k: v.copy() for k, v in step._asdict().items() if hasattr(v, "copy")})


def played(envs, steps):
    rows = [copied(envs.reset())]
    return rows + [copied(envs.step(row)) for row in actions_for(envs, steps)]


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(EnvError) as refused:
        made(1)
    assert "the module 'ale_py' that should register it cannot be imported" in str(refused.value)
    assert str(refused.value).endswith("run: pip install 'targetnet[atari]'")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("shape", "stored"),
    [
        ((4, 84, 84), (84, 84, 4)),  # four frames
        ((1, 84, 84), (84, 84, 1)),
        ((3, 6, 7), (6, 7, 3)),  # 2 * 3 <= 6
        ((4, 6, 7), (4, 6, 7)),  # 2 * 4 > 6
        ((210, 160, 3), (210, 160, 3)),  # the channels are last as they are
        ((4, 84, 84, 3), (4, 84, 84, 3)),
    ],
)
def test_images_with_their_channels_first_are_stored_with_them_last(shape, stored):
    image = np.random.default_rng(0).integers(256, size=shape).astype(np.uint8)
    space = gym.spaces.Box(0, 255, shape, np.uint8)
    env_kwargs = {"observation": image, "observation_space": space}
    envs = make_envs("test/Fixed-v0", 2, seed=1, env_kwargs=env_kwargs)
    assert envs.observation_shape == stored
    expected = image if stored == shape else image.transpose(1, 2, 0)
    for env in range(2):
        np.testing.assert_array_equal(envs.reset().observation[env], expected)


def test_planes_that_are_no_images_stay_as_they_are():
    space = gym.spaces.Box(0, 1, (4, 10, 10), np.float32)
    env_kwargs = {"observation": np.zeros((4, 10, 10), np.float32), "observation_space": space}
    assert make_envs("test/Fixed-v0", seed=1, env_kwargs=env_kwargs).observation_shape == (
        (4, 10, 10)
    )


class TestInstalled:
    @pytest.fixture(autouse=True)
    def ale_py(self):
        pytest.importorskip("ale_py")

    def test_the_rows_are_those_of_the_bare_vector_env_with_its_frames_last(self):
        envs = made(3)
        bare = gym.make_vec(
            SPACE_INVADERS,
            3,
            vectorization_mode="vector_entry_point",
            reward_clipping=False,
            max_num_frames_per_episode=FRAMES,
        )
        observation, _ = bare.reset(seed=episode_seed(3, env=0, episode=0))
        step = envs.reset()
        assert envs.observation_shape == (84, 84, 4) and envs.observation_dtype == np.uint8
        assert step.observation.flags.c_contiguous
        np.testing.assert_array_equal(step.observation, observation.transpose(0, 2, 3, 1))
        ended = np.zeros(3, bool)
        for actions in actions_for(envs, 130):
            step = envs.step(actions)
            observation, reward, terminated, truncated, _ = bare.step(actions)
            np.testing.assert_array_equal(step.observation, observation.transpose(0, 2, 3, 1))
            np.testing.assert_array_equal(step.reward, reward)
            np.testing.assert_array_equal(step.terminated, terminated)
            np.testing.assert_array_equal(step.truncated, truncated)
            np.testing.assert_array_equal(step.autoreset, ended)
            ended = terminated | truncated

    def test_final_rows_continue_the_ones_before_and_reset_rows_pay_nothing(self):
        rows = played(made(3), 170)
        finals = 0
        for before, after in pairwise(rows):
            goes_on = ~after.autoreset  # also the rows that end an episode
            np.testing.assert_array_equal(
                after.observation[goes_on, :, :, :3], before.observation[goes_on, :, :, 1:]
            )
            np.testing.assert_array_equal(after.autoreset, before.terminated | before.truncated)
            assert not after.reward[after.autoreset].any()
            finals += int(np.count_nonzero(before.terminated | before.truncated))
        assert finals >= 9

    def test_episodes_return_the_sum_of_the_raw_rewards_and_are_cut_off(self):
        rows = played(made(3), 170)
        total, length, number = np.zeros(3), np.zeros(3, int), np.full(3, -1)
        counted, reported = [], []
        for row in rows:
            total = np.where(row.autoreset, 0.0, total + row.reward)
            length = np.where(row.autoreset, 0, length + 1)
            number += row.autoreset
            counted += [
                Episode(i, number[i], total[i], length[i], row.terminated[i])
                for i in np.flatnonzero(row.terminated | row.truncated)
            ]
            reported += row.episodes
        assert reported == counted and len(counted) >= 9
        assert not all(episode.terminated for episode in counted)
        # Space Invaders pays 5 and more for a hit: ALE's clipping to 1 is off.
        assert max(row.reward.max() for row in rows) >= 5

    def test_ales_own_clipping_may_be_asked_for(self):
        rows = played(made(3, reward_clipping=True), 100)
        assert {float(r) for row in rows for r in row.reward} == {0.0, 1.0}

    def test_the_same_seed_gives_the_same_rows_also_after_a_reset_in_between(self):
        envs = made(2, "ale_py:ALE/Breakout-v5")
        first, again = played(envs, 110), played(envs, 110)
        other = played(made(2, "ale_py:ALE/Breakout-v5"), 110)
        for a, b, c in zip(first, again, other, strict=True):
            assert a.episodes == b.episodes == c.episodes
            np.testing.assert_array_equal(a.observation, b.observation)
            np.testing.assert_array_equal(a.observation, c.observation)

    def test_an_unknown_game_names_the_nearest(self):
        with pytest.raises(EnvError, match=r"did you mean 'ALE/Breakout-v5'\?"):
            made(1, "ale_py:ALE/Braekout-v5")
