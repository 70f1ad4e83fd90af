"""A change of the code alone changes no graph: not a name, not the order in which ops are made."""

import json
from importlib.metadata import version

import pytest

from tests.agents import graphs

STORED = json.loads(graphs.STORED.read_text())


@pytest.fixture(autouse=True)
def built_here(own_agents):
    """Lent agents have graphs that other tests asked for."""


@pytest.mark.skipif(
    STORED["tensorflow"] != version("tensorflow"), reason="another TensorFlow makes other graphs"
)
@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", graphs.KINDS)
def test_a_kind_of_agent_has_the_graph_that_it_had(kind):
    """After a change that was meant: `python -m tests.agents.graphs --store`."""
    assert graphs.digest(kind) == STORED[kind]


def test_all_stored_graphs_are_compared():
    assert STORED.keys() == {"tensorflow", *graphs.KINDS}
