"""Chains: K online networks, each of which learns from a copy of the one before.

The slow twin is plain NumPy: it knows the two clocks and nothing of how the graph keeps them.
"""

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.errors import ConfigError, StaticHyperparameter
from tests.agents.dqn.test_update import S_T, S_TM1, forward

OWN, SHARED = {"chain": 3}, {"chain": 3, "chain_torso": "shared"}
FORMS = pytest.mark.parametrize("form", [OWN, SHARED], ids=["own", "shared"])
LINKS = ("", "link_2/", "link_3/")
SHIFTS = {"sync_period": 5, "refresh_period": 2}


def link(weights, i):
    """The weights of network i of a chain, and the torso it stands on, by plain names."""
    own = {n.removeprefix(LINKS[i]): w for n, w in weights.items() if n.startswith(LINKS[i])}
    return weights | own


def q(weights, i, observation):
    return forward(link(weights, i), np.float32(observation))


def disagreeing(lab, agent, seed=5):
    """Weights of (online, target), drawn anew, so that no two networks are alike."""
    rng, both = np.random.default_rng(seed), []
    for scope in ("online", "target"):
        now = lab.weights(agent, scope)
        drawn = {n: rng.normal(size=w.shape).astype(np.float32) for n, w in now.items()}
        lab.put(agent, scope, drawn)
        both.append(drawn)
    return both


def one_transition(lab, **settings):
    """An agent whose only transition is (S_TM1, action, 3, S_T); it learns next to nothing."""
    agent = lab.agent(discount=0.5, learning_rate=1e-12, loss="squared", **settings)
    (action,) = lab.step(agent, S_TM1, autoreset=True)
    lab.step(agent, S_T, reward=3.0)
    return agent, action


# What is learned.


@pytest.mark.cases(0, 2)
@FORMS
@pytest.mark.parametrize("double", [False, True], ids=["", "double"])
@pytest.mark.parametrize("updates", [1, 2], ids=["single", "fused"])
def test_each_network_regresses_on_the_copy_of_the_one_before(lab, form, double, updates):
    settings = form | {"double": double, "updates_per_learn": 2, "refresh_period": 100}
    agent, action = one_transition(lab, **settings)
    online, target = disagreeing(lab, agent)
    torso = {n: w for n, w in online.items() if n.startswith("torso")} if form is SHARED else {}
    errors = []
    for i in range(3):
        then = q(target | torso, i, S_T)
        chosen = np.argmax(q(online, i, S_T) if double else then)
        errors.append(3.0 + 0.5 * then[chosen] - q(online, i, S_TM1)[action])
    stats = agent.learn(updates, stats=True)
    np.testing.assert_allclose(stats.loss, np.square(errors).sum() / 2, rtol=1e-4)
    np.testing.assert_allclose(stats.td_error, np.full(8, errors[0]), rtol=1e-4)


@pytest.mark.thorough
def test_the_priority_is_the_mean_over_the_chain(lab):
    agent, action = one_transition(lab, **OWN, prioritized=True, priority_alpha=1.0)
    online, target = disagreeing(lab, agent)
    errors = [
        abs(3.0 + 0.5 * q(target, i, S_T).max() - q(online, i, S_TM1)[action]) for i in range(3)
    ]
    agent.learn()
    saved = agent.state.read().variables
    (name,) = (name for name in saved if name.endswith("replay/priority"))
    assert saved[name].max() == pytest.approx(np.mean(errors), rel=1e-3)


# The two clocks.


@pytest.mark.cases(0, 4)
@FORMS
@pytest.mark.parametrize("updates", [1, 4, 7], ids=["single", "four fused", "seven fused"])
def test_the_window_shifts_and_the_copies_are_refreshed_as_in_the_slow_twin(lab, form, updates):
    """With a learning rate that moves no weight, each network is one that there was at first."""
    agent = lab.filled(**form, **SHIFTS, updates_per_learn=7, learning_rate=1e-30)
    torso = form is SHARED
    for update in range(1, 57):
        if update % 28 == 1:  # two shifts on all are the last one
            networks, copies = (
                [of_link(weights, i, torso) for i in range(3)]
                for weights in disagreeing(lab, agent, seed=update)
            )
        if update % 5 == 0:
            copies = list(networks)
            networks = [networks[1], networks[2], networks[2]]
        elif update % 5 % 2 == 0:
            copies[1:] = networks[:2]
        if update % updates:
            continue
        agent.learn(updates)
        assert agent.inspect().target_age == update % 5
        for scope, expected in (("online", networks), ("target", copies)):
            found = lab.weights(agent, scope)
            for i in range(3):
                assert_same(of_link(found, i, torso), expected[i])


def of_link(weights, i, heads_only):
    """The weights of network i alone."""
    names = [n for n in weights if n.startswith(LINKS[i])] if i else [
        n for n in weights if not n.startswith("link_")
    ]  # fmt: skip
    return {
        n.removeprefix(LINKS[i]): weights[n]
        for n in names
        if not (heads_only and n.startswith("torso"))
    }


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


@pytest.mark.slow
@FORMS
def test_single_and_fused_updates_have_the_same_weights(lab, form):
    one, many = (lab.filled(**form, **SHIFTS, updates_per_learn=8) for _ in range(2))
    for _ in range(16):
        one.learn(1)
    for _ in range(2):
        many.learn(8)
    for scope in ("online", "target"):
        first, second = lab.weights(one, scope), lab.weights(many, scope)
        for name, value in first.items():
            np.testing.assert_allclose(value, second[name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.cases(0, 1)
def test_with_the_shared_torso_and_a_period_of_1_the_copies_are_the_networks_themselves(lab):
    agent = lab.filled(**SHARED, sync_period=100)
    for _ in range(3):
        agent.learn()
        online, target = lab.weights(agent, "online"), lab.weights(agent, "target")
        for i in (0, 1):
            assert_same(of_link(online, i, True), of_link(target, i + 1, True))


def test_the_target_of_a_shared_torso_has_heads_alone(lab):
    agent = lab.agent(**SHARED)
    assert {n.split("/")[0] for n in lab.weights(agent, "online")} == {
        "torso", "head", "link_2", "link_3",
    }  # fmt: skip
    assert sorted(lab.weights(agent, "target")) == sorted(
        f"{prefix}head/q/{of}" for prefix in LINKS for of in "wb"
    )


@pytest.mark.thorough
def test_both_periods_are_live(lab):
    agent = lab.filled(**OWN, sync_period=1_000, refresh_period=1_000)
    agent.learn(3)
    before = lab.weights(agent, "target")
    agent.learn()
    assert_same(before, lab.weights(agent, "target"))
    agent.hyperparameters["refresh_period"] = 5
    agent.learn()
    online, refreshed = lab.weights(agent, "online"), lab.weights(agent, "target")
    assert_same(of_link(online, 0, False), of_link(refreshed, 1, False))
    assert_same(of_link(before, 0, False), of_link(refreshed, 0, False))
    agent.hyperparameters["sync_period"] = 6
    second = of_link(lab.weights(agent, "online"), 1, False)
    agent.learn()
    assert agent.inspect().target_age == 0
    # The second network of before, one update later, is the first one now.
    first = of_link(lab.weights(agent, "online"), 0, False)
    assert all(np.abs(first[n] - second[n]).max() < 0.1 for n in first)


@pytest.mark.thorough
@FORMS
def test_a_sync_by_hand_moves_every_network_one_place_on(lab, form):
    agent = lab.filled(**form, sync_period=1_000)
    agent.learn(3)
    before, torso = lab.weights(agent, "online"), form is SHARED
    agent.sync()
    online, target = lab.weights(agent, "online"), lab.weights(agent, "target")
    for i, to in enumerate((1, 2, 2)):
        assert_same(of_link(before, to, torso), of_link(online, i, torso))
        assert_same(of_link(before, i, torso), of_link(target, i, torso))


# Acting.


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_each_network_acts_as_often_and_the_greedy_policy_is_the_first_ones(lab, epsilon):
    # Also where chance decides half of the actions: who acts does not follow from that.
    agent = lab.agent(**OWN, num_envs=50, epsilon=epsilon, replay_capacity=200)
    online = lab.weights(agent, "online")
    # Network i prefers action i, whatever it sees.
    for i, prefix in enumerate(LINKS):
        online[f"{prefix}head/q/w"][:] = 0
        online[f"{prefix}head/q/b"][:] = np.eye(3)[i]
    lab.put(agent, "online", online)
    taken = np.concatenate(lab.fill(agent, 60))
    counts = np.bincount(taken, minlength=3)
    assert counts.sum() == 3_000
    assert np.abs(counts - 1_000).max() < 130  # five standard deviations
    assert (agent.greedy(np.zeros((5, 2), np.float32)) == 0).all()
    assert (agent.q_values(np.zeros((1, 2), np.float32))[0] == [1, 0, 0]).all()


@pytest.mark.thorough
def test_envs_and_time_steps_draw_their_networks_independently(lab):
    agent = lab.agent(**OWN, num_envs=8, epsilon=0.0)
    online = lab.weights(agent, "online")
    for i, prefix in enumerate(LINKS):
        online[f"{prefix}head/q/w"][:], online[f"{prefix}head/q/b"][:] = 0, np.eye(3)[i]
    lab.put(agent, "online", online)
    actions = np.stack(lab.fill(agent, 40))  # [T, N]
    assert len({row.tobytes() for row in actions}) > 35
    assert len({column.tobytes() for column in actions.T}) == 8


# What goes with it, and what does not.

REFUSED = [
    ({"averaged_targets": 2}, "averaged_targets"),
    ({"tau": 0.5}, "tau"),
    ({"loop": "remote"}, "remote"),
    ({"chain": 0}, "chain"),
    ({"chain": 101}, "chain"),
    ({"ema_decay": 0.9}, "ema_decay"),
    ({"sync_distance": 0.1}, "sync_distance"),
    ({"prepared": ("sync_distance",)}, "sync_distance"),
    ({"controller": "copy_when_far"}, "sync_distance"),
]


@pytest.mark.parametrize(("settings", "named"), REFUSED, ids=str)
def test_what_cannot_be_combined_is_refused_in_one_line(settings, named):
    with pytest.raises((ConfigError, ValueError), match=named):
        DqnConfig(**(OWN | settings))


def test_a_soft_target_of_heads_is_possible_and_a_rollout_has_no_chain():
    assert DqnConfig(chain_torso="shared", tau=0.1, sync_period=1).tau == 0.1
    with pytest.raises(ValueError, match="leave chain out"):
        DqnConfig(rollout=16, batch_size=16, chain=2)


def test_tau_and_the_period_of_refreshes_are_live_only_where_they_do_something(lab):
    chain, plain = lab.agent(**OWN), lab.agent()
    with pytest.raises(StaticHyperparameter, match="chain = 1"):
        chain.hyperparameters["tau"] = 0.5
    with pytest.raises(StaticHyperparameter, match="chain > 1"):
        plain.hyperparameters["refresh_period"] = 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"double": True, "n_step": 2, "prioritized": True},
        {"munchausen": True},
        {"head": "categorical", "v_min": -5.0, "v_max": 5.0, "atoms": 7, "dueling": True},
        {"head": "quantile", "quantiles": 5},
        {"head": "implicit", "tau_samples": 4, "tau_samples_acting": 3},
        {"noisy": True, "head_hidden": [4], "epsilon": 0.0},
        {"proximal_weight": 0.5, "functional_weight": 0.1, "min_weight": 0.5},
        {"sync_fit": 0.9, "sync_fit_updates": 2, "on_sync": ["reset_moments"], "layer_norm": True},
    ],
    ids=lambda more: next(iter(more)),
)
@FORMS
def test_it_goes_with_the_rest_of_the_family(lab, form, more):
    settings = form | {"chain": 2} | more
    agent = lab.filled(**settings, sync_period=3, updates_per_learn=2, past_states=1)
    before = lab.weights(agent, "online")
    for updates in (1, 2, 1, 2):
        assert np.isfinite(agent.learn(updates, stats=True).loss)
    after = lab.weights(agent, "online")
    assert all((before[name] != after[name]).any() for name in before if name.endswith("w"))
    agent.state.snapshot()
    agent.learn(2)
    agent.state.rewind()
    for name, value in lab.weights(agent, "online").items():
        np.testing.assert_array_equal(value, after[name], err_msg=name)


@FORMS
@pytest.mark.parametrize(
    ("block", "copies"),
    [
        ("head", ("head", "link_2/head")),  # the target's, and what the second learns from
        ("link_2", ("link_3",)),
        ("link_3", ()),  # nobody learns from the last
    ],
)
def test_what_learns_from_a_block_that_is_reset_gets_the_same_weights(lab, form, block, copies):
    agent = lab.filled(**form)
    agent.learn(4)
    names = ("online", "target")
    before = {scope: lab.weights(agent, scope) for scope in names}
    agent.weight_resets.reset(block)
    after = {scope: lab.weights(agent, scope) for scope in names}
    for scope, blocks in zip(names, ((block,), copies), strict=True):
        of = {n for n in after[scope] if n.startswith(tuple(f"{b}/" for b in blocks))}
        assert of or not blocks
        for name, value in after[scope].items():
            changed = (value != before[scope][name]).any()
            assert not changed if name not in of else changed or name.endswith("/b"), name
    for to in copies:
        for name, value in after["online"].items():
            if name.startswith(f"{block}/"):
                copied = after["target"].get(name.replace(block, to, 1))
                assert copied is None or (copied == value).all()


@FORMS
def test_units_of_all_networks_are_recycled(lab, form):
    agent = lab.filled(**form)
    agent.learn(4)
    found = agent.weight_resets.recycle(1e9)
    hidden = agent.config.hidden[0]
    assert found.dormant == found.units == hidden * (3 if form is OWN else 1)
