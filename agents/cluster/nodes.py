"""The nodes of the cluster: what each has, and whether runs may go there.

Runs have the same bits only with the same versions, so a node with others is refused, also one that
joins later. Jobs go to those in which no job of the command has found a fault.
"""

from __future__ import annotations

import importlib.metadata
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from targetnet.agents.cluster.connect import ClusterError
from targetnet.rl_core.errors import in_one_line
from targetnet.rl_core.machine import processor

# What has to be the same everywhere, beside Python's own version.
PACKAGES = ("targetnet", "tensorflow", "numpy", "gymnasium", "ray")
_SECONDS = 60.0  # until all nodes have answered: a worker process has to start there


@dataclass(frozen=True)
class Node:
    """A node of the cluster.

    Attributes:
      id: Ray's.
      name: address and host name, for people.
      cpus: number of CPUs that Ray may give away there.
      versions: package -> version; "none" if it is not installed.
      processor: model and width of vectors; "" if targetnet is not installed there.
    """

    id: str
    name: str
    cpus: int
    versions: Mapping[str, str]
    processor: str


def versions() -> dict[str, str]:
    """Returns the versions of this machine, as a node's."""
    return looker()(PACKAGES)["versions"]


def alive(cpus: int) -> set[str]:
    """Returns the ids of the nodes that are alive and have so many CPUs."""
    import ray

    return {
        str(node["NodeID"])
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= cpus
    }


def all_nodes() -> list[Node]:
    """Returns the nodes that have CPUs.

    Raises:
      ClusterError: there is none, or one does not answer.
    """
    ids = alive(1)
    if not ids:
        raise ClusterError("the Ray cluster has no CPUs: no node was started with any")
    found = nodes_of(ids)
    if not found:
        raise ClusterError("no node of the Ray cluster is alive any more")
    return found


def nodes_of(ids: Collection[str]) -> list[Node]:
    """Returns the nodes with these ids that are alive.

    Raises:
      ClusterError: one does not answer.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] in ids]
    look = ray.remote(num_cpus=0, max_retries=2)(looker())
    asked = [
        look.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(PACKAGES)
        for node in there
    ]
    deadline = time.monotonic() + _SECONDS
    answers = [_answer(node, answer, deadline) for node, answer in zip(there, asked, strict=True)]
    return [_node(node, said) for node, said in zip(there, answers, strict=True) if said]


def require_same_versions(nodes: Sequence[Node]) -> None:
    """Checks that all nodes have the versions of this machine.

    Raises:
      ClusterError: some do not; names node and versions.
    """
    wrong = [
        f"{node.name} has {differing}"
        for node in nodes
        if (differing := differing_versions(node.versions))
    ]
    if wrong:
        raise ClusterError(
            f"the nodes have to have the versions of this machine: {'; '.join(wrong)}"
        )


def differing_versions(there: Mapping[str, str]) -> str:
    """Returns the versions that are not those of this machine, as a text; "" if all are."""
    return ", ".join(
        f"{package} {in_one_line(there.get(package, 'none'), 40)} (here {version})"
        for package, version in versions().items()
        if there.get(package) != version
    )


def differing_processors(nodes: Sequence[Node]) -> str | None:
    """Returns a line if not all processors are alike, this machine's among them."""
    kinds = dict.fromkeys([processor(), *(node.processor for node in nodes)])
    if len(kinds) == 1:
        return None
    return (
        "the processors differ, so digests may differ from node to node: "
        f"{in_one_line('; '.join(kinds), 400)}"
    )


def _node(node: Mapping[str, Any], said: Mapping[str, Any]) -> Node:
    address, host = node["NodeManagerAddress"], node["NodeManagerHostname"]
    return Node(
        str(node["NodeID"]),
        in_one_line(address if host in ("", address) else f"{address} ({host})"),
        int(node["Resources"]["CPU"]),
        {name: in_one_line(version, 40) for name, version in dict(said["versions"]).items()},
        in_one_line(said["processor"]),
    )


def _answer(node: Mapping[str, Any], answer: Any, deadline: float) -> Mapping[str, Any] | None:
    """Returns what a node says; None if it has died meanwhile."""
    import ray

    try:
        said: Mapping[str, Any] = ray.get(answer, timeout=max(0.0, deadline - time.monotonic()))
    except ray.exceptions.GetTimeoutError:
        why: object = f"no answer within {_SECONDS:.0f} s"
    except ray.exceptions.RayError as error:
        if not any(of["Alive"] for of in ray.nodes() if of["NodeID"] == node["NodeID"]):
            return None
        why = error
    else:
        return said
    raise ClusterError(
        f"cannot use node {node['NodeManagerAddress']}: {in_one_line(why, 300)}"
    ) from None


def looker() -> Callable[[Sequence[str]], dict[str, Any]]:
    """Returns a function that looks at the machine it runs on.

    A node without targetnet can run it too: what is defined in a function travels whole.
    """

    def look(packages: Sequence[str]) -> dict[str, Any]:
        found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
        for package in packages:
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                found[package] = "none"
        try:
            from targetnet.rl_core.machine import processor
        except ImportError:
            return {"versions": found, "processor": ""}
        return {"versions": found, "processor": processor()}

    return look


class ActorNodes:
    """The nodes that a run may use, as they come and go.

    Args:
      nodes: those that were checked before.
      say: shows one line about a node that joins later and is not used, or has another processor.
    """

    def __init__(self, nodes: Sequence[Node], say: Callable[[str], None]) -> None:
        self._may_be_used = {node.id: True for node in nodes}
        self._processors = {processor(), *(node.processor for node in nodes)}
        self._say = say

    def options(self) -> dict[str, Any]:
        """Returns Ray's options by which an actor comes only to a node that may be used."""
        return {"label_selector": {"ray.io/node-id": f"in({','.join(self.usable())})"}}

    def usable(self) -> list[str]:
        """Returns the ids of those that may be used and are alive; if none is, of the dead ones.

        What is sent to dead nodes waits in Ray; whoever sent it sends it anew after a time.
        """
        there = sorted(alive(1))
        for node_id in there:
            if node_id not in self._may_be_used:
                self._look_at(node_id)
        known = [node_id for node_id, may in self._may_be_used.items() if may]
        return [node_id for node_id in known if node_id in there] or known

    def _look_at(self, node_id: str) -> None:
        try:
            found = nodes_of([node_id])
        except ClusterError as error:
            self._refuse(node_id, f"{error}")
            return
        for node in found:  # none, if it has died meanwhile
            if differing := differing_versions(node.versions):
                self._refuse(node_id, f"node {node.name} has {differing}")
                return
            self._may_be_used[node_id] = True
            if node.processor not in self._processors and (line := differing_processors([node])):
                self._processors.add(node.processor)
                self._say(line)

    def _refuse(self, node_id: str, why: str) -> None:
        self._may_be_used[node_id] = False
        self._say(f"{why}: it is not used")


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
