"""The actor of one job: a `Worker` on a node, asked from a thread at home."""

from __future__ import annotations

import contextlib
from threading import Event
from typing import Any

from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.nodes import Node, Nodes, on_nodes
from targetnet.agents.cluster.worker import Worker
from targetnet.rl_core.errors import in_one_line

_WAIT_SECONDS = 0.2  # between two looks whether home still wants an answer
_END_SECONDS = 10.0  # until a node has removed what a job left


class NodeLost(Exception):
    """The node of a job, or the actor's process there, is no more."""


class JobCancelled(Exception):
    """Home wants no more of the job."""


class JobActor:
    """A worker on whichever node has room and may be used.

    Args:
      name: of the directory that the job fills.
      cpus: that it uses.
      nodes: those of the cluster.
      interrupted: ends a wait for room; killed: ends every wait.
    """

    def __init__(
        self, name: str, cpus: int, nodes: Nodes, interrupted: Event, killed: Event
    ) -> None:
        self.interrupted, self.killed = interrupted, killed
        self.node: Node | None = None  # until it is known
        self._name, self._cpus, self._nodes = name, cpus, nodes
        self._handle: Any = None

    def arrive(self) -> Node:
        """Waits for a node with room; raises NoNodeLeft if none may be used, or as `call` does."""
        import ray

        asked: list[str] = []
        while True:
            self._nodes.require_one(self._cpus)
            if (usable := self._nodes.usable(self._cpus)) != asked:  # nodes came, or went
                self.end()
                how: dict[str, Any] = {"num_cpus": self._cpus, **on_nodes(usable)}
                self._handle = ray.remote(max_restarts=0, **how)(Worker).remote(self._name)
                there, asked = self._handle.__ray_call__.remote(_node_id), usable
            if ray.wait([there], timeout=_WAIT_SECONDS)[0]:
                self.node = self._nodes.known[self._got(there)]
                return self.node
            if self.interrupted.is_set() or self.killed.is_set():
                raise JobCancelled

    def call(self, method: str, *arguments: Any, **more: Any) -> Any:
        """Returns what a method of the worker returns.

        Raises:
          NodeLost: the node is no more.
          JobCancelled: the job was killed.
          ClusterError: the method raises an error.
        """
        import ray

        answer = getattr(self._handle, method).remote(*arguments, **more)
        while not ray.wait([answer], timeout=_WAIT_SECONDS)[0]:
            if self.killed.is_set():
                raise JobCancelled
        return self._got(answer)

    def end(self) -> None:
        """Ends the worker, which removes what the job left on its node."""
        import ray

        with contextlib.suppress(ray.exceptions.RayError):
            if self.node is not None:
                ray.wait([self._handle.close.remote()], timeout=_END_SECONDS)
            if self._handle is not None:
                ray.kill(self._handle)

    def _got(self, answer: Any) -> Any:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            return ray.get(answer)
        except RayTaskError as error:
            raise ClusterError(in_one_line(error.cause or error, 300)) from None
        except RayError as error:
            raise NodeLost(_why(error)) from None


def _node_id(worker: Worker) -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _why(error: Exception) -> str:
    """Returns the reason in Ray's long message, in one line."""
    text = str(error)
    if "node has died" in text or "node was terminated" in text:
        return "the node is dead"
    return in_one_line(text.rpartition("\n\n")[2] or text, 200)
