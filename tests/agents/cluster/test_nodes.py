"""Nodes: looked at once, used only with the versions of this machine and without a fault."""

import pytest

from targetnet.agents.cluster import nodes as cluster_nodes
from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.nodes import Nodes, NoNodeLeft, looker, versions
from targetnet.rl_core.machine import processor
from tests.agents.cluster.toys import node

FIRST, SECOND, OTHER = node("1"), node("2"), node("3", ray="1.0")


@pytest.fixture
def cluster(monkeypatch):
    """The nodes that are alive, and those that were looked at; None is one that does not answer."""
    there, looked = {"1": FIRST}, []

    def nodes_of(ids):
        looked.extend(sorted(ids))
        if any(there[node_id] is None for node_id in ids):
            raise ClusterError("cannot use node 10.0.0.9: no answer within 60 s")
        return [there[node_id] for node_id in sorted(ids)]

    monkeypatch.setattr(
        cluster_nodes, "alive",
        lambda cpus: {key for key, of in there.items() if of is None or of.cpus >= cpus},
    )  # fmt: skip
    monkeypatch.setattr(cluster_nodes, "nodes_of", nodes_of)
    return there, looked


def test_versions_of_python_and_of_all_that_makes_the_numbers_are_compared():
    assert list(versions()) == ["python", "targetnet", "tensorflow", "numpy", "gymnasium", "ray"]
    assert versions()["python"].count(".") == 1  # without the patch


def test_a_node_with_other_versions_is_named_with_them(cluster):
    cluster[0]["2"] = node("2", numpy="1.0", python="3.9")
    with pytest.raises(ClusterError) as caught:
        Nodes(print)
    here = versions()
    assert str(caught.value) == (
        "the nodes have to have the versions of this machine: 10.0.0.1 (2) has "
        f"python 3.9 (here {here['python']}), numpy 1.0 (here {here['numpy']})"
    )


def test_a_package_that_is_not_installed_there_is_none():
    assert looker()(["no-such-package"])["versions"]["no-such-package"] == "none"


def test_what_looks_at_a_node_travels_whole():
    # A function that is found by its name would need targetnet there.
    assert "<locals>" in looker().__qualname__


def test_processors_that_differ_are_told(cluster):
    said = []
    Nodes(said.append)
    assert said == []
    cluster[0]["2"] = SECOND._replace(processor="Abacus, avx2")
    Nodes(said.append)
    assert said == [
        "the processors differ, so digests may differ from node to node: "
        f"{processor()}; Abacus, avx2"
    ]


def test_room_is_counted_in_whole_jobs(cluster):
    cluster[0].update({"1": FIRST._replace(cpus=5), "2": SECOND._replace(cpus=3)})
    nodes = Nodes(print)
    assert [nodes.at_once(cpus) for cpus in (1, 2, 4)] == [8, 3, 1]
    with pytest.raises(ClusterError, match=r"wants 6 CPUs .* no node has more than 5"):
        nodes.at_once(6)


def test_a_node_that_joins_is_looked_at_once_and_used_if_its_versions_are_these(cluster):
    (there, looked), said = cluster, []
    nodes = Nodes(said.append)
    assert (nodes.usable(), looked) == (["1"], ["1"])
    there |= {"2": SECOND, "3": OTHER}
    for _ in range(3):
        assert nodes.usable() == ["1", "2"]
    assert looked == ["1", "2", "3"]
    assert said == [f"node 10.0.0.1 (3) has ray 1.0 (here {versions()['ray']}): it is not used"]


def test_a_node_that_does_not_answer_is_named_and_not_used(cluster):
    (there, looked), said = cluster, []
    nodes = Nodes(said.append)
    there["9"] = None
    assert nodes.usable() == nodes.usable() == ["1"] and looked == ["1", "9"]
    assert said == ["cannot use node 10.0.0.9: no answer within 60 s: it is not used"]


def test_another_processor_is_told_once_and_used(cluster):
    (there, _), said = cluster, []
    nodes = Nodes(said.append)
    for node_id in ("4", "5"):
        there[node_id] = node(node_id)._replace(processor="Abacus, avx2")
    assert nodes.usable() == ["1", "4", "5"]
    assert len(said) == 1 and said[0].endswith("Abacus, avx2")


def test_a_node_that_is_gone_or_too_small_is_not_used_unless_all_are(cluster):
    there, _ = cluster
    there |= {"2": SECOND._replace(cpus=4)}
    nodes = Nodes(print)
    assert nodes.usable(2) == ["2"]
    del there["1"]
    assert nodes.usable() == ["2"]
    there.clear()
    assert nodes.usable() == ["1", "2"]


def test_a_node_with_a_fault_is_not_used_and_the_last_one_ends_the_command(cluster):
    there, _ = cluster
    there |= {"2": SECOND}
    nodes = Nodes(print)
    nodes.require_one(1)
    nodes.note_fault("1", "it is full")
    assert nodes.usable() == ["2"]
    nodes.require_one(1)
    del there["2"]
    with pytest.raises(NoNodeLeft, match="can be used any more: 1: it is full"):
        nodes.require_one(1)
    there.clear()  # none has room
    with pytest.raises(NoNodeLeft):
        nodes.require_one(1)
