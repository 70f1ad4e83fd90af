"""The actor of one job: a `Worker` on a node, asked from a thread at home."""

from __future__ import annotations

import contextlib
from threading import Event
from typing import Any

from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.messages import JobInputs, NodeFacts
from targetnet.agents.cluster.nodes import PACKAGES, HealthyNodes, NoNodeLeft, looker
from targetnet.rl_core.errors import in_one_line

_WAIT_SECONDS = 0.2  # between two looks whether home still wants an answer
_END_SECONDS = 10.0  # until a node has removed what a job left


class NodeLost(Exception):
    """The node of a job, or the actor's process there, is no more."""


class JobCancelled(Exception):
    """Home wants no more of the job."""


class JobActor:
    """A worker on whichever node has room and no known fault.

    Args:
      portable: what the job needs.
      nodes: those that may be used.
      interrupted: set to have the job not begun, if it is still waiting for room.
      killed: set to have it given up at once.

    Attributes:
      node, node_id: name of the node, and Ray's id of it; "" until they are known.
    """

    def __init__(
        self, portable: JobInputs, nodes: HealthyNodes, interrupted: Event, killed: Event
    ) -> None:
        import ray

        self.interrupted, self.killed = interrupted, killed
        self.node, self.node_id = "", ""
        self._nodes, self._cpus = nodes, portable.cpus
        how: dict[str, Any] = {"num_cpus": portable.cpus, "max_restarts": 0, "max_task_retries": 0}
        if avoided := nodes.faulty:
            how["label_selector"] = {"ray.io/node-id": f"!in({','.join(avoided)})"}
        made: Any = ray.remote(**how)(_resident())
        self._handle: Any = made.remote(portable.tree.name)

    def arrive(self) -> NodeFacts:
        """Waits for a node with room; returns what is known of it.

        Raises:
          NoNodeLeft: there is none that may be used.
          NodeLost, JobCancelled: as for `call`.
        """
        try:
            about = NodeFacts(*self._got(self._handle.arrive.remote(PACKAGES), waits=True))
        except NoNodeLeft:
            raise
        except ClusterError as error:  # it cannot even say where it is
            raise NodeLost(str(error)) from None
        self.node, self.node_id = in_one_line(about.host, 100), about.id
        return about

    def call(self, method: str, *arguments: Any, **more: Any) -> Any:
        """Returns what a method of the worker returns.

        Raises:
          NodeLost: the node is no more.
          JobCancelled: the job was killed.
          ClusterError: the method raises an error, which the message says.
        """
        return self._got(self._handle.call.remote(method, *arguments, **more))

    def end(self) -> None:
        """Ends the worker, which removes what the job left on its node."""
        import ray

        with contextlib.suppress(ray.exceptions.RayError):
            if self.node:
                ray.wait([self._handle.call.remote("close")], timeout=_END_SECONDS)
            ray.kill(self._handle)

    def _got(self, answer: Any, *, waits: bool = False) -> Any:
        """Returns an answer once it is there.

        Args:
          waits: for room; so an interrupt ends it, and so does the last node's fault.
        """
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            while not ray.wait([answer], timeout=_WAIT_SECONDS)[0]:
                if self.killed.is_set() or (waits and self.interrupted.is_set()):
                    raise JobCancelled
                if waits:
                    self._nodes.require_one(self._cpus)
            return ray.get(answer)
        except RayTaskError as error:
            raise ClusterError(in_one_line(error.cause or error, 300)) from None
        except RayError as error:
            raise NodeLost(_why(error)) from None


def _resident() -> type:
    """Returns the class of the actor on a node.

    It is defined in a function, so it travels whole: a node without targetnet, or with another
    one, can say what it has before anything of targetnet is imported there.
    """
    look = looker()

    class Resident:
        def __init__(self, name: str) -> None:
            self._name = name
            self._worker: Any = None

        def arrive(self, packages: Any) -> tuple[str, str, dict[str, str], str]:
            import socket

            import ray

            found = look(packages)
            node_id = ray.get_runtime_context().get_node_id()
            return node_id, socket.gethostname(), found["versions"], found["processor"]

        def call(self, method: str, *arguments: Any, **more: Any) -> Any:
            if self._worker is None:
                from targetnet.agents.cluster.worker import Worker

                self._worker = Worker(self._name)
            return getattr(self._worker, method)(*arguments, **more)

    return Resident


def _why(error: Exception) -> str:
    """Returns the reason in Ray's long message, in one line."""
    text = str(error)
    if "node has died" in text or "node was terminated" in text:
        return "the node is dead"
    return in_one_line(text.rpartition("\n\n")[2] or text, 200)
