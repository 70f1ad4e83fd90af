"""Running normalization makes the units of observations a matter of taste."""

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.config.files import load_config
from targetnet.agents.run.train import train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]
UNITS = np.float32([1e3, 1.0, 1e-2, 1.0])  # millimetres, and an angle in other units
SEEDS = range(8_020, 8_023)


class InOtherUnits(gym.ObservationWrapper):
    """CartPole with one number a thousand times larger and another a hundred times smaller."""

    def __init__(self, env):
        super().__init__(env)
        space = env.observation_space
        self.observation_space = gym.spaces.Box(space.low * UNITS, space.high * UNITS)

    def observation(self, observation):
        return observation * UNITS


def final_returns(tmp_path, seeds, *, normalized):
    changes = {"env_wrapper": f"{__name__}:InOtherUnits", "normalize_observations": normalized}
    means = []
    for seed in seeds:
        run = tmp_path / f"{normalized}-{seed}"
        outcome = train(load_config("cartpole", changes | {"seed": seed}), run, console=None)
        means.append(float(np.mean(outcome.returns)))
    print(np.round(means, 1).tolist())
    return means


def test_with_it_cartpole_in_other_units_is_learned_and_without_it_is_not(tmp_path):
    with_it = final_returns(tmp_path, SEEDS, normalized=True)
    without = final_returns(tmp_path, SEEDS, normalized=False)
    assert min(with_it) >= 475
    assert np.mean(without) < 400
