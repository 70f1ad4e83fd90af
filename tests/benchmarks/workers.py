"""The parent's end of a worker: starts the process, asks for work, checks what was done."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from targetnet.agents.experiments.jobs import last_line
from targetnet.rl_core.errors import RlCoreError, in_one_line
from targetnet.rl_core.lazy import XLA_FLAGS
from tests.benchmarks.scenarios.kinds import ALL, Setting, Worker

ROOT = Path(__file__).parents[2]
_PEERS = Path(__file__).parent / "peers"
_TIDY_SECONDS = 5
# Ours adds its flags before those of the user, of which the last one counts.
_XLA_DEFAULTS = (
    "--xla_cpu_prefer_vector_width=256 --xla_cpu_enable_concurrency_optimized_scheduler=true"
)
Round = dict[str, Any]  # seconds, env_steps, updates; private: bytes at its end


class Process:
    """A worker at work, pinned, with one of its settings.

    Args:
      label: as shown.
      worker, setting: what it does and how, with `threads` as a number.
      python: its interpreter.
      cores: that are given; it takes the first of them.
      log: gets all that it prints.

    Attributes:
      about: its part of the JSON beside rounds: memory in bytes after the last round, see
        `protocol.memory`; versions of what it uses; how many cores it may use; flops of one update,
        if it is made of products alone.
    """

    def __init__(
        self,
        label: str,
        worker: Worker,
        setting: Setting,
        python: Path,
        cores: Sequence[int],
        log: Path,
    ) -> None:
        self.label, self.worker, self.setting = label, worker, dict(setting)
        self._log, self._unit = log, 1
        pinned = list(cores[: worker.cores or setting["threads"]])
        self.about: dict[str, Any] = {
            "memory": {}, "versions": {}, "cores": len(pinned), "flops": 0,
        }  # fmt: skip
        script = str(_PEERS / f"{worker.program}_worker.py")
        with log.open("w") as stderr:
            self._process = subprocess.Popen(
                [str(python), script, *worker.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=_environ(setting, worker),
            )
        self._say({**worker.setup, **setting, "cores": pinned, "root": str(ROOT)})

    def wait(self) -> None:
        """Until it is ready: built, compiled, warm."""
        answer = self._answer()
        self._unit = answer.pop("unit")
        self.about |= answer

    def run(self, count: int) -> Round:
        """One round; the number of updates is what it must be.

        Raises:
          RlCoreError: it is not, or the worker ended.
        """
        self._say({"run": count})
        answer = self._answer()
        self.about["memory"] = answer.pop("memory")
        wanted = self.worker.updates * (answer["env_steps"] or count)
        if abs(answer["updates"] - wanted) > self.worker.slack:
            raise RlCoreError(
                f"{self.label} made {answer['updates']:,} updates in {answer['env_steps']:,} env "
                f"steps, wanted {wanted:,.0f}"
            )
        return answer | {"private": self.about["memory"]["private"]}

    def count_for(self, seconds: float) -> int:
        """What takes about that long, in whole units: asked for more and more, until it counts."""
        if self.worker.count is not None:
            return self.worker.count
        count = self._unit
        while (took := self.run(count)["seconds"]) < seconds / 8:
            count *= 2 if took > seconds / 64 else 8
        return max(1, round(count * seconds / took / self._unit)) * self._unit

    def close(self) -> None:
        """Ends it: it may tidy up if it is waiting for work, whatever else it does is cut off."""
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_TIDY_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise self._failure()
        return json.loads(line)

    def _failure(self) -> RlCoreError:
        code = self._process.wait()
        return RlCoreError(f"exit code {code}: {in_one_line(last_line(self._log))}")


def threads_of(setting: Setting, cores: Sequence[int]) -> int:
    """Returns the number of threads that a setting comes to on these cores."""
    return len(cores) if setting["threads"] == ALL else min(setting["threads"], len(cores))


def _environ(setting: Setting, worker: Worker) -> dict[str, str]:
    libraries = ("OMP", "MKL", "OPENBLAS")
    environ = os.environ | {f"{name}_NUM_THREADS": str(setting["threads"]) for name in libraries}
    # Of ours; a peer's interpreter must not see it.
    environ.pop("PYTHONPATH", None)
    paths = {} if worker.venv else {"PYTHONPATH": str(ROOT)}
    chosen = {"TF_ENABLE_ONEDNN_OPTS": "1"} if setting.get("with") == "oneDNN" else {}
    if setting.get("flags") == ("ours" if worker.venv else "XLA's own"):
        chosen["XLA_FLAGS"] = XLA_FLAGS if worker.venv else _XLA_DEFAULTS
    # Every process compiles, ours and JAX's.
    fixed = {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "TARGETNET_XLA_CACHE": "off"}
    return environ | paths | chosen | fixed
