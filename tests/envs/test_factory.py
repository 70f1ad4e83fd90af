"""What cannot be trained on is refused before the run, in one line that says what to do."""

import sys
import tomllib
import warnings
from importlib.metadata import metadata
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from targetnet.envs import factory, make_envs
from targetnet.envs.registry import INSTALL
from targetnet.rl_core.errors import EnvError, MemoryLimitError
from tests.gymnasium_versions import TAXI

ROOT = Path(__file__).parents[2]
Box, Discrete = gym.spaces.Box, gym.spaces.Discrete


def refusal(*args, **kwargs) -> str:
    """Returns the one line with which make_envs refuses, nothing else being printed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(EnvError) as refused:
            make_envs(*args, **{"seed": 1, **kwargs})
    assert "\n" not in str(refused.value)
    return str(refused.value)


THERE = "it is installed, but does not start here"


def fixed_refusal(**env_kwargs) -> str:
    return refusal("test/Fixed-v0", env_kwargs=env_kwargs)


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("CartPole-v7", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPole", "CartPole-v1"),
        ("CartPloe-v0", "CartPole-v1"),
        ("LunarLander-v2", "LunarLander-v3"),
        ("Taxy-v3", TAXI),
        ("test/Scriptd-v0", "test/Scripted-v0"),
        ("MinAtar/SpaceInvader-v1", "MinAtar/SpaceInvaders-v1"),
    ],
)
def test_an_unknown_id_names_the_nearest_in_its_latest_version(typo, meant):
    assert refusal(typo) == f"there is no env {typo!r}; did you mean {meant!r}?"


def test_an_id_like_no_other_says_how_to_name_a_module(monkeypatch):
    # Another test may have registered ALE's, and then there are more ids to be like.
    for name, spec in [*gym.registry.items()]:
        if "ale_py" in f"{spec.entry_point} {spec.vector_entry_point}":
            monkeypatch.delitem(gym.registry, name)
    message = refusal("Nowhere-v0")
    assert message.startswith("there is no env 'Nowhere-v0'")
    assert "'module:Nowhere-v0' to import the module that registers it" in message


@pytest.mark.parametrize("module", ["no_such_module", "a:b"])
def test_a_module_that_cannot_be_imported_is_named(module):
    message = refusal(f"{module}:Foo-v0")
    assert f"the module {module!r} that should register it cannot be imported" in message
    assert message.endswith(f"(No module named {module!r}); install it or correct its name")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero); " + THERE),
        # As sumo-rl without SUMO_HOME, and miniworld without a display.
        ("import sys; sys.exit('Please declare SUMO_HOME')", "Please declare SUMO_HOME); " + THERE),
        ("class NoDisplay(Exception): pass\nraise NoDisplay('no')", "NoDisplay: no); " + THERE),
        ("raise ImportError('libGL.so.1: no such file')", "libGL.so.1: no such file); " + THERE),
        (
            "import no_such_package.inner",
            "No module named 'no_such_package'); it is installed, and 'no_such_package', which it "
            "needs, is not",
        ),
    ],
)
def test_a_module_that_is_there_but_does_not_start_says_why(tmp_path, monkeypatch, text, said):
    (tmp_path / "broken_envs.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    message = refusal("broken_envs:Foo-v0")
    assert message.endswith(f"'broken_envs' that should register it cannot be imported ({said}")


def test_a_package_that_is_there_but_does_not_start_is_not_called_missing(monkeypatch):
    def broken(name):
        raise gym.error.DependencyNotInstalled("not installed") from ImportError("libGL.so.1: no")

    monkeypatch.setattr("gymnasium.envs.registration.load_env_creator", broken)
    assert refusal("LunarLander-v3") == (
        "env 'LunarLander-v3' needs something that cannot be imported (libGL.so.1: no); " + THERE
    )


def test_a_long_id_is_cut_to_one_line():
    for env_id in ("x\n" * 5_000, "ALE/" + "x" * 5_000, "json:" + "y" * 5_000):
        message = refusal(env_id)
        assert len(message) < 700 and "\n" not in message


def test_ids_that_only_share_a_version_are_not_offered():
    assert refusal("json:Foo-v0") == (
        "module 'json' registers no env 'Foo-v0'; correct the name, or register it there"
    )


def test_a_module_that_registers_another_name_says_so(tmp_path, monkeypatch):
    (tmp_path / "other_envs.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Walkway-v2', 'gymnasium.envs.classic_control:CartPoleEnv')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    message = refusal("other_envs:Walkway-v1")
    assert (
        message == "module 'other_envs' registers no env 'Walkway-v1'; did you mean 'Walkway-v2'?"
    )
    envs = make_envs("other_envs:Walkway-v2", seed=1)
    assert (envs.env_id, envs.observation_shape) == ("other_envs:Walkway-v2", (4,))
    del gym.registry["Walkway-v2"], sys.modules["other_envs"]


@pytest.mark.parametrize(
    ("env_id", "module", "install"),
    [
        ("LunarLander-v3", "gymnasium.envs.box2d.lunar_lander", "targetnet[box2d]"),
        ("MinAtar/Breakout-v1", "minatar", "targetnet[minatar]"),
        ("Ant-v5", "gymnasium.envs.mujoco.ant_v5", "gymnasium[mujoco]"),
        ("phys2d/CartPole-v1", "gymnasium.envs.phys2d.cartpole", "gymnasium[jax]"),
    ],
)
def test_a_missing_package_comes_with_the_command_that_installs_it(
    monkeypatch, env_id, module, install
):
    monkeypatch.setitem(sys.modules, module, None)  # as if it failed to import
    message = refusal(env_id)
    assert message.startswith(f"env {env_id!r} needs a package that is not installed (")
    assert message.endswith(f"run: pip install '{install}'")


def test_every_command_that_installs_names_an_extra_that_there_is():
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extras = {"targetnet": ours, "gymnasium": metadata("gymnasium").get_all("Provides-Extra")}
    for install in INSTALL.values():
        package, _, extra = install.rstrip("]").partition("[")
        assert extra in extras[package], install


def test_a_missing_package_is_told_by_the_import_that_failed(monkeypatch):
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d.lunar_lander", raising=False)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    message = refusal("LunarLander-v3")
    assert "Box2D" in message
    assert "swig" not in message  # gymnasium's own text asks for a second pip install


def test_a_missing_package_of_an_unknown_family_is_told_as_the_env_tells_it():
    message = refusal("Ant-v2")
    assert "'Ant-v2' needs something that cannot be imported (The mujoco v2 and v3" in message


def test_a_module_that_ends_itself_where_it_is_imported_is_told(tmp_path, monkeypatch):
    """As a script does that was not made to be imported; the run would end without a word."""
    (tmp_path / "ending_script.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvError, match="'ending_script' that should register it cannot be"):
        make_envs("ending_script:Env-v0", seed=0)


@pytest.mark.parametrize("entry_point", ["math:NoSuchEnv", "math.NoSuchEnv", "no_such_module:Env"])
def test_a_mistake_in_an_entry_point_is_told_in_a_line(entry_point, monkeypatch):
    spec = gym.envs.registration.EnvSpec("test/Typo-v0", entry_point)
    monkeypatch.setitem(gym.registry, "test/Typo-v0", spec)
    with pytest.raises(EnvError, match="test/Typo-v0") as raised:
        make_envs("test/Typo-v0", seed=0)
    assert "\n" not in str(raised.value)


def test_a_continuous_action_space_is_refused_by_name():
    message = refusal("Pendulum-v1")
    assert "continuous action space Box(-2.0, 2.0, (1,), float32)" in message
    assert "env_wrapper = 'gymnasium.wrappers:DiscretizeAction'" in message


@pytest.mark.parametrize(
    ("space", "shown"),
    [
        (gym.spaces.Tuple([Discrete(2), Discrete(3)]), "Tuple(Discrete(2), Discrete(3))"),
        (gym.spaces.Dict(move=Discrete(2)), "Dict('move': Discrete(2))"),
    ],
)
def test_nests_of_actions_are_refused(space, shown):
    message = fixed_refusal(action_space=space)
    assert f"action space {shown}" in message
    assert "put a wrapper around it (env_wrapper)" in message


@pytest.mark.parametrize(
    ("space", "count"),
    [
        (gym.spaces.MultiDiscrete([]), "0"),
        (gym.spaces.MultiDiscrete([2] * 1_001), "1,001"),
        (gym.spaces.MultiBinary([100, 100]), "10,000"),
    ],
    ids=["none", "many", "a picture"],
)
def test_an_action_of_no_numbers_or_too_many_is_refused(space, count):
    message = fixed_refusal(action_space=space)
    assert f"of {count} numbers at once; 1 to 1,000 are possible" in message


def test_observations_that_are_no_arrays_are_refused():
    message = fixed_refusal(observation_space=gym.spaces.Sequence(Discrete(2)))
    assert "observation space Sequence(" in message
    assert "put a wrapper around it (env_wrapper)" in message


def test_a_long_space_is_cut_to_one_line():
    many = gym.spaces.Dict({f"part{i}": Box(0, 1, (3, 3)) for i in range(20)})
    assert len(fixed_refusal(observation_space=many)) < 500


@pytest.mark.parametrize(
    ("space", "observation", "got"),
    [
        (Box(0, 1, (2,)), np.zeros(3, np.float32), "got one of shape (3,)"),
        (Box(0, 255, (2,), np.uint8), np.zeros(2), "got one of dtype float64"),
        (Box(0, 255, (2,), np.uint8), np.zeros(2, int), "got one of dtype int64"),
        (Box(0, 1, (2,)), np.array(["a", "b"]), "got one of dtype <U1"),
        (Box(0, 1, (2,)), np.array([0, np.nan]), "got one with NaN or infinite numbers"),
        (Box(0, 1, (2,)), {"x": 0}, "got {'x': 0}"),
        (Discrete(3), 3, "got 3"),
        (Discrete(3, start=1), 0, "got 0"),
        (Discrete(3), 1.0, "got 1.0"),
    ],
)
def test_a_first_observation_that_breaks_its_space_is_refused(space, observation, got):
    message = fixed_refusal(observation_space=space, observation=observation)
    assert str(space) in message
    assert got in message


def test_a_reset_of_the_old_interface_is_refused():
    class Old(gym.Env):
        observation_space, action_space = Box(0, 1, (4,)), Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(4, np.float32)

    gym.register("test/Old-v0", Old)
    assert "an observation and an info dict, got ndarray" in refusal("test/Old-v0")
    del gym.registry["test/Old-v0"]


def test_an_argument_the_env_does_not_take_names_the_nearest():
    assert refusal("CartPole-v1", env_kwargs={"sutton_barto": True}) == (
        "env 'CartPole-v1' takes no argument 'sutton_barto' (env_kwargs); did you mean "
        "'sutton_barto_reward'?; it takes max_episode_steps, render_mode, sutton_barto_reward"
    )


def test_the_arguments_of_a_vector_env_are_its_own():
    message = refusal("CartPole-v1", vectorization="vector_entry_point", env_kwargs={"x": 1})
    assert message.endswith("it takes max_episode_steps, render_mode, sutton_barto_reward")


def test_an_env_that_takes_any_argument_is_told_as_it_tells_it():
    class Picky(gym.Env):
        def __init__(self, **anything):
            raise TypeError("no,\nnot that")

    gym.register("test/Picky-v0", Picky)
    message = refusal("test/Picky-v0", env_kwargs={"x": 1})
    assert "cannot be made with env_kwargs {'x': 1} (TypeError: no, not that" in message
    del gym.registry["test/Picky-v0"]


def test_an_env_that_ends_the_process_is_told_as_one_that_raises():
    class Exits(gym.Env):
        def __init__(self):
            sys.exit(3)

    gym.register("test/Exits-v0", Exits)
    message = refusal("test/Exits-v0")
    assert message == "env 'test/Exits-v0' cannot be made (SystemExit: 3); correct the env"
    del gym.registry["test/Exits-v0"]


def test_an_argument_the_env_cannot_use_is_told_as_the_env_tells_it():
    message = refusal("FrozenLake-v1", env_kwargs={"map_name": "9x9"})
    assert "cannot be made with env_kwargs {'map_name': '9x9'} (KeyError: '9x9')" in message


def test_counts_and_seeds_have_bounds():
    assert refusal("CartPole-v1", 0) == "num_envs must be a whole number of envs >= 1, got 0"
    assert refusal("CartPole-v1", seed=-1) == "seed must be a whole number >= 0, got -1"


def test_an_unknown_vectorization_names_the_known_ones():
    message = refusal("CartPole-v1", vectorization="vector_entrypoint")
    assert message == (
        "vectorization must be one of 'sync', 'async', 'vector_entry_point', 'envpool', "
        "got 'vector_entrypoint'; "
        "did you mean 'vector_entry_point'?"
    )


def test_an_env_without_a_vector_env_of_its_own_is_refused():
    message = refusal("MountainCar-v0", 2, vectorization="vector_entry_point")
    assert "'MountainCar-v0' has no vector env of its own" in message
    assert "set vectorization = 'sync'" in message


@pytest.mark.parametrize(
    ("mode", "shown"), [(gym.vector.AutoresetMode.SAME_STEP, "SAME_STEP"), (None, "None")]
)
def test_a_vector_env_that_loses_final_observations_is_refused_and_closed(mode, shown):
    tape: list[str] = []
    message = refusal(
        "test/Scripted-v0",
        2,
        vectorization="vector_entry_point",
        env_kwargs={"mode": mode, "tape": tape},
    )
    assert "must declare autoreset_mode NEXT_STEP" in message
    assert f"its metadata says {shown}; set vectorization = 'sync'" in message
    assert tape == ["close"]


def test_envs_already_made_are_closed_when_they_are_refused():
    tape: list[str] = []
    refusal("test/Fixed-v0", 3, env_kwargs={"tape": tape, "observation": np.zeros(7)})
    assert tape == ["close"] * 3


def test_gymnasium_warns_as_before_once_an_env_is_made(monkeypatch):
    monkeypatch.setattr(gym.logger, "min_level", gym.logger.WARN)
    make_envs("CartPole-v1", seed=1)
    assert gym.logger.min_level == gym.logger.WARN
    refusal("FrozenLake-v1", env_kwargs={"map_name": "9x9"})
    assert gym.logger.min_level == gym.logger.WARN


@pytest.mark.parametrize(("each", "made"), [(10**9, 8), (10**7, 64), (10**4, None)])
def test_of_many_envs_the_first_few_are_weighed_before_the_rest_is_made(monkeypatch, each, made):
    make, opened = factory.make_single, []
    monkeypatch.setattr(factory, "memory_limit", lambda: 20 * 10**9)
    monkeypatch.setattr("targetnet.rl_core.machine.memory_limit", lambda: 20 * 10**9)
    monkeypatch.setattr(factory, "resident_bytes", lambda: 10**9 + each * len(opened))
    monkeypatch.setattr(factory, "make_single", lambda *a: opened.append(make(*a)) or opened[-1])
    if made is None:
        make_envs("CartPole-v1", 3_000, seed=0).close()
        return
    with pytest.raises(MemoryLimitError) as caught:
        make_envs("CartPole-v1", 3_000, seed=0)
    assert len(opened) == made
    assert str(caught.value) == (
        f"num_envs = 3,000 needs at least {'3 TB' if made == 8 else '30 GB'}, but the limit is "
        "20 GB; lower num_envs"
    )


def test_a_hundred_million_envs_are_refused_before_any_is_made(monkeypatch):
    monkeypatch.setattr(factory, "make_single", None)
    monkeypatch.setattr("targetnet.rl_core.machine.memory_limit", lambda: 20 * 10**9)
    for vectorization in ("sync", "async", "vector_entry_point", "envpool"):
        with pytest.raises(MemoryLimitError, match="num_envs = 100,000,000 needs at least"):
            make_envs("CartPole-v1", 10**8, seed=0, vectorization=vectorization)


class OwnSpace(gym.Space):
    """As minigrid's MissionSpace: a Space that does not say what it may leave open."""

    def __init__(self):
        super().__init__(None, str)

    def sample(self, mask=None, probability=None):
        return "go"

    def contains(self, x):
        return isinstance(x, str)


class Unshown(OwnSpace):
    def __repr__(self):
        raise RuntimeError("two\nlines")


@pytest.mark.parametrize(
    "space",
    [OwnSpace(), Unshown(), gym.spaces.Dict({"image": Box(0, 1, (2,)), "mission": OwnSpace()}),
     gym.spaces.Tuple([OwnSpace()]), gym.spaces.Sequence(OwnSpace()), None],
    ids=lambda space: type(space).__name__,
)  # fmt: skip
def test_a_space_class_of_its_own_is_refused_in_one_line(space):
    message = fixed_refusal(observation_space=space)
    assert "the observation space" in message and "learns from arrays and numbers" in message
    assert len(message) < 600
    assert "has the action space" in fixed_refusal(action_space=space)


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
def test_an_env_without_a_space_is_told(monkeypatch, name):
    class Bare(gym.Env):
        observation_space = action_space = gym.spaces.Discrete(2)

    spaces = {"observation_space": Bare.observation_space, "action_space": Bare.action_space}
    forgetful = type("Forgetful", (gym.Env,), {n: of for n, of in spaces.items() if n != name})
    monkeypatch.setitem(
        gym.registry, "Bare-v0", gym.envs.registration.EnvSpec("Bare-v0", forgetful)
    )
    with pytest.raises(EnvError, match=rf"'Bare-v0'.* {name.replace('_', ' ')} .*None") as refused:
        make_envs("Bare-v0", seed=0)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("metadata", [{"render_fps": None}, {"render_fps": 0}, {}])
def test_an_env_that_says_no_speed_is_played_at_thirty_frames(monkeypatch, metadata):
    from tests.envs.conftest import Fixed

    monkeypatch.setattr(Fixed, "metadata", metadata, raising=False)
    assert make_envs("test/Fixed-v0", seed=0).frames_per_second == 30


def test_observations_that_do_not_fit_are_refused_before_they_are_made():
    with pytest.raises(MemoryLimitError, match=r"what 1 env shows at once .*lower frame_stack"):
        make_envs("CartPole-v1", seed=0, frame_stack=99_999_999_999)
    huge = {"observation_space": gym.spaces.Discrete(10**12)}
    with pytest.raises(MemoryLimitError, match=r"one-hot numbers of 1,000,000,000,000 kinds"):
        make_envs("test/Fixed-v0", seed=0, env_kwargs=huge)
