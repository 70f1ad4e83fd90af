"""Envs of a run that are not stepped from here: they have shapes, and nothing else."""

from typing import Any

import numpy as np

from targetnet.envs.interface import Envs, Episode, Step
from targetnet.rl_core.errors import EnvError


class UnsteppedEnvs(Envs):
    """Envs that nobody steps by this interface.

    Attributes:
      reason: who does instead, for error messages.
    """

    reason = "the run learns from a dataset"

    def reset(self) -> Step:
        raise self._unstepped()

    def step(self, actions: np.ndarray) -> Step:
        raise self._unstepped()

    def cut(self, which: np.ndarray) -> tuple[Episode, ...]:
        raise self._unstepped()

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> tuple[Step | None, list[str]]:
        return None, []

    def render(self) -> Any:
        return None

    def close(self) -> None:
        pass

    def _unstepped(self) -> EnvError:
        return EnvError(f"{self.env_id!r} is not stepped: {self.reason}")
