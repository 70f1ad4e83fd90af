"""Several agents in one graph and session: each has the bits that it would have alone."""

import gc
import weakref

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.rl_core.graph.engine import Engine
from tests.agents.dqn.several import (
    IN_GRAPH,
    KINDS,
    become,
    chunks,
    configs,
    made,
    train,
    with_envs,
)

pytestmark = pytest.mark.usefixtures("own_agents")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["scalar", *(pytest.param(kind, marks=pytest.mark.slow) for kind in [*KINDS][1:])]
)
def test_two_agents_in_one_graph_have_the_bits_that_they_have_alone(kind):
    """Steps and updates of the two alternate as little as one wants: neither sees the other."""
    engine = Engine()
    both = [made(c, engine=engine, scope=f"members/{c.seed}") for c in configs(kind)]
    engine.start()
    operations = len(engine.graph.get_operations())
    seen = [train(agent) for agent in both]
    for config, agent, of_both in zip(configs(kind), both, seen, strict=True):
        alone = made(config)
        np.testing.assert_array_equal(of_both, train(alone))
        assert agent.state.read().variables.keys() == alone.state.read().variables.keys()
        assert agent.state.digest() == alone.state.digest()
        alone.close()
    assert both[0].state.digest() != both[1].state.digest()
    assert len(engine.graph.get_operations()) == operations
    engine.close()


@pytest.mark.slow  # the test above would notice most of it
def test_what_one_does_leaves_the_other_as_it_is():
    engine = Engine()
    one, other = (
        made(c, engine=engine, scope=f"m{c.seed}") for c in configs("scalar", past_states=2)
    )
    engine.start()
    train(other)
    digest = other.state.digest()
    train(one)
    one.sync()
    one.state.snapshot()
    train(one, 7)
    one.state.rewind()
    one.state.restore(one.state.read(), [(0, one.state.contents.time_steps(0, 37))])
    one.state.load_weights(other.state.weights())
    assert other.state.digest() == digest
    engine.close()


@pytest.mark.slow  # three agents are built for it
def test_a_member_goes_on_alone_and_one_alone_goes_on_as_a_member():
    """What is saved has no name of the scope in it."""
    config = configs("scalar", prioritized=True)[0]
    alone, engine = made(config), Engine()
    member = made(config, engine=engine, scope="a/b")
    engine.start()
    for one, other in [(alone, member), (member, alone)]:
        train(one)
        become(other, one)
        assert other.state.digest() == one.state.digest()
    np.testing.assert_array_equal(train(alone), train(member))
    alone.close()
    engine.close()


@pytest.mark.thorough
def test_no_key_of_random_numbers_is_a_constant_of_the_graph():
    """Neither of what is drawn in updates and actions, nor of the first weights."""
    agent = made(configs("rainbow")[0])
    graph = agent.engine.graph.as_graph_def()
    agent.close()
    functions = [function.node_def for function in graph.library.function]
    inside = {kind for nodes in functions for kind in kinds_of_input(nodes, "RandomUniform", 1)}
    assert inside == {"Identity"}  # of a variable that was read
    assert kinds_of_input(graph.node, "RandomUniform", 1) == {
        "Identity", "StatelessRandomGetKeyCounter",
    }  # fmt: skip
    assert kinds_of_input(graph.node, "StatelessRandomGetKeyCounter", 0) == {"Pack"}


def kinds_of_input(nodes, kind, place):
    """Returns the kinds of the operations that give inputs to operations of a kind."""
    kinds = {node.name: node.op for node in nodes}
    return {kinds.get(n.input[place].split(":")[0], "argument") for n in nodes if kind in n.op}


@pytest.mark.slow  # three loops are built for it
def test_envs_in_the_graph_are_each_agents_own():
    config = configs("scalar", **IN_GRAPH)[0]
    configs_of_both = [config, config.model_copy(update={"seed": 9})]
    engine = Engine()
    both = [with_envs(DqnAgent, c, engine=engine, scope=f"m{c.seed}") for c in configs_of_both]
    engine.start()
    digests = [[*chunks(agent)] for agent in both]
    assert digests[0] != digests[1]
    for config, of_agent in zip(configs_of_both, digests, strict=True):
        alone = with_envs(DqnAgent, config)
        assert [*chunks(alone)] == of_agent
        alone.close()
    engine.close()


@pytest.mark.thorough
@pytest.mark.parametrize("xla", [False, True])
def test_an_agent_that_is_gone_leaves_no_graph_behind(xla):
    more = {"xla": xla, "normalize_observations": True, "n_step": 2}
    agent = DqnAgent(DqnConfig(env_id="x", hidden=(8,), **more), (2,), np.float32, 3)
    graph = weakref.ref(agent.engine.graph)
    agent.engine.close()
    del agent
    gc.collect()
    assert graph() is None
