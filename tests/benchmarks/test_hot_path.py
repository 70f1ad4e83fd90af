"""What one env step costs beside a bare `env.step`, and what logging adds to a run.

make bench
"""

import statistics
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.config.files import load_config
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.loops.plain import training_loop
from targetnet.agents.run.curves import Reporter
from targetnet.envs import make_envs
from tests.benchmarks.timing import interleaved, ratio

pytestmark = pytest.mark.benchmark
STEPS = 2_000


def test_observe_and_act_costs_at_most_four_bare_env_steps():
    """Each timed where it is used, in turn in one loop; then each alone, over and over."""
    envs = make_envs("CartPole-v1", seed=0)
    agent = DqnAgent(DqnConfig(hidden=(64, 64)), (4,), np.float32, 2)
    bare = gym.make("CartPole-v1").unwrapped
    bare.reset(seed=0)
    step = envs.reset()
    clock = time.perf_counter
    acting: list[float] = []
    stepping: list[float] = []
    for i in range(20_000):
        t0 = clock()
        actions = agent.step(step.observation, step.reward, step.terminated, step.autoreset, 0.5)
        t1 = clock()
        ended = bare.step(i % 2)[2]
        t2 = clock()
        acting.append(t1 - t0)
        stepping.append(t2 - t1)
        if ended:
            bare.reset()
        step = envs.step(actions)
    in_the_loop = statistics.median(acting) / statistics.median(stepping)
    print(f"\nin the loop: observe and act / env.step: {in_the_loop:.2f}")

    def observe_and_act():
        for _ in range(STEPS):
            agent.step(step.observation, step.reward, step.terminated, step.autoreset, 0.5)

    def bare_env_steps():
        for i in range(STEPS):
            if bare.step(i % 2)[2]:
                bare.reset()

    times = interleaved({"observe and act": observe_and_act, "env.step": bare_env_steps}, 30)
    ratio(times, "observe and act", "env.step")
    assert in_the_loop <= 4


def test_logging_at_the_default_cadence_is_less_than_three_percent_of_a_run(tmp_path: Path):
    """Both in one run: the time inside the reporter, and the time of everything."""
    config = load_config("cartpole-plain", ["env_steps=20_000"])
    envs = make_envs(config.env_id, seed=0)
    agent = DqnAgent(config, (4,), np.float32, 2)
    reporter = Reporter(tmp_path, agent, pytest.fail)
    logging = 0.0
    begin = time.perf_counter()
    for tick in training_loop(agent, envs):
        before = time.perf_counter()
        reporter.tick(tick)
        logging += time.perf_counter() - before
    share = logging / (time.perf_counter() - begin)
    reporter.close()
    print(f"\nlogging: {share:.2%} of the run")
    assert share < 0.03


def test_a_fused_phase_is_cheaper_per_update_than_single_updates():
    agents = {
        "fused": DqnAgent(DqnConfig(hidden=(64, 64), updates_per_learn=64), (4,), np.float32, 2),
        "single": DqnAgent(DqnConfig(hidden=(64, 64)), (4,), np.float32, 2),
    }
    for agent in agents.values():
        for i in range(100):
            start = np.array([i == 0])
            agent.step(np.ones((1, 4), np.float32), np.ones(1, np.float32), ~start, start, 1.0)
    times = interleaved({n: lambda a=a: a.learn(64) for n, a in agents.items()}, 30)
    assert ratio(times, "fused", "single") < 1


def test_leaving_the_torso_alone_is_cheaper_than_training_it():
    agent = DqnAgent(DqnConfig(hidden=(64, 64)), (4,), np.float32, 2)
    for i in range(100):
        start = np.array([i == 0])
        agent.step(np.ones((1, 4), np.float32), np.ones(1, np.float32), ~start, start, 1.0)

    def updates(exempt):
        agent.hyperparameters["exempt"] = exempt
        for _ in range(100):
            agent.learn()

    times = interleaved({"head": lambda: updates("torso"), "all": lambda: updates(())}, 30)
    assert ratio(times, "head", "all") < 1
