"""Demonstrations of a plain rule take a car up a hill that DQN alone hardly climbs in that time."""

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.train import train
from targetnet.envs.recorder import RecordedSteps
from tests.agents.data.datasets import written

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]
SEEDS = range(8_100, 8_103)
# Chosen on the seeds 0 to 2.
CONFIG = {
    "env_id": "MountainCar-v0", "env_steps": 6_000, "hidden": (64, 64), "batch_size": 128,
    "replay_capacity": 40_000, "learn_start": 1_000, "learn_period": 32, "updates_per_learn": 32,
    "loss": "squared", "max_grad_norm": 1_000.0, "n_step": 3, "double": True, "prioritized": True,
    "sync_period": 200,
    "epsilon": {"schedule": "linear", "start": 0.1, "end": 0.01, "steps": 5_000},
    "learning_rate": {"schedule": "linear", "start": 1e-3, "end": 1e-5, "fraction": 1.0},
    "eval_period": 100_000, "final_eval_episodes": 50, "checkpoint_seconds": 0, "past_states": 0,
}  # fmt: skip
BEGUN = {"margin_weight": 1.0, "demonstration_bonus": 1.0}


def pushed(episodes, seed=0):
    """Episodes of a rule: push the way the car rolls."""
    env = gym.make("MountainCar-v0")
    for number in range(episodes):
        observation, _ = env.reset(seed=seed + number)
        shown, actions, rewards, over, terminated = [observation], [], [], False, False
        while not over:
            actions.append(2 if observation[1] > 0 else 0)
            observation, reward, terminated, truncated, _ = env.step(actions[-1])
            shown.append(observation)
            rewards.append(reward)
            over = terminated or truncated
        yield RecordedSteps(
            np.stack(shown), np.int64(actions), np.float64(rewards), terminated, not terminated
        )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    env = gym.make("MountainCar-v0")
    return written(tmp_path_factory.mktemp("data") / "pushed-v0", pushed(10), env)


def returns_of(folder, **settings):
    found = []
    for seed in SEEDS:
        config = DqnConfig(**CONFIG | {"seed": seed} | settings)
        found.append(np.mean(train(config, folder / f"{seed}", console=None).returns))
    return found


def test_with_ten_demonstrations_the_car_gets_up_the_hill_with_every_seed(data, tmp_path):
    shown = np.mean([of.rewards.sum() for of in pushed(10)])
    found = {
        "alone": returns_of(tmp_path / "alone"),
        "in the replay": returns_of(tmp_path / "replay", begin_with=str(data)),
        "and margin, bonus": returns_of(tmp_path / "all", begin_with=str(data), **BEGUN),
    }
    print(f"\nmean return of the demonstrations: {shown:.1f}")
    for name, means in found.items():
        print(f"{name}: mean returns {[f'{of:.1f}' for of in means]}")
    begun = found["and margin, bonus"]
    assert min(begun) > max(found["alone"]) and np.mean(begun) >= -160
