"""Members of a population: they take turns on one graph, and each has the bits it has alone."""

import itertools

import numpy as np
import pytest

from agents.dqn.agent import DqnAgent
from agents.dqn.population import Population
from rl_core.errors import ConfigError, MemoryLimitError
from tests.agents.dqn.several import (
    IN_GRAPH,
    KINDS,
    become,
    chunks,
    configs,
    made,
    train,
    training,
    with_envs,
)

pytestmark = pytest.mark.usefixtures("own_agents")


def population(configs, **how):
    return Population(configs, (3,), np.float32, 4, **how)


@pytest.mark.parametrize(
    "kind", ["scalar", *(pytest.param(kind, marks=pytest.mark.slow) for kind in [*KINDS][1:])]
)
def test_members_have_the_bits_that_they_have_alone(kind):
    """They alternate at every call, and the graph stays what it is."""
    several = configs(kind, past_states=1)
    all_of = population(several)
    graph = all_of.members[0].engine.graph
    operations = len(graph.get_operations())
    pairs = itertools.zip_longest(*map(training, all_of.members))
    seen = [np.concatenate(of) for of in zip(*pairs, strict=True)]
    for config, member, of_member in zip(several, all_of.members, seen, strict=True):
        alone = made(config)
        np.testing.assert_array_equal(of_member, train(alone))
        ours, its = member.state.read().variables, alone.state.read().variables
        assert ours.keys() == its.keys()
        for name, value in its.items():
            np.testing.assert_array_equal(ours[name], value, err_msg=name)
        assert member.state.digest() == alone.state.digest()
        assert member.updates == alone.updates and member.rows() == alone.rows()
        alone.close()
    one, other = all_of.members
    assert one.state.digest() != other.state.digest()
    assert len(graph.get_operations()) == operations
    all_of.close()


@pytest.mark.slow  # it compiles
def test_members_of_one_update_and_of_many_share_a_graph():
    """It has the loop that one of them needs, with the bits of the call that makes one update."""
    one, other = configs("scalar", xla=True, num_envs=1)
    several = [one, other.model_copy(update={"updates_per_learn": 4})]
    all_of = population(several)
    for config, member in zip(several, all_of.members, strict=True):
        alone = made(config)
        np.testing.assert_array_equal(train(member), train(alone))
        assert member.state.digest() == alone.state.digest()
        alone.close()
    all_of.close()


def test_first_weights_are_those_of_each_members_seed():
    several = configs("scalar")
    all_of = population(several)
    for config, member in zip(several, all_of.members, strict=True):
        alone = made(config)
        for name, value in alone.state.weights().items():
            np.testing.assert_array_equal(member.state.weights()[name], value)
        assert member.inspect().divergence == 0
        alone.close()
    all_of.close()


def test_what_one_does_leaves_the_other_as_it_is():
    all_of = population(configs("scalar", past_states=2, prioritized=True))
    one, other = all_of.members
    train(other)
    other.state.snapshot()
    other.state.snapshot()
    digest, before = other.state.digest(), other.q_values(np.ones(3), of="past/2")
    train(one)
    one.sync()
    one.state.snapshot()
    train(one, 7)
    one.state.snapshot()
    one.state.rewind()
    one.hyperparameters["sync_period"] = 2
    one.state.restore(one.state.read(), [(0, one.state.contents.time_steps(7, 37))])
    one.state.load_weights(other.state.weights())
    assert other.state.digest() == digest
    np.testing.assert_array_equal(other.q_values(np.ones(3), of="past/2"), before)
    assert other.hyperparameters["sync_period"] == 7
    all_of.close()


@pytest.mark.parametrize("kind", ["scalar", pytest.param("rainbow", marks=pytest.mark.slow)])
def test_a_member_goes_on_alone_and_one_alone_goes_on_as_a_member(kind):
    several = configs(kind, past_states=1)
    all_of = population(several)
    other_member, member = all_of.members
    alone = made(several[1])
    train(other_member)
    for one, other in [(alone, member), (member, alone)]:
        train(one)
        become(other, one)
        assert other.state.digest() == one.state.digest()
    np.testing.assert_array_equal(train(alone), train(member))
    alone.close()
    all_of.close()


@pytest.mark.slow  # two loops are built for it
def test_envs_in_the_graph_are_each_members_own():
    several = configs("scalar", **IN_GRAPH)
    all_of = with_envs(Population, several)
    digests = [*zip(*zip(*map(chunks, all_of.members), strict=True), strict=True)]
    for config, of_member in zip(several, digests, strict=True):
        alone = with_envs(DqnAgent, config)
        assert (*chunks(alone),) == of_member
        alone.close()
    all_of.close()


@pytest.mark.slow  # an agent with one more network is built for it
def test_each_member_acts_with_its_own_copy_of_the_network():
    several = configs("scalar", loop="concurrent", epsilon=0.0)
    all_of = population(several)
    observation = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
    first = [member.act(observation, 0)["action"] for member in all_of.members]
    one, other = all_of.members
    other.state.load_weights(one.state.weights())
    other.state.load_weights({n: -v for n, v in other.state.weights().items()})
    assert np.array_equal(one.act(observation, 0)["action"], first[0])
    before = other.greedy(observation)
    other.follow()
    assert np.array_equal(other.act(observation, 0)["action"], before)
    assert np.array_equal(one.act(observation, 0)["action"], first[0])
    all_of.close()


def test_members_that_do_not_fit_into_memory_together_are_refused(monkeypatch):
    config = configs("scalar", replay_capacity=100_000)[0]
    monkeypatch.setattr("rl_core.memory.memory_limit", lambda: 4_000_000)
    made(config).close()
    with pytest.raises(MemoryLimitError, match=r"100,000 rows for each of 2 members 4\.4 MB"):
        population([config] * 2)


def test_members_of_two_forms_are_refused():
    one, other = configs("scalar")
    with pytest.raises(ConfigError, match="not in batch_size: member 0 and member 1 have 8"):
        population([one, other.model_copy(update={"batch_size": 9})])
    # Without an average there is no network for it, so this value is live in one of them alone.
    averaged = other.model_copy(update={"ema_decay": 0.9})
    for both in [(one, averaged), (averaged, one)]:
        with pytest.raises(ConfigError, match="not in ema_decay"):
            population(both)
    with pytest.raises(ConfigError, match="at least one member"):
        population([])
