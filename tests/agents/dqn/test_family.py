"""Every member of the family inside the agent: its TD errors against NumPy, and what ties it in.

The losses themselves are proved in tests/rl_core/losses; here it is proved that the agent gives
them what they ask for: the right network, at the right observation, with the right live values.
"""

import itertools

import numpy as np
import pytest

from targetnet.rl_core.errors import StaticHyperparameter
from tests.agents.pool import POOL

S_TM1, S_T = [1.0, -2.0], [0.5, 3.0]
V_MIN, V_MAX, ATOMS = -20.0, 20.0, 11
HEADS = {
    "scalar": {},
    "categorical": {"head": "categorical", "v_min": V_MIN, "v_max": V_MAX, "atoms": ATOMS},
    "quantile": {"head": "quantile", "quantiles": 5},
    "implicit": {"head": "implicit", "tau_samples": 4, "tau_samples_acting": 3},
    "fqf": {"head": "fqf", "fractions": 3, "fraction_learning_rate": 0.01},
}
VARIANTS = {
    "plain": {},
    "double": {"double": True},
    "dueling": {"dueling": True},
    "averaged": {"averaged_targets": 3},
    "munchausen": {"munchausen": True},
    "chain": {"chain": 3, "refresh_period": 4},
    "soft": {"tau": 0.1, "sync_period": 1},
    "n_step": {"n_step": 3},
    "prioritized": {"prioritized": True},
    "noisy": {"noisy": True, "head_hidden": [4], "epsilon": 0.0},
    "boltzmann": {"boltzmann": True, "epsilon": 0.1},
    **{name: how for name, how in HEADS.items() if how},
    "hl_gauss": HEADS["categorical"] | {"loss": "hl_gauss"},
    "fqf, everything": HEADS["fqf"]
    | {"double": True, "dueling": True, "prioritized": True, "n_step": 3, "averaged_targets": 2}
    | {"noisy": True, "head_hidden": [4], "epsilon": 0.0},
    "munchausen_implicit": HEADS["implicit"] | {"munchausen": True},
    "rainbow": HEADS["categorical"]
    | {"double": True, "dueling": True, "prioritized": True, "n_step": 3}
    | {"noisy": True, "head_hidden": [4], "epsilon": 0.0},
}


def slower(names, *fast):
    """`fast` in the default run, the other names in the slow one."""
    return [pytest.param(n, marks=() if n in fast else pytest.mark.slow) for n in names]


def outputs(weights, observation, n):
    """What the head's last layer gives: [A, n]."""
    x = np.maximum(observation @ weights["torso/dense_0/w"] + weights["torso/dense_0/b"], 0)
    return (x @ weights["head/q/w"] + weights["head/q/b"]).reshape(3, n)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def values(head, weights, observation):
    """Expected return of each action by NumPy: [A]."""
    observation = np.float32(observation)
    if head == "categorical":
        return softmax(outputs(weights, observation, ATOMS)) @ np.linspace(V_MIN, V_MAX, ATOMS)
    return outputs(weights, observation, 5 if head == "quantile" else 1).mean(axis=1)


def with_one_transition(lab, terminated=False, reward=3.0, **settings):
    agent = lab.agent(discount=0.5, learning_rate=1e-12, updates_per_learn=2, **settings)
    (action,) = lab.step(agent, S_TM1, autoreset=True, epsilon=1.0)
    lab.step(agent, S_T, reward=reward, terminated=terminated)
    return agent, action


def scatter(lab, agent, seed=0):
    """Gives every network other weights; returns them by scope."""
    rng = np.random.default_rng(seed)
    scopes = ["online", "target"]
    scopes += [f"past_target/{i}" for i in range(agent.config.averaged_targets - 1)]
    for scope in scopes:
        old = lab.weights(agent, scope)
        lab.put(agent, scope, {n: rng.normal(size=v.shape) for n, v in old.items()})
    return {scope: lab.weights(agent, scope) for scope in scopes}


def as_above(head):
    """Settings of an agent that there is already; of what is terminated nothing is chosen."""
    return HEADS[head] | {"double": head in ("categorical", "quantile")}


def until_they_disagree(lab, agent, head):
    """Weights with which online and target rank the actions of S_T differently."""
    for seed in range(100):
        weights = scatter(lab, agent, seed)
        online, target = (values(head, weights[s], S_T) for s in ("online", "target"))
        if online.argmax() != target.argmax():
            return weights, online, target
    raise AssertionError("they always agree")


def every_choice(*fast):
    """Every head, plain and double; double with these in the default run: it asks more."""
    return pytest.mark.parametrize(
        ("head", "double"),
        [
            pytest.param(head, double, marks=() if double and head in fast else pytest.mark.slow)
            for head in ("scalar", "categorical", "quantile")
            for double in (False, True)
        ],
    )


# Of a scalar head tests/agents/dqn/test_update.py has it, and what follows too.
@pytest.mark.thorough
@every_choice("categorical", "quantile")
@pytest.mark.parametrize(
    "updates", [1, pytest.param(2, marks=pytest.mark.slow)], ids=["single", "fused"]
)
def test_td_errors_of_each_head_are_those_by_numpy(lab, head, double, updates):
    """3 + 0.5 * (target at the chosen action) - (online at the action taken), in expectation."""
    agent, action = with_one_transition(lab, double=double, **HEADS[head])
    weights, online, target = until_they_disagree(lab, agent, head)
    chosen = target[(online if double else target).argmax()]
    td_error = 3.0 + 0.5 * chosen - values(head, weights["online"], S_TM1)[action]
    stats = agent.learn(updates, stats=True)
    np.testing.assert_allclose(stats.td_error, np.full(8, td_error), rtol=1e-3)


@pytest.mark.cases(1)
@pytest.mark.parametrize("head", slower(HEADS, "categorical", "implicit", "fqf"))
def test_a_terminated_transition_is_worth_its_reward_alone(lab, head):
    agent, action = with_one_transition(lab, terminated=True, **as_above(head))
    before = agent.learn(stats=True).td_error
    scatter(lab, agent)
    if head in ("implicit", "fqf"):  # zeros are the same at all of their fractions
        zeros = {n: np.zeros_like(w) for n, w in lab.weights(agent, "online").items()}
        lab.put(agent, "online", zeros)
        by_hand = 3.0
    else:
        by_hand = 3.0 - values(head, lab.weights(agent, "online"), S_TM1)[action]
    after = agent.learn(stats=True).td_error
    np.testing.assert_allclose(after, np.full(8, by_hand), rtol=1e-3)
    assert not np.allclose(before, after)


@pytest.mark.thorough
@pytest.mark.parametrize("head", slower(["scalar", "categorical", "quantile"], "categorical"))
def test_averaged_targets_are_the_mean_over_the_copies(lab, head):
    """The greedy action too is that of the mean, not of any one copy."""
    agent, action = with_one_transition(lab, averaged_targets=3, **HEADS[head])
    weights = scatter(lab, agent)
    copies = [weights[s] for s in ("target", "past_target/0", "past_target/1")]
    mean = np.mean([values(head, w, S_T) for w in copies], axis=0)
    td_error = 3.0 + 0.5 * mean.max() - values(head, weights["online"], S_TM1)[action]
    stats = agent.learn(stats=True)
    np.testing.assert_allclose(stats.td_error, np.full(8, td_error), rtol=1e-3)


def test_with_averaged_targets_each_sync_moves_every_copy_one_further(lab):
    agent = lab.agent(averaged_targets=3)
    scopes = ["online", "target", "past_target/0", "past_target/1"]
    assert all(lab.same(lab.weights(agent, s), lab.weights(agent, "online")) for s in scopes)
    before = scatter(lab, agent)
    agent.sync()
    after = {scope: lab.weights(agent, scope) for scope in scopes}
    for newer, older in itertools.pairwise(scopes):
        assert lab.same(after[older], before[newer])


@pytest.mark.thorough
def test_a_sync_by_age_moves_them_too_and_only_the_first_is_soft(lab):
    agent = lab.filled(averaged_targets=2, tau=0.25, sync_period=3)
    scatter(lab, agent)  # all alike, a soft move of the older copy would be none
    before = {s: lab.weights(agent, s) for s in ("target", "past_target/0")}
    agent.learn(2)
    assert lab.same(lab.weights(agent, "target"), before["target"])
    agent.learn()
    online = lab.weights(agent, "online")
    for name, was in before["target"].items():
        expected = was + 0.25 * (online[name] - was)
        np.testing.assert_allclose(lab.weights(agent, "target")[name], expected, atol=1e-6)
    assert lab.same(lab.weights(agent, "past_target/0"), before["target"])


@pytest.mark.thorough
def test_munchausen_td_errors_by_numpy_with_its_live_values(lab):
    agent, action = with_one_transition(lab, munchausen=True)
    weights = scatter(lab, agent)
    q_tm1 = values("scalar", weights["online"], S_TM1)
    before, then = (np.float64(values("scalar", weights["target"], s)) for s in (S_TM1, S_T))
    for alpha, temperature, clip in [(0.9, 0.03, -1.0), (0.5, 2.0, -3.0)]:
        live = agent.hyperparameters
        live["munchausen_alpha"], live["munchausen_temperature"] = alpha, temperature
        live["munchausen_clip"] = clip
        log_pi = np.log(softmax(before / temperature) + 1e-300)
        bonus = alpha * np.clip(temperature * log_pi[action], clip, 0)
        pi = softmax(then / temperature)
        soft = np.sum(pi * (then - temperature * np.log(pi + 1e-300)))
        by_hand = 3.0 + bonus + 0.5 * soft - q_tm1[action]
        stats = agent.learn(stats=True)
        np.testing.assert_allclose(stats.td_error, np.full(8, by_hand), rtol=1e-3)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "head", slower(["categorical", "quantile", "implicit", "fqf"], "categorical", "implicit")
)
def test_a_distributions_loss_goes_down(lab, head):
    agent, _ = with_one_transition(lab, terminated=True, **as_above(head))
    agent.hyperparameters["learning_rate"] = 0.02
    first = agent.learn(stats=True)
    for _ in range(150):
        last = agent.learn(2, stats=True)
    assert last.loss < first.loss and abs(last.td_error.mean()) < 0.3 < abs(first.td_error.mean())


@pytest.mark.thorough
@pytest.mark.parametrize("variant", slower(VARIANTS, "prioritized"))
def test_the_same_seed_is_the_same_digest_and_so_is_what_is_restored(lab, variant):
    def learned(seed):
        agent = lab.filled(seed=seed, **VARIANTS[variant])
        agent.learn(3)
        return agent

    first, twin = learned(0), learned(0)
    digest, state = first.state.digest(), first.state.read()
    rows = [(0, first.state.contents.time_steps(0, 50))]
    assert twin.state.digest() == digest
    # Away, and back again.
    lab.fill(twin, 30, seed=8)
    twin.learn(2)
    assert twin.state.digest() != digest
    twin.state.restore(state, rows)
    assert twin.state.digest() == digest
    for agent in (first, twin):
        lab.fill(agent, 5, seed=9)
        agent.learn(3)
    assert twin.state.digest() == first.state.digest()
    for agent in (first, twin):
        agent.close()


def test_another_seed_is_another_digest(lab):
    assert lab.filled(seed=0).state.digest() != lab.filled(seed=1).state.digest()


@pytest.mark.slow
@pytest.mark.parametrize("variant", slower(VARIANTS, "plain"))
def test_a_compiled_phase_is_as_many_single_updates(lab, variant):
    """Within rounding; XLA may add up in another order."""
    agent = lab.filled(xla=True, updates_per_learn=4, **VARIANTS[variant])
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
    # Reading rows back takes no operation; nor does anything else.
    assert lab.operations(agent) == operations


# Live values.


def stats_with(lab, agent, name, value):
    agent.hyperparameters[name] = value
    return agent.learn(stats=True)


def test_n_is_felt_at_the_next_update(lab):
    """Three rewards of 1 on the way to a terminal state: 1 + 0.5 + 0.25, or one and then S_T."""
    agent = lab.agent(discount=0.5, learning_rate=1e-12)
    for i, reward in enumerate([0, 1, 1, 1]):
        lab.step(agent, [i, 0.0], reward=reward, terminated=i == 3, autoreset=i == 0)
    lab.put(agent, "online", {n: np.zeros_like(v) for n, v in lab.weights(agent, "online").items()})
    agent.sync()
    seen = {n: {*stats_with(lab, agent, "n_step", n).td_error.round(4)} for n in (1, 2, 3, 9)}
    assert seen == {1: {1.0}, 2: {1.0, 1.5}, 3: {1.0, 1.5, 1.75}, 9: {1.0, 1.5, 1.75}}


@pytest.mark.cases(0)
@pytest.mark.parametrize("name", ["priority_alpha", "priority_beta"])
def test_priorities_are_live(lab, name):
    """Felt in the weights; the digest would differ by the value that was set alone."""
    agent = lab.used(prioritized=True)
    agent.learn(3)
    state, rows = agent.state.read(), [(0, agent.state.contents.time_steps(0, 50))]

    def after(value):
        agent.state.restore(state, rows)
        agent.hyperparameters[name] = value
        agent.learn(3)
        return lab.weights(agent, "online")

    assert not lab.same(after(0.1), after(0.9))


@pytest.mark.thorough
def test_a_transition_with_a_large_td_error_is_seen_more_often(lab):
    """Of 19 transitions one has a reward of 100; uniformly it would be one in 19."""

    def share(**settings):
        agent = lab.agent(learning_rate=1e-12, batch_size=32, **settings)
        lab.step(agent, [0.0, 0.0], autoreset=True)
        for i in range(19):
            lab.step(agent, [i / 19, 1.0], reward=100.0 * (i == 7))
        errors = np.concatenate([agent.learn(stats=True).td_error for _ in range(60)][20:])
        return np.mean(errors > 50)

    assert share() < 0.1 < 0.7 < share(prioritized=True, priority_alpha=1.0, priority_beta=0.0)


@pytest.mark.thorough
def test_the_temperature_makes_actions_more_or_less_random(lab):
    agent = lab.agent(boltzmann=True, epsilon=0.0)
    lab.put(agent, "online", {"head/q/w": np.zeros((8, 3)), "head/q/b": [0.0, 1.0, 2.0]})

    def shares(temperature):
        agent.hyperparameters["temperature"] = temperature
        actions = [lab.step(agent, S_TM1).item() for _ in range(3_000)]
        return np.bincount(actions, minlength=3) / 3_000

    np.testing.assert_allclose(shares(1.0), softmax(np.array([0.0, 1, 2])), atol=0.03)
    np.testing.assert_allclose(shares(1e-3), [0, 0, 1])
    np.testing.assert_allclose(shares(1e3), np.full(3, 1 / 3), atol=0.03)


def test_noise_explores_where_epsilon_is_zero_and_greedy_has_none(lab):
    agent = lab.agent(noisy=True, epsilon=0.0)
    # Alike but for the noise.
    lab.put(agent, "online", {"head/q/w": np.zeros((8, 3)), "head/q/b": [0.0, 0.01, 0.0]})
    assert len({lab.step(agent, S_TM1).item() for _ in range(60)}) == 3
    greedy = {agent.greedy(np.float32([S_TM1])).item() for _ in range(20)}
    assert greedy == {1}


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("temperature", "boltzmann = true"),
        ("priority_beta", "prioritized = true"),
        ("munchausen_clip", "munchausen = true"),
        ("ema_decay", "ema_decay > 0"),
        ("momentum", 'optimizer = "sgd"'),
        ("weight_decay", 'optimizer = "adamw"'),
    ],
)
def test_a_live_value_without_effect_says_what_it_needs(lab, name, needs):
    with pytest.raises(StaticHyperparameter, match=f"{name} has no effect .* needs {needs}"):
        lab.used().hyperparameters[name] = 0.5


# Masks.


def masked(lab, **settings):

    return POOL.agent(lab.config(**settings), (2,), np.float32, 3, action_masks=True)


def masked_step(agent, observation, legal, **how):
    rows = np.full((agent.config.num_envs, 2), observation, np.float32)
    N = agent.config.num_envs
    return agent.step(
        rows,
        np.full(N, how.get("reward", 0.0), np.float32),
        np.full(N, how.get("terminated", False)),
        np.full(N, how.get("autoreset", False)),
        how.get("epsilon"),
        np.full((N, 3), legal),
    )


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "settings",
    [{}, {"boltzmann": True}, pytest.param({"noisy": True}, marks=pytest.mark.slow)],
    ids=str,
)
def test_no_illegal_action_is_ever_taken(lab, settings):
    agent = masked(lab, num_envs=4, **settings)
    rng = np.random.default_rng(0)
    for epsilon in [0.0, 1.0] * 100:
        legal = rng.random((4, 3)) < 0.5
        legal[np.arange(4), rng.integers(3, size=4)] = True
        rows, zeros = rng.normal(size=(4, 2)).astype(np.float32), np.zeros(4, bool)
        actions = agent.step(rows, np.zeros(4, np.float32), zeros, zeros, epsilon, legal)
        assert legal[np.arange(4), actions].all()
        assert legal[np.arange(4), agent.greedy(rows, legal)].all()


@pytest.mark.cases(1)
@every_choice("scalar", "categorical")
def test_the_bootstrap_is_over_legal_actions_alone(lab, head, double):
    agent = masked(lab, discount=0.5, learning_rate=1e-12, double=double, **HEADS[head])
    weights, online, target = until_they_disagree(lab, agent, head)
    best = (online if double else target).argmax()
    legal = np.arange(3) != best
    (action,) = masked_step(agent, S_TM1, [True] * 3, autoreset=True)
    masked_step(agent, S_T, legal, reward=3.0)
    choice = np.where(legal, online if double else target, -np.inf).argmax()
    td_error = 3.0 + 0.5 * target[choice] - values(head, weights["online"], S_TM1)[action]
    stats = agent.learn(stats=True)
    np.testing.assert_allclose(stats.td_error, np.full(8, td_error), rtol=1e-3)


@pytest.mark.parametrize(
    "variant",
    slower(["plain", "double", "munchausen", "boltzmann", "rainbow"], "double"),
)
def test_a_mask_of_all_ones_changes_nothing(lab, variant):
    plain = lab.agent(**VARIANTS[variant])
    with_masks = masked(lab, **VARIANTS[variant])
    rng = np.random.default_rng(0)
    for i in range(40):
        row, reward = rng.normal(size=(1, 2)).astype(np.float32), rng.normal(size=1)
        one = (row, reward.astype(np.float32), np.array([i % 7 == 6]), np.array([i % 7 == 0]))
        actions = plain.step(*one), with_masks.step(*one, legal=np.ones((1, 3), bool))
        assert actions[0] == actions[1]
        for agent in (plain, with_masks) if i > 5 else ():
            agent.learn()
    assert lab.same(lab.weights(plain, "online"), lab.weights(with_masks, "online"))
