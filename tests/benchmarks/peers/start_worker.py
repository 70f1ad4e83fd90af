"""How long commands take from their start: each run is a process of its own.

{"what": "help"}         targetnet --help, to its end
{"what": "tensorflow"}   the import of TensorFlow, to its end
{"what": "first_step"}   targetnet train cartpole, until the first env step is made
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


def make(setup: dict[str, Any]) -> Work:
    targetnet = str(Path(sys.executable).with_name("targetnet"))
    command = {
        "help": [targetnet, "--help"],
        "tensorflow": [sys.executable, "-c", "import tensorflow"],
        "first_step": [sys.executable, "-c", _FIRST_STEP],
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
    return Work(run, 1, ("tensorflow",))


if __name__ == "__main__":
    serve(make)
