"""Branching dueling Q finds what is best in every branch, on ten seeds of ten."""

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.run.train import train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]
# Chosen on the seeds 0, 1 and 2.
CONFIG = {
    "env_id": "tests.agents.lamps:Lamps-v0",
    "env_steps": 30_000,
    "hidden": (128,),
    "dueling": True,
    "double": True,
    "discount": 0.9,
    "loss": "huber",
    "learning_rate": {"schedule": "linear", "start": 2e-3, "end": 2e-4, "steps": 30_000},
    "learn_period": 8,
    "updates_per_learn": 8,
    "sync_period": 200,
    "epsilon": {"schedule": "linear", "start": 1.0, "end": 0.05, "steps": 5_000},
    "eval_period": 30_000,
    "final_eval_episodes": 100,
    "past_states": 0,
}
SEEDS = {False: range(8_000, 8_010), True: range(8_010, 8_020)}


@pytest.mark.parametrize("binary", SEEDS, ids=["MultiDiscrete", "MultiBinary"])
def test_all_nine_lamps_are_right_on_every_seed(tmp_path, binary):
    """By 18 outputs; a random action has half of them right, and a return of 20 is all."""
    means, outputs = [], []

    def look(agent: DqnAgent, tick):
        if not outputs:
            outputs.append(agent.q_values(np.zeros((1, 18), np.float32)).shape)

    for seed in SEEDS[binary]:
        config = DqnConfig(**CONFIG, env_kwargs={"binary": binary}, seed=seed)
        outcome = train(config, tmp_path / str(seed), on_tick=look, console=None)
        means.append(np.mean(outcome.returns))
    print(np.round(means, 2).tolist())
    assert outputs == [(1, 18)]
    assert min(means) >= 19.5, means
