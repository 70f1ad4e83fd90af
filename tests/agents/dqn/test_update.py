"""One update against NumPy, and what each live value changes in the next one."""

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.rl_core.errors import RlCoreError, ScopeMismatch

S_TM1, S_T = [1.0, -2.0], [0.5, 3.0]


def forward(weights, observation):
    """Action values of one observation, by hand."""
    hidden = np.maximum(observation @ weights["torso/dense_0/w"] + weights["torso/dense_0/b"], 0)
    if "head/q/w" in weights:
        return hidden @ weights["head/q/w"] + weights["head/q/b"]
    value = hidden @ weights["value/v/w"] + weights["value/v/b"]
    advantage = hidden @ weights["advantage/a/w"] + weights["advantage/a/b"]
    return value + advantage - advantage.mean()


@pytest.fixture
def with_one_transition(lab):
    """Makes an agent whose only transition is (S_TM1, action, 3, S_T); gives it and the action.

    It learns next to nothing unless told to.
    """

    def make(*, terminated=False, **settings):
        agent = lab.agent(discount=0.5, learning_rate=1e-12, updates_per_learn=2, **settings)
        (action,) = lab.step(agent, S_TM1, autoreset=True)
        lab.step(agent, S_T, reward=3.0, terminated=terminated)
        return agent, action

    return make


def disagree(lab, agent):
    """Gives online and target other weights, until they rank the actions of S_T differently.

    Returns:
      action values of (online, target) at S_T.
    """
    rng = np.random.default_rng(0)
    while True:
        for scope in ("online", "target"):
            shapes = {name: value.shape for name, value in lab.weights(agent, scope).items()}
            lab.put(agent, scope, {name: rng.normal(size=of) for name, of in shapes.items()})
        online, target = (
            forward(lab.weights(agent, scope), np.float32(S_T)) for scope in ("online", "target")
        )
        if np.argmax(online) != np.argmax(target):
            return online, target


@pytest.mark.cases(1)
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("updates", [1, 2], ids=["single", "fused"])
def test_td_errors_are_those_of_q_learning_by_numpy(lab, with_one_transition, dueling, updates):
    agent, action = with_one_transition(dueling=dueling)
    _, target = disagree(lab, agent)
    q_tm1 = forward(lab.weights(agent, "online"), np.float32(S_TM1))
    td_error = 3.0 + 0.5 * np.max(target) - q_tm1[action]
    stats = agent.learn(updates, stats=True)
    np.testing.assert_allclose(stats.td_error, np.full(8, td_error), rtol=1e-4)


@pytest.mark.cases(0)
@pytest.mark.parametrize("updates", [1, 2], ids=["single", "fused"])
def test_double_lets_online_choose_the_next_action_and_target_value_it(
    lab, with_one_transition, updates
):
    agent, action = with_one_transition(double=True)
    online, target = disagree(lab, agent)
    q_tm1 = forward(lab.weights(agent, "online"), np.float32(S_TM1))
    td_error = 3.0 + 0.5 * target[np.argmax(online)] - q_tm1[action]
    stats = agent.learn(updates, stats=True)
    np.testing.assert_allclose(stats.td_error, np.full(8, td_error), rtol=1e-4)


@pytest.mark.parametrize("double", [False, True])
def test_a_terminated_transition_is_worth_its_reward_alone(lab, with_one_transition, double):
    agent, action = with_one_transition(terminated=True, double=double)
    disagree(lab, agent)
    q_tm1 = forward(lab.weights(agent, "online"), np.float32(S_TM1))
    stats = agent.learn(stats=True)
    np.testing.assert_allclose(stats.td_error, np.full(8, 3.0 - q_tm1[action]), rtol=1e-4)


def test_loss_is_the_mean_huber_loss_of_the_td_errors(lab):
    agent = lab.used()
    agent.hyperparameters["huber_delta"] = 0.5
    stats = agent.learn(stats=True)
    size = np.abs(stats.td_error)
    assert size.max() > 0.5 > size.min()
    by_hand = np.where(size <= 0.5, size**2 / 2, 0.5 * (size - 0.25))
    assert stats.loss == pytest.approx(by_hand.mean(), rel=1e-5)


@pytest.mark.thorough
def test_loss_is_half_the_mean_square_of_the_td_errors_if_squared(lab):
    stats = lab.filled(loss="squared").learn(stats=True)
    assert stats.loss == pytest.approx(np.mean(stats.td_error**2) / 2, rel=1e-5)


@pytest.mark.cases(0)
@pytest.mark.parametrize("updates", [1, 2], ids=["alone", "fused"])
@pytest.mark.parametrize(
    ("alpha", "beta", "weight"),
    [
        (1.0, 1.0, 0.25),  # (1 / 4) ** 1
        (0.5, 1.0, 0.5),  # (1 / 4) ** 0.5
        (0.5, 0.5, 0.707107),  # (1 / 4) ** 0.25
        (1.0, 0.0, 1.0),
    ],
)
def test_a_loss_is_weighted_by_the_chance_of_its_transition(lab, updates, alpha, beta, weight):
    """w = (min p / p) ** (alpha * beta): TD errors are 1 and 4, and so are the priorities."""
    agent = lab.agent(
        prioritized=True, priority_alpha=alpha, priority_beta=beta, learning_rate=1e-12,
        loss="squared", updates_per_learn=2,
    )  # fmt: skip
    agent.state.load_weights({n: np.zeros_like(w) for n, w in agent.state.weights().items()})
    for step in range(20):  # one-step episodes, which pay 1 and 4
        lab.step(agent, S_TM1, autoreset=True)
        lab.step(agent, S_T, reward=[1.0, 4.0][step % 2], terminated=True)
    agent.learn(60)  # each transition has the priority of its TD error by then
    seen = set()
    for _ in range(5):
        stats = agent.learn(updates, stats=True)
        td = np.round(stats.td_error, 4)
        seen |= {*td}
        losses = np.where(td == 1, 1 / 2, weight * 16 / 2)
        if set(td) == {4.0}:
            losses /= weight  # the largest weight of a batch is 1
        assert float(stats.loss) == pytest.approx(losses.mean(), rel=1e-4)
    assert seen == {1.0, 4.0}
    drawn_by = agent.engine.session.run("replay/alpha/Read/ReadVariableOp:0")
    assert drawn_by == np.float32(alpha)


def test_q_mean_is_of_the_taken_action_and_q_max_of_the_best(lab, with_one_transition):
    """As the tag table says of learn/q_mean and learn/q_max."""
    agent, action = with_one_transition(dueling=False)
    bias = np.zeros(3)
    bias[(action + 1) % 3] = 50  # the best action is not the one taken
    lab.put(agent, "online", {"head/q/b": bias})
    q_tm1 = forward(lab.weights(agent, "online"), np.float32(S_TM1))
    stats = agent.learn(stats=True)
    assert stats.q_mean == pytest.approx(q_tm1[action], rel=1e-4)
    assert stats.q_max == pytest.approx(q_tm1.max(), rel=1e-4)


def test_q_mean_is_below_q_max_where_the_batch_differs(lab):
    stats = lab.used().learn(stats=True)
    assert stats.q_mean < stats.q_max


def test_updates_move_a_taken_actions_value_towards_its_target(lab, with_one_transition):
    agent, action = with_one_transition(terminated=True, double=False)
    q_tm1 = forward(lab.weights(agent, "online"), np.float32(S_TM1))[action]
    agent.hyperparameters["learning_rate"] = 0.01
    agent.learn(600)
    agent.hyperparameters["learning_rate"] = "auto"
    learned = forward(lab.weights(agent, "online"), np.float32(S_TM1))[action]
    assert abs(3.0 - learned) < 0.05 < abs(3.0 - q_tm1)


@pytest.mark.thorough
def test_statistics_are_of_the_last_update_of_a_phase(lab):
    phase, one_by_one = lab.filled(), lab.filled()
    of_phase = phase.learn(3, stats=True)
    for _ in range(3):
        last = one_by_one.learn(1, stats=True)
    np.testing.assert_array_equal(of_phase.td_error, last.td_error)


@pytest.mark.thorough
def test_statistics_are_given_only_when_asked_for(lab):
    agent = lab.used(updates_per_learn=2)
    assert agent.learn() is None
    assert agent.learn(2) is None


@pytest.mark.thorough
def test_asking_for_statistics_changes_no_bit(lab):
    asked, not_asked = (lab.filled(updates_per_learn=2) for _ in range(2))
    for updates in (1, 2, 2, 1):
        asked.learn(updates, stats=True)
        not_asked.learn(updates)
    assert lab.same(asked.state.weights(), not_asked.state.weights())


def test_the_gradient_norm_is_measured_before_clipping(lab):
    loose, tight = lab.filled(), lab.filled()
    tight.hyperparameters["max_grad_norm"] = 1e-3
    norms = [agent.learn(stats=True).grad_norm for agent in (loose, tight)]
    assert norms[0] == norms[1] > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"xla": False}, {"xla": True}])
def test_a_gradient_norm_of_0_clips_nothing(lab, settings):
    def after(limit, **config):
        agent = lab.filled(updates_per_learn=3, **config, **settings)
        agent.hyperparameters["max_grad_norm"] = limit
        agent.learn(1)
        agent.learn(3)
        return agent.state.weights()

    clips_nothing = after(1e30)
    assert lab.same(after(0, max_grad_norm=0.0), clips_nothing)
    assert not lab.same(after(1e-3), clips_nothing)


def test_a_learning_rate_that_ends_at_0_moves_no_weight_from_there_on(lab):
    to_0 = {"schedule": "linear", "start": 0.01, "end": 0.0, "steps": 100}
    agent = lab.filled(learning_rate=to_0, updates_per_learn=2)
    agent.learn(1)
    agent.hyperparameters.env_step = 100
    before = lab.weights(agent, "online")
    agent.learn(1)
    agent.learn(2)
    assert lab.same(before, lab.weights(agent, "online"))
    agent.hyperparameters.env_step = 99
    agent.learn(1)
    assert not lab.same(before, lab.weights(agent, "online"))


@pytest.mark.thorough
def test_updates_counts_gradient_steps(lab):
    agent = lab.used(updates_per_learn=2)
    before = agent.updates
    for updates in (1, 3, 2):
        agent.learn(updates)
    assert agent.updates == before + 6


def test_learning_before_there_is_a_transition_is_refused_in_words(lab):
    agent = lab.agent()
    with pytest.raises(RlCoreError, match="transition"):
        agent.learn()
    lab.step(agent, S_TM1, autoreset=True)
    with pytest.raises(RlCoreError, match="transition"):
        agent.learn()
    lab.step(agent, S_T)
    agent.learn()
    assert agent.updates == 1


@pytest.mark.cases(0)
@pytest.mark.parametrize(("network", "calls"), [("mlp", 1), ("nature", 0)])
def test_networks_of_whole_frames_make_each_update_by_plain_operations(network, calls):
    """XLA's convolutions of them are slower."""
    config = DqnConfig(network=network, updates_per_learn=4, replay_capacity=30, hidden=(8,))
    agent = DqnAgent(config, (40, 40, 1), np.uint8, 3)
    kinds = [op.type for op in agent.engine.graph.get_operations()]
    assert sum("PartitionedCall" in kind for kind in kinds) == calls
    agent.close()


# Live values.


@pytest.mark.parametrize("updates", [1, 2], ids=["single", "fused"])
def test_a_live_value_acts_on_the_very_next_update_and_not_before(lab, updates):
    agent = lab.filled(updates_per_learn=updates)
    agent.learn(updates)
    state, rows = agent.state.read(), [(0, agent.state.contents.time_steps(0, 50))]
    before = lab.weights(agent, "online")
    agent.learn(updates)
    after = lab.weights(agent, "online")
    new = {"learning_rate": 0.1, "discount": 0.1, "huber_delta": 0.01, "max_grad_norm": 1e-4}
    if updates > 1:  # the same feeds, read by the loop: half of them will do
        new = {name: new[name] for name in ("learning_rate", "max_grad_norm")}
    for name, value in new.items():
        agent.state.restore(state, rows)
        agent.hyperparameters[name] = value
        assert lab.same(agent.state.weights(), before)
        agent.learn(updates)
        assert not lab.same(agent.state.weights(), after), name
        agent.hyperparameters[name] = "auto"
    agent.state.restore(state, rows)
    agent.learn(updates)
    assert lab.same(agent.state.weights(), after)


def test_twice_the_learning_rate_makes_the_next_step_twice_as_long(lab):
    changed, steady = lab.filled(), lab.filled()
    for agent in (changed, steady):
        agent.learn(3)
    before = steady.state.weights()
    changed.hyperparameters["learning_rate"] = 0.02
    for agent in (changed, steady):
        agent.learn()
    once, twice = steady.state.weights(), changed.state.weights()
    for name in before:
        step = once[name] - before[name]
        np.testing.assert_allclose(twice[name] - before[name], 2 * step, rtol=1e-2, atol=1e-6)


def test_no_change_of_any_live_value_adds_an_operation_to_the_graph(lab):
    agent = lab.filled(dueling=True, updates_per_learn=2)
    agent.learn(1)
    operations = lab.operations(agent)
    new = {
        "reward_scale": 0.5,
        "reward_clip": 0.5,
        "sync_period": 3,
        "tau": 0.5,
        "discount": 0.5,
        "n_step": 3,
        "histograms": 3,
        "learn_period": 2,
        "updates_per_learn": 5,
        "learning_rate": 0.5,
        "huber_delta": 0.5,
        "max_grad_norm": 0.5,
        "epsilon": 0.5,
        "exempt": "torso",
    }
    assert new.keys() == agent.hyperparameters.keys()
    for name, value in new.items():
        agent.hyperparameters[name] = value
        lab.fill(agent, 2)
        agent.learn(1)
        agent.learn(3, stats=True)
        agent.sync()
        agent.greedy(np.zeros((4, 2), np.float32))
        agent.inspect()
        agent.state.load_weights(agent.state.weights())
    assert lab.operations(agent) == operations


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sync_period", 2**63),  # int64 holds up to 2 ** 63 - 1
        ("learning_rate", 1e39),  # float32 holds up to 3.4e38
    ],
)
def test_a_live_value_that_the_graph_cannot_hold_is_refused_when_it_is_set(lab, name, value):
    agent = lab.used()
    before = agent.hyperparameters[name]
    with pytest.raises(RlCoreError, match=name):
        agent.hyperparameters[name] = value
    assert agent.hyperparameters[name] == before


def test_what_is_fixed_once_the_graph_is_built_says_so(lab):
    agent = lab.used()
    for name in ("batch_size", "hidden", "replay_capacity", "double", "env_id", "seed"):
        with pytest.raises(RlCoreError, match=name):
            agent.hyperparameters[name] = 1


# Weights.


def test_weights_loaded_into_another_agent_give_the_same_greedy_actions(lab):
    trained, fresh = lab.filled(), lab.agent(seed=9)
    trained.learn(50)
    observations = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    assert not np.array_equal(trained.greedy(observations), fresh.greedy(observations))
    fresh.state.load_weights(trained.state.weights())
    assert np.array_equal(trained.greedy(observations), fresh.greedy(observations))
    assert lab.same(lab.weights(fresh, "target"), trained.state.weights())
    assert fresh.inspect().target_age == 0


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("settings", "named"),
    [({"hidden": (9,)}, "torso/dense_0/w"), ({"dueling": True}, "advantage/a/w")],
)
def test_weights_of_another_network_are_refused_by_name_and_nothing_is_loaded(lab, settings, named):
    agent, other = lab.used(), lab.used(**settings)
    before = agent.state.weights()
    with pytest.raises(ScopeMismatch, match=named):
        agent.state.load_weights(other.state.weights())
    assert lab.same(agent.state.weights(), before)
