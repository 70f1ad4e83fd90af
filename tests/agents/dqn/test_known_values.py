"""Small worlds whose values are known: every member of the family finds them.

Observations are one-hot and the network has no hidden layer, so it is a table. The worlds are
played at random; what is learned is the best policy's values all the same.
"""

import functools

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from tests.agents.pool import POOL

DISCOUNT = 0.9


class Chain:
    """Five states in a row; beyond the last one is a reward of 10 and the end."""

    states, actions = 5, 2

    def step(self, state, action, count):
        if state == 4 and action == 1:
            return 10.0, None
        return 0.0, max(0, state - 1) if action == 0 else state + 1


class Cliff:
    """3 x 4 fields; the bottom row between start and goal is a cliff: -20 and the end.

    Sutton & Barto (2018), example 6.6, smaller.
    """

    states, actions = 12, 4

    def step(self, state, action, count):
        row, column = divmod(state, 4)
        down, right = [(-1, 0), (0, 1), (1, 0), (0, -1)][action]
        row, column = min(max(row + down, 0), 2), min(max(column + right, 0), 3)
        if row == 2 and column > 0:
            return (-20.0, None) if column < 3 else (-1.0, None)
        return -1.0, 4 * row + column


class Corridor:
    """Five states in a row; whatever is done leads on, and pays the state's number.

    So the returns of several steps, which are of what was played, are those of the best policy.
    Episodes are cut off after 3 steps.
    """

    states, actions, limit = 5, 2, 3

    def step(self, state, action, count):
        return 1.0 + state, state + 1 if state < 4 else None


class Tolls(Chain):
    """The chain where every step costs 1 instead, and where action 2 is never legal.

    Its values, of which nothing is learned, stay near 0: above all others.
    """

    actions = 3
    legal = np.array([True, True, False])

    def step(self, state, action, count):
        _, after = super().step(state, action, count)
        return -1.0, after


class Lottery:
    """One state: action 0 pays 2; action 1 pays 10 in three of ten times, and both end it.

    Which times is counted, not drawn: the shares in the replay are then exact.
    """

    states, actions = 1, 2

    def step(self, state, action, count):
        return (2.0, None) if action == 0 else (10.0 * (count % 10 < 3), None)


def best_values(world, value=np.max, bonus=lambda q, action: 0.0):
    """Q* by value iteration: [states, legal actions]; not for worlds with chance.

    Or what follows from another value of a state's actions, and a bonus for the one taken.
    """
    legal = np.flatnonzero(getattr(world, "legal", np.ones(world.actions)))
    q = np.zeros((world.states, len(legal)))
    for _ in range(500):
        for state, action in np.ndindex(q.shape):
            reward, after = world.step(state, legal[action], 0)
            reward += bonus(q[state], action)
            q[state, action] = reward + (DISCOUNT * value(q[after]) if after is not None else 0)
    return q


def log_softmax(x):
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


def played(world, steps, **settings):
    """An agent whose replay is full of random play; each episode begins anywhere."""
    common = {
        "hidden": (), "discount": DISCOUNT, "replay_capacity": steps + 1, "epsilon": 1.0,
        "updates_per_learn": 2, "sync_period": 20, "xla": False, "max_grad_norm": 1e6,
    }  # fmt: skip
    if settings.get("head", "scalar") == "scalar":
        common["loss"] = "squared"
    config = DqnConfig(**common | settings)
    masks = {"legal": world.legal[None]} if hasattr(world, "legal") else {}
    agent = POOL.agent(config, (world.states,), np.float32, world.actions, action_masks=bool(masks))
    rng = np.random.default_rng(0)
    one_hot, counts = np.eye(world.states, dtype=np.float32), np.zeros(world.actions, int)
    state, reward, terminated, autoreset, length = 0, 0.0, False, True, 0
    for _ in range(steps):
        shown = rng.integers(world.states) if state is None else state
        outcome = np.float32([reward]), np.array([terminated]), np.array([autoreset])
        (action,) = agent.step(one_hot[[shown]], *outcome, **masks)
        if terminated or length == getattr(world, "limit", None):
            # That was the final observation; the next one is a reset.
            state, reward, terminated, autoreset = rng.integers(world.states), 0.0, False, True
            length = 0
            continue
        reward, state = world.step(shown, action, counts[action])
        counts[action] += 1
        terminated, autoreset, length = state is None, False, length + 1
    return agent


def learn(agent, updates=2_000):
    """With a learning rate that falls, so that noise dies out."""
    for rate in (0.1, 0.02, 0.004):
        agent.hyperparameters["learning_rate"] = rate
        agent.learn(updates // 3)


def table(agent, world):
    """Learned action values: [states, actions]."""
    weights = agent.state.weights()
    if "head/q/w" in weights and agent.config.head == "scalar":
        return weights["head/q/w"] + weights["head/q/b"]
    observations = np.eye(world.states, dtype=np.float32)
    feeds = {agent.networks.observations: observations}
    return agent.engine.run(agent.networks.greedy.q, feeds)


SCALAR = {
    "plain": {},
    "double": {"double": True},
    "dueling": {"dueling": True},
    "soft": {"tau": 0.1, "sync_period": 1},
    "averaged": {"averaged_targets": 3, "sync_period": 7},
    "prioritized": {"prioritized": True, "priority_beta": 1.0},
    "double, prioritized, dueling": {
        "double": True, "dueling": True, "prioritized": True, "priority_beta": 1.0,
    },
    "huber": {"loss": "huber", "huber_delta": 5.0},
}  # fmt: skip
DISTRIBUTIONS = {
    "categorical": {"head": "categorical", "v_min": -25.0, "v_max": 10.0, "atoms": 36},
    "quantile": {"head": "quantile", "quantiles": 10},
}


def slower(*variants):
    """The first in the default run, the others in the slow one."""
    return [variants[0], *(pytest.param(v, marks=pytest.mark.slow) for v in variants[1:])]


FAST = "double, prioritized, dueling"


@pytest.mark.thorough
@pytest.mark.parametrize("variant", slower(FAST, *(v for v in SCALAR if v != FAST)))
def test_every_scalar_variant_finds_the_chains_values(variant):
    agent = played(Chain(), 1_500, **SCALAR[variant])
    learn(agent)
    np.testing.assert_allclose(table(agent, Chain()), best_values(Chain()), atol=0.02 * 10)


@pytest.mark.thorough
@pytest.mark.parametrize("n_step", slower(3, 1, 2, 9))
def test_several_steps_find_the_corridors_values(n_step):
    agent = played(Corridor(), 1_500, n_step=n_step)
    learn(agent)
    np.testing.assert_allclose(table(agent, Corridor()), best_values(Corridor()), atol=0.02 * 10)


@pytest.mark.thorough
@pytest.mark.parametrize("variant", slower("plain", "double", "averaged", "huber"))
def test_illegal_actions_are_worth_nothing_to_the_legal_ones(variant):
    agent = played(Tolls(), 1_500, **SCALAR[variant])
    learn(agent)
    learned = table(agent, Tolls())
    assert (learned[:4, 2] > learned[:4, :2].max(axis=1)).all()
    np.testing.assert_allclose(learned[:, :2], best_values(Tolls()), atol=0.02 * 5)


@pytest.mark.thorough
@pytest.mark.parametrize("head", slower("scalar", "quantile"))
def test_munchausen_finds_the_chains_soft_values(head):
    """With alpha = 0.5, a temperature of 2 and a clip of -3, by the equations of its docstring."""
    agent = played(
        Chain(), 1_500, head=head, quantiles=10, munchausen=True, munchausen_alpha=0.5,
        munchausen_temperature=2.0, munchausen_clip=-3.0,
    )  # fmt: skip
    learn(agent)

    def value(q):
        log_pi = log_softmax(q / 2.0)
        return np.sum(np.exp(log_pi) * (q - 2.0 * log_pi))

    def bonus(q, action):
        return 0.5 * max(2.0 * log_softmax(q / 2.0)[action], -3.0)

    wanted = best_values(Chain(), value, bonus)
    np.testing.assert_allclose(table(agent, Chain()), wanted, atol=0.02 * 10)


@pytest.mark.slow
@pytest.mark.parametrize("variant", SCALAR)
def test_scalar_variants_find_the_cliffs_values(variant):
    """Also at the start, where the shortest way is along the edge."""
    agent = played(Cliff(), 4_000, **SCALAR[variant])
    learn(agent, 4_000)
    visited = [s for s in range(12) if s not in (9, 10, 11)]  # episodes do not go on there
    wanted = best_values(Cliff())
    np.testing.assert_allclose(table(agent, Cliff())[visited], wanted[visited], atol=0.02 * 20)


@pytest.mark.slow  # in the default run the weights that correct it are asked for by hand
@pytest.mark.parametrize("variant", ["prioritized", "plain", "double"])
def test_a_reward_of_chance_is_worth_its_mean(variant):
    agent = played(Lottery(), 1_000, batch_size=256, **SCALAR[variant])
    learn(agent, 3_000)
    np.testing.assert_allclose(table(agent, Lottery()), [[2.0, 3.0]], rtol=0.02)


@pytest.mark.slow
def test_priorities_that_are_not_corrected_make_a_reward_of_chance_worth_more():
    """With priorities 10 - v and v it is v = 10 * 0.3 (10 - v) / (0.3 (10 - v) + 0.7 v).

    So 0.4 v ** 2 + 6 v = 30: v = (84 ** 0.5 - 6) / 0.8 = 3.956.
    """
    how = {"prioritized": True, "priority_alpha": 1.0, "priority_beta": 0.0}
    agent = played(Lottery(), 1_000, batch_size=256, **how)
    learn(agent, 3_000)
    np.testing.assert_allclose(table(agent, Lottery()), [[2.0, 3.956]], rtol=0.02)


@pytest.mark.thorough
@pytest.mark.parametrize("variant", slower(*DISTRIBUTIONS))
def test_distributional_variants_find_the_chains_values(variant):
    agent = played(Chain(), 1_500, **DISTRIBUTIONS[variant])
    learn(agent)
    np.testing.assert_allclose(table(agent, Chain()), best_values(Chain()), atol=0.02 * 10)


@pytest.mark.slow  # in the default run it finds the chain's values
def test_a_categorical_head_finds_the_lotterys_distribution():
    how = {"head": "categorical", "v_min": 0.0, "v_max": 10.0, "atoms": 6}
    agent = played(Lottery(), 1_000, **how)
    learn(agent, 1_500)
    logits = agent.engine.run(
        agent.networks.greedy.logits, {agent.networks.observations: np.ones((1, 1), np.float32)}
    )
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    # Atoms 0, 2, 4, 6, 8, 10: all at 2;  0.7 at 0 and 0.3 at 10.
    np.testing.assert_allclose(p[0], [[0, 1, 0, 0, 0, 0], [0.7, 0, 0, 0, 0, 0.3]], atol=0.02)


@pytest.mark.thorough
def test_a_quantile_head_finds_the_lotterys_quantiles():
    """Midpoints .05, .15 ... .95: below 0.7 it is 0, above 10."""
    agent = played(Lottery(), 1_000, head="quantile", quantiles=10, huber_delta=0.05)
    learn(agent, 3_000)
    z = agent.engine.run(
        agent.networks.greedy.z, {agent.networks.observations: np.ones((1, 1), np.float32)}
    )
    np.testing.assert_allclose(z[0, 0], np.full(10, 2.0), atol=0.2)
    np.testing.assert_allclose(z[0, 1], [0] * 7 + [10] * 3, atol=0.3)


class Bias:
    """Action 0 of state 0 leads to state 1, where each of 10 actions pays -1 or +1, mean 0.

    The maximisation bias of Sutton & Barto (2018), example 6.7: all values are 0, but the largest
    of ten noisy estimates is not.
    """

    states, actions = 2, 10

    def step(self, state, action, count):
        if state == 0:
            return 0.0, 1 if action == 0 else None
        return (1.0 if count % 2 else -1.0), None


@functools.cache
def overestimate(**settings):
    """Of action 0 in state 0, on average over what an agent learns."""
    agent = played(Bias(), 3_000, batch_size=16, discount=1.0, **settings)
    agent.hyperparameters["learning_rate"] = 0.1  # estimates stay noisy
    seen = []
    for _ in range(100):
        agent.learn(20)
        seen.append(table(agent, Bias())[0, 0])
    return np.mean(seen[20:])


REMEDIES = {"double": {"double": True}, "averaged": {"averaged_targets": 10}}


@pytest.mark.slow  # in the default run what they compute is compared with NumPy
@pytest.mark.parametrize("remedy", REMEDIES)
def test_remedies_overestimate_less_than_plain_where_estimates_are_noisy(remedy):
    assert overestimate() > 0.1
    assert overestimate(**REMEDIES[remedy]) < 0.5 * overestimate()
