"""Bytes are seen by the scale of their own bounds, wherever a network looks at them."""

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.config.files import require_can_go_on
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.policy.export import export
from targetnet.agents.policy.load import load_policy
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.envs import make_envs
from tests.agents.pool import POOL
from tests.agents.steady import STEADY


class Switches(gym.Env):
    """Three switches, each 0 or `top`; the action says which one turns."""

    action_space = gym.spaces.Discrete(3)

    def __init__(self, top=1, most=1):
        self.top = top
        self.observation_space = gym.spaces.Box(0, most, (3,), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.on, self.t = self.np_random.integers(2, size=3), 0
        return np.uint8(self.on * self.top), {}

    def step(self, action):
        self.on[action] ^= 1
        self.t += 1
        return np.uint8(self.on * self.top), float(self.on.sum()), False, self.t == 10, {}


@pytest.fixture(autouse=True, scope="module")
def registered():
    gym.register("test/Switches-v0", Switches)
    yield
    del gym.registry["test/Switches-v0"]


def config(**settings):
    return DqnConfig(
        **STEADY
        | {
            "env_id": "test/Switches-v0", "env_steps": 200, "hidden": (8,), "batch_size": 8,
            "replay_capacity": 100, "learn_start": 20, "eval_period": 100, "eval_episodes": 1,
            "final_eval_episodes": 2, "xla": False, "checkpoint_steps": 50, **settings,
        }
    )  # fmt: skip


def agent_of(settings, **more):
    envs = make_envs("test/Switches-v0", seed=0, env_kwargs=settings.env_kwargs)
    envs.close()
    shape, dtype = envs.observation_shape, envs.observation_dtype
    return POOL.agent(settings, shape, dtype, envs.num_actions, **more)


def q_of(agent, observation):
    return agent.engine.run(agent.networks.greedy.q, {agent.networks.observations: observation})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same switches shown as 0 and 1 of [0, 1], and as 0 and 255 of [0, 255]."""
    folder = tmp_path_factory.mktemp("switches")
    ones = train(config(), folder / "ones")
    pixels = train(config(env_kwargs={"top": 255, "most": 255}), folder / "pixels")
    return ones, pixels


@pytest.mark.thorough
def test_training_evaluation_and_weights_are_those_of_pixels_that_are_scaled_alike(runs):
    """0 / 1 and 1 / 1 are exactly 0 / 255 and 255 / 255."""
    weights = [RunDir.open(outcome.run).load_weights() for outcome in runs]
    for name, array in weights[0].items():
        np.testing.assert_array_equal(array, weights[1][name])
    assert runs[0].returns == runs[1].returns and runs[0].updates == runs[1].updates > 0


@pytest.mark.thorough
def test_policies_and_exports_have_the_scale_too(runs, tmp_path):
    import tensorflow.compat.v1 as tf

    run = RunDir.open(runs[0].run)
    every = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], np.uint8)
    wanted = load_policy(runs[1].run).q_values(every * 255)
    got = load_policy(run.path).q_values(every)
    np.testing.assert_array_equal(got, wanted)
    graph_def = tf.GraphDef()
    graph_def.ParseFromString(
        (export(run.path, "frozen", tmp_path / "out") / "policy.pb").read_bytes()
    )
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        np.testing.assert_array_equal(session.run("q:0", {"observation:0": every}), wanted)


@pytest.mark.thorough
def test_an_agent_by_itself_divides_by_255_unless_it_is_told_otherwise():
    settings = config()
    ones = np.ones((1, 3), np.uint8)
    as_before = agent_of(settings)
    told = agent_of(settings, byte_bounds=(np.uint8(0), np.uint8(1)))
    np.testing.assert_array_equal(q_of(as_before, 255 * ones), q_of(told, ones))
    assert not np.array_equal(q_of(as_before, ones), q_of(told, ones))


@pytest.mark.thorough
def test_a_run_of_version_0_1_goes_on_as_it_was_begun(tmp_path):
    """Its config has no such key, and its weights are of bytes divided by 255."""
    whole = train(config(byte_scale="255", env_steps=250), tmp_path / "whole")
    run = tmp_path / "old"
    train(config(byte_scale="255", env_steps=100), run)
    text = (run / "config.toml").read_text().splitlines()
    newer = ("byte_scale", "eval_max_steps", "targetnet", "#")
    text = [line for line in text if not line.startswith(newer)]
    (run / "config.toml").write_text("\n".join(text))
    assert RunDir.open(run).config().byte_scale == "255"
    # As `train CONFIG --resume` does it, with a config that knows nothing of it.
    assert resume(run, config(env_steps=250)).digest == whole.digest
    assert RunDir.open(run).config() == config(byte_scale="255", env_steps=250)


def test_the_scale_of_a_run_cannot_be_changed_when_it_goes_on():
    from targetnet.rl_core.errors import ConfigError

    with pytest.raises(ConfigError, match="byte_scale is 'bounds' in this run"):
        require_can_go_on(config(), config(byte_scale="255"))
