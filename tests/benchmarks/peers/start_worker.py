"""How long commands take from their start: each run is a process of its own.

{"what": "help"}         targetnet --help, to its end
{"what": "tensorflow"}   the import of TensorFlow, to its end
{"what": "first_step"}   targetnet train cartpole, until the first env step is made
{"what": "peer", "program": ..., "task": {...}, "packages": [...]}
                         a peer's training, until its first env step is made
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from protocol import Work, serve

_FIRST_STEP = """
import os
from targetnet.agents.cli.main import main
from targetnet.envs.drivers import SingleEnv
step = SingleEnv.step
def first_step(self, actions):
    step(self, actions)
    os._exit(0)
SingleEnv.step = first_step
main(["train", "cartpole"])
"""

_SB3 = 'DQN("MlpPolicy", gymnasium.make("CartPole-v1")).learn(10_000)'
# What each peer runs; a worker's script trains as that worker does.
_OF_PEERS = {
    "stable_baselines3": f"from stable_baselines3 import DQN; {_SB3}",
    "sbx": f"from sbx import DQN; {_SB3}",
    "tianshou": "import tianshou_worker; tianshou_worker.training(task)",
    "cleanrl_jax": "import cleanrl_jax_worker; cleanrl_jax_worker.make(task)",
    "jax_per_step_dqn": "import yardstick_worker; yardstick_worker.make(task).run(10_000)",
}

_PEER_FIRST_STEP = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
task = json.loads(sys.argv[2])
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv
step = CartPoleEnv.step
def first_step(self, action):
    step(self, action)
    os._exit(0)
CartPoleEnv.step = first_step
"""


def command_of(setup: dict[str, Any]) -> list[str]:
    targetnet = str(Path(sys.executable).with_name("targetnet"))
    match setup["what"]:
        case "help":
            return [targetnet, "--help"]
        case "tensorflow":
            return [sys.executable, "-c", "import tensorflow"]
        case "first_step":
            return [sys.executable, "-c", _FIRST_STEP]
    code = _PEER_FIRST_STEP + _OF_PEERS[setup["program"]]
    here = str(Path(__file__).parent)
    return [sys.executable, "-c", code, here, json.dumps(setup["task"])]


def make(setup: dict[str, Any]) -> Work:
    command = command_of(setup)
    # The directory goes when the process ends; the script of the first step needs our packages,
    # and a peer's must not see them.
    where = tempfile.TemporaryDirectory()
    environ = os.environ | ({} if setup["what"] == "peer" else {"PYTHONPATH": setup["root"]})

    def run(count: int) -> tuple[int, int]:
        for _ in range(count):
            subprocess.run(
                command, cwd=where.name, env=environ, check=True, stdout=subprocess.DEVNULL
            )
        return 0, 0

    run(1)
    return Work(run, 1, tuple(setup.get("packages", ("tensorflow",))))


if __name__ == "__main__":
    serve(make)
