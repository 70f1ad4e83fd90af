"""Networks of a user's own, for tests of what is done to weights."""

import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph.layers import dense


def by_tensorflow(observation):
    """Draws its first weights by TensorFlow's own initializer, which has a state."""
    with tf.variable_scope("mine"):
        w = tf.get_variable("w", [observation.shape[1], 5])
        return tf.nn.relu(observation @ w)


def of_our_layers(observation):
    with tf.variable_scope("mine"):
        return tf.nn.relu(dense(observation, 5, "first"))


def by_gain(observation, live):
    """Has a live value of its own."""
    with tf.variable_scope("mine"):
        return tf.nn.relu(dense(observation * live["gain"], 5, "first"))
