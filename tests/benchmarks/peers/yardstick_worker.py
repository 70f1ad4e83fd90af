"""A yardstick as a worker: its unchanged script, run from its beginning to its end each time.

    {"script": "jax_k_updates_dqn", "arguments": ["--k", "16"], "checker": false}

The speed is what the script prints. The env steps are those of its loop, and the updates are those
that it counted; the script's bytes are held by a test.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from protocol import Work, serve, use_checker

YARDSTICKS = Path(__file__).parents[1] / "yardsticks"
PACKAGES = ("jax", "gymnasium", "numpy")
_CHUNK = 1_000  # iterations in a call of jax_compiled_dqn
_LEARN_START = 1_000  # env steps without updates in jax_per_step_dqn


def printed(script: str, arguments: Sequence[str]) -> str:
    """Runs a script as `python SCRIPT ARGUMENTS` would; returns the last line that it prints."""
    path, out, before = YARDSTICKS / f"{script}.py", io.StringIO(), sys.argv
    sys.argv = [str(path), *arguments]
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = before
    return out.getvalue().splitlines()[-1]


def per_step(count: int, arguments: Sequence[str]) -> tuple[int, int, float]:
    told = json.loads(printed("jax_per_step_dqn", [*arguments, "--steps", str(count)]))
    env_steps = count - _LEARN_START
    return env_steps, told["updates_done"], env_steps / told["env_steps_per_s"]["median"]


def k_updates(count: int, arguments: Sequence[str]) -> tuple[int, int, float]:
    line = printed("jax_k_updates_dqn", [*arguments, "--steps", str(count)])
    told = re.fullmatch(r"(\d+) env steps/s, (\d+) updates, K = \d+", line)
    if told is None:
        raise ValueError(f"the script printed {line!r}")
    return count, int(told[2]), count / int(told[1])


def compiled(count: int, arguments: Sequence[str]) -> tuple[int, int, float]:
    envs = int(arguments[arguments.index("--envs") + 1])
    iterations = max(1, count // envs // _CHUNK) * _CHUNK
    words = [*arguments, "--iterations", str(iterations)]
    told = json.loads(printed("jax_compiled_dqn", words))
    env_steps = (iterations + _CHUNK) * envs  # one chunk more, with the compiling, is not timed
    return env_steps, told["updates_done"], env_steps / told["env_steps_per_s"]["median"]


RUNS = {
    "jax_per_step_dqn": per_step,
    "jax_k_updates_dqn": k_updates,
    "jax_compiled_dqn": compiled,
}


def make(setup: dict[str, Any]) -> Work:
    use_checker(setup["checker"])
    sys.path.insert(0, str(YARDSTICKS))  # one script imports another
    of_script = RUNS[setup["script"]]
    return Work(lambda count: of_script(count, setup["arguments"]), 1, PACKAGES)


if __name__ == "__main__":
    serve(make)
