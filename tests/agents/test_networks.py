"""A network of one's own: its blocks, and what is said where it cannot be used."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from agents.dqn import DqnAgent
from rl_core import dense
from rl_core.errors import ConfigError, ShapeError

HERE = __name__


def towers(observation):
    """Two blocks, of one number each."""
    with tf.variable_scope("left"):
        left = dense(observation[:, :1], 3, "in")
    with tf.variable_scope("right"):
        right = dense(observation[:, 1:], 3, "in")
    return tf.nn.relu(tf.concat([left, right], axis=1))


def bare(observation):
    return dense(observation, 3, "w") * tf.get_variable("scale", [])


def flat(observation):
    return tf.reduce_sum(observation, axis=1)


def nothing(observation):
    pass


def broken(observation):
    raise KeyError("no such layer")


@pytest.fixture
def own(lab, monkeypatch):
    """An agent with a function of this module as its network."""
    import sys

    monkeypatch.setitem(sys.modules, "mine", sys.modules[HERE])
    return lambda name, **settings: lab.agent(network=f"mine:{name}", **settings)


def test_its_scopes_are_the_blocks_beside_the_heads(own, lab):
    agent = own("towers", dueling=True)
    assert agent.hyperparameters.knobs["exempt"].blocks == ("left", "right", "value", "advantage")
    lab.fill(agent)
    before = lab.weights(agent, "online")
    agent.hyperparameters["exempt"] = "left"
    agent.learn(3)
    after = lab.weights(agent, "online")
    assert lab.same(lab.block(after, "left"), lab.block(before, "left"))
    assert not lab.same(lab.block(after, "right"), lab.block(before, "right"))


def test_its_target_is_guarded_from_gradients_and_copied(own, lab):
    agent = own("towers")
    lab.fill(agent)
    agent.learn(2)
    assert not lab.same(lab.weights(agent, "target"), lab.weights(agent, "online"))
    agent.sync()
    assert lab.same(lab.weights(agent, "target"), lab.weights(agent, "online"))


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("tower", ConfigError, "'mine:tower' cannot be imported"),
        ("bare", ConfigError, "makes the variable 'scale' outside any scope"),
        ("flat", ShapeError, "must return features [B, F], a tensor of rank 2"),
        ("nothing", ShapeError, "got NoneType"),
        ("broken", ConfigError, "failed (KeyError: 'no such layer'); TARGETNET_DEBUG=1"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(own, name, error, said):
    with pytest.raises(error) as caught:
        own(name)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_module_that_is_not_there_is_said_so(lab):
    with pytest.raises(ConfigError, match="No module named 'no_such_module'"):
        lab.agent(network="no_such_module:torso")


@pytest.mark.parametrize("network", ["minatar", "nature", "impala"])
def test_networks_for_pictures_keep_the_observations_dtype_in_the_replay(lab, network):
    side = 84 if network == "nature" else 10
    config = lab.config(network=network, replay_capacity=20)
    agent = DqnAgent(config, (side, side, 4), np.bool_, 3)
    no = np.zeros(1, bool)
    for _ in range(5):
        agent.step(np.ones((1, side, side, 4), bool), np.zeros(1, np.float32), no, no)
    assert agent.contents.time_steps(0, 4).observation.dtype == np.bool_
    agent.learn(1)
    agent.close()
