"""The spaces that a run keeps, with which its policy needs the env no more."""

import contextlib
import json
import os
import sys

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.config.envs import envs_beside
from targetnet.agents.config.files import stored_text
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.policy.export import export
from targetnet.agents.policy.load import load_policy
from targetnet.agents.run.train import train
from targetnet.agents.saved.directory import RunDir
from targetnet.agents.saved.spaces import envs_of_policy, save_spaces
from targetnet.envs.in_graph.cartpole import CartPole
from targetnet.envs.in_graph.resident import ResidentEnvs
from targetnet.rl_core.errors import EnvError, RunDirError
from targetnet.rl_core.seal import sealed_json, unsealed_json
from tests.agents.policy.test_load import SHORT, by_hand

Box, Discrete, Dict = gym.spaces.Box, gym.spaces.Discrete, gym.spaces.Dict
MultiDiscrete, MultiBinary, Tuple = (
    gym.spaces.MultiDiscrete, gym.spaces.MultiBinary, gym.spaces.Tuple,
)  # fmt: skip
UNEVEN = np.arange(12, dtype=np.float32).reshape(3, 4)
OBSERVATIONS = {
    "box": Box(-UNEVEN, np.where(UNEVEN > 5, np.inf, UNEVEN), dtype=np.float32),
    "integers": Box(-(2**62) - 1, 2**62 + 1, (2,), np.int64),
    "picture": Box(0, 255, (2, 6, 8), np.uint8),
    "bytes": Box(np.arange(96, dtype=np.uint8).reshape(2, 6, 8), 200, dtype=np.uint8),
    "bits": MultiBinary((2, 3)),
    "number": Discrete(5, start=-2),
    "numbers": MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [0, -3]]),
    "nested": Dict({
        "a": Tuple([Box(-1, 1, (2,)), Discrete(3)]),
        "b": Dict({"c": MultiBinary(4), "text": gym.spaces.Text(3)}),
        "7": Box(0, 9, (2, 2), np.uint8),
    }),
    "masked": Dict({"action_mask": Box(0, 1, (4,), np.int8), "seen": Box(-1, 1, (3,))}),
}  # fmt: skip
ACTIONS = [Discrete(4, start=3), MultiDiscrete([3, 2], start=[1, -1]), MultiBinary((2, 2))]


class Shows(gym.Env):
    """Samples of a space."""

    def __init__(self, of, action=0):
        self.observation_space, self.action_space = OBSERVATIONS[of], ACTIONS[action]

    def seen(self):
        seen = self.observation_space.sample()
        if isinstance(seen, dict) and "action_mask" in seen:
            seen["action_mask"][:] = 1, 0, 1, 1
        return seen

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen(), {}

    def step(self, action):
        return self.seen(), 1.0, False, False, {}


@pytest.fixture(scope="module", autouse=True)
def registered():
    gym.register("Shows-v0", Shows, max_episode_steps=10)
    yield
    del gym.registry["Shows-v0"]


def config_of(of, action=0, **more):
    if of == "nested":
        more["observation_keys"] = ("7", "a")
    return DqnConfig(
        **SHORT | {"env_id": "Shows-v0", "env_kwargs": {"of": of, "action": action}} | more
    )


def kept_of(config, path, envs=None):
    """Envs of a policy from what a run directory keeps, and those that are made."""
    with contextlib.closing(envs or envs_beside(config)) as made:
        run = RunDir(path)
        save_spaces(run, made.spaces)
        return envs_of_policy(run, config), made


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("of", OBSERVATIONS)
def test_what_is_kept_is_what_the_env_has(tmp_path, of, stack):
    config = config_of(of, frame_stack=1 if of == "nested" else stack)
    kept, made = kept_of(config, tmp_path)
    same(kept.spaces, made.spaces)
    if stack == 1:
        rows = [np.zeros(each.observation_shape, each.observation_dtype) for each in (kept, made)]
        for _ in range(3):
            seen = OBSERVATIONS[of].sample()
            for row, each in zip(rows, (kept, made), strict=True):
                each.spaces.writer(row)(seen)
            np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize("action", range(3))
def test_actions_are_kept(tmp_path, action):
    kept, made = kept_of(config_of("box", action), tmp_path)
    same(kept.spaces, made.spaces)


def test_an_env_in_the_graph_keeps_its_spaces_too(tmp_path):
    config = DqnConfig(env_id="InGraph/CartPole-v1", loop="compiled")
    resident = ResidentEnvs(config.env_id, CartPole(), 2)
    kept, _ = kept_of(config, tmp_path, resident)
    with contextlib.closing(envs_beside(config)) as made:
        same(kept.spaces, made.spaces)
        same(resident.spaces, made.spaces)


def same(kept, made):
    for name, value in made._asdict().items():
        if name not in ("writer", "complete", "own"):
            np.testing.assert_equal(plain(getattr(kept, name)), plain(value), name)


def plain(value):
    """Tuples as lists, because those of gymnasium's shapes differ in kind."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return repr(value) if isinstance(value, gym.Space) else value


HERE = """
import gymnasium as gym, numpy as np
from tests.agents.saved.test_spaces import Shows
gym.register("Gone-v0", Shows, max_episode_steps=10)
"""


@pytest.fixture(scope="module")
def gone(tmp_path_factory):
    """A run whose env's module is not there any more."""
    path = tmp_path_factory.mktemp("gone")
    (path / "gone_module.py").write_text(HERE)
    sys.path.append(str(path))
    try:
        run = train(config_of("masked", env_id="gone_module:Gone-v0"), path / "run").run
    finally:
        sys.path.remove(str(path))
        del sys.modules["gone_module"], gym.registry["Gone-v0"]
    (path / "gone_module.py").unlink()
    return run


@pytest.mark.thorough
def test_a_policy_and_an_export_need_no_env(gone, tmp_path):
    config, seen = RunDir.open(gone).config(), OBSERVATIONS["masked"].sample()
    seen["action_mask"][:] = 0, 1, 0, 0
    with pytest.raises(EnvError, match="gone_module"):
        envs_beside(config)
    with load_policy(gone) as policy:
        assert policy(seen) == 4 and policy.has_action_masks
        wanted = by_hand(RunDir.open(gone).load_weights(), seen["seen"])
        np.testing.assert_allclose(policy.q_values(seen), wanted, rtol=1e-5, atol=1e-6)
    out = export(gone, "savedmodel", tmp_path / "policy")
    about = json.loads((out / "policy.json").read_text())
    assert about["input"] == {"observation": [3], "action_mask": [4]}


def test_a_run_of_an_older_version_has_its_env_made(tmp_path):
    config = config_of("box")
    (tmp_path / "config.toml").write_text('env_id = "test/Of-v0"\n')
    assert envs_of_policy(RunDir(tmp_path), config).observation_shape == (3, 4)
    (tmp_path / "config.toml").write_text(stored_text({"env_id": "test/Of-v0"}))
    with pytest.raises(RunDirError, match=r"spaces.json: there is none"):
        envs_of_policy(RunDir(tmp_path), config)


def test_a_damaged_file_is_one_line(tmp_path):
    config = config_of("bytes")
    kept_of(config, tmp_path)
    path = tmp_path / "spaces.json"
    whole = path.read_text()
    fields = unsealed_json(whole.encode())

    def refused(match):
        with pytest.raises(RunDirError, match=match) as raised:
            envs_of_policy(RunDir(tmp_path), config)
        assert "\n" not in str(raised.value) and "spaces.json" in str(raised.value)

    path.write_text(whole.replace("200", "201", 1))
    refused("it is damaged")
    huge = {"kind": "Box", "shape": [2**26, 2**26], "dtype": "float32", "low": [0], "high": [1]}
    short = {"kind": "Box", "shape": [3], "dtype": "float32", "low": [0, 0], "high": [1]}
    wrong = {"kind": "Box", "shape": [3], "dtype": "uint8", "low": [0], "high": [256]}
    for space in (huge, short, wrong, {"kind": "Text"}, {"kind": "Discrete", "n": 2**40}, None):
        path.write_bytes(sealed_json(fields | {"observation": [{"path": [], "space": space}]}))
        refused("cannot read")
    path.write_bytes(sealed_json(fields | {"observation": []}))
    refused("it has no spaces")
    path.unlink()
    os.mkfifo(path)
    refused("cannot read")


def test_where_json_does_not_have_the_keys_the_env_is_made(tmp_path):
    space = Dict([((1, 2), Box(-1, 1, (2,))), ("b", Box(-1, 1, (2,)))])
    OBSERVATIONS["odd"] = space
    try:
        config = config_of("odd", observation_keys=("(1, 2)",))
        with contextlib.closing(envs_beside(config)) as made:
            save_spaces(RunDir(tmp_path), made.spaces)
        assert unsealed_json((tmp_path / "spaces.json").read_bytes()) == {}
        assert envs_of_policy(RunDir(tmp_path), config).observation_shape == made.observation_shape
    finally:
        del OBSERVATIONS["odd"]
