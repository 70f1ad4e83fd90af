"""What TensorFlow's scopes promise and the graph core relies on."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import dense, variables_in


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_the_same_name_twice_without_reuse_is_refused():
    with tf.variable_scope("online"):
        tf.get_variable("w", [2])
    with (
        tf.variable_scope("online"),
        pytest.raises(ValueError, match="online/w already exists, disallowed"),
    ):
        tf.get_variable("w", [2])


def test_with_reuse_the_same_name_is_the_same_variable():
    with tf.variable_scope("online"):
        first = tf.get_variable("w", [2])
    with tf.variable_scope("online", reuse=True):
        assert tf.get_variable("w") is first
        assert tf.get_variable("w", [2]) is first
    assert len(tf.global_variables()) == 1


def test_reuse_of_a_missing_variable_is_refused():
    with (
        tf.variable_scope("online", reuse=True),
        pytest.raises(ValueError, match="online/w does not exist"),
    ):
        tf.get_variable("w", [2])


def test_reuse_with_another_shape_is_refused():
    with tf.variable_scope("online"):
        tf.get_variable("w", [2])
    with tf.variable_scope("online", reuse=True), pytest.raises(ValueError, match="shape"):
        tf.get_variable("w", [3])


def test_auto_reuse_makes_at_first_and_reuses_then():
    found = []
    for _ in range(2):
        with tf.variable_scope("online", reuse=tf.AUTO_REUSE):
            found.append(tf.get_variable("w", [2]))
    assert found[0] is found[1]


def test_nested_scopes_inherit_reuse():
    def build():
        with tf.variable_scope("torso"), tf.variable_scope("dense"):
            return tf.get_variable("w", [2])

    with tf.variable_scope("online"):
        first = build()
    with tf.variable_scope("online", reuse=True):
        assert build() is first
        with tf.variable_scope("torso", reuse=False):  # cannot be undone within
            assert tf.get_variable_scope().reuse
            with pytest.raises(ValueError, match="does not exist"):
                tf.get_variable("new", [2])
    with tf.variable_scope("online"):
        assert not tf.get_variable_scope().reuse  # and ends with its scope


def test_nested_scopes_inherit_the_custom_getter():
    asked = []

    def getter(getter, name, *args, **kwargs):
        asked.append(name)
        return getter(name, *args, **kwargs)

    with tf.variable_scope("target", custom_getter=getter):
        dense(tf.ones([1, 2]), 1, "out")
    dense(tf.ones([1, 2]), 1, "free")
    assert asked == ["target/out/w", "target/out/b"]


def test_a_variable_is_found_by_its_full_path():
    with tf.variable_scope("agent_a"), tf.variable_scope("online"):
        w = tf.get_variable("torso/w", [2])
    assert w.op.name == "agent_a/online/torso/w"
    with tf.variable_scope("", reuse=True):
        assert tf.get_variable("agent_a/online/torso/w") is w
    with tf.variable_scope("agent_a/online/torso", reuse=True):
        assert tf.get_variable("w") is w
    assert variables_in("agent_a")["online/torso/w"] is w
    assert variables_in("agent_a/online/torso")["w"] is w


def test_a_scope_object_leads_back_to_its_full_path_from_anywhere():
    with tf.variable_scope("agent_a"), tf.variable_scope("online") as online:
        w = tf.get_variable("w", [2])
    with tf.variable_scope("agent_b"), tf.variable_scope(online, reuse=True):
        assert tf.get_variable_scope().name == "agent_a/online"
        assert tf.get_variable("w") is w


def test_reused_layers_share_their_weights(evaluate):
    x = tf.constant([[1.0, -1.0]])
    with tf.variable_scope("online"):
        first = dense(x, 3, "out")
    with tf.variable_scope("online", reuse=True):
        again = dense(-x, 3, "out")
    b = variables_in("online/out")["b"]
    one, other, bias = evaluate([first, again, b])  # x w + b and -x w + b
    np.testing.assert_allclose(one + other, np.broadcast_to(2 * bias, (1, 3)), atol=1e-5)
