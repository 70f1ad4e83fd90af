"""The nodes that the jobs of a command may go to: those in which no job has found a fault."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from targetnet.agents.cluster.connect import ClusterError
from targetnet.rl_core.errors import in_one_line

_MOST_SHOWN = 600  # characters of all faults together


class NoNodeLeft(ClusterError):
    """Every node with room for a job has a fault. This ends the command, not the job alone."""


class HealthyNodes:
    """The nodes without a known fault, for all jobs of one command.

    A fault of a node, such as a full disk, says nothing about the job that met it. So the job goes
    to another node, and no job of the command goes to this one again.

    Args:
      alive: returns the ids of the nodes that are alive and have so many CPUs.
    """

    def __init__(self, alive: Callable[[int], Collection[str]]) -> None:
        self._alive = alive
        self._faults: dict[str, str] = {}  # by id: the node's name and its fault
        self._lock = threading.Lock()  # each job has a thread

    @property
    def faulty(self) -> list[str]:
        """The ids of the nodes with a fault."""
        with self._lock:
            return [*self._faults]

    def note(self, node_id: str, name: str, fault: str) -> None:
        """Notes the fault of a node."""
        with self._lock:
            self._faults.setdefault(node_id, f"{name}: {fault}")

    def require_one(self, cpus: int) -> None:
        """Checks that a node is left for a job of so many CPUs.

        Where no node has a fault there may be none for a while: others may join.

        Raises:
          NoNodeLeft: all that are alive have a fault, which the message names.
        """
        with self._lock:
            faults = dict(self._faults)
        if faults and faults.keys() >= set(self._alive(cpus)):
            found = in_one_line("; ".join(faults.values()), _MOST_SHOWN)
            raise NoNodeLeft(f"no node of the Ray cluster can be used any more: {found}")
