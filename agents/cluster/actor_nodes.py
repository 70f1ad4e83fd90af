"""The nodes whose versions are those of this machine, also of those that join later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.nodes import (
    Node,
    alive,
    differing_processors,
    differing_versions,
    nodes_of,
)
from targetnet.rl_core.machine import processor


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
