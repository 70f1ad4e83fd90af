"""How long commands take from their start: each run is a process of its own.

{"what": "help"}         targetnet --help, to its end
{"what": "tensorflow"}   the import of TensorFlow, to its end
{"what": "first_step"}   targetnet train cartpole, until the first env step is made
{"what": "sb3_first_step"}   a script that trains with Stable-Baselines3, to its first env step
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from protocol import Work, serve

_FIRST_STEP = """
import os
from agents.cli.main import main
from envs.drivers import SingleEnv
step = SingleEnv.step
def first_step(self, actions):
    step(self, actions)
    os._exit(0)
SingleEnv.step = first_step
main(["train", "cartpole"])
"""

_SB3_FIRST_STEP = """
import os
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv
from stable_baselines3 import DQN
step = CartPoleEnv.step
def first_step(self, action):
    step(self, action)
    os._exit(0)
CartPoleEnv.step = first_step
DQN("MlpPolicy", gymnasium.make("CartPole-v1")).learn(10_000)
"""


def make(setup: dict[str, Any]) -> Work:
    targetnet = str(Path(sys.executable).with_name("targetnet"))
    command = {
        "help": [targetnet, "--help"],
        "tensorflow": [sys.executable, "-c", "import tensorflow"],
        "first_step": [sys.executable, "-c", _FIRST_STEP],
        "sb3_first_step": [sys.executable, "-c", _SB3_FIRST_STEP],
    }[setup["what"]]
    # The directory goes when the process ends; the script of the first step needs our packages.
    where = tempfile.TemporaryDirectory()
    environ = os.environ | {"PYTHONPATH": setup["root"]}

    def run(count: int) -> tuple[int, int]:
        for _ in range(count):
            subprocess.run(
                command, cwd=where.name, env=environ, check=True, stdout=subprocess.DEVNULL
            )
        return 0, 0

    run(1)
    peer = setup["what"] == "sb3_first_step"
    return Work(run, 1, ("stable_baselines3", "torch") if peer else ("tensorflow",))


if __name__ == "__main__":
    serve(make)
