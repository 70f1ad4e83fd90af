"""Runs on envs whose observations have several parts."""

import json

import gymnasium as gym
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ai_edge_litert.interpreter import Interpreter

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.policy.export import export
from targetnet.agents.policy.load import load_policy
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.errors import ConfigError, FeedError, ShapeError
from targetnet.rl_core.graph.layers import dense
from tests.agents.run import parts_envs
from tests.agents.run.test_frame_stack import SHORT

HERE = __name__


def own_network(parts):
    """A network of the user's own."""
    with tf.variable_scope("numbers"):
        numbers = tf.nn.relu(dense(parts["numbers"], 6, "dense"))
    with tf.variable_scope("camera"):
        camera = tf.nn.relu(dense(tf.reshape(parts["camera"], [-1, 200]), 6, "dense"))
    return tf.concat([numbers, camera, parts["on"]], axis=1)


def config(wrapper, **settings):
    own = {"env_wrapper": f"{parts_envs.__name__}:{wrapper}"} if wrapper else {}
    return DqnConfig(**SHORT | own | settings)


def weights_of(outcome):
    return RunDir.open(outcome.run).load_weights()


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("pair", [("in_two", "in_one"), ("within", "")])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"num_envs": 3, "prioritized": True, "n_step": 2},
        {"loop": "concurrent", "learn_period": 16, "updates_per_learn": 8},
        {"num_envs": 2, "vectorization": "async"},
    ],
    ids=lambda more: "-".join(map(str, more.values())) or "plain",
)
def test_parts_have_the_bits_of_the_same_numbers_in_one_array(pair, more, tmp_path):
    parts, array = (config(name, **more) for name in pair)
    one = train(parts, tmp_path / "parts", console=None)
    other = train(array, tmp_path / "array", console=None)
    assert one.updates == other.updates > 30
    found, wanted = weights_of(one), weights_of(other)
    assert found.keys() == wanted.keys()
    for name, weights in found.items():
        np.testing.assert_array_equal(weights, wanted[name])


@pytest.fixture(scope="module")
def pictured(tmp_path_factory):
    """A run whose observations have a picture, numbers and flags."""
    path = tmp_path_factory.mktemp("pictured") / "run"
    return train(config("with_picture", network="minatar", layer_norm=True), path, console=None)


@pytest.mark.slow
def test_each_part_has_a_torso_of_its_own(pictured):
    weights = weights_of(pictured)
    assert weights["torso/camera/conv_0/w"].shape == (3, 3, 2, 16)
    assert weights["torso/dense_0/w"].shape == (8 * 8 * 16 + 4 + 3, 8)
    assert {name.split("/")[1] for name in weights if name.startswith("torso")} == {
        "camera", "dense_0", "norm_0",
    }  # fmt: skip


@pytest.mark.thorough
def test_it_resumes_and_replays(pictured, tmp_path):
    longer = tmp_path / "longer"
    whole = train(config("with_picture", network="minatar", env_steps=600), longer, console=None)
    short = train(config("with_picture", network="minatar"), tmp_path / "short", console=None)
    gone_on = resume(short.run, changes={"env_steps": 600}, console=None)
    assert gone_on.digest == whole.digest
    assert repeat(longer, console=None).identical


def observations(count=3):
    env = parts_envs.with_picture(gym.make("CartPole-v1"))
    return [env.reset(seed=seed)[0] for seed in range(count)]


def test_a_loaded_policy_takes_observations_as_the_env_gives_them(pictured):
    with load_policy(pictured.run) as policy:
        assert policy.observation_shape == {"camera": (10, 10, 2), "numbers": (4,), "on": (3,)}
        seen = observations()
        alone = [policy.q_values(one) for one in seen]
        batch = {name: np.stack([one[name] for one in seen]) for name in seen[0]}
        np.testing.assert_allclose(policy.q_values(batch), alone, rtol=1e-6)
        assert policy(batch).tolist() == [policy(one) for one in seen]
        with pytest.raises(FeedError, match="must have a part 'numbers'"):
            policy({"camera": seen[0]["camera"], "on": seen[0]["on"]})
        with pytest.raises(ShapeError, match="has shape"):
            policy(seen[0] | {"camera": np.zeros((3, 3, 2), np.uint8)})


@pytest.mark.slow
def test_an_exported_policy_has_an_input_for_each_part(pictured, tmp_path):
    out = export(pictured.run, "tflite", tmp_path / "out")
    described = json.loads((out / "policy.json").read_text())
    assert described["input"] == {
        "observation_camera": [10, 10, 2], "observation_numbers": [4], "observation_on": [3],
    }  # fmt: skip
    model = Interpreter(str(out / "policy.tflite")).get_signature_runner("serving_default")
    with load_policy(pictured.run) as policy:
        for one in observations():
            fed = {f"observation_{name}": of[np.newaxis] for name, of in one.items()}
            np.testing.assert_allclose(model(**fed)["q"][0], policy.q_values(one), rtol=1e-5)


@pytest.mark.thorough
def test_a_network_of_ones_own_is_given_the_parts_by_name(tmp_path):
    of = config("with_picture", network=f"{HERE}:own_network")
    weights = weights_of(train(of, tmp_path / "run", console=None))
    assert {name.split("/")[0] for name in weights} == {"numbers", "camera", "head"}


@pytest.mark.thorough
def test_a_picture_may_have_a_network_of_its_own(tmp_path):
    of = config("with_picture", network="nature", part_networks={"camera": "mlp"})
    weights = weights_of(train(of, tmp_path / "run", console=None))
    assert weights["torso/dense_0/w"].shape == (200 + 4 + 3, 8)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            {"part_networks": {"camra": "mlp"}},
            "names 'camra', .* camera, .*; did you mean 'camera'",
        ),
        ({"network": "nature"}, "needs observations .* of at least 36x36, got .10, 10, 2."),
        (
            {"part_networks": {"numbers": "minatar"}},
            r"minatar needs a picture \[H, W, C\], got 'numbers' of shape \[4\]",
        ),
        (
            {"network": f"{HERE}:own_network", "part_networks": {"camera": "minatar"}},
            "part_networks needs a network of ours",
        ),
        (
            {"network": "minatar", "observation_keys": ["numbers", "on"]},
            r"network = 'minatar' needs a part that is a picture .*numbers \[4\].*set network",
        ),
    ],
)
def test_what_does_not_fit_is_one_line_and_leaves_nothing(settings, line, tmp_path):
    with pytest.raises((ConfigError, ShapeError), match=line):
        train(config("with_picture", **settings), tmp_path / "run", console=None)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_actors_deliver_parts_too(tmp_path):
    of = config("in_two", loop="remote", actors=2, actor_steps=8)
    run = train(of, tmp_path / "run", console=None, ray="off").run
    assert repeat(run, console=None).identical
