"""What all processes of the wall clock share: the clock, the evaluations, the file they write.

    python until_sb3.py '{"env_id": "CartPole-v1", "seed": 2000, ...}' ROW.json

A process trains until a greedy evaluation reaches the mark or the env steps are used up, writes one
file and ends. The clock began when the system started the process. One that is interrupted or
killed leaves no file.

Peers' interpreters read this file too: it imports nothing of this project.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

_AT_ONCE = 10  # envs, as in targetnet.agents.loops.evaluation
_SEED_OFFSET = 1_000_003  # the same


class Watch:
    """One run's evaluations, by the clock of its process.

    Args:
      asked: env_id, seed, mark, period, episodes, env_steps and settings.
      path: of the file.

    Attributes:
      due: env step of the next evaluation.
      over: True once the mark is reached, or all env steps are made.
    """

    def __init__(self, asked: dict[str, Any], path: Path) -> None:
        self.asked, self.path = asked, path
        self.due, self.over = asked["period"], False
        self._row: dict[str, Any] = {"asked": asked, "evaluating": 0.0, "evaluations": []}

    def evaluate(
        self, act: Callable[[np.ndarray], np.ndarray], env_step: int, updates: int
    ) -> None:
        """Plays greedily.

        Args:
          act: maps observations [M, ...] to actions [M].
        """
        import gymnasium

        begin, asked = time.perf_counter(), self.asked
        returns = greedy_returns(
            act, lambda: gymnasium.make(asked["env_id"]), asked["seed"], asked["episodes"]
        )
        self.note(float(np.mean(returns)), env_step, updates, time.perf_counter() - begin)

    def note(self, mean: float, env_step: int, updates: int, seconds: float) -> None:
        """Takes in an evaluation that has just ended, and took `seconds`."""
        now, asked = age(), self.asked
        self.due = env_step + asked["period"]
        reached = mean >= asked["mark"]
        self.over = reached or env_step >= asked["env_steps"]
        self._row |= {
            "reached": reached,
            "began": round(time.time() - now, 2),
            "seconds": round(now, 2),
            "evaluating": round(self._row["evaluating"] + seconds, 6),
            "env_steps": env_step,
            "updates": updates,
        }
        self._row["evaluations"].append((env_step, mean, round(now, 2)))
        print(
            f"env step {env_step:,} of {asked['env_steps']:,}: greedy return {mean:,.1f} after "
            f"{now:.1f} s",
            flush=True,
        )

    def write(self, settings: dict[str, Any], source: str, packages: Sequence[str]) -> None:
        """Writes the file completely or not at all."""
        assert self.over
        versions = {"python": platform.python_version()}
        versions |= {name: version(name) for name in packages}
        row = self._row | {"settings": settings, "source": source, "versions": versions}
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(row))
        temporary.replace(self.path)


def from_command_line() -> Watch:
    return Watch(json.loads(sys.argv[1]), Path(sys.argv[2]))


def age() -> float:
    """Seconds since the system started this process, to 0.01 s."""
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    began = int(after_name[19]) / os.sysconf("SC_CLK_TCK")  # proc(5): starttime
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began


def greedy_returns(
    act: Callable[[np.ndarray], np.ndarray], make: Callable[[], Any], seed: int, episodes: int
) -> list[float]:
    """Plays greedily, as targetnet.agents.loops.evaluation does, and returns undiscounted returns.

    Each env plays a share of the episodes that is fixed beforehand. All go on until the last of
    them has ended: a batch of another size would be compiled again by some.
    """
    envs = [make() for _ in range(min(episodes, _AT_ONCE))]
    left = [len(range(number, episodes, len(envs))) for number in range(len(envs))]
    first = int(np.random.SeedSequence([seed, _SEED_OFFSET]).generate_state(1)[0])
    observations = [env.reset(seed=first + number)[0] for number, env in enumerate(envs)]
    so_far, returns = [0.0] * len(envs), []
    while any(left):
        actions = act(np.stack(observations))  # [M]
        for number, env in enumerate(envs):
            step = env.step(int(actions[number]))
            observations[number], reward, terminated, truncated, _ = step
            so_far[number] += float(reward)
            if terminated or truncated:
                if left[number]:
                    left[number] -= 1
                    returns.append(so_far[number])
                so_far[number], observations[number] = 0.0, env.reset()[0]
    for env in envs:
        env.close()
    return returns
