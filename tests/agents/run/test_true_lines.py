"""Lines of a run about what its network is shown, which nobody would see otherwise."""

import contextlib

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from targetnet.agents.cli.main import main
from targetnet.agents.config.files import dump_config
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.plain import Tick
from targetnet.agents.run.announcements import (
    bytes_outside,
    flattened_pictures,
    slower_than_float32,
)
from targetnet.envs import make_envs
from targetnet.rl_core import machine

SHORT = {
    "env_id": "test/Shown-v0", "env_steps": 60, "hidden": (4,), "batch_size": 4,
    "replay_capacity": 100, "learn_start": 20, "updates_per_learn": 1,
    "final_eval_episodes": 1, "xla": False,
}  # fmt: skip


class Shown(gym.Env):
    """Shows zeros, and from step `late` on a byte at the last place; ends after ten steps."""

    action_space = Discrete(2)

    def __init__(self, space=None, byte=0, late=0):
        self.observation_space = space or Box(0, 100, (3,), np.uint8)
        self.byte, self.late = byte, late

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.shown(), {}

    def step(self, action):
        self.t += 1
        return self.shown(), 1.0, self.t == 10, False, {}

    def shown(self):
        def fill(space):
            if isinstance(space, Dict):
                return {key: fill(of) for key, of in space.items()}
            array = np.zeros(space.shape, space.dtype)
            if self.t >= self.late:
                array.flat[-1] = self.byte
            return array

        return fill(self.observation_space)


@pytest.fixture(autouse=True, scope="module")
def registered():
    gym.register("test/Shown-v0", Shown)
    yield
    del gym.registry["test/Shown-v0"]


def config(**settings):
    return DqnConfig(**SHORT | settings)


@contextlib.contextmanager
def shown_by(space, **settings):
    env_kwargs = {"space": space} | settings.pop("env_kwargs", {})
    of = config(**settings)
    envs = make_envs(
        of.env_id, of.num_envs, seed=0, env_kwargs=env_kwargs, frame_stack=of.frame_stack
    )
    with contextlib.closing(envs):
        yield of, envs


def lines(space, **settings):
    with shown_by(space, **settings) as (of, envs):
        return [*flattened_pictures(of, envs)]


def picture(*shape):
    return Box(0, 255, shape, np.uint8)


def test_a_picture_that_is_flattened_is_told_with_its_inputs():
    assert lines(picture(210, 160, 3)) == [
        "an observation, [210, 160, 3], is flattened into 100,800 inputs of the network; network = "
        '"nature" looks at it as a picture'
    ]
    parts = Dict({"camera": picture(480, 480), "far": picture(64, 64, 3), "at": Box(-1, 1, (4,))})
    assert lines(parts) == [
        "the part 'camera' of an observation, [480, 480], is flattened into 230,400 inputs of the "
        'network; with an axis more, [480, 480, 1] (env_wrapper), network = "nature" looks at it '
        "as a picture",
        "the part 'far' of an observation, [64, 64, 3], is flattened into 12,288 inputs of the "
        'network; network = "nature" looks at it as a picture',
    ]
    # Convolutions take no [H, W] also where they are wanted.
    assert len(lines(parts, network="nature")) == 1
    stack = lines(picture(84, 84), frame_stack=4)
    assert stack[0].startswith("an observation, [84, 84, 4], is flattened into 28,224 inputs")


@pytest.mark.parametrize(
    ("space", "settings"),
    [
        (picture(84, 84, 3), {"network": "nature"}),
        (picture(35, 200, 3), {}),  # which `nature` cannot look at
        (Box(0, 1, (10, 10, 4)), {}),
        (Box(0, 1, (1000,)), {}),
        (Box(0, 1, (40, 40, 4, 3)), {}),
        (picture(84, 84, 3), {"network": "tests.agents.dqn.own_networks:wide"}),
        (Dict({"far": picture(64, 64, 3), "near": picture(64, 64, 3)}),
         {"network": "nature", "part_networks": {"near": "mlp"}}),  # asked for
    ],
)  # fmt: skip
def test_nothing_is_told_of_what_is_no_picture_or_is_looked_at_as_one(space, settings):
    assert lines(space, **settings) == []


def test_bfloat16_is_said_to_be_slow_where_the_processor_lacks_it(monkeypatch):
    rounded = config(network="nature", compute="bfloat16", onednn=True)
    for told, slow in [
        ("flags : fpu avx512_bf16 avx2\n", False),
        ("Features : fp asimd bf16\n", False),
        ("flags : fpu avx512f avx512_vnni\n", True),
    ]:
        monkeypatch.setattr(machine, "_told", lambda told=told: told)
        line = slower_than_float32(rounded)
        assert ("no AVX512_BF16 or AMX" in line) == slow == bool(line)
        assert slower_than_float32(config()) == ""


def told(space, steps, byte, late=0, **settings):
    """The line about each of some steps."""
    kwargs = {"byte": byte, "late": late}
    with shown_by(space, env_kwargs=kwargs, **settings) as (of, envs):
        envs.reset()
        ticks = [
            Tick(0, (), (), None, None, envs.step(np.zeros(envs.num_envs, int)))
            for _ in range(steps)
        ]
        return [bytes_outside(of, envs, tick) for tick in ticks][-1]


BYTES = Box(np.uint8([0, 0, 5]), np.uint8([9, 9, 100]), dtype=np.uint8)


def test_a_byte_outside_of_its_box_is_told_where_the_box_scales_it():
    assert told(BYTES, 1, byte=200) == (
        "an observation has the byte 200, and its Box says 5 to 100: scaled by these bounds it is "
        'outside of 0 to 1; correct the env, or begin a run with byte_scale = "255"'
    )
    assert told(BYTES, 1, byte=3) is not None and told(BYTES, 1, byte=77) is None
    assert told(BYTES, 3, byte=3, late=3, num_envs=2, frame_stack=2) is not None
    # The zeros before an episode's first frame are nobody's observations.
    assert told(Box(5, 100, (1,), np.uint8), 1, byte=7, frame_stack=3) is None
    assert told(Box(0, 100, (3,), np.uint8), 1, byte=101, frame_stack=3) is not None
    parts = Dict({"x": Box(-1, 1, (2,)), "bytes": Box(0, 9, (3,), np.uint8)})
    assert "has at 'bytes' the byte 10, and its Box says 0 to 9" in told(parts, 1, byte=10)
    assert told(BYTES, 1, byte=200, byte_scale="255") is None
    assert told(Box(0, 255, (3,), np.uint8), 1, byte=200) is None
    assert told(Box(0, 1, (3,)), 1, byte=2) is None  # numbers are not scaled by their bounds


@pytest.mark.thorough
def test_a_run_says_so_once_and_goes_on(tmp_path, capsys):
    settings = config(env_kwargs={"byte": 200, "late": 7}, log_period=20)
    (tmp_path / "bytes.toml").write_text(dump_config(settings))
    assert main(["train", str(tmp_path / "bytes.toml"), "--run", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert out.count("an observation has the byte 200, and its Box says 0 to 100") == 1
    assert "env step 60: greedy return 10.0" in out
