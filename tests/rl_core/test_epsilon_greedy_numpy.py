"""Epsilon-greedy outside the graph, beside the same comparison row by row."""

import numpy as np
import pytest

from targetnet.rl_core.epsilon_greedy_numpy import EpsilonGreedy
from targetnet.rl_core.random import Stream

STEPS = 600  # beyond two draws of 256


def drawn(num_envs):
    """[STEPS, 2, N] coins and dice."""
    return Stream(7, "act").uniform_in_numpy(0, STEPS, (2, num_envs))


@pytest.mark.parametrize("num_envs", [1, 3])
def test_each_env_explores_where_its_coin_is_below_epsilon(num_envs):
    numbers, best = drawn(num_envs), np.full(num_envs, 9, np.int32)
    choose = EpsilonGreedy(Stream(7, "act"), num_envs, 5)
    for time_step, (coins, dice) in enumerate(numbers):
        # An epsilon of just this step's first coin does not make that env explore.
        for epsilon in (0.0, 0.5, coins[0].item(), 1.0):
            wanted = [
                int(die * 5) if coin < epsilon else 9 for coin, die in zip(coins, dice, strict=True)
            ]
            got = choose(lambda _: best, np.zeros(num_envs), epsilon, time_step)
            assert got.tolist() == wanted and got.dtype == np.int32


def test_the_network_is_asked_only_where_an_env_does_not_explore():
    asked = []
    choose = EpsilonGreedy(Stream(7, "act"), 3, 5)
    for time_step in range(STEPS):
        choose(
            lambda _, t=time_step: asked.append(t) or np.zeros(3, np.int32), None, 0.5, time_step
        )
    assert asked == np.flatnonzero((drawn(3)[:, 0] >= 0.5).any(axis=1)).tolist()


def test_time_steps_may_come_in_any_order():
    numbers = drawn(1)
    choose = EpsilonGreedy(Stream(7, "act"), 1, 1000)
    for time_step in (500, 3, 300, 255, 256):
        wanted = int(numbers[time_step, 1, 0] * 1000)
        assert choose(None, None, 1.0, time_step).tolist() == [wanted]
