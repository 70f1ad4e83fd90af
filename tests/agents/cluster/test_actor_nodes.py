"""Nodes that join later: looked at once, and used only with the versions of this machine."""

import dataclasses

import pytest

from targetnet.agents.cluster import nodes as actor_nodes
from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.nodes import ActorNodes, Node, versions
from targetnet.rl_core.machine import processor

FIRST = Node("1", "10.0.0.1", 2, versions(), processor())
SECOND = dataclasses.replace(FIRST, id="2", name="10.0.0.2")
OTHER = dataclasses.replace(FIRST, id="3", name="10.0.0.3", versions=versions() | {"ray": "1.0"})


@pytest.fixture
def cluster(monkeypatch):
    """The nodes that are alive, and those that were looked at; None is one that does not answer."""
    there, looked = {"1": FIRST}, []

    def nodes_of(ids):
        looked.extend(ids)
        if any(there[node_id] is None for node_id in ids):
            raise ClusterError("cannot use node 10.0.0.9: no answer within 60 s")
        return [there[node_id] for node_id in ids]

    monkeypatch.setattr(actor_nodes, "alive", lambda cpus: set(there))
    monkeypatch.setattr(actor_nodes, "nodes_of", nodes_of)
    return there, looked


def test_a_node_that_joins_is_looked_at_once_and_used_if_its_versions_are_these(cluster):
    (there, looked), said = cluster, []
    nodes = ActorNodes([FIRST], said.append)
    assert (nodes.usable(), looked) == (["1"], [])
    there |= {"2": SECOND, "3": OTHER}
    for _ in range(3):
        assert nodes.usable() == ["1", "2"]
    assert looked == ["2", "3"]
    assert said == [f"node 10.0.0.3 has ray 1.0 (here {versions()['ray']}): it is not used"]


def test_a_node_that_does_not_answer_is_named_and_not_used(cluster):
    (there, looked), said = cluster, []
    there["9"] = None
    nodes = ActorNodes([FIRST], said.append)
    assert nodes.usable() == nodes.usable() == ["1"] and looked == ["9"]
    assert said == ["cannot use node 10.0.0.9: no answer within 60 s: it is not used"]


def test_another_processor_is_told_once_and_used(cluster):
    (there, _), said = cluster, []
    for node_id in ("4", "5"):
        there[node_id] = dataclasses.replace(FIRST, id=node_id, processor="Abacus, avx2")
    assert ActorNodes([FIRST], said.append).usable() == ["1", "4", "5"]
    assert len(said) == 1 and said[0].endswith("Abacus, avx2")


def test_a_node_that_is_gone_is_not_used_unless_all_are(cluster):
    (there, looked), nodes = cluster, ActorNodes([FIRST, SECOND], print)
    there["2"] = there.pop("1")
    assert nodes.usable() == ["2"]
    there.clear()
    assert nodes.usable() == ["1", "2"] and looked == []
