"""A network of one's own: its blocks, and what is said where it cannot be used."""

import io
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from rich.console import Console

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.own_network import OwnNetwork
from targetnet.agents.dqn.population import Population
from targetnet.agents.run.train import train
from targetnet.rl_core import dense
from targetnet.rl_core.errors import ConfigError, ShapeError

HERE = __name__


def towers(observation):
    """Two blocks, of one number each."""
    with tf.variable_scope("left"):
        left = dense(observation[:, :1], 3, "in")
    with tf.variable_scope("right"):
        right = dense(observation[:, 1:], 3, "in")
    return tf.nn.relu(tf.concat([left, right], axis=1))


def pooled(observation):
    """Of an operation that XLA does not have."""
    features = tf.reshape(dense(observation, 16, "in"), [-1, 4, 4, 1])
    largest, _ = tf.nn.max_pool_with_argmax(features, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    return tf.reshape(largest, [-1, 4])


@pytest.fixture
def own(lab, monkeypatch):
    """An agent with a function of this module as its network."""
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


@pytest.mark.thorough
def test_its_target_is_guarded_from_gradients_and_copied(own, lab):
    agent = own("towers")
    lab.fill(agent)
    agent.learn(2)
    assert not lab.same(lab.weights(agent, "target"), lab.weights(agent, "online"))
    agent.sync()
    assert lab.same(lab.weights(agent, "target"), lab.weights(agent, "online"))


# What cannot be used: one line, before the agent's graph is built.

CALLED = """
import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from targetnet.rl_core import dense

FLOATS = np.ones([2, 3], np.float32)
not_a_function = 3


def scoped(build):
    def function(observation):
        with tf.variable_scope("block"):
            return build(observation)
    return function


class Module(tf2.Module):
    w = None

    def __call__(self, observation):
        if self.w is None:
            self.w = tf2.Variable(FLOATS)
        return tf.matmul(observation, self.w)


def keras_layer(observation):
    with tf.variable_scope("block"):
        return tf2.keras.layers.Dense(3)(observation)


def own_keras(observation):
    import keras
    return keras.Sequential([keras.layers.Dense(3)])(observation)


def layer_of_tf_1(observation):
    return tf.layers.dense(observation, 3)


def older_keras(observation):
    import tf_keras


def of_sonnet(observation):
    import sonnet


class AClass:
    def __init__(self, observation):
        pass


class KerasModel(tf2.keras.Model):
    def call(self, observation):
        return observation


def batch_norm(observation, training):
    return tf2.keras.layers.BatchNormalization()(observation, training=training)


def keras_dropout(observation, training):
    return tf2.keras.layers.Dropout(0.5)(observation, training=training)


def asks_training(observation, training):
    return observation if training else -observation


def helped(observation):
    return in_two_lines(observation)


def in_two_lines(observation):
    raise KeyError("no such\\nlayer")


def exits(observation):
    raise SystemExit(3)


def no_argument():
    pass


variable = scoped(lambda x: tf.matmul(x, tf.Variable(FLOATS)))
variable_of_tf_2 = scoped(lambda x: tf.matmul(x, tf2.Variable(FLOATS)))
module = scoped(lambda x: Module()(x))
one_module = scoped(Module())
once = tf2.Variable(FLOATS)
made_at_import = scoped(lambda x: tf.matmul(x, once))
array = scoped(lambda x: FLOATS)
nothing = scoped(lambda x: None)
several = scoped(lambda x: [x, x])
flat = scoped(lambda x: tf.reduce_sum(x, axis=1))
of_no_known_size = scoped(lambda x: tf.reshape(x, [tf.shape(x)[0], -1]))
of_no_known_rank = scoped(lambda x: tf.py_func(lambda v: v, [x], tf.float32))
of_no_size = scoped(lambda x: x[:, :0])
more_rows = scoped(lambda x: tf.reshape(x, [-1, 1]))
one_row = scoped(lambda x: tf.reduce_mean(x, axis=0, keepdims=True))
doubles = scoped(lambda x: tf.cast(x, tf.float64))
integers = scoped(lambda x: tf.cast(x, tf.int32))
bare = lambda x: dense(x, 3, "w") * tf.get_variable("scale", [])
heads = scoped(lambda x: dense(x, 3, "in"))
unused = scoped(lambda x: [tf.get_variable("u", [3]), dense(x, 3, "in")][1])
constant = scoped(lambda x: dense(x, 3, "in") * tf.get_variable("c", [], trainable=False))
wide = scoped(lambda x: x * tf.cast(tf.get_variable("w", [], tf.float64), tf.float32))
not_dense = scoped(lambda x: dense(x[:, None], 3, "in"))


def head(observation):
    with tf.variable_scope("head"):
        return dense(observation, 3, "in")
"""
FEATURES = "must return features [B, F], a float32 tensor of rank 2 with a row for each observation"
SCOPES = "Keras layers, Sonnet's modules, tf.Variable and tf.Module ignore variable scopes and"
A_CLASS = "is a class, and a function is wanted that returns the features"
ASKED = "InGraphError: a tensor was asked whether it is true, and has no value yet. at towers.py:"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a module that is imported anew, beside where the process is."""
    names = []

    def write(text, name="towers"):
        (tmp_path / f"{name}.py").write_text(text)
        names.append(name)

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    yield write
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("keras_layer", f"makes 'block/dense/bias', which is not a variable by .*: {SCOPES}"),
        ("own_keras", SCOPES),
        ("layer_of_tf_1", "failed .* at towers.py:{tf.layers.dense}; " + SCOPES),
        ("older_keras", "No module named 'tf_keras'. at towers.py:{import tf_keras}; " + SCOPES),
        ("of_sonnet", "No module named 'sonnet'. at towers.py:{import sonnet}; " + SCOPES),
        ("AClass", A_CLASS + r" \[B, F\] of observations \[B, ...\]$"),
        ("KerasModel", f"{A_CLASS}.*; {SCOPES}"),
        ("batch_norm", ASKED + "{tf2.keras.layers.Batch}; " + SCOPES),
        ("keras_dropout", ASKED + "{tf2.keras.layers.Drop}; " + SCOPES),
        ("asks_training", ASKED + "{if training}; use tf.where or tf.cond, not `if`$"),
        ("variable", f"makes 'block/Variable', which is not .*: {SCOPES}"),
        ("variable_of_tf_2", SCOPES),
        ("module", SCOPES),
        ("one_module", SCOPES),
        ("made_at_import", "failed .ValueError: .* must be from the same graph"),
        (
            "helped",
            "KeyError: 'no such.*layer'. at towers.py:{raise KeyError}; TARGETNET_DEBUG",
        ),
        ("exits", "failed .SystemExit: 3. at towers.py:{raise SystemExit}"),
        ("no_argument", "failed .TypeError: no_argument.. takes 0 positional"),
        ("not_a_function", "module 'towers' has no function 'not_a_function'"),
        ("hed", "module 'towers' has no function 'hed'; did you mean 'head'"),
        ("array", re.escape(FEATURES) + ".*got numpy.ndarray"),
        ("nothing", "got NoneType"),
        ("several", "got list"),
        ("flat", re.escape("got shape (3,) of observations of shape (3, 2)")),
        ("of_no_known_size", re.escape("got shape (None, None) of")),
        ("of_no_known_rank", "got shape <unknown> of"),
        ("of_no_size", re.escape("got shape (3, 0) of")),
        ("more_rows", re.escape("got shape (6, 1) of observations of shape (3, 2)")),
        ("one_row", re.escape("got shape (1, 2) of")),
        ("doubles", "got float64"),
        ("integers", "got int32"),
        ("bare", "makes the variable 'scale' outside any scope"),
        ("head", "has a scope 'head', which is the head's"),
        ("unused", "variable 'block/u' on which its features do not depend"),
        ("constant", "makes 'block/c' with trainable=False, .* use tf.constant"),
        ("wide", "variable 'block/w' of float64, which must be float32"),
        (
            "not_dense",
            "ShapeError: dense 'in' needs inputs of rank 2.*towers.py:{not_dense =}",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(written, lab, name, said):
    written(CALLED)
    # "{text}" stands for the number of the line that has the text.
    said = re.sub("{(.*)}", lambda text: str(CALLED[: CALLED.index(text[1])].count("\n") + 1), said)
    with pytest.raises((ConfigError, ShapeError), match=said) as caught:
        lab.agent(network=f"towers:{name}")
    assert f"network 'towers:{name}'" in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nraise ValueError('at\\nimport')", "ValueError: at import. at towers.py:2"),
        ("import os\nos.no_such", "AttributeError: .* at towers.py:2"),
        ("import sys\nsys.exit('bye')", "SystemExit: bye. at towers.py:2"),
        ("def two(", "SyntaxError: .*towers.py, line 1"),
        (
            "\nimport no_such_module",
            ".*No module named 'no_such_module'. at towers.py:2",
        ),
        (
            "import tf_keras",
            f".*No module named 'tf_keras'. at towers.py:1; {SCOPES}",
        ),
    ],
)
def test_a_module_that_cannot_be_imported_says_its_line(written, lab, text, said):
    written(text)
    with pytest.raises(ConfigError, match=f"'towers:two' cannot be imported .{said}") as caught:
        lab.agent(network="towers:two")
    assert "\n" not in str(caught.value)


def test_what_a_package_of_layers_says_is_told_with_what_to_use_instead(written, lab):
    written("def Linear(units):\n    raise AssertionError('requires TensorFlow 2')", "sonnet")
    written("import sonnet\n\n\ndef two(observation):\n    return sonnet.Linear(3)(observation)")
    said = f"AssertionError: requires TensorFlow 2. at towers.py:5; {SCOPES}"
    with pytest.raises(ConfigError, match=f"'towers:two' failed .{said}"):
        lab.agent(network="towers:two")


def test_a_module_that_is_not_there_is_said_so(lab):
    with pytest.raises(ConfigError, match="No module named 'no_such_module'"):
        lab.agent(network="no_such_module:torso")
    with pytest.raises(ConfigError, match="cannot be imported"):
        lab.agent(network=".relative:torso")


@pytest.mark.slow  # in the default run it is refused in this process
def test_a_keras_layer_ends_the_command_with_one_line_and_nothing_on_disk(written, tmp_path):
    """In a process that has TensorFlow without Keras, as every command."""
    written(CALLED)
    command = [sys.executable, "-m", "targetnet.agents.cli", "train", "cartpole", "--run", "run"]
    done = subprocess.run(
        [*command, "--set", "network=towers:keras_layer"], capture_output=True, text=True
    )
    imported, refused = done.stderr.splitlines()
    assert done.returncode == 2 and "towers.py" in imported
    assert refused.startswith("targetnet: network 'towers:keras_layer' makes")
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["towers.py"]


@pytest.mark.thorough
def test_trying_it_out_leaves_nothing_in_the_agents_graph(own, monkeypatch):
    def operations():
        return [op.name for op in own("towers").engine.session.graph.get_operations()]

    tried = operations()
    monkeypatch.setattr(OwnNetwork, "_try_out", lambda self, shape: None)
    assert tried == operations()


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "network", ["minatar", "nature", pytest.param("impala", marks=pytest.mark.slow)]
)
def test_networks_for_pictures_keep_the_observations_dtype_in_the_replay(lab, network):
    side = 84 if network == "nature" else 10
    config = lab.config(network=network, replay_capacity=20)
    agent = DqnAgent(config, (side, side, 4), np.bool_, 3)
    no = np.zeros(1, bool)
    for _ in range(5):
        agent.step(np.ones((1, side, side, 4), bool), np.zeros(1, np.float32), no, no)
    assert agent.state.contents.time_steps(0, 4)["observation"].dtype == np.bool_
    agent.learn(1)
    agent.close()


@pytest.mark.thorough
@pytest.mark.parametrize("updates", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_what_xla_cannot_compile_learns_by_plain_operations_and_says_so(own, lab, updates):
    """The same bits as with xla = false, and not one update more or less."""
    asked, plain = own("pooled", xla=True, updates_per_learn=updates), own("pooled")
    for agent in (asked, plain):
        lab.fill(agent)
        assert agent.learner.not_compiled is None
        for _ in range(3):
            agent.learn(updates)
        assert agent.updates == 3 * updates
    assert lab.same(asked.state.weights(), plain.state.weights())
    assert asked.learner.not_compiled == "XLA has no MaxPoolWithArgmax"
    assert plain.learner.not_compiled is None
    assert asked.learner.target_age == plain.learner.target_age == 3 * updates


@pytest.mark.slow
def test_what_xla_cannot_compile_is_known_to_every_member(own, lab):
    """Also if a trial of updates in one call found it, before any member had learned."""
    own("pooled").close()
    configs = [
        lab.config(network="mine:pooled", xla=True, updates_per_learn=1, seed=n) for n in (0, 1)
    ]
    population = Population(configs, (2,), np.float32, 3)
    for member in population.members:
        lab.fill(member)
        member.learn(1)
        assert member.learner.not_compiled == "XLA has no MaxPoolWithArgmax"
    population.close()


@pytest.mark.thorough
def test_the_display_says_that_learning_is_not_compiled(own, tmp_path):
    console = Console(record=True, width=200, file=io.StringIO())
    config = DqnConfig(
        env_id="CartPole-v1", network="mine:pooled", env_steps=60, learn_start=40, batch_size=8,
        replay_capacity=100, final_eval_episodes=1,
    )  # fmt: skip
    train(config, tmp_path / "run", console=console)
    said = console.export_text()
    assert said.count("learning is not compiled: XLA has no MaxPoolWithArgmax") == 1


@pytest.mark.slow  # in the default run the display says it of another loop
def test_the_compiled_loop_says_which_operation_it_lacks(own, tmp_path):
    config = DqnConfig(
        env_id="InGraph/CartPole-v1", loop="compiled", network="mine:pooled", env_steps=60,
        learn_start=40, batch_size=8, replay_capacity=100, final_eval_episodes=1,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="XLA has no MaxPoolWithArgmax; set loop=plain, or xla=f"):
        train(config, tmp_path / "run")
