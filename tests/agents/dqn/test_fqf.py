"""An FQF agent: an update by NumPy, a block with a loss and a step size of its own, refusals."""

import numpy as np
import pytest

from targetnet.rl_core.errors import ConfigError, StaticHyperparameter

S_TM1, S_T, N, A = [1.0, -2.0], [0.5, 3.0], 4, 3
FQF = {"head": "fqf", "fractions": N, "discount": 0.5, "max_grad_norm": 0.0}
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def with_one_transition(lab, **settings):
    """An agent that knows one transition, of a reward of 3, so that every batch is that one."""
    agent = lab.agent(**FQF | settings)
    (action,) = lab.step(agent, S_TM1, autoreset=True, epsilon=1.0)
    lab.step(agent, S_T, reward=3.0)
    assert agent.rows() == 1  # also stores what waits
    return agent, action


class Twin:
    """The network's equations for one observation, in NumPy and float64."""

    def __init__(self, weights, observation):
        self.w = {name: np.float64(value) for name, value in weights.items()}
        self.features = np.maximum(self.layer("torso/dense_0", np.float64(observation)), 0)

    def layer(self, name, x):
        return x @ self.w[f"{name}/w"] + self.w[f"{name}/b"]

    def shares(self):
        e = np.exp(self.layer("fractions/shares", self.features))
        return e / e.sum()

    def z(self, taus):
        """[n] -> [n, A]."""
        waves = np.cos(np.pi * taus[:, None] * np.arange(64))  # [n, 64]
        embedded = np.maximum(self.layer("embedding/cosines", waves), 0)  # [n, F]
        return self.layer("head/q", self.features * embedded)

    def q(self):
        return self.shares() @ self.z(middles(self.shares()))


def middles(shares):
    return np.array([shares[:i].sum() + shares[i] / 2 for i in range(len(shares))])


def quantile_loss(weights, target, masses, action, shares):
    """Of targets [M] of these masses, where the fractions stay as they are."""
    taus = middles(shares)
    u = target - Twin(weights, S_TM1).z(taus)[:, [action]]  # [N, M]
    huber = np.where(abs(u) <= 1, u * u / 2, abs(u) - 0.5)
    return (masses * abs(taus[:, None] - (u < 0)) * huber).sum()


def own_loss(weights, slopes, entropy_weight):
    """Of the fractions, where the slopes stay as they are."""
    shares = Twin(weights, S_TM1).shares()
    entropy = -sum(p * np.log(p) for p in shares)
    return sum(s * shares[: i + 1].sum() for i, s in enumerate(slopes)) - entropy_weight * entropy


def by_differences(loss, weights, names):
    """Gradient of a function of weights by those with these names."""
    found = {}
    for name in names:
        value = weights[name]
        gradient = np.zeros(value.shape)
        for place in np.ndindex(value.shape):
            ends = []
            for change in (1e-5, -1e-5):
                moved = np.array(value, np.float64)
                moved[place] += change
                ends.append(loss(weights | {name: moved}))
            gradient[place] = (ends[0] - ends[1]) / 2e-5
        found[name] = gradient
    return found


def scatter(lab, agent, action):
    """Gives both networks weights by which errors lie on all sides of kappa, and uneven shares."""
    for seed in range(1_000):
        rng, weights = np.random.default_rng(seed), {}
        for scope in ("online", "target"):
            old = lab.weights(agent, scope)
            weights[scope] = {n: np.float32(0.4 * rng.normal(size=w.shape)) for n, w in old.items()}
        now, then = Twin(weights["online"], S_TM1), Twin(weights["target"], S_T)
        z, shares = now.z(middles(now.shares()))[:, action], then.shares()
        next_z = then.z(middles(shares))[:, then.q().argmax()]
        u = (3.0 + 0.5 * next_z)[:, None] - z
        uneven = abs(shares @ next_z - next_z.mean()) > 0.3
        if uneven and (u > 1.2).any() and (u < -1.2).any() and (abs(u) < 0.8).any():
            break
    for scope, of in weights.items():
        lab.put(agent, scope, of)
    assert seed < 999


def gradients_by_hand(online, target, action, entropy_weight):
    """Gradients and the TD error of the update of one transition."""
    now, then = Twin(online, S_TM1), Twin(target, S_T)
    shares, next_shares = now.shares(), then.shares()
    best = then.q().argmax()
    targets = 3.0 + 0.5 * then.z(middles(next_shares))[:, best]
    z, edges = now.z(middles(shares))[:, action], np.cumsum(shares)[:-1]
    slopes = 2 * now.z(edges)[:, action] - z[:-1] - z[1:]
    mine = [name for name in online if name.startswith("fractions/")]
    others = [name for name in online if name not in mine]
    wanted = by_differences(
        lambda w: quantile_loss(w, targets, next_shares, action, shares), online, others
    ) | by_differences(lambda w: own_loss(w, slopes, entropy_weight), online, mine)
    return wanted, 3.0 + 0.5 * then.q()[best] - now.q()[action]


@pytest.mark.parametrize("updates", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_update_is_that_of_numpy(lab, own_agents, updates):
    """Gradients of both losses, the TD error, and Adam's first steps, of both step sizes."""
    how = {"learning_rate": 1e-3, "fraction_learning_rate": 1e-4, "fraction_entropy": 0.3}
    agent, action = with_one_transition(lab, **how, updates_per_learn=updates)
    scatter(lab, agent, action)
    online, m, v = lab.weights(agent, "online"), {}, {}
    target, seen = lab.weights(agent, "target"), []
    for t in range(updates):
        wanted, td_error = gradients_by_hand(online, target, action, 0.3)
        if not t:
            got = agent.learner.gradients.read()
            for name, gradient in wanted.items():
                np.testing.assert_allclose(got[name], gradient, rtol=2e-3, atol=1e-4, err_msg=name)
        for name, gradient in wanted.items():
            m[name] = BETA1 * m.get(name, 0) + (1 - BETA1) * gradient
            v[name] = BETA2 * v.get(name, 0) + (1 - BETA2) * gradient**2
            rate = 1e-4 if name.startswith("fractions/") else 1e-3
            rate *= np.sqrt(1 - BETA2 ** (t + 1)) / (1 - BETA1 ** (t + 1))
            online[name] = online[name] - rate * m[name] / (np.sqrt(v[name]) + EPSILON)
        seen.append(td_error)
    stats = agent.learn(updates, stats=True)
    np.testing.assert_allclose(stats.td_error, np.full(8, seen[-1]), rtol=1e-3)
    for name, weight in lab.weights(agent, "online").items():
        # Where a gradient is all but 0, its sign is that of what was rounded.
        sure = np.abs(wanted[name]) > 1e-4
        np.testing.assert_allclose(weight[sure], online[name][sure], atol=2e-6, err_msg=name)


def moved(lab, agent, **live):
    """By how much one update moves each weight; then all is as before."""
    state, rows = agent.state.read(), [(0, agent.state.contents.time_steps(0, 2))]
    for name, value in live.items():
        agent.hyperparameters[name] = value
    before = lab.weights(agent, "online")
    agent.learn(1)
    after = lab.weights(agent, "online")
    agent.state.restore(state, rows)
    for name in live:
        agent.hyperparameters[name] = "auto"
    return {name: after[name] - before[name] for name in before}


def blocks(steps):
    """The steps of the fractions, and those of all else."""
    mine = {n: s for n, s in steps.items() if n.startswith("fractions/")}
    return mine, {n: s for n, s in steps.items() if n not in mine}


# live values -> whether the fractions and whether the others are moved in another way
CHANGES = [
    ({"fraction_learning_rate": 0.5}, (True, False)),
    ({"fraction_entropy": 9.0}, (True, False)),
    ({"learning_rate": 0.5}, (False, True)),
    ({"huber_delta": 9.0}, (False, True)),
    ({"exempt": frozenset({"fractions"})}, (True, False)),
    ({"exempt": frozenset({"torso", "embedding", "head"})}, (False, True)),
]


def test_each_loss_and_each_step_size_moves_its_own_blocks_and_no_bit_of_the_others(lab):
    agent, _ = with_one_transition(lab, max_grad_norm=0.01)
    fractions, others = blocks(moved(lab, agent))
    assert all(step.any() for step in (*fractions.values(), *others.values()))
    for live, changed in CHANGES:
        now = blocks(moved(lab, agent, **live))
        same = lab.same(now[0], fractions), lab.same(now[1], others)
        assert same == tuple(not change for change in changed), live


def test_the_first_step_of_the_fractions_is_as_long_as_their_live_step_size(lab):
    agent, _ = with_one_transition(lab, fraction_learning_rate=1e-3)
    for rate in (1e-3, 0.25, 0.0):
        fractions, others = blocks(moved(lab, agent, fraction_learning_rate=rate))
        assert np.abs(fractions["fractions/shares/b"]).max() == pytest.approx(rate, rel=1e-3)
        assert np.abs(others["head/q/b"]).max() == pytest.approx(0.01, rel=1e-3)


def test_in_a_prioritized_batch_both_losses_are_weighted(lab):
    """The exponent of the weights changes no draw, so the batch is the same one."""
    agent = lab.filled(head="fqf", fractions=N, prioritized=True)
    agent.learn(3)
    seen = []
    for beta in (0.0, 1.0):
        agent.hyperparameters["priority_beta"] = beta
        seen.append(blocks(agent.learner.gradients.read()))
    assert not lab.same(seen[0][0], seen[1][0]) and not lab.same(seen[0][1], seen[1][1])


def test_several_targets_bootstrap_from_all_of_their_quantiles(lab):
    agent, action = with_one_transition(lab, averaged_targets=2, learning_rate=1e-12)
    rng, weights = np.random.default_rng(1), {}
    for scope in ("online", "target", "past_target/0"):
        old = lab.weights(agent, scope)
        lab.put(agent, scope, {n: rng.normal(size=w.shape) for n, w in old.items()})
        weights[scope] = lab.weights(agent, scope)
    both = [Twin(weights[scope], S_T) for scope in ("target", "past_target/0")]
    q = np.mean([twin.q() for twin in both], axis=0)
    z = np.concatenate([twin.z(middles(twin.shares()))[:, q.argmax()] for twin in both])
    shares = Twin(weights["online"], S_TM1).shares()
    masses = np.concatenate([twin.shares() for twin in both]) / 2
    loss = quantile_loss(weights["online"], 3.0 + 0.5 * z, masses, action, shares)
    td_error = 3.0 + 0.5 * q.max() - Twin(weights["online"], S_TM1).q()[action]
    stats = agent.learn(stats=True)
    assert stats.loss == pytest.approx(loss, rel=1e-3)
    np.testing.assert_allclose(stats.td_error, np.full(8, td_error), rtol=1e-3)


def test_it_acts_by_the_shares_of_its_fractions(lab):
    agent, _ = with_one_transition(lab)
    old, rng = lab.weights(agent, "online"), np.random.default_rng(2)
    lab.put(agent, "online", {n: rng.normal(size=w.shape) for n, w in old.items()})
    q = Twin(lab.weights(agent, "online"), S_T).q()
    np.testing.assert_allclose(agent.q_values(np.float32(S_T)), q, rtol=1e-3)
    assert agent.greedy(np.float32([S_T])).item() == q.argmax()


REFUSED = {
    "head = 'fqf' has no loss of munchausen": {"munchausen": True},
    "head = 'fqf' has no blend of two networks' values; leave online_weight and min_weight out": {
        "min_weight": 0.5
    },
    "trains a block by a loss of its own, .* leave chain out, got 3": {"chain": 3},
    "rollout > 0 learns expected returns": {"rollout": 12, "batch_size": 12, "updates_per_learn": 2}
    | {"replay_capacity": 100_000, "learn_start": 1_000},
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_combined_is_refused_in_one_line(lab, words):
    with pytest.raises(ConfigError, match=words) as caught:
        lab.agent(head="fqf", **REFUSED[words])
    assert "\n" not in str(caught.value)


def test_its_live_values_are_refused_with_other_heads(lab):
    for name in ("fraction_learning_rate", "fraction_entropy"):
        with pytest.raises(StaticHyperparameter, match=f'{name} has no effect .* head = "fqf"'):
            lab.used().hyperparameters[name] = 0.5
