"""envpool's envs: their rows follow the contract of Step. Without the package it says so."""

import sys
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

from targetnet.envs import Episode, make_envs
from targetnet.rl_core.errors import EnvError


def made(env_id, num_envs, **env_kwargs):
    return make_envs(env_id, num_envs, vectorization="envpool", seed=3, env_kwargs=env_kwargs)


def refusal(env_id, **env_kwargs) -> str:
    with pytest.raises(EnvError) as refused:
        made(env_id, 2, **env_kwargs)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def played(envs, steps):
    """Copies of the first row and of `steps` rows of random play, and the actions before each."""
    rng = np.random.default_rng(0)
    actions = rng.integers(envs.num_actions, size=(steps, envs.num_envs)).astype(np.int32)
    rows = [copied(envs.reset())]
    for row in actions:
        rows.append(copied(envs.step(row)))
    return rows, [None, *actions]


def copied(step):
    return step._replace(**{k: v.copy() for k, v in step._asdict().items() if hasattr(v, "copy")})


def require_contract(rows) -> list[Episode]:
    """Asserts what Step says of any driver's rows; returns the episodes that they add up to."""
    ended = np.ones(len(rows[0].reward), bool)
    number, length, total = ended * -1, ended * 0, ended * 0.0
    counted = []
    for row in rows:
        np.testing.assert_array_equal(row.autoreset, ended)
        assert not (row.reward[ended].any() or row.terminated[ended].any())
        assert not row.truncated[ended].any()
        number, length = number + ended, np.where(ended, 0, length + 1)
        total = np.where(ended, 0.0, total + row.reward)
        ended = row.terminated | row.truncated
        here = [Episode(i, number[i], total[i], length[i], row.terminated[i])
                for i in np.flatnonzero(ended)]  # fmt: skip
        assert list(row.episodes) == here
        counted += here
    return counted


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    assert refusal("CartPole-v1").endswith("run: pip install 'targetnet[envpool]'")


class TestInstalled:
    @pytest.fixture(autouse=True)
    def envpool(self):
        pytest.importorskip("envpool")

    @pytest.mark.parametrize("env_id", ["CartPole-v1", "FrozenLake-v1", "Catch-v0", "Acrobot-v1"])
    def test_rows_follow_the_contract_and_episodes_are_their_sums(self, env_id):
        rows, _ = played(made(env_id, 6, max_episode_steps=25), 1000)
        episodes = require_contract(rows)
        assert len(episodes) > 100
        lengths = {e.length for e in episodes if not e.terminated}
        assert lengths <= {25}  # the time limit truncates

    def test_final_observations_of_cartpole_are_where_the_last_action_leads(self):
        rows, actions = played(made("CartPole-v1", 4, max_episode_steps=20), 500)
        single = gym.make("CartPole-v1").unwrapped
        single.reset(seed=0)
        checked = 0
        for before, action, after in zip(rows, actions[1:], rows[1:], strict=False):
            for env in np.flatnonzero(after.terminated | after.truncated):
                single.state = before.observation[env].astype(np.float64)
                single.steps_beyond_terminated = None
                observation, _, terminated, _, _ = single.step(int(action[env]))
                np.testing.assert_allclose(after.observation[env], observation, atol=1e-5)
                assert terminated or after.truncated[env]
                checked += 1
            # CartPole's episodes begin within 0.05 of upright and at rest.
            assert np.all(np.abs(after.observation[after.autoreset]) <= 0.05)
        assert checked > 50

    def test_atari_frames_come_last_and_the_final_row_continues_the_one_before(self):
        rows, _ = played(made("SpaceInvaders-v5", 3, max_episode_steps=60), 200)
        assert rows[0].observation.shape == (3, 84, 84, 4)
        assert rows[0].observation.dtype == np.uint8
        assert rows[0].observation.flags.c_contiguous
        assert len(require_contract(rows)) >= 9
        for before, after in pairwise(rows):
            goes_on = ~after.autoreset
            np.testing.assert_array_equal(
                after.observation[goes_on, :, :, :3], before.observation[goes_on, :, :, 1:]
            )
        # Space Invaders pays 5 and more: what an episode returns is not clipped.
        assert max(row.reward.max() for row in rows) >= 5

    def test_the_same_seed_gives_the_same_rows_also_after_a_reset_in_between(self):
        envs = made("CartPole-v1", 3)
        first, again, other = (played(e, 200)[0] for e in (envs, envs, made("CartPole-v1", 3)))
        for a, b, c in zip(first, again, other, strict=True):
            assert a.episodes == b.episodes == c.episodes
            np.testing.assert_array_equal(a.observation, b.observation)
            np.testing.assert_array_equal(a.observation, c.observation)

    def test_it_cannot_be_brought_back_and_says_so(self):
        envs = made("CartPole-v1", 2)
        envs.reset()
        step, problems = envs.restore(envs.state())
        assert problems == ["a vector env cannot be restored (CartPole-v1)"]
        assert step.autoreset.all()

    def test_closed_twice(self):
        envs = made("CartPole-v1", 2)
        envs.close()
        envs.close()

    @pytest.mark.parametrize(
        ("typo", "meant"),
        [("CartPole-v9", "CartPole-v1"), ("ale_py:ALE/Pong-v5", "Pong-v5")],
    )
    def test_an_unknown_id_names_the_nearest(self, typo, meant):
        assert refusal(typo) == f"envpool has no env {typo!r}; did you mean {meant!r}?"

    def test_an_unknown_argument_names_the_nearest(self):
        message = refusal("CartPole-v1", max_episode_step=3)
        assert message.startswith(
            "envpool's 'CartPole-v1' takes no argument 'max_episode_step' (env_kwargs); "
            "did you mean 'max_episode_steps'?; it takes "
        )

    def test_what_the_driver_decides_is_no_argument(self):
        assert "takes no argument 'batch_size'" in refusal("CartPole-v1", batch_size=1)

    def test_a_wrong_argument_and_continuous_actions_are_refused(self):
        assert "cannot be made with env_kwargs {'num_threads': 'a'}" in (
            refusal("CartPole-v1", num_threads="a")
        )
        assert "a continuous action space" in refusal("Pendulum-v1")

    def test_nothing_is_printed(self, capfd):
        made("CartPole-v1", 2).reset()
        assert capfd.readouterr() == ("", "")
