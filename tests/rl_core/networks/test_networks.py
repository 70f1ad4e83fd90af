"""Q-networks: shapes, blocks, and what a head computes."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from rl_core.graph.scopes import blocks_of, variables_in
from rl_core.networks import dueling_head, mlp_torso, q_head, q_network

PLAIN = q_network(mlp_torso([8, 4]), q_head(3))
DUELING = q_network(mlp_torso([8, 4]), dueling_head(3))
HEADS = pytest.mark.parametrize("network", [PLAIN, DUELING], ids=["q_head", "dueling_head"])


def built(network, observation):
    with tf.variable_scope("online"):
        return network(tf.constant(observation))


@HEADS
@pytest.mark.parametrize("shape", [(2,), (), (2, 3), (4, 4, 2)])
def test_a_network_gives_one_value_per_action_whatever_the_observations_shape(
    evaluate, network, shape
):
    q = built(network, np.ones((5, *shape), np.float32))
    assert q.dtype == tf.float32
    assert evaluate(q).shape == (5, 3)


@HEADS
def test_a_batch_size_may_be_unknown_when_the_network_is_built(evaluate, network):
    observation = tf.placeholder(tf.float32, [None, 2])
    with tf.variable_scope("online"):
        q = network(observation)
    assert evaluate(q, {observation: np.ones((7, 2))}).shape == (7, 3)


def test_a_torso_and_a_q_head_are_the_blocks_torso_and_head(evaluate):
    built(PLAIN, np.ones((1, 2), np.float32))
    assert sorted(blocks_of("online")) == ["head", "torso"]


def test_a_dueling_head_is_the_blocks_value_and_advantage(evaluate):
    built(DUELING, np.ones((1, 2), np.float32))
    assert sorted(blocks_of("online")) == ["advantage", "torso", "value"]


def test_the_same_network_under_two_scopes_has_the_same_names_in_both(evaluate):
    for scope in ("online", "target"):
        with tf.variable_scope(scope):
            DUELING(tf.ones([1, 2]))
    assert variables_in("online").keys() == variables_in("target").keys()


def test_a_torso_has_a_layer_of_each_size_given(evaluate):
    with tf.variable_scope("online"):
        features = mlp_torso([8, 4])(tf.ones([5, 2]))
    assert features.shape.as_list() == [5, 4]
    shapes = sorted(tuple(v.shape.as_list()) for v in variables_in("online").values())
    assert shapes == [(2, 8), (4,), (8,), (8, 4)]


def test_the_torso_ends_in_a_relu(evaluate):
    with tf.variable_scope("online"):
        features = mlp_torso([64])(tf.constant(np.linspace(-3, 3, 10, dtype=np.float32)[:, None]))
    got = evaluate(features)
    assert got.min() == 0 and got.max() > 0


def test_layer_norm_adds_a_scale_and_a_shift_to_every_layer_of_the_torso(evaluate):
    torsos = {"plain": mlp_torso([8, 4]), "normal": mlp_torso([8, 4], normalise=True)}
    for name, torso in torsos.items():
        with tf.variable_scope(name):
            torso(tf.ones([1, 2]))
    assert len(variables_in("normal")) == len(variables_in("plain")) + 4


def test_a_normalised_torso_does_not_see_how_large_its_inputs_are(evaluate):
    x = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    with tf.variable_scope("online", reuse=tf.AUTO_REUSE):
        torso = mlp_torso([8], normalise=True)
        small, large = torso(tf.constant(x)), torso(tf.constant(1000 * x))
    for name, variable in variables_in("online").items():
        if name.endswith("dense_0/b"):
            evaluate(variable.assign(np.zeros(8)))
    np.testing.assert_allclose(evaluate(small), evaluate(large), atol=1e-2)


def advantage_bias():
    blocks = blocks_of("online")
    (bias,) = (v for v in blocks["advantage"] if v.shape.as_list() == [3])
    return bias


def test_adding_a_constant_to_every_advantage_changes_no_dueling_value(evaluate):
    q = built(DUELING, np.arange(6, dtype=np.float32).reshape(3, 2))
    before = evaluate(q)
    evaluate(advantage_bias().assign_add(3 * [5.0]))
    np.testing.assert_allclose(evaluate(q), before, atol=1e-5)


def test_a_dueling_value_is_the_value_plus_the_advantage_less_the_mean_advantage(evaluate):
    q = built(DUELING, np.ones((1, 2), np.float32))
    blocks = blocks_of("online")
    for variable in [*blocks["value"], *blocks["advantage"]]:
        evaluate(variable.assign(tf.zeros_like(variable)))
    evaluate(advantage_bias().assign([1, 2, 6]))
    (value_bias,) = (v for v in blocks["value"] if v.shape.as_list() == [1])
    evaluate(value_bias.assign([10]))
    np.testing.assert_allclose(evaluate(q), [[8, 9, 13]])  # mean 3: 10 + (1, 2, 6) - 3


@HEADS
def test_bytes_are_pixels_and_are_scaled_to_between_0_and_1(evaluate, network):
    with tf.variable_scope("online", reuse=tf.AUTO_REUSE):
        pixels = network(tf.constant([[0, 255]], tf.uint8))
        floats = network(tf.constant([[0.0, 1.0]]))
    np.testing.assert_allclose(evaluate(pixels), evaluate(floats), rtol=1e-6)


def test_bools_are_0_and_1(evaluate):
    with tf.variable_scope("online", reuse=tf.AUTO_REUSE):
        bools = PLAIN(tf.constant([[False, True]]))
        floats = PLAIN(tf.constant([[0.0, 1.0]]))
    np.testing.assert_array_equal(evaluate(bools), evaluate(floats))
