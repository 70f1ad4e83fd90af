"""Actions on the weights: reset, shrink and perturb, recycle; what changes and what stays."""

import numpy as np
import pytest

from targetnet.agents.dqn.population import Population
from targetnet.agents.dqn.weight_resets import dormant, set_rows
from targetnet.rl_core.errors import ConfigError, RlCoreError, UnknownName
from tests.agents.dqn.several import KINDS, configs, made, train

IN_BOTH_FORMS = pytest.mark.parametrize(
    "form", [{}, {"updates_per_learn": 2}], ids=["single updates", "loops"]
)
AVERAGED = {"averaged_targets": 2, "ema_decay": 0.9}


def all_of(agent):
    return agent.state.read().variables


def learned(agent):
    return agent.state.learned.read()


def changed(agent, before):
    """Names of what is learned that has changed."""
    now = learned(agent)
    return {name for name, value in before.items() if not np.array_equal(now[name], value)}


def is_adam(name):
    return name.endswith(("/Adam", "/Adam_1")) or "_power" in name


# Scores by hand: the mean of |h| over the batch, divided by the mean of these over the layer.
#   unit         0    1    2     means 2, 0, 0.4; their mean 0.8; scores 2.5, 0, 0.5
GIVEN = [[1.0, 0.0, 0.6], [3.0, 0.0, -0.2]]


@pytest.mark.parametrize(
    ("threshold", "wanted"),
    [(0.0, [False, True, False]), (0.49, [False, True, False]), (0.5, [False, True, True]),
     (2.5, [True, True, True])],
)  # fmt: skip
def test_a_unit_is_dormant_up_to_the_threshold(threshold, wanted):
    assert dormant(np.float32(GIVEN), threshold + 1e-6).tolist() == wanted


def test_a_filters_score_is_over_all_its_places():
    given = np.zeros([1, 2, 2, 2], np.float32)
    given[0, 1, 1, 0] = 4.0  # means 1 and 0; scores 2 and 0
    assert dormant(given, 0.1).tolist() == [False, True]
    given[0, 0, 0, 1] = 0.4  # means 1 and 0.1, of which the mean is 0.55; scores 1.82 and 0.18
    assert dormant(given, 0.1).tolist() == [False, False]
    assert dormant(given, 0.2).tolist() == [False, True]


def test_in_a_layer_that_gives_nothing_all_units_are_dormant():
    assert dormant(np.zeros([3, 4], np.float32), 0.0).all()


def test_after_a_flattened_convolution_a_unit_has_a_row_for_each_place():
    weights = np.arange(12, dtype=np.float32).reshape(6, 2)  # three places of two filters
    set_rows(weights, np.array([False, True]), 0)
    assert weights.tolist() == [[0, 1], [0, 0], [4, 5], [0, 0], [8, 9], [0, 0]]
    filters = np.ones([2, 2, 3, 4], np.float32)
    set_rows(filters, np.array([True, False, False]), 0)
    assert not filters[:, :, 0].any() and filters[:, :, 1:].all()
    bias = np.ones(3, np.float32)
    set_rows(bias, np.array([True, False, False]), 0)
    assert bias.all()


@pytest.mark.cases(1)
@IN_BOTH_FORMS
def test_a_reset_draws_one_block_anew_everywhere_and_touches_nothing_else(lab, form):
    agent = lab.filled(**AVERAGED, **form)
    agent.learn(6)
    before, operations = learned(agent), lab.operations(agent)
    age = agent.learner.target_age
    agent.weight_resets.reset("head")
    now = learned(agent)
    of_head = {name for name in before if "/head/" in name or "apply_head" in name}
    weights = {name for name in of_head if not is_adam(name)}
    assert changed(agent, before) <= of_head and weights <= changed(agent, before)
    assert len(weights) == 2 * 4  # w and b: online, target, its older copy, averaged
    for name in ("q/w", "q/b"):
        copies = [now[f"{of}/head/{name}"] for of in ("target", "past_target/0", "ema")]
        for copy in copies:
            np.testing.assert_array_equal(copy, now[f"online/head/{name}"])
    slots = {name: now[name] for name in of_head if name.endswith(("/Adam", "/Adam_1"))}
    assert len(slots) == 4 and not any(map(np.any, slots.values()))
    powers = {name: now[name].item() for name in now if "_power" in name}
    first = {n for n, v in powers.items() if v == np.float32(0.9 if "beta1" in n else 0.999)}
    assert len(powers) == 4 and len(first) == 2
    assert agent.learner.target_age == age == agent.inspect().target_age
    assert lab.operations(agent) == operations
    agent.learn(3)  # and it goes on
    assert np.isfinite(agent.state.weights()["head/q/w"]).all()


def test_a_reset_of_all_is_a_new_network_with_a_new_optimizer(lab):
    agent = lab.filled(**AVERAGED)
    first = learned(lab.agent(**AVERAGED))
    agent.learn(6)
    before = learned(agent)
    agent.weight_resets.reset("all")
    now = learned(agent)
    for name, value in now.items():
        if is_adam(name):
            np.testing.assert_array_equal(value, first[name], err_msg=name)
        elif not name.startswith("counters/"):
            assert not np.array_equal(value, before[name]), name
            assert not np.array_equal(value, first[name]), name  # other numbers than at first


def test_new_weights_have_the_distribution_of_first_ones_and_no_draw_is_another(lab):
    """256 inputs: uniform within 1/16, so mean 0 and variance 1 / (3 * 256)."""
    agent = lab.agent(hidden=(256, 256))
    drawn = [agent.state.weights()["torso/dense_1/w"]]
    for _ in range(3):
        agent.weight_resets.reset("torso")
        drawn.append(agent.state.weights()["torso/dense_1/w"])
    for weights in drawn:
        assert abs(weights).max() <= 1 / 16 and weights.max() > 0.0624 and weights.min() < -0.0624
        share, _ = np.histogram(weights, 8, (-1 / 16, 1 / 16))
        np.testing.assert_allclose(share / weights.size, 1 / 8, atol=0.006)  # 6 deviations
        np.testing.assert_allclose(weights.var(), 1 / 768, rtol=0.02)
    for i, one in enumerate(drawn):
        for other in drawn[:i]:
            assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.02


@pytest.mark.thorough
def test_the_same_seed_has_the_same_bits_and_another_one_has_others(lab):
    one, same, other = (lab.agent(seed=seed) for seed in (1, 1, 2))
    for agent in (one, same, other):
        agent.weight_resets.reset("head")
        agent.weight_resets.perturb(0.5)
        assert agent.state.replaced == 2  # so actors of a remote loop are sent the new weights
    assert lab.same(one.state.weights(), same.state.weights())
    assert one.state.digest() == same.state.digest() != other.state.digest()
    assert not np.array_equal(one.state.weights()["head/q/w"], other.state.weights()["head/q/w"])


@pytest.mark.thorough
def test_a_restored_agent_goes_on_counting_its_draws(lab):
    one, two = lab.agent(), lab.agent()
    one.weight_resets.reset("head")
    two.state.restore(one.state.read(), [])
    for agent in (one, two):
        agent.weight_resets.reset("head")
    assert lab.same(one.state.weights(), two.state.weights())
    assert one.state.digest() == two.state.digest()


def test_without_a_renewal_the_host_state_is_what_it_was(lab):
    agent = lab.agent()
    assert "renewals" not in agent.state.read().host
    agent.weight_resets.reset("head")
    assert agent.state.read().host["renewals"] == 1


@pytest.mark.cases(1)
@IN_BOTH_FORMS
def test_shrink_and_perturb_is_a_mean_of_old_and_new_weights(lab, form):
    """A twin is reset instead: its weights are the new ones."""
    agent, twin = (lab.filled(**AVERAGED, **form) for _ in range(2))
    for of in (agent, twin):
        of.learn(6)
    before = learned(agent)
    agent.weight_resets.perturb(0.75)
    twin.weight_resets.reset("all")
    now, new = learned(agent), learned(twin)
    for name, value in now.items():
        if is_adam(name) or name.startswith("counters/"):
            np.testing.assert_array_equal(value, before[name], err_msg=name)
        else:
            wanted = 0.75 * before[name] + 0.25 * new[name]
            np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-8, err_msg=name)
            assert not np.array_equal(value, before[name])
    assert not np.array_equal(now["online/head/q/w"], now["target/head/q/w"])


@pytest.mark.slow
@IN_BOTH_FORMS
@pytest.mark.parametrize("do", [("reset", "all"), ("recycle", 1.0)], ids=["reset", "recycle"])
def test_learning_goes_on_by_the_optimizer_that_was_changed(lab, form, do):
    """A twin that is given the state after the action learns the same: no old moments are left."""
    agent, twin = lab.filled(**form), lab.agent(**form)
    agent.learn(6)
    getattr(agent.weight_resets, do[0])(do[1])
    twin.state.restore(agent.state.read(), [(0, agent.state.contents.time_steps(0, 50))])
    for of in (agent, twin):
        of.learn(4)
    assert agent.state.digest() == twin.state.digest()


def test_a_block_is_perturbed_alone(lab):
    agent = lab.filled()
    agent.learn(6)
    before = learned(agent)
    agent.weight_resets.perturb(0.5, "torso")
    assert changed(agent, before) == {
        f"{scope}/torso/dense_0/{name}" for scope in ("online", "target") for name in "wb"
    }


def twin_of_recycle(weights, moments, new, observed, threshold):
    """ReDo, unit by unit, of a torso of two dense layers and one layer in the head; in place."""
    h0 = np.maximum(observed @ weights["torso/dense_0/w"] + weights["torso/dense_0/b"], 0)
    h1 = np.maximum(h0 @ weights["torso/dense_1/w"] + weights["torso/dense_1/b"], 0)
    chain = ["torso/dense_0", "torso/dense_1", "head/q"]
    asleep = []
    for layer, h in enumerate((h0, h1)):
        size = np.abs(h).mean(axis=0)
        asleep += [
            (layer, unit) for unit in range(h.shape[1]) if size[unit] <= threshold * size.mean()
        ]
    for layer, unit in asleep:
        for part in ("w", "b"):
            name = f"{chain[layer]}/{part}"
            weights[name][..., unit] = new[name][..., unit]
            for moment in moments[name]:
                moment[..., unit] = 0
    for layer, unit in asleep:
        name = f"{chain[layer + 1]}/w"
        weights[name][unit] = 0
        for moment in moments[name]:
            moment[unit] = 0
    return asleep


@pytest.mark.cases(0)
@IN_BOTH_FORMS
def test_recycling_is_that_of_a_slow_twin(lab, form):
    agent, twin = (lab.filled(hidden=(16, 12), **form) for _ in range(2))
    for of in (agent, twin):
        of.learn(8)
    threshold = 0.3
    before = learned(agent)
    weights = {name: value.copy() for name, value in agent.state.weights().items()}
    slot = "online/{}/Adam", "online/{}/Adam_1"
    names = {
        n: [m for m in before if m.endswith(tuple(s.format(n) for s in slot))] for n in weights
    }
    moments = {name: [before[of].copy() for of in found] for name, found in names.items()}
    assert all(len(found) == 2 for found in moments.values())
    (observed,) = agent.learner.gradients.shown()
    twin.weight_resets.reset("all")
    asleep = twin_of_recycle(weights, moments, twin.state.weights(), observed, threshold)
    assert 2 < len(asleep) < 20 and {layer for layer, _ in asleep} == {0, 1}
    recycled = agent.weight_resets.recycle(threshold)
    assert recycled == (len(asleep), 28)
    assert lab.same(agent.state.weights(), weights)
    now = learned(agent)
    for name, found in names.items():
        for of, wanted in zip(found, moments[name], strict=True):
            np.testing.assert_array_equal(now[of], wanted, err_msg=of)
    rest = {n for n in before if not n.startswith("online/") and not n.endswith(("Adam", "Adam_1"))}
    assert rest and not rest & changed(agent, before)  # target, age, step counters


def test_dormant_units_that_give_nothing_are_recycled_without_a_change_of_values(lab):
    agent = lab.filled(hidden=(8,))
    weights = agent.state.weights()
    weights["torso/dense_0/w"][:, 2] = 0
    weights["torso/dense_0/b"][2] = -1
    agent.state.load_weights(weights)
    shown = np.float32([[1.0, 2.0], [-3.0, 0.5]])
    before = agent.q_values(shown)
    assert agent.weight_resets.recycle(0.0).dormant >= 1
    np.testing.assert_allclose(agent.q_values(shown), before, atol=1e-6)
    now = agent.state.weights()
    assert now["torso/dense_0/w"][:, 2].all() and not now["head/q/w"][2].any()
    agent.learn(1)  # it learns again: the way out first, then the way in
    assert agent.state.weights()["head/q/w"][2].any()


NETWORKS = {
    "rainbow": {**KINDS["rainbow"], "head_hidden": (6,), "layer_norm": True},
    "implicit": KINDS["implicit"],
    "fqf": KINDS["fqf"],
    "quantile": {"head": "quantile", "quantiles": 5},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["implicit", "rainbow", "fqf", pytest.param("quantile", marks=pytest.mark.slow)]
)
def test_every_head_can_be_reset_perturbed_and_recycled(kind):
    agent = made(configs("scalar", **NETWORKS[kind])[0])
    fresh = learned(agent)
    train(agent, 8)
    operations = len(agent.engine.graph.get_operations())
    assert agent.weight_resets.recycle(1e9) == (units := agent.weight_resets.recycle(1e9))
    assert units.dormant == units.units > 0  # all of them: what leads from a unit is 0
    now = agent.state.weights()
    last = [name for name in now if name.endswith(("/q/w", "/v/w", "/a/w"))]
    assert last and not any(now[name].any() for name in last)
    agent.weight_resets.perturb(0.5)
    before = learned(agent)
    agent.weight_resets.reset("all")
    assert len(agent.engine.graph.get_operations()) == operations
    for name, value in learned(agent).items():
        if name.startswith("online/") and not is_adam(name):
            assert not np.array_equal(value, before[name]) or np.all(value == value.flat[0]), name
            np.testing.assert_allclose(abs(value).max(), abs(fresh[name]).max(), rtol=0.4)
    train(agent, 8)


@pytest.mark.thorough
def test_convolutions_are_recycled_with_their_places(lab):
    from targetnet.agents.dqn.agent import DqnAgent

    config = lab.config(network="minatar", hidden=(5,), num_envs=2)
    agent = DqnAgent(config, (10, 10, 2), np.uint8, 3)
    rng = np.random.default_rng(0)
    for t in range(20):
        shown = rng.integers(0, 2, (2, 10, 10, 2)).astype(np.uint8)
        agent.step(shown, np.ones(2, np.float32), np.zeros(2, bool), np.full(2, not t))
    weights = agent.state.weights()
    weights["torso/conv_0/b"][3] = -100  # which never gives anything now
    agent.state.load_weights(weights)
    before = agent.state.weights()
    assert agent.weight_resets.recycle(0.0, "torso").units == 16 + 5
    now = agent.state.weights()
    rows = now["torso/dense_0/w"].reshape(8 * 8, 16, 5)
    assert not rows[:, 3].any() and now["torso/conv_0/b"][3] > -1
    assert not np.array_equal(now["torso/conv_0/w"][..., 3], before["torso/conv_0/w"][..., 3])


@pytest.mark.slow
@pytest.mark.usefixtures("own_agents")
def test_a_members_action_is_its_own_and_has_the_bits_it_has_alone():
    several = configs("scalar", past_states=1)
    population = Population(several, (3,), np.float32, 4)
    alone = [made(config) for config in several]
    for agents in (population.members, alone):
        for agent in agents:
            train(agent, 12)
        agents[1].weight_resets.reset("head")
        agents[1].weight_resets.recycle(0.5)
        agents[0].weight_resets.perturb(0.7, "torso")
        for agent in agents:
            train(agent, 12)
    for member, agent in zip(population.members, alone, strict=True):
        assert member.state.digest() == agent.state.digest()
        agent.close()
    population.close()


@pytest.mark.thorough
@pytest.mark.usefixtures("own_agents")
def test_initializers_of_tensorflows_own_draw_by_the_new_seed_too(lab):
    """Their operations have a state; in the agent's graph they would go on with it."""
    agents = [lab.agent(network="tests.agents.dqn.own_networks:by_tensorflow") for _ in range(2)]
    first = agents[0].state.weights()
    agents[0].weight_resets.reset("mine")
    drawn = agents[0].state.weights()
    assert not np.array_equal(drawn["mine/w"], first["mine/w"])
    assert abs(drawn["mine/w"]).max() <= np.sqrt(6 / 7)  # Glorot's bound of 2 and 5 units
    assert np.array_equal(drawn["head/q/w"], first["head/q/w"])
    agents[1].state.restore(agents[0].state.read(), [])
    for agent in agents:
        agent.weight_resets.perturb(0.5)
    assert lab.same(agents[0].state.weights(), agents[1].state.weights())
    with pytest.raises(RlCoreError, match="the network has no hidden layer of rectified units"):
        agents[0].weight_resets.recycle()


def test_layers_of_ours_in_a_network_of_ones_own_can_be_recycled(lab):
    agent = lab.filled(network="tests.agents.dqn.own_networks:of_our_layers")
    assert agent.weight_resets.recycle(1e9) == (5, 5)


@pytest.mark.parametrize("do", ["reset", "recycle"])
def test_an_unknown_block_is_refused_with_the_nearest(lab, do):
    agent = lab.used()
    before = all_of(agent)
    wanted = r"no block 'haed' \(torso, head, all\); did you mean 'head'"
    with pytest.raises(UnknownName, match=wanted):
        getattr(agent.weight_resets, do)(**{"block": "haed"})
    with pytest.raises(UnknownName, match=wanted):
        agent.weight_resets.perturb(0.5, "haed")
    with pytest.raises(RlCoreError, match="block 'head' has no hidden layer"):
        agent.weight_resets.recycle(block="head")
    assert lab.same(all_of(agent), before)
    assert "renewals" not in agent.state.read().host


def test_without_a_transition_nothing_can_be_scored(lab):
    agent = lab.agent()
    with pytest.raises(RlCoreError, match="no transition is in the replay yet"):
        agent.weight_resets.recycle()


def test_a_config_whose_action_this_network_cannot_do_is_refused(lab):
    for action, problem in [
        ({"do": "reset", "block": "value"}, "no block 'value'"),
        ({"do": "recycle", "block": "head"}, "block 'head' has no hidden layer"),
    ]:
        with pytest.raises(ConfigError, match=f"actions: cannot {action['do']}: {problem}"):
            lab.agent(actions=[action | {"every": 100}])
