"""A network of one's own: its blocks, and what is said where it cannot be used."""

import io

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from rich.console import Console

from agents.config import DqnConfig
from agents.dqn import DqnAgent
from agents.training import train
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


def pooled(observation):
    """Of an operation that XLA does not have."""
    features = tf.reshape(dense(observation, 16, "in"), [-1, 4, 4, 1])
    largest, _ = tf.nn.max_pool_with_argmax(features, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    return tf.reshape(largest, [-1, 4])


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


@pytest.mark.parametrize("updates", [1, 4])
def test_what_xla_cannot_compile_learns_by_plain_operations_and_says_so(own, lab, updates):
    """The same bits as with xla = false, and not one update more or less."""
    asked, plain = own("pooled", xla=True, updates_per_learn=updates), own("pooled")
    for agent in (asked, plain):
        lab.fill(agent)
        assert agent.not_compiled is None
        for _ in range(3):
            agent.learn(updates)
        assert agent.updates == 3 * updates
    assert lab.same(asked.weights(), plain.weights())
    assert asked.not_compiled == "XLA has no MaxPoolWithArgmax"
    assert plain.not_compiled is None
    assert asked.target_age == plain.target_age == 3 * updates


def test_the_display_says_that_learning_is_not_compiled(own, tmp_path):
    console = Console(record=True, width=200, file=io.StringIO())
    config = DqnConfig(
        env_id="CartPole-v1", network="mine:pooled", env_steps=60, learn_start=40, batch_size=8,
        replay_capacity=100, final_eval_episodes=1,
    )  # fmt: skip
    train(config, tmp_path / "run", console=console)
    said = console.export_text()
    assert said.count("learning is not compiled: XLA has no MaxPoolWithArgmax") == 1


def test_the_compiled_loop_says_which_operation_it_lacks(own, tmp_path):
    config = DqnConfig(
        env_id="InGraph/CartPole-v1", loop="compiled", network="mine:pooled", env_steps=60,
        learn_start=40, batch_size=8, replay_capacity=100, final_eval_episodes=1,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="XLA has no MaxPoolWithArgmax; set loop=plain, or xla=f"):
        train(config, tmp_path / "run")
