"""What must not grow while a run goes on: graph, threads, memory."""

import os
import threading
from pathlib import Path

import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.loops.plain import training_loop
from targetnet.envs import make_envs

pytestmark = pytest.mark.slow
PAGE = os.sysconf("SC_PAGE_SIZE")


def footprint(agent: DqnAgent) -> tuple[int, int, int]:
    """(graph operations, threads of the process, resident bytes)."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    threads = len(list(Path("/proc/self/task").iterdir()))
    return len(agent.engine.graph.get_operations()), threads, resident


def test_graph_threads_and_memory_are_flat_over_half_a_million_env_steps():
    config = DqnConfig(
        hidden=(64, 64),
        env_steps=500_000,
        replay_capacity=20_000,  # full, so committed, well before the first look
        learn_period=64,
        updates_per_learn=8,
    )
    envs = make_envs(config.env_id, seed=0)
    agent = DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
    looks = [footprint(agent) for tick in training_loop(agent, envs) if tick.env_step % 50_000 == 0]
    operations, threads, resident = zip(*looks, strict=True)
    print(f"\noperations {operations}\nthreads {threads}\nresident {resident}")
    assert threading.active_count() == 1
    assert len(set(operations)) == 1
    assert len(set(threads[1:])) == 1
    assert resident[-1] - resident[1] < 5e6
