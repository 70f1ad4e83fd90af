"""The actor of one job: a `Worker` on a node, asked from a thread at home."""

from __future__ import annotations

import contextlib
from threading import Event
from typing import Any

from agents.cluster.connect import ClusterError
from agents.cluster.portable import Portable
from agents.cluster.worker import Worker
from rl_core.errors import in_one_line

_WAIT_SECONDS = 0.2  # between two looks whether home still wants an answer
_END_SECONDS = 10.0  # until a node has removed what a job left


class NodeLost(Exception):
    """The node of a job, or the actor's process there, is no more."""


class GivenUp(Exception):
    """Home wants no more of the job."""


class Actor:
    """A worker on whichever node has room.

    Args:
      portable: what the job needs.
      interrupted: set to have the job not begun, if it is still waiting for room.
      killed: set to have it given up at once.

    Attributes:
      node: name of the node; "" until it is known.
    """

    def __init__(self, portable: Portable, interrupted: Event, killed: Event) -> None:
        import ray

        self.interrupted, self.killed, self.node = interrupted, killed, ""
        worker: Any = ray.remote(num_cpus=portable.cpus, max_restarts=0, max_task_retries=0)(Worker)
        self._handle: Any = worker.remote(portable.tree.name)

    def call(self, method: str, *arguments: Any, give_up: bool = False, **more: Any) -> Any:
        """Returns what a method of the worker returns.

        Args:
          give_up: an interrupt ends the waiting.

        Raises:
          NodeLost: the node is no more.
          GivenUp: the job was killed.
          ClusterError: the method raises an error; says which.
        """
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            answer = getattr(self._handle, method).remote(*arguments, **more)
            while not ray.wait([answer], timeout=_WAIT_SECONDS)[0]:
                if self.killed.is_set() or (give_up and self.interrupted.is_set()):
                    raise GivenUp
            return ray.get(answer)
        except RayTaskError as error:
            raise ClusterError(f"{self.node}: {in_one_line(error.cause or error, 300)}") from None
        except RayError as error:
            raise NodeLost(_why(error)) from None

    def end(self) -> None:
        """Ends the worker, which removes what the job left on its node."""
        import ray

        with contextlib.suppress(ray.exceptions.RayError):
            if self.node:
                ray.wait([self._handle.close.remote()], timeout=_END_SECONDS)
            ray.kill(self._handle)


def _why(error: Exception) -> str:
    """Returns the reason in Ray's long message, in one line."""
    text = str(error)
    if "node has died" in text or "node was terminated" in text:
        return "the node is dead"
    return in_one_line(text.rpartition("\n\n")[2] or text, 200)
