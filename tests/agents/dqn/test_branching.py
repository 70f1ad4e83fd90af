"""Actions of several branches in the agent: against a slow twin in NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.heads import LossInputs, head_of
from targetnet.agents.dqn.memory_estimate import needs, network_size
from targetnet.agents.dqn.network import build_network
from targetnet.agents.dqn.objective import branching_loss
from targetnet.agents.dqn.population import Population
from targetnet.rl_core.errors import ArgumentError, BoundsError, ConfigError, MemoryLimitError
from targetnet.rl_core.networks import Values
from targetnet.rl_core.replay import Transitions
from tests.agents.pool import POOL
from tests.rl_core.losses.test_hl_gauss import histogram

SIZES = (3, 1, 4)
S_TM1, S_T = [1.0, -2.0], [0.5, 3.0]
EQUAL = (2, 2, 2)


def branched(lab, sizes=SIZES, **settings):
    return POOL.agent(lab.config(**settings), (2,), np.float32, sum(sizes), branches=sizes)


def fill(agent, steps=50, seed=0, masks=False):
    """Random rows, with masks too if asked; returns the actions, [T, N, D]."""
    rng, N = np.random.default_rng(seed), agent.config.num_envs
    sizes = agent.networks.branches
    autoreset, actions, legals = np.ones(N, bool), [], []
    for _ in range(steps):
        observation = rng.normal(size=(N, 2)).astype(np.float32)
        reward = rng.normal(size=N).astype(np.float32)
        ended = (rng.random(N) < 0.2) & ~autoreset
        legal = rng.random((N, agent.num_actions)) < 0.5
        legal[:, np.cumsum((0, *sizes[:-1]))] = True
        how = {"legal": legal} if masks else {}
        shown = observation, reward, ended & (rng.random(N) < 0.5), autoreset
        actions.append(agent.step(*shown, **how))
        legals.append(legal)
        autoreset = ended
    return np.array(actions), np.array(legals)


# The twin.


def pieces(row, sizes):
    return np.split(row, np.cumsum(sizes)[:-1])


def dense(weights, layer, x):
    return x @ weights[f"{layer}/w"].astype(np.float64) + weights[f"{layer}/b"]


def stream(weights, block, last, x):
    i = 0
    while f"{block}/dense_{i}/w" in weights:
        x, i = np.maximum(dense(weights, f"{block}/dense_{i}", x), 0), i + 1
    return dense(weights, f"{block}/{last}", x)


def of_actions(weights, block, last, x, sizes):
    if f"{block}/branch_0/{last}/w" not in weights:
        return stream(weights, block, last, x)
    each = [stream(weights, f"{block}/branch_{d}", last, x) for d in range(len(sizes))]
    return np.concatenate(each)


def forward(weights, observation, sizes):
    """Values of one observation, [A], one branch after the other."""
    x, i = np.float64(observation), 0
    while f"torso/dense_{i}/w" in weights:
        x, i = np.maximum(dense(weights, f"torso/dense_{i}", x), 0), i + 1
    if "value/v/w" not in weights and "value/dense_0/w" not in weights:
        return of_actions(weights, "head", "q", x, sizes)
    value = stream(weights, "value", "v", x)
    advantage = of_actions(weights, "advantage", "a", x, sizes)
    return np.concatenate([value + of - of.mean() for of in pieces(advantage, sizes)])


def target_of(reward, discount, q_value, q_selector, sizes, legal=None):
    """One transition's, by a loop over the branches."""
    worth = []
    legal = np.ones(sum(sizes), bool) if legal is None else legal
    for value, chooser, allowed in zip(
        pieces(q_value, sizes), pieces(q_selector, sizes), pieces(legal, sizes), strict=True
    ):
        best = max(np.flatnonzero(allowed), key=lambda a: chooser[a])
        worth.append(value[best])
    return reward + discount * sum(worth) / len(worth)


def taken(q, action, sizes):
    return np.array([of[a] for of, a in zip(pieces(q, sizes), action, strict=True)])


def scatter(lab, agent, seed=0):
    """Gives online and target other weights; returns both."""
    rng = np.random.default_rng(seed)
    for scope in ("online", "target"):
        shapes = {name: value.shape for name, value in lab.weights(agent, scope).items()}
        lab.put(agent, scope, {name: rng.normal(size=of) for name, of in shapes.items()})
    return {scope: lab.weights(agent, scope) for scope in ("online", "target")}


def one_transition(lab, sizes=SIZES, *, terminated=False, **settings):
    """An agent whose only transition is (S_TM1, action, 3, S_T); gives it and the action."""
    settings = {"discount": 0.5, "learning_rate": 1e-12, "updates_per_learn": 2} | settings
    agent = branched(lab, sizes, **settings)
    (action,) = lab.step(agent, S_TM1, autoreset=True)
    lab.step(agent, S_T, reward=3.0, terminated=terminated)
    return agent, action


KINDS = {
    "plain": {},
    "double": {"double": True},
    "dueling": {"dueling": True},
    "dueling, deep branches": {"dueling": True, "head_hidden": (5,), "double": True},
    "deep branches": {"head_hidden": (4, 3)},
}


def in_slow_runs(names, fast):
    """Building agents takes most of a test's time."""
    return [n if n in fast else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.cases(0, 3)
@pytest.mark.parametrize("sizes", [SIZES, EQUAL], ids=["unequal", "equal"])
@pytest.mark.parametrize("kind", in_slow_runs(KINDS, ["double", "dueling, deep branches"]))
@pytest.mark.parametrize("updates", [1, 2], ids=["single", "fused"])
def test_an_update_is_the_twins(lab, sizes, kind, updates):
    agent, action = one_transition(lab, sizes, **KINDS[kind])
    weights = scatter(lab, agent, seed=3)
    online, target = (forward(weights[of], S_T, sizes) for of in ("online", "target"))
    assert action.shape == (len(sizes),)
    np.testing.assert_allclose(agent.q_values(np.float32(S_T)), online, rtol=1e-4)
    np.testing.assert_allclose(agent.q_values(np.float32(S_T), "target"), target, rtol=1e-4)
    selector = online if KINDS[kind].get("double") else target
    y = target_of(3.0, 0.5, target, selector, sizes)
    errors = y - taken(forward(weights["online"], S_TM1, sizes), action, sizes)
    stats = agent.learn(updates, stats=True)
    np.testing.assert_allclose(stats.td_error, np.tile(errors, (8, 1)), rtol=1e-4, atol=1e-5)
    size = np.abs(errors)
    huber = np.where(size <= 1, size**2 / 2, size - 0.5)
    assert stats.loss == pytest.approx(huber.mean(), rel=1e-4)
    assert stats.q_mean == pytest.approx(y - errors.mean(), rel=1e-4)


@pytest.mark.cases(0, 3)
def test_the_twin_is_not_that_of_the_largest_branch_or_of_each_alone(lab):
    """The published code has both as options; the mean is the paper's best."""
    agent, action = one_transition(lab)
    weights = scatter(lab, agent)
    best = [of.max() for of in pieces(forward(weights["target"], S_T, SIZES), SIZES)]
    q = taken(forward(weights["online"], S_TM1, SIZES), action, SIZES)
    got = agent.learn(stats=True).td_error[0]
    assert abs(got - (3.0 + 0.5 * max(best) - q)).max() > 0.1
    assert abs(got - (3.0 + 0.5 * np.array(best) - q)).max() > 0.1
    np.testing.assert_allclose(got, 3.0 + 0.5 * np.mean(best) - q, rtol=1e-4)


def test_a_terminated_transition_is_worth_its_reward_alone(lab):
    agent, action = one_transition(lab, terminated=True)
    weights = scatter(lab, agent)
    q = taken(forward(weights["online"], S_TM1, SIZES), action, SIZES)
    np.testing.assert_allclose(agent.learn(stats=True).td_error[0], 3.0 - q, rtol=1e-4)


def priority_of(agent):
    saved = agent.state.read().variables
    (name,) = (name for name in saved if name.endswith("replay/priority"))
    return saved[name].max()


@pytest.mark.thorough
def test_the_priority_is_the_sum_of_the_branches_errors(lab):
    agent, _ = one_transition(lab, prioritized=True)
    scatter(lab, agent)
    errors = agent.learn(stats=True).td_error[0]
    assert priority_of(agent) == pytest.approx(np.abs(errors).sum(), rel=1e-4)


@pytest.mark.thorough
def test_a_branch_learns_nothing_from_a_choice_that_was_not_taken(lab):
    """And all that were taken go to the target."""
    agent, action = one_transition(lab, terminated=True, hidden=(), learning_rate=0.05)
    agent.hyperparameters["learning_rate"] = 0.05
    before = agent.q_values(np.float32(S_TM1))
    for _ in range(200):
        agent.learn(2)
    after = agent.q_values(np.float32(S_TM1))
    is_taken = np.concatenate([np.arange(n) == a for n, a in zip(SIZES, action, strict=True)])
    np.testing.assert_allclose(after[is_taken], 3.0, atol=0.01)
    np.testing.assert_array_equal(after[~is_taken], before[~is_taken])


@pytest.mark.thorough
def test_masks_decide_in_each_branch_what_bootstraps_and_what_is_done(lab):
    legal_tm1 = np.bool_([[0, 1, 0, 1, 0, 0, 1, 0]])
    legal_t = np.bool_([[1, 0, 1, 1, 0, 1, 0, 1]])
    agent = DqnAgent(
        lab.config(discount=0.5, learning_rate=1e-12, double=True), (2,), np.float32, 8,
        branches=SIZES, action_masks=True,
    )  # fmt: skip
    row = lambda s, r, first: (np.float32([s]), np.float32([r]), np.array([False]), first)  # noqa: E731
    (action,) = agent.step(*row(S_TM1, 0.0, np.array([True])), legal=legal_tm1)
    assert action.tolist() == [1, 0, 2]
    agent.step(*row(S_T, 3.0, np.array([False])), legal=legal_t)
    for seed in range(5):
        weights = scatter(lab, agent, seed)
        online, target = (forward(weights[of], S_T, SIZES) for of in ("online", "target"))
        y = target_of(3.0, 0.5, target, online, SIZES, legal_t[0])
        q = taken(forward(weights["online"], S_TM1, SIZES), action, SIZES)
        np.testing.assert_allclose(agent.learn(stats=True).td_error[0], y - q, rtol=1e-3)
        found = agent.greedy(np.float32([S_T]), legal_t)[0]
        wanted = [
            max(np.flatnonzero(ok), key=lambda a, of=of: of[a])
            for of, ok in zip(pieces(online, SIZES), pieces(legal_t[0], SIZES), strict=True)
        ]
        assert found.tolist() == wanted
    agent.hyperparameters["epsilon"] = 0.5
    actions, legals = fill(agent, 300, masks=True)
    starts = np.cumsum((0, *SIZES[:-1]))
    assert np.take_along_axis(legals, actions + starts, axis=2).all()


# The loss as a function of its tensors.


def random_terms(config, numbers=0):
    rng, B, A = np.random.default_rng(0), 6, sum(SIZES)
    action = rng.integers(0, SIZES, (B, 3)).astype(np.int32)
    r, discount = (rng.normal(size=B).astype(np.float32) for _ in range(2))
    now, then, choice = (rng.normal(size=(B, A)).astype(np.float32) for _ in range(3))
    logits = rng.normal(size=(B, A, numbers)).astype(np.float32) if numbers else None
    tensors = [tf.constant(of) for of in (now, then, choice)]
    values = Values(tensors[0], logits=None if logits is None else tf.constant(logits))
    batch = Transitions(
        None, tf.constant(action), tf.constant(r), tf.constant(discount), None, None, None, None,
        None,
    )  # fmt: skip
    live = {"huber_delta": 0.5, "hl_gauss_sigma": 0.75}
    terms = LossInputs(config, live, batch, values, Values(tensors[1]))
    return terms, tensors, (action, r, discount, now, then, choice, logits)


LOSSES = {
    "squared": lambda e: e**2 / 2,
    "huber": lambda e: np.where(abs(e) <= 0.5, e**2 / 2, 0.5 * (abs(e) - 0.25)),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_priority_and_errors_of_a_batch_are_the_twins(lab, evaluate, loss):
    config = lab.config(loss=loss)
    terms, tensors, (action, r, discount, now, then, choice, _) = random_terms(config)
    td, priority = branching_loss(head_of(config), terms, tensors[2], SIZES)
    got, got_priority = evaluate([td, priority])
    by_now, *others = tf.gradients(td.loss, tensors)
    assert others == [None, None]
    slope = evaluate(by_now)
    for b in range(6):
        y = target_of(r[b], discount[b], then[b], choice[b], SIZES)
        errors = y - taken(now[b], action[b], SIZES)
        np.testing.assert_allclose(got.td_error[b], errors, rtol=1e-4)
        np.testing.assert_allclose(got.target[b], y, rtol=1e-4)
        np.testing.assert_allclose(got.loss[b], LOSSES[loss](errors).mean(), rtol=1e-4)
        np.testing.assert_allclose(got_priority[b], abs(errors).sum(), rtol=1e-4)
        clipped = errors if loss == "squared" else np.clip(errors, -0.5, 0.5)
        at = action[b] + np.cumsum((0, *SIZES[:-1]))
        wanted = np.zeros(8)
        wanted[at] = -clipped / 3
        np.testing.assert_allclose(slope[b], wanted, rtol=1e-4, atol=1e-6)


def test_means_learned_by_histograms_have_the_target_of_all_branches_too(lab, evaluate):
    N, centres = 5, np.linspace(-4.0, 4.0, 5)
    config = lab.config(head="categorical", loss="hl_gauss", v_min=-5.0, v_max=5.0, atoms=N)
    found = random_terms(config, numbers=N)
    terms, tensors, (action, r, discount, _, then, choice, logits) = found
    td, priority = branching_loss(head_of(config), terms, tensors[2], SIZES)
    got, got_priority = evaluate([td, priority])
    for b in range(6):
        y = target_of(r[b], discount[b], then[b], choice[b], SIZES)
        p = np.exp(logits[b] - np.log(np.exp(logits[b]).sum(axis=1, keepdims=True)))
        at = p[action[b] + np.cumsum((0, *SIZES[:-1]))]  # [D, N]
        errors = y - at @ centres
        mass = histogram(y, centres, 0.75)
        np.testing.assert_allclose(got.td_error[b], errors, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(got.loss[b], -(mass * np.log(at)).sum() / 3, rtol=1e-3)
        np.testing.assert_allclose(got_priority[b], abs(errors).sum(), rtol=1e-3)


# What it goes together with.

TOGETHER = {
    "averaged, blended": {
        "averaged_targets": 3, "online_weight": 0.3, "min_weight": 0.5, "double": True,
        "ema_decay": 0.9,
    },
    "noisy, n-step, prioritized": {
        "noisy": True, "n_step": 3, "prioritized": True, "dueling": True, "head_hidden": (4,),
    },
    "histograms": {
        "head": "categorical", "loss": "hl_gauss", "v_min": -5.0, "v_max": 5.0, "atoms": 5,
        "dueling": True,
    },
    "rules, proximal": {"sync_fit": 0.9, "sync_distance": 0.3, "proximal_weight": 0.1},
    "shared torso, frozen": {
        "chain_torso": "shared", "freeze": [{"exempt": ["torso"], "updates": 3},
                                            {"exempt": ["head"], "updates": 2}],
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", in_slow_runs(TOGETHER, ["histograms"]))
def test_what_goes_together_learns_and_comes_back_bit_for_bit(lab, kind):
    def learned(seed=0):
        agent = branched(lab, num_envs=2, updates_per_learn=3, seed=seed, **TOGETHER[kind])
        agent.hyperparameters["epsilon"] = 0.3
        fill(agent)
        assert np.isfinite(agent.learn(3, stats=True).td_error).all()
        return agent

    first, twin = learned(), learned()
    digest, state = first.state.digest(), first.state.read()
    rows = [(0, first.state.contents.time_steps(0, 50))]
    assert rows[0][1]["action"].shape[1:] == (2, 3)
    assert twin.state.digest() == digest
    fill(twin, 12, seed=8)
    twin.learn(3)
    assert twin.state.digest() != digest
    twin.state.restore(state, [(20, {n: of[20:] for n, of in rows[0][1].items()})])
    assert twin.state.digest() == digest
    for agent in (first, twin):
        fill(agent, 5, seed=9)
        agent.learn(3)
    assert twin.state.digest() == first.state.digest()


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [SIZES, pytest.param(EQUAL, marks=pytest.mark.slow)], ids=str)
def test_a_compiled_phase_is_as_many_single_updates(lab, sizes):
    """Within rounding; XLA may add up in another order."""
    agent = branched(lab, sizes, xla=True, updates_per_learn=4, dueling=True, prioritized=True)
    fill(agent)
    agent.hyperparameters["learning_rate"] = 1e-3
    state, rows = agent.state.read(), [(0, agent.state.contents.time_steps(0, 50))]
    operations = lab.operations(agent)
    together = agent.learn(4, stats=True)
    fused = lab.weights(agent, "online")
    agent.state.restore(state, rows)
    for _ in range(4):
        alone = agent.learn(1, stats=True)
    np.testing.assert_allclose(together.td_error, alone.td_error, rtol=1e-3, atol=1e-4)
    for name, weight in lab.weights(agent, "online").items():
        np.testing.assert_allclose(fused[name], weight, atol=1e-4)
    assert lab.operations(agent) == operations


@pytest.mark.thorough
def test_waiting_rows_change_no_bit(lab):
    digests = []
    for waiting in (True, False):
        agent = branched(lab, num_envs=2, learn_period=20, epsilon=0.5)
        if not waiting:
            agent.acting._buffer = None
        fill(agent, 40)
        agent.learn(1)
        fill(agent, 7, seed=1)
        digests.append(agent.state.digest())
    assert digests[0] == digests[1]


@pytest.mark.thorough
def test_a_random_action_has_all_choices_equally_often(lab, chi_square):
    agent = branched(lab, num_envs=20)
    actions, _ = fill(agent, 300)
    flat = actions.reshape(-1, 3) @ [4, 0, 1]
    assert chi_square(np.bincount(flat, minlength=12)) < 40  # 11 degrees: 1 in 30,000


@pytest.mark.thorough
def test_one_coin_decides_for_all_branches(lab):
    """Each number is the best one, or all are by chance."""
    agent = branched(lab, (5, 5, 5, 5), num_envs=20, epsilon=0.5)
    observation = np.float32([S_T] * 20)
    best = agent.greedy(observation)[0]
    no = np.zeros(20, bool)
    actions = [agent.step(observation, np.zeros(20, "f4"), no, no) for _ in range(100)]
    wrong = (np.array(actions).reshape(-1, 4) != best).sum(axis=1)
    # By one coin each, 4 wrong ones would be 5 % of all; by one for all, 20 %.
    assert 0.45 < np.mean(wrong == 0) < 0.56 and np.mean(wrong == 4) > 0.15


@pytest.mark.slow
def test_members_have_the_bits_that_they_have_alone(lab, own_agents):
    several = [lab.config(seed=seed, xla=True, epsilon=0.4) for seed in (3, 4)]
    seen = (2,), np.float32, 8
    population = Population(several, *seen, branches=SIZES)
    digests = []
    for config, member in zip(several, population.members, strict=True):
        alone = DqnAgent(config, *seen, branches=SIZES)
        for agent in (member, alone):
            fill(agent, 30)
            for _ in range(3):
                agent.learn(1)
            fill(agent, 5, seed=1)
        digests.append(member.state.digest())
        assert alone.state.digest() == digests[-1]
        alone.close()
    assert digests[0] != digests[1]
    population.close()


# Sizes.


@pytest.mark.parametrize(
    "settings", [{}, {"dueling": True, "head_hidden": (6, 5)}, {"head_hidden": (3,), "noisy": True}]
)
def test_the_weights_of_a_network_are_those_that_are_made(lab, settings):
    config = lab.config(**settings)
    with tf.Graph().as_default(), tf.variable_scope("online"):
        build_network(config, 8, branches=SIZES)(tf.placeholder(tf.float32, [None, 2]))
        made = sum(v.shape.num_elements() for v in tf.trainable_variables())
    assert network_size(config, (2,), 8, SIZES).weights == made


def test_a_row_has_four_bytes_for_each_branch(lab):
    config = lab.config(replay_capacity=1_000)
    one, several = (
        needs(config, (2,), np.dtype(np.float32), 8, branches=of)[1].nbytes for of in ((), SIZES)
    )
    assert several - one == 1_000 * 8


def test_there_are_as_many_outputs_as_choices(lab):
    weights = lab.weights(branched(lab, (2,) * 9), "online")
    assert weights["head/q/w"].shape == (8, 18)


# Refusals.

REFUSED = {
    "needs head = 'scalar', or loss = 'hl_gauss', got head = 'quantile'": {"head": "quantile"},
    "got head = 'categorical'": {"head": "categorical"},
    "got head = 'implicit'": {"head": "implicit"},
    "leave munchausen out": {"munchausen": True},
    "leave boltzmann out": {"boltzmann": True},
    "leave rollout out": {"rollout": 8, "replay_capacity": 100_000, "learn_start": 1_000},
    "needs one network, got chain = 2": {"chain": 2},
    "leave functional_weight, cql_weight and margin_weight out": {
        "prepared": ["functional_weight"],
    },
    "leave actor_priorities out": {
        "loop": "remote", "prioritized": True, "actor_priorities": True, "actor_steps": 2,
        "actors": 2,
    },
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_branches_do_not_go_with_is_refused_by_the_key(lab, why):
    with pytest.raises(ConfigError) as refused:
        branched(lab, **REFUSED[why])
    text = str(refused.value)
    assert why in text and "CartPole-v1 has actions of 3 numbers" in text and "\n" not in text
    lab.config(**REFUSED[why])  # without branches it is good


def test_branches_that_are_none_are_refused(lab):
    def made(branches, actions=8, shape=(2,)):
        return DqnAgent(lab.config(), shape, np.float32, actions, branches=branches)

    with pytest.raises(ArgumentError, match="branches must have the sum num_actions = 9"):
        made(SIZES, 9)
    with pytest.raises(BoundsError, match="each of branches must be a whole number >= 1"):
        made((3, 0, 5))
    with pytest.raises(ArgumentError, match="each of branches must be a whole number"):
        made((3, "5"))
    with pytest.raises(ArgumentError, match="branches must be sizes such as"):
        made(5)


@pytest.mark.parametrize(
    "sizes", [(10**12,), (10**9,) * 2, (1,) * 999 + (10**9,)], ids=["1", "2", "3"]
)
def test_huge_branches_are_refused_before_anything_is_built(lab, sizes):
    with pytest.raises(MemoryLimitError):
        branched(lab, sizes)
