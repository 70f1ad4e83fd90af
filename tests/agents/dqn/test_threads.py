"""Agents whose operations share their work between two threads: the same bits each time."""

import json
import subprocess
import sys

import pytest

AGENTS = 20
# In a process of its own: the first engine of a process decides about its threads.
SCRIPT = """
import json, sys
import numpy as np
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent

settings, agents = json.loads(sys.argv[1]), int(sys.argv[2])
shape = (10, 10, 4) if settings.get("network") == "minatar" else (4,)
common = {"batch_size": 256, "replay_capacity": 1_000, "sync_period": 20, "past_states": 0}
agent = DqnAgent(DqnConfig(**common | {"threads": 2} | settings), shape, np.float32, 3)
rng = np.random.default_rng(0)
rows = {
    "observation": rng.normal(size=(500, 1, *shape)).astype(np.float32),
    "action": rng.integers(3, size=(500, 1)).astype(np.int32),
    "reward": rng.normal(size=(500, 1)).astype(np.float32),
    "terminated": rng.random((500, 1)) < 0.1, "autoreset": np.zeros((500, 1), bool),
}
for _ in range(agents):
    agent.reset()
    agent.store(rows)
    for _ in range(48 // agent.config.updates_per_learn):
        agent.learn(agent.config.updates_per_learn)
    print(agent.state.digest())
"""
KINDS = {
    "one update in a call": {"hidden": [256, 256], "updates_per_learn": 1},
    "16 in a call": {"hidden": [256, 256], "updates_per_learn": 16},
    "not compiled": {
        "hidden": [256, 256], "xla": False, "layer_norm": True, "head": "categorical",
        "loss": "huber", "updates_per_learn": 1,
    },
    "convolutions": {"network": "minatar", "hidden": [128], "updates_per_learn": 4},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_agents_with_two_threads_have_the_same_bits(kind):
    command = [sys.executable, "-c", SCRIPT, json.dumps(KINDS[kind]), str(AGENTS)]
    done = subprocess.run(command, capture_output=True, text=True)
    digests = done.stdout.split()
    assert len(digests) == AGENTS, done.stderr[-2_000:]
    assert len(set(digests)) == 1
