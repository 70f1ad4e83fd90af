"""Action values of actors, beside those of the graph that learns."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.network import build_network
from targetnet.agents.remote.graph_policy import GraphPolicy
from targetnet.agents.remote.numpy_policy import NumpyPolicy, can_serve
from targetnet.envs import make_envs
from targetnet.rl_core.epsilon_greedy_numpy import EpsilonGreedy
from targetnet.rl_core.exploration import epsilon_greedy
from targetnet.rl_core.graph.scopes import variables_in
from targetnet.rl_core.networks import ObservationForm
from targetnet.rl_core.philox import NumpyStream

KINDS = [
    {},
    {"hidden": (7, 5), "layer_norm": True},
    {"hidden": ()},
    {"dueling": True, "head_hidden": (6,)},
    {"head": "categorical", "atoms": 11, "v_min": -1.0, "v_max": 3.0},
    {"head": "categorical", "loss": "hl_gauss", "atoms": 4, "v_min": -1.0, "v_max": 3.0},
    {"head": "quantile", "quantiles": 13, "dueling": True},
    {"activation": "tanh", "head_hidden": (6,)},
    {"activation": "elu"},
    {"activation": "silu", "layer_norm": True},
]


def of_the_graph(config, observation, bounds=None, branches=()):
    """Random weights of a config's network, and its values."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        fed = tf.placeholder(observation.dtype, [None, *observation.shape[1:]])
        with tf.variable_scope("online"):
            actions = sum(branches) or 3
            values, _ = build_network(config, actions, ObservationForm.of(bounds), branches)(fed)
        session.run(tf.global_variables_initializer())
        return session.run(variables_in("online")), session.run(values.q, {fed: observation})


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_values_in_numpy_are_those_of_the_graph(settings):
    config = DqnConfig(**({"hidden": (16,)} | settings))
    assert can_serve(config)
    observation = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
    weights, wanted = of_the_graph(config, observation)
    policy = NumpyPolicy(config, 3, None)
    policy.load(weights)
    np.testing.assert_allclose(policy.values(observation, 0, {}), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "settings", [{"head": "implicit", "noisy": True, "tau_samples": 4}, {"activation": "gelu"}]
)
def test_what_numpy_cannot_compute_acts_by_a_graph_for_any_number_of_envs(settings):
    config = DqnConfig(hidden=(8,), **settings)
    envs = make_envs("CartPole-v1", 3, seed=0)
    policy = GraphPolicy(config, envs, 0)
    assert not can_serve(config)
    for rows in (3, 5):
        shown = np.zeros((rows, *envs.observation_shape), np.float32)
        assert policy.values(shown, 0, {}).shape == (rows, 2)
    envs.close()


@pytest.mark.parametrize("branches", [(2, 1, 4), (3, 3)], ids=str)
@pytest.mark.parametrize("settings", [KINDS[0], KINDS[3], KINDS[5]], ids=str)
def test_values_of_branches_in_numpy_are_those_of_the_graph(settings, branches):
    config = DqnConfig(**({"hidden": (16,), "dueling": True} | settings))
    observation = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    weights, wanted = of_the_graph(config, observation, branches=branches)
    policy = NumpyPolicy(config, sum(branches), None, branches)
    policy.load(weights)
    np.testing.assert_allclose(policy.values(observation, 0, {}), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bounds", [None, (np.uint8(0), np.array([1, 255, 0, 7], np.uint8))])
def test_bytes_are_scaled_as_in_the_graph(bounds):
    config = DqnConfig(hidden=(8,))
    observation = np.array([[0, 255, 0, 7], [1, 3, 0, 2]], np.uint8)
    weights, wanted = of_the_graph(config, observation, bounds)
    policy = NumpyPolicy(config, 3, bounds)
    policy.load(weights)
    np.testing.assert_allclose(policy.values(observation, 0, {}), wanted, rtol=1e-4, atol=1e-5)


def test_values_of_an_observation_do_not_depend_on_those_beside_it():
    """Else the bits of an actor would depend on which of its envs explore."""
    config = DqnConfig(hidden=(64, 64))
    observation = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    weights, _ = of_the_graph(config, observation)
    policy = NumpyPolicy(config, 3, None)
    policy.load(weights)
    alone = [policy.values(row[None], 0, {})[0] for row in observation]
    np.testing.assert_array_equal(policy.values(observation, 0, {}), alone)


def test_other_networks_are_served_by_a_graph():
    config = DqnConfig(hidden=(8,), noisy=True)
    assert not can_serve(config)
    for other in ({"head": "implicit"}, {"head": "fqf"}, {"network": "nature"}):
        assert not can_serve(DqnConfig(**other))
    envs = make_envs("CartPole-v1", 2, seed=0)
    first, second = (GraphPolicy(config, envs, actor) for actor in (0, 1))
    observation = np.ones((2, 4), np.float32)
    weights, _ = of_the_graph(config.model_copy(update={"noisy": True}), observation)
    weights = {n: w[..., :2] if n.startswith("head/q") else w for n, w in weights.items()}
    for policy in (first, second):
        policy.load(weights)
    values = first.values(observation, 5, {})
    np.testing.assert_array_equal(first.values(observation, 5, {}), values)
    # Noise of each time step, and of each actor.
    assert (first.values(observation, 6, {}) != values).any()
    assert (second.values(observation, 5, {}) != values).any()
    envs.close()


def test_exploring_among_legal_actions_is_that_of_the_graph():
    stream = NumpyStream(3, "act/0")
    explore, rng = EpsilonGreedy(stream, 4, 5), np.random.default_rng(0)
    numbers = stream.uniform_in_numpy(0, 200, (2, 4))
    with tf.Graph().as_default(), tf.Session() as session:
        fed = [tf.placeholder(tf.float32, [4]) for _ in range(2)]
        best, legal = tf.placeholder(tf.int32, [4]), tf.placeholder(tf.bool, [4, 5])
        chosen = epsilon_greedy(best, 0.5, *fed, 5, legal)
        for t, drawn in enumerate(numbers):
            mask = rng.random((4, 5)) < 0.5
            mask[:, rng.integers(5)] = True
            greedy = mask.argmax(axis=1).astype(np.int32)
            wanted = session.run(
                chosen, {best: greedy, legal: mask, fed[0]: drawn[0], fed[1]: drawn[1]}
            )
            got = explore(lambda _, g=greedy: g, None, 0.5, t, mask)
            assert got.tolist() == wanted.tolist() and got.dtype == np.int32
