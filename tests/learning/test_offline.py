"""Offline runs learn to balance CartPole from a dataset of a policy with random actions."""

import numpy as np
import pytest

from agents.config.model import DqnConfig
from agents.data.record import record
from agents.run.train import train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]
SEEDS = range(3)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A policy that a short run has learned, with one random action in five."""
    folder = tmp_path_factory.mktemp("data")
    outcome = train("cartpole", folder / "run", console=None)
    made = record(outcome.run, folder / "cartpole-v0", env_steps=50_000, epsilon=0.2)
    return made.path


def test_conservative_q_learning_balances_the_pole_with_every_seed(data, tmp_path):
    """Without the penalty, values of actions that the data lack are guesses: see docs/data.md."""
    returns = []
    for seed in SEEDS:
        config = DqnConfig(
            env_id="CartPole-v1", offline=str(data), seed=seed, env_steps=10_000, hidden=(64, 64),
            learn_start=0, learn_period=16, updates_per_learn=16, sync_period=200, batch_size=128,
            learning_rate={"schedule": "linear", "start": 1e-3, "end": 1e-5, "fraction": 1.0},
            double=True, cql_weight=1.0, eval_period=100_000, final_eval_episodes=20,
            checkpoint_seconds=0,
        )  # fmt: skip
        returns.append(np.mean(train(config, tmp_path / f"{seed}", console=None).returns))
    print(f"\nmean returns {[f'{of:.1f}' for of in returns]}")
    assert min(returns) >= 400
