"""Versions and processors of nodes, as they are told."""

import dataclasses

import pytest

from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.nodes import (
    Node,
    differing_processors,
    looker,
    require_same_versions,
    versions,
)
from targetnet.rl_core.machine import processor

HERE = Node("a1", "10.0.0.1 (one)", 2, versions(), processor())


def other(**changed):
    return dataclasses.replace(HERE, name="10.0.0.2 (two)", versions=HERE.versions | changed)


def test_nodes_with_the_versions_of_this_machine_may_be_used():
    require_same_versions([HERE, other()])


def test_versions_of_python_and_of_all_that_makes_the_numbers_are_compared():
    assert list(versions()) == ["python", "targetnet", "tensorflow", "numpy", "gymnasium", "ray"]
    assert versions()["python"].count(".") == 1  # without the patch


def test_a_node_with_other_versions_is_named_with_them():
    here = HERE.versions
    with pytest.raises(ClusterError) as caught:
        require_same_versions([HERE, other(numpy="1.0", python="3.9")])
    assert str(caught.value) == (
        "the nodes have to have the versions of this machine: 10.0.0.2 (two) has "
        f"python 3.9 (here {here['python']}), numpy 1.0 (here {here['numpy']})"
    )


def test_a_package_that_is_not_installed_there_is_none():
    assert looker()(["no-such-package"])["versions"]["no-such-package"] == "none"


def test_what_looks_at_a_node_travels_whole():
    # A function that is found by its name would need targetnet there.
    assert "<locals>" in looker().__qualname__


def test_processors_that_differ_are_told():
    assert differing_processors([HERE]) is None
    strange = dataclasses.replace(HERE, processor="Abacus, avx2")
    assert differing_processors([HERE, strange]) == (
        "the processors differ, so digests may differ from node to node: "
        f"{processor()}; Abacus, avx2"
    )
