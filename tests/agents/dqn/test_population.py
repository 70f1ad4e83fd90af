"""Members of a population: they take turns on one graph, and each has the bits it has alone."""

import functools
import itertools
import time

import numpy as np
import pytest

from targetnet.agents.config.members import require_one_form
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.agents.dqn.population import Population
from targetnet.agents.loops.compiled import compiled_loop
from targetnet.agents.loops.plain import LoopState
from targetnet.agents.population.scheduler import CooperativeScheduler
from targetnet.rl_core.errors import ConfigError, Diverged, MemoryLimitError
from targetnet.rl_core.graph.variable_overrides import current_overrides
from targetnet.rl_core.optimizers.packed_adam import LoopAdam
from targetnet.rl_core.schedules import Linear
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
    stack = max((config.frame_stack for config in configs), default=1)
    return Population(configs, (3 * stack,), np.float32, 4, **how)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind", ["scalar", *(pytest.param(kind, marks=pytest.mark.slow) for kind in [*KINDS][1:])]
)
def test_members_have_the_bits_that_they_have_alone(kind):
    """First weights too; they alternate at every call, and the graph stays what it is."""
    several = configs(kind, past_states=1)
    all_of = population(several)
    all_alone = [made(config) for config in several]
    for alone, member in zip(all_alone, all_of.members, strict=True):
        for name, value in alone.state.weights().items():
            np.testing.assert_array_equal(member.state.weights()[name], value)
        assert member.inspect().divergence == 0
    graph = all_of.members[0].engine.graph
    operations = len(graph.get_operations())
    pairs = itertools.zip_longest(*map(training, all_of.members))
    seen = [np.concatenate(of) for of in zip(*pairs, strict=True)]
    for alone, member, of_member in zip(all_alone, all_of.members, seen, strict=True):
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


@pytest.mark.thorough
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_each_member_of_a_compiled_loop_ends_at_its_own_env_steps():
    one, other = configs("scalar", **IN_GRAPH)
    ends = {9: one.model_copy(update={"env_steps": 9}), 23: other}
    all_of = with_envs(Population, [ends[9], ends[23].model_copy(update={"env_steps": 23})])
    for end, member in zip(ends, all_of.members, strict=True):
        state = LoopState(next_log=10**9)
        steps = [tick.env_step for tick in compiled_loop(member, None, state)]
        assert end <= steps[-1] < end + one.num_envs and steps.count(steps[-1]) == 1
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
    monkeypatch.setattr("targetnet.rl_core.machine.memory_limit", lambda: 4_000_000)
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


@pytest.mark.parametrize("n_step", [3, Linear(start=1, end=3, steps=9)], ids=["3", "to 3"])
def test_members_with_a_memory_have_sequences_of_one_length(n_step):
    """In shorter ones the values of later steps would be those of the wrong ones."""
    one, other = configs("scalar", recurrent="gru", num_envs=1, replay_capacity=200)
    longer = other.model_copy(update={"n_step": n_step})
    for both in [(one, longer), (longer, one)]:
        with pytest.raises(ConfigError, match="the same largest n_step: member 0 and member 1"):
            population(both)
    require_one_form({"m00": longer, "m01": other.model_copy(update={"n_step": 3})})


def batcher(**more):
    """Configs of agents that could make their updates together."""
    batched = {"xla": True, "num_envs": 1, "updates_per_learn": 1, "learn_period": 1}
    return configs("scalar", **batched | more)


def loop(agent, steps=50):
    """Steps whose rows wait, or not, for an update; with statistics and copies now and then."""
    rng, N, actions = np.random.default_rng(agent.config.seed), agent.config.num_envs, []
    shown = 3 * agent.config.frame_stack
    for t in range(steps):
        seen = rng.normal(size=(N, shown)).astype(np.float32), rng.normal(size=N).astype(np.float32)
        actions.append(agent.step(*seen, rng.random(N) < 0.1, np.full(N, t % 9 == 0), epsilon=0.5))
        if t > 9 and t % 9:
            agent.learn(2 if t == 30 else 1, stats=t % 13 == 0)
        if t == 25:
            agent.sync()
            agent.state.load_weights(agent.state.weights())
    return np.concatenate(actions)


def in_turns(members, do):
    """All members' results, each of which goes on until it asks for what is made together."""
    turns = CooperativeScheduler()
    members[0].batched.batcher = turns
    return turns.all([functools.partial(do, member) for member in members])


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {},
        pytest.param({"num_envs": 3, "learn_period": 3}, marks=pytest.mark.slow),
        pytest.param({"num_envs": 2, "learn_period": 2, "frame_stack": 4}, marks=pytest.mark.slow),
        pytest.param({"learn_period": 4, "tau": 0.1, "ema_decay": 0.9}, marks=pytest.mark.slow),
        pytest.param({"double": True, "n_step": 3, "dueling": True}, marks=pytest.mark.slow),
        pytest.param(KINDS["implicit"], marks=pytest.mark.slow),
        pytest.param(KINDS["fqf"], marks=pytest.mark.slow),
        pytest.param(KINDS["ruled"], marks=pytest.mark.slow),
        pytest.param(KINDS["sgd"], marks=pytest.mark.slow),
        pytest.param(KINDS["adamw"], marks=pytest.mark.slow),
        pytest.param({"min_weight": 0.5, "proximal_weight": 0.5}, marks=pytest.mark.slow),
        pytest.param(
            {"head": "categorical", "v_min": 0.0, "v_max": 9.0, "atoms": 5}, marks=pytest.mark.slow
        ),
    ],
)
def test_updates_that_members_make_together_have_the_bits_of_those_made_alone(more):
    several = batcher(**more)
    several.append(several[0].model_copy(update={"seed": 9, "learning_rate": 0.02}))
    all_of = population(several)
    updates = []
    batched = all_of.members[0].batched
    batched.calls.update = counted(batched.calls.update, updates)
    seen = in_turns(all_of.members, loop)
    assert max(updates) == 3  # all of them in one call
    for config, member, of_member in zip(several, all_of.members, seen, strict=True):
        alone = made(config)
        np.testing.assert_array_equal(of_member, loop(alone))
        assert member.state.digest() == alone.state.digest()
        assert (member.updates, member.rows()) == (alone.updates, alone.rows())
        assert member.inspect() == alone.inspect()
        alone.close()
    all_of.close()


def counted(call, counts):
    def update(members, count, *feeds):
        counts.append(int(count))
        return call(members, count, *feeds)

    return update


@pytest.mark.slow  # it compiles
def test_where_joint_updates_would_round_otherwise_each_makes_its_own(monkeypatch):
    """The trial finds it; so it does with another learning rate in the joint ones."""
    averaged = population(batcher(averaged_targets=2, hidden=(64, 64), batch_size=64))
    assert [member.batched for member in averaged.members] == [None, None]
    averaged.close()
    apply = LoopAdam.apply

    def other(self, loss, moments, trained=None, *, learning_rate, max_grad_norm):
        if current_overrides() is not None:
            learning_rate *= np.float32(1.0000001)
        how = {"learning_rate": learning_rate, "max_grad_norm": max_grad_norm}
        return apply(self, loss, moments, trained, **how)

    monkeypatch.setattr(LoopAdam, "apply", other)
    all_of = population(batcher())
    assert all_of.members[0].batched is None
    all_of.close()


@pytest.mark.slow  # it compiles
def test_where_the_joint_policy_would_choose_otherwise_each_has_its_own(monkeypatch):
    """Also if the members' epsilon is 1 when they begin, as by default."""
    greedy = Networks.greedy_by

    def other(self):
        values = greedy(self)
        return values if current_overrides() is None else values._replace(q=-values.q)

    monkeypatch.setattr(Networks, "greedy_by", other)
    all_of = population(batcher(epsilon=1.0))
    assert all_of.members[0].batched is None
    all_of.close()


@pytest.mark.slow  # it compiles
def test_a_joint_update_that_is_not_finite_is_refused_to_the_one_it_is_of():
    one, other = batcher()
    all_of = population([one, other.model_copy(update={"learning_rate": 1e30})])
    good, bad = all_of.members

    def go(member):
        loop(member, 12)
        return member.updates

    def fails(member):
        with pytest.raises(Diverged):
            loop(member, 12)
        return member.updates

    turns = CooperativeScheduler()
    good.batched.batcher = turns
    assert turns.all([lambda: go(good), lambda: fails(bad)]) == [2, 0]
    alone = made(one)
    loop(alone, 12)
    assert good.state.digest() == alone.state.digest()
    alone.close()
    all_of.close()


@pytest.mark.slow  # it compiles
def test_a_population_begins_whose_first_member_diverges_on_random_data():
    one, other = batcher()
    all_of = population([one.model_copy(update={"learning_rate": 1e30}), other])
    assert all_of.members[0].batched is None
    with pytest.raises(Diverged):
        loop(all_of.members[0], 12)
    loop(all_of.members[1], 12)
    all_of.close()


@pytest.mark.slow  # it compiles
@pytest.mark.parametrize(
    "more",
    [
        {"prioritized": True}, {"xla": False}, {"loop": "concurrent"}, {"updates_per_learn": 2},
        {"noisy": True}, {"freeze": [{"exempt": ["head"], "updates": 3}]},
    ],
)  # fmt: skip
def test_agents_of_other_forms_have_no_joint_calls(more):
    all_of = population(batcher(**more))
    assert [member.batched for member in all_of.members] == [None, None]
    all_of.close()


@pytest.mark.slow  # it compiles
def test_no_other_values_of_members_compile_the_joint_call_anew():
    """XLA takes what slices an array by brackets for constants: one compilation for each value."""
    all_of = population(batcher())
    batched = all_of.members[0].batched
    for member in all_of.members:
        loop(member, 12)
    slow = []
    for members, count in ([[0, 1], 1], [[1, 0], 1], [[1, 0], 2], [[0, 1], 2]):
        began = time.process_time()
        batched.calls.update(np.array(members), np.int32(count), *batched._feeds)
        slow.append(time.process_time() - began)
    # A compilation takes seconds of work, a call less than a millisecond.
    assert max(slow) < 0.5
    all_of.close()
