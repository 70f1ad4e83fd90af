"""When the target network is copied, and what is copied then."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import (
    ApplyOps,
    blocks_of,
    copy_vars,
    dense,
    stop_gradient_getter,
    variables_in,
)
from targetnet.rl_core.errors import Diverged
from targetnet.rl_core.networks import mlp_torso


def test_target_equals_online_right_after_construction(lab):
    """The scopes are initialised by name, so without a first copy they differ."""
    for settings in ({}, {"dueling": True, "layer_norm": True, "hidden": (8, 4)}):
        agent = lab.agent(**settings)
        assert lab.same(lab.weights(agent, "online"), lab.weights(agent, "target"))
        assert agent.inspect().target_age == 0
        assert agent.inspect().divergence == 0


def test_the_first_weights_are_not_all_the_same_number(lab):
    """Otherwise the test above would hold without any copy."""
    weights = lab.weights(lab.agent(), "online")
    assert all(len(np.unique(value)) == value.size for value in weights.values())


@pytest.mark.parametrize("period", [1, 3, 501])
def test_target_is_copied_on_exactly_the_update_that_makes_it_as_old_as_the_period(lab, period):
    agent = lab.used()
    agent.hyperparameters["sync_period"] = period
    before, updates = lab.weights(agent, "target"), agent.updates
    for round_end in (period, 2 * period):
        for _ in range(period - 1):
            agent.learn()
        assert agent.inspect().target_age == period - 1
        assert lab.same(lab.weights(agent, "target"), before)
        agent.learn()
        assert agent.updates == updates + round_end
        assert agent.inspect().target_age == 0
        after = lab.weights(agent, "target")
        assert lab.same(after, lab.weights(agent, "online"))
        assert not lab.same(after, before)
        before = after


def test_the_configs_period_is_counted_from_the_first_update_on(lab):
    agent = lab.filled(sync_period=3)
    ages = []
    for _ in range(7):
        agent.learn()
        ages.append(agent.inspect().target_age)
    assert ages == [1, 2, 0, 1, 2, 0, 1]


def test_target_does_not_move_between_syncs(lab):
    agent = lab.used()
    agent.hyperparameters["sync_period"] = 7
    copied_at, last = [], lab.weights(agent, "target")
    for update in range(1, 22):
        agent.learn()
        now = lab.weights(agent, "target")
        if not lab.same(now, last):
            copied_at.append(update)
        last = now
    assert copied_at == [7, 14, 21]


@pytest.mark.cases(1)
@pytest.mark.parametrize("updates_per_learn", [1, 4], ids=["single", "fused"])
def test_the_period_counts_updates_not_calls_of_learn(lab, updates_per_learn):
    agent = lab.used(updates_per_learn=updates_per_learn)
    agent.hyperparameters["sync_period"] = 5
    ages = []
    for _ in range(6):
        agent.learn(3)
        ages.append(agent.inspect().target_age)
        assert agent.learner.target_age == ages[-1]  # which asks no graph
    assert ages == [3, 1, 4, 2, 0, 3]  # 3, 6 - 5, 9 - 5, 12 - 10, 15 - 15, 18 - 15


@pytest.mark.cases(0)
@pytest.mark.parametrize("updates_per_learn", [1, 4], ids=["single", "fused"])
def test_a_call_may_sync_several_times_and_learns_against_each_copy(lab, updates_per_learn):
    several = lab.filled(sync_period=2, updates_per_learn=updates_per_learn)
    one_by_one = lab.filled(sync_period=2)
    several.learn(9)
    for _ in range(9):
        one_by_one.learn()
    assert several.inspect().target_age == 1  # 9 - 8
    for scope in ("online", "target"):
        got, expected = lab.weights(several, scope), lab.weights(one_by_one, scope)
        for name in expected:
            np.testing.assert_allclose(got[name], expected[name], rtol=1e-4, atol=1e-6)


@pytest.mark.thorough
def test_env_steps_do_not_age_the_target(lab):
    agent = lab.agent(num_envs=4, sync_period=5)
    lab.fill(agent, 10)
    agent.learn(2)
    lab.fill(agent, 10)
    assert agent.inspect().target_age == 2


def test_a_hard_sync_copies_whatever_blocks_were_left_alone(lab):
    agent = lab.used()
    agent.hyperparameters["sync_period"] = 3
    agent.hyperparameters["exempt"] = ["torso"]
    agent.learn(3)
    assert lab.same(lab.weights(agent, "online"), lab.weights(agent, "target"))


def test_shortening_the_period_below_the_present_age_syncs_at_the_very_next_update(lab):
    agent = lab.used()
    agent.learn(10)
    before = lab.weights(agent, "target")
    agent.hyperparameters["sync_period"] = 5
    assert agent.inspect().target_age == 10  # setting it does nothing by itself
    agent.learn()
    assert agent.inspect().target_age == 0
    assert lab.same(lab.weights(agent, "target"), lab.weights(agent, "online"))
    assert not lab.same(lab.weights(agent, "target"), before)


def test_shortening_the_period_to_just_above_the_present_age_waits_for_it(lab):
    agent = lab.used()
    agent.learn(10)
    agent.hyperparameters["sync_period"] = 12
    agent.learn()
    assert agent.inspect().target_age == 11
    agent.learn()
    assert agent.inspect().target_age == 0


def test_lengthening_the_period_keeps_the_age(lab):
    agent = lab.used()
    agent.hyperparameters["sync_period"] = 5
    agent.learn(4)
    agent.hyperparameters["sync_period"] = 8
    ages = []
    for _ in range(5):
        agent.learn()
        ages.append(agent.inspect().target_age)
    assert ages == [5, 6, 7, 0, 1]


def test_auto_returns_to_the_configs_period(lab):
    agent = lab.filled(sync_period=3)
    agent.hyperparameters["sync_period"] = 50
    agent.learn(10)
    agent.hyperparameters["sync_period"] = "auto"
    agent.learn()
    assert agent.inspect().target_age == 0


def test_the_period_may_follow_a_schedule(lab):
    schedule = {"schedule": "piecewise", "points": [[0, 3], [100, 5]], "between": "hold"}
    agent = lab.filled(sync_period=schedule)
    agent.hyperparameters.env_step = 99
    agent.learn(4)
    assert agent.inspect().target_age == 1  # 4 - 3
    agent.hyperparameters.env_step = 100
    agent.learn(3)
    assert agent.inspect().target_age == 4
    agent.learn()
    assert agent.inspect().target_age == 0


@pytest.mark.parametrize("updates_per_learn", [1, 4], ids=["single", "fused"])
def test_a_soft_copy_moves_each_weight_its_share_of_the_way(lab, updates_per_learn):
    agent = lab.used(updates_per_learn=updates_per_learn)
    agent.hyperparameters["sync_period"], agent.hyperparameters["tau"] = 2, 0.25
    before = lab.weights(agent, "target")
    agent.learn(2)
    online, after = lab.weights(agent, "online"), lab.weights(agent, "target")
    for name in before:
        np.testing.assert_allclose(
            after[name], 0.75 * before[name] + 0.25 * online[name], rtol=1e-6, atol=1e-7
        )
    assert agent.inspect().target_age == 0


def test_a_soft_copy_of_one_weight_by_hand(lab):
    agent = lab.used()
    for name, value in {"sync_period": 1, "tau": 0.5, "learning_rate": 1e-12}.items():
        agent.hyperparameters[name] = value
    lab.put(agent, "online", {"head/q/b": [1, 2, 3]})
    lab.put(agent, "target", {"head/q/b": [3, 2, -1]})
    agent.learn()
    bias = lab.weights(agent, "target")["head/q/b"]
    np.testing.assert_allclose(bias, [2, 2, 1], atol=1e-6)  # half way
    agent.hyperparameters["tau"] = 0.1  # takes effect at the next sync
    agent.learn()
    bias = lab.weights(agent, "target")["head/q/b"]
    np.testing.assert_allclose(bias, [1.9, 2, 1.2], atol=1e-6)  # 2 - 0.1;  1 + 0.1 * 2


def test_sync_copies_at_once_hard_whatever_tau_is(lab):
    agent = lab.used()
    agent.hyperparameters["tau"] = 0.1
    updates = agent.updates
    agent.learn(5)
    agent.sync()
    assert agent.inspect().target_age == 0
    assert lab.same(lab.weights(agent, "online"), lab.weights(agent, "target"))
    assert agent.updates == updates + 5


def test_divergence_is_the_norm_of_online_less_target(lab):
    agent = lab.used()
    agent.learn(5)
    online, target = lab.weights(agent, "online"), lab.weights(agent, "target")
    squares = sum(np.sum((online[name] - target[name]) ** 2) for name in online)
    assert agent.inspect().divergence == pytest.approx(np.sqrt(squares), rel=1e-5)


# Three agents in one graph; the names of the first begin those of the others.
AGENTS = [
    ("agent/online", "agent/target"),
    ("agent/online_2", "agent/target_2"),
    ("agent_2/online", "agent_2/target"),
]


@pytest.fixture
def three_agents(engine):
    """(train, copy) of each."""
    made = []
    with engine.building():
        observation = tf.ones([4, 2])
        for goal, (online, target) in enumerate(AGENTS):
            with tf.variable_scope(online):
                q = dense(mlp_torso((8,))(observation), 3, "head")
            with tf.variable_scope(target, custom_getter=stop_gradient_getter):
                dense(mlp_torso((8,))(observation), 3, "head")
            loss = tf.reduce_mean(tf.square(q - goal))
            learn = ApplyOps(loss, blocks_of(online), lambda: tf.train.AdamOptimizer(0.1))
            made.append((learn.done, copy_vars(online, target)))
    engine.start()
    return made


@pytest.mark.parametrize("number", range(3))
def test_training_and_syncing_one_agent_leaves_the_others_in_its_graph_unmoved(
    lab, engine, three_agents, number
):
    def weights():
        with engine.graph.as_default():
            found = {s: engine.run(variables_in(s)) for scopes in AGENTS for s in scopes}
        return {s: {n: w.copy() for n, w in one.items()} for s, one in found.items()}

    def moved(before, after):
        return [scope for scope in before if not lab.same(before[scope], after[scope])]

    (learn, copy), (online, target) = three_agents[number], AGENTS[number]
    first = weights()
    engine.run(learn)
    trained = weights()
    assert moved(first, trained) == [online]
    engine.run(copy)
    synced = weights()
    assert moved(trained, synced) == [target]
    assert lab.same(synced[online], synced[target])


@pytest.mark.cases(0)
@pytest.mark.parametrize("updates_per_learn", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_what_python_knows_of_the_age_is_what_the_graph_knows(lab, updates_per_learn):
    """Through single and fused updates, shortened and lengthened periods, and everything else."""
    agent = lab.filled(updates_per_learn=updates_per_learn, past_states=3)
    rng = np.random.default_rng(0)
    agent.state.snapshot()
    kept = (
        agent.state.read(),
        [(0, agent.state.contents.time_steps(0, agent.state.contents.written()))],
    )
    others = [
        agent.sync,
        agent.state.snapshot,
        agent.state.rewind,
        lambda: agent.state.load_weights(agent.state.weights()),
        lambda: agent.state.restore(*kept),
    ]
    copies = 0
    for _ in range(300):
        agent.hyperparameters["sync_period"] = int(rng.integers(1, 12))
        if rng.random() < 0.1:
            others[rng.integers(len(others))]()
        agent.learn(int(rng.integers(1, 9)))
        assert agent.learner.clock.age_in_python == agent.inspect().target_age
        copies += agent.learner.clock.age_in_python == 0
    assert copies > 20


@pytest.mark.parametrize("updates_per_learn", [1, 4], ids=["single", "fused"])
def test_each_copy_is_noted_with_its_env_step_and_the_age_that_was_reached(lab, updates_per_learn):
    agent = lab.used(updates_per_learn=updates_per_learn)
    live, copies = agent.hyperparameters, agent.learner.clock.syncs
    copies.clear()

    def learn(env_step, updates):
        live.env_step = env_step
        agent.learn(updates)

    live["sync_period"] = 3
    learn(10, 2)  # age 2
    learn(20, 4)  # copied at 3, and again at 3: the target is fresh
    learn(30, 2)  # age 2
    live["sync_period"] = 2  # its age already
    learn(40, 1)  # copied at 3
    live["sync_period"] = 100
    learn(50, 4)
    live.env_step = 60
    agent.sync()  # at age 4
    learn(70, 1)
    live["sync_period"] = 1
    learn(80, 3)  # copied at 2, at 1, at 1
    assert list(copies) == [(20, 3), (40, 3), (60, 4), (80, 1)]
    live.env_step = 0


def test_an_update_that_is_not_made_copies_nothing(lab):
    agent = lab.filled(xla=False)
    agent.hyperparameters["sync_period"] = 1
    lab.put(agent, "online", {"head/q/b": [np.nan, 0.0, 0.0]})
    with pytest.raises(Diverged):
        agent.learn()
    lab.put(agent, "online", {"head/q/b": [0.0, 0.0, 0.0]})
    agent.hyperparameters["sync_period"] = 100
    agent.learn()
    assert not agent.learner.clock.syncs
