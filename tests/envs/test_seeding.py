"""Seeds of episodes: fixed for good, all different, and their own for each env."""

import gymnasium as gym
import numpy as np

from targetnet.envs import episode_seed, make_envs


def test_the_seed_of_an_episode_is_this_number_for_good():
    # Runs recorded earlier are replayed with it.
    assert episode_seed(0, env=0, episode=0) == 2044266242
    assert episode_seed(12345, env=3, episode=70) == 1726600305


def test_runs_envs_and_episodes_all_have_different_seeds_that_fit_int32():
    seeds = [episode_seed(s, e, k) for s in range(5) for e in range(5) for k in range(40)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_later_episode_can_be_reproduced_alone():
    envs = make_envs("CartPole-v1", 2, seed=5)
    actions = np.random.default_rng(0).integers(2, size=(500, 2))
    rows, number = [np.copy(envs.reset().observation[1])], 0
    for row in actions:
        step = envs.step(row)
        if step.autoreset[1]:
            number += 1
            rows, taken = [], []
        elif number == 3:
            taken.append(int(row[1]))
        rows.append(np.copy(step.observation[1]))
        if number == 3 and step.terminated[1]:
            break

    alone = gym.make("CartPole-v1")
    observation, _ = alone.reset(seed=episode_seed(5, env=1, episode=3))
    again = [observation] + [alone.step(action)[0] for action in taken]
    np.testing.assert_array_equal(rows, again)
