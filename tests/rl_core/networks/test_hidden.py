"""Hidden layers of a network that was built: which units there are, and what they feed."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.layers import conv2d, dense, layer_norm, layers_built
from targetnet.rl_core.networks import (
    Streams,
    categorical_head,
    impala_torso,
    implicit_head,
    minatar_torso,
    mlp_torso,
    nature_torso,
    q_head,
    q_network,
)
from targetnet.rl_core.networks.hidden import hidden_layers


def found(network, shape):
    """scope -> (units, norm, scopes that read them) of a network on observations [B, *shape]."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, *shape])
        with tf.variable_scope("online"), layers_built() as built:
            network(x)
        before = len(graph.get_operations())
        layers = hidden_layers(built)
        assert len(graph.get_operations()) == before
    short = {of.scope: of.scope.removeprefix("online/") for of in built}
    return {
        short[of.scope]: (
            of.units,
            of.norm and short[of.norm],
            tuple(short[name] for name in of.into),
        )
        for of in layers
    }


def test_of_dense_layers_all_but_the_last_are_hidden():
    network = q_network(mlp_torso([8, 4]), q_head(Streams(3)))
    assert found(network, [2]) == {
        "torso/dense_0": (8, None, ("torso/dense_1",)),
        "torso/dense_1": (4, None, ("head/q",)),
    }


def test_a_norm_belongs_to_the_layer_before_it():
    network = q_network(mlp_torso([8], normalise=True), q_head(Streams(3)))
    assert found(network, [2]) == {"torso/dense_0": (8, "torso/norm_0", ("head/q",))}


def test_both_streams_of_a_dueling_noisy_head_read_the_torso():
    head = categorical_head(Streams(3, dueling=True, hidden=[5], noisy=True), np.ones(7))
    assert found(q_network(mlp_torso([8]), head), [2]) == {
        "torso/dense_0": (8, None, ("value/dense_0", "advantage/dense_0")),
        "value/dense_0": (5, None, ("value/v",)),
        "advantage/dense_0": (5, None, ("advantage/a",)),
    }


def test_an_implicit_head_multiplies_features_and_embedding_before_it_reads_them():
    head = implicit_head(Streams(3), 6, 4)
    assert found(q_network(mlp_torso([8]), head), [2]) == {
        "torso/dense_0": (8, None, ("head/q",)),
        "embedding/cosines": (8, None, ("head/q",)),
    }


def test_filters_are_units_which_a_dense_layer_reads_once_for_each_place():
    network = q_network(minatar_torso([6]), q_head(Streams(3)))
    assert found(network, [10, 10, 4]) == {
        "torso/conv_0": (16, None, ("torso/dense_0",)),
        "torso/dense_0": (6, None, ("head/q",)),
    }
    for compute in (tf.float32, tf.bfloat16):
        network = q_network(nature_torso([6], compute=compute), q_head(Streams(3)))
        assert [*found(network, [84, 84, 4])] == [
            "torso/conv_0", "torso/conv_1", "torso/conv_2", "torso/dense_0",
        ]  # fmt: skip


@pytest.mark.parametrize("normalise", [False, True])
def test_of_residual_blocks_only_the_inner_layer_is_hidden(normalise):
    """What goes around a block is a sum of several layers."""
    network = q_network(impala_torso([6], normalise=normalise), q_head(Streams(3)))
    layers = found(network, [16, 16, 3])
    inner = [f"torso/residual_{i}_{block}_0" for i in range(3) for block in range(2)]
    assert [*layers] == [*inner, "torso/dense_0"]
    for name in inner:
        norm = name.removesuffix("_0") + "_norm_0" if normalise else None
        assert layers[name][1:] == (norm, (name.removesuffix("_0") + "_1",))


def flat(x):
    return tf.reshape(x, [-1, x.shape[1:].num_elements()])


def filters(x):
    return tf.nn.relu(conv2d(tf.reshape(x, [-1, 2, 2, 1]), 3, 1, 1, "a"))


UNSURE = {
    "no ReLU": lambda x: dense(tf.tanh(dense(x, 4, "a")), 2, "b"),
    "a skip connection": lambda x: dense(tf.concat([tf.nn.relu(dense(x, 4, "a")), x], 1), 2, "b"),
    "another reader": lambda x: (h := tf.nn.relu(dense(x, 4, "a"))) @ tf.ones([4, 1])
    + dense(h, 1, "b"),
    "another reader before": lambda x: (y := dense(x, 4, "a"))[:, :2]
    + dense(tf.nn.relu(y), 2, "b"),
    "some of the units": lambda x: dense(tf.nn.relu(dense(x, 4, "a"))[:, :2], 2, "b"),
    "in another order": lambda x: dense(tf.nn.relu(dense(x, 4, "a"))[:, ::-1], 2, "b"),
    "transposed": lambda x: dense(flat(tf.transpose(filters(x), [0, 3, 1, 2])), 2, "b"),
    "no reader": lambda x: tf.nn.relu(dense(x, 4, "a")),
    "norm and layer are read": lambda x: layer_norm(y := dense(x, 4, "a"), "n")
    + dense(tf.nn.relu(y), 4, "b"),
}  # fmt: skip


@pytest.mark.parametrize("network", UNSURE.values(), ids=UNSURE)
def test_where_it_is_not_sure_which_weights_are_a_units_own_it_is_left_alone(network):
    assert found(network, [4]) == {}


def test_a_layer_that_is_called_twice_is_left_alone():
    def network(x):
        with tf.variable_scope("twins", reuse=tf.AUTO_REUSE):
            one, other = (tf.nn.relu(dense(of, 4, "a")) for of in (x, 2 * x))
        return dense(one, 1, "b") + dense(other, 1, "c")

    assert found(network, [4]) == {}


def test_layers_of_another_graph_are_not_noted():
    with tf.Graph().as_default(), layers_built() as built:
        with tf.Graph().as_default():
            dense(tf.ones([1, 2]), 3, "elsewhere")
        dense(tf.ones([1, 2]), 3, "here")
    dense_outside = tf.Graph()
    with dense_outside.as_default():
        dense(tf.ones([1, 2]), 3, "later")
    assert [layer.scope for layer in built] == ["here"]
