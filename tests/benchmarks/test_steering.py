"""What being steerable costs a run, and how soon a change is in force.

make bench
"""

import statistics
import subprocess
import sys
import time

import numpy as np
import pytest

from targetnet.agents.config.files import load_config
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.loops.plain import training_loop
from targetnet.agents.run.trace import Tracer
from targetnet.envs import make_envs
from targetnet.rl_core.control.client import RunClient
from targetnet.rl_core.control.files import ControlFiles, is_alive
from targetnet.rl_core.control.log_writer import Position
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.control.steering import Steering

pytestmark = pytest.mark.benchmark


class Nobody:
    """Is steered, and has next to nothing to say."""

    def __init__(self, agent):
        self.agent = agent
        self.position = Position(0, 0, 0)

    def changed(self):
        pass

    def do(self, action, value=None):
        return None, None

    def answered(self, entry):
        pass

    def warn(self, text):
        pass

    def report(self):
        return {
            "status": "running", "env_id": "", "env_steps": 1, "env_steps_per_second": 0.0,
            "eta_seconds": None, "episodes": 0, "mean_return": None,
            "target_age": self.agent.inspect().target_age, "recent": {},
        }  # fmt: skip


def test_control_costs_under_one_percent_of_a_cartpole_run(tmp_path):
    """Inbox, state, trace: the time in them beside the time of all, in one and the same loop."""
    config = load_config("cartpole-plain", ["env_steps=30000"])
    envs = make_envs(config.env_id, seed=0)
    agent = DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
    clock, spent, number, nobody = time.perf_counter, 0.0, 0, Nobody(agent)
    with Steering(agent.hyperparameters, ControlFiles(tmp_path), nobody) as steering:
        tracer = Tracer(agent, tmp_path / "trace.bin", nobody.warn)
        begin, due = clock(), steering.due
        for tick in training_loop(agent, envs):
            t0 = clock()
            number += 1
            if number >= tracer.due:
                tracer.update(number)
            # As in `LoopRunner`: a safe point without work is passed by.
            if number >= due.tick or tick.env_step >= due.env_step or time.monotonic() >= due.time:
                nobody.position = Position(number, tick.env_step, agent.updates)
                steering.safe_point()
                due = steering.due
            spent += clock() - t0
        total = clock() - begin
    share = spent / total
    print(f"\ncontrol: {100 * share:.2f} % of a CartPole run, {1e6 * spent / number:.1f} us a tick")
    assert share < 0.01


def test_a_change_is_in_force_within_50_ms_of_its_file(tmp_path):
    """Median over 100 changes, from before the file is written to after the log has it."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "targetnet.agents.cli", "train", "cartpole", "--run", str(run)]
    with subprocess.Popen([*command, "--set", "env_steps=1000000"], stdout=subprocess.DEVNULL) as p:
        try:
            files = ControlFiles(run)
            while not (files.state.exists() and read_state(files)[0].update > 100):
                assert p.poll() is None
                time.sleep(0.1)
            client, rng = RunClient(run), np.random.default_rng(0)
            seconds = []
            for i in range(100):
                time.sleep(rng.uniform(0, 0.05))
                entry = client.set("sync_period", 50 + i)
                assert entry.taken
                seconds.append(entry.time - entry.asked)
        finally:
            p.terminate()
    print(
        f"\nfrom file to applied: median {1e3 * statistics.median(seconds):.1f} ms, "
        f"90 % within {1e3 * np.quantile(seconds, 0.9):.1f} ms, most {1e3 * max(seconds):.1f} ms"
    )
    assert statistics.median(seconds) < 0.05
    assert not is_alive(files)
