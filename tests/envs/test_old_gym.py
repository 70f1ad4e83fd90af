"""Old ids of Atari's games, and envs made for gym: what they are now, in one line."""

import sys

import gymnasium
import pytest

from targetnet.envs import make_envs, old_gym
from targetnet.envs.old_gym import old_atari
from targetnet.rl_core.errors import EnvError

# As much of gym 0.26 as a package needs that registers an env with it.
GYM = """
import types

class Env:
    pass

class Spec:
    def __init__(self, entry_point):
        self.entry_point = entry_point

envs = types.SimpleNamespace(registry={})

def register(id, entry_point):
    envs.registry[id] = Spec(entry_point)
"""
ENVS = """
import gym

class Seeded(gym.Env):
    def reset(self, *, seed=None, options=None):
        pass

class Unseeded(gym.Env):
    def reset(self):
        pass

gym.register("Seeded-v0", Seeded)
gym.register("Unseeded-v0", "old_envs:Unseeded")
"""
OF_GYMNASIUM = "gymnasium.register('{0}-v7', 'old_envs:{0}')\n"


@pytest.fixture
def refusal(tmp_path, monkeypatch):
    """Writes a module old_envs; returns the line with which an env is refused."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "old_envs.py").write_text(ENVS)

    def refused(env_id, gym=GYM, shimmy=True, also=""):
        monkeypatch.setattr(
            old_gym, "_is_installed", lambda name: bool({"gym": gym, "shimmy": shimmy}[name])
        )
        (tmp_path / "other_envs.py").write_text(also)
        if gym:
            (tmp_path / "gym.py").write_text(gym)
        with pytest.raises(EnvError) as error:
            make_envs(env_id, seed=1)
        return str(error.value)

    yield refused
    for name in ("gym", "old_envs", "other_envs"):
        sys.modules.pop(name, None)
    for name in ("Seeded-v7", "Unseeded-v7"):
        gymnasium.registry.pop(name, None)


SHIMMY = "set env_id = 'shimmy:GymV26Environment-v0' and env_kwargs = {{ env_id = 'old_envs:{}', "
MAKE = "make_kwargs = {{ disable_env_checker = true{} }} }}"


@pytest.mark.parametrize(
    ("name", "make"),
    [("Seeded-v0", ""), ("Unseeded-v0", ", apply_api_compatibility = true")],
)
def test_an_env_that_a_module_registers_with_gym_names_shimmy_and_how(refusal, name, make):
    how = (SHIMMY + MAKE).format(name, make)
    begin = f"module 'old_envs' registers no env {name!r}; the old gym has it, and gymnasium has "
    assert refusal(f"old_envs:{name}") == f"{begin}not: {how}"
    missing = refusal(f"old_envs:{name}", shimmy=False)
    assert missing == f"{begin}not: pip install shimmy, and {how}"


def test_a_module_that_wants_gym_which_is_not_there_names_shimmy_and_how(refusal):
    said = refusal("old_envs:Bar-v0", gym="", shimmy=False)
    assert said.startswith(
        "env 'old_envs:Bar-v0': the module 'old_envs' that should register it cannot be imported "
        "(No module named 'gym'); it is made for the old gym: pip install shimmy gym==0.26.2, and "
        + (SHIMMY + MAKE).format("Bar-v0", "")
    )
    assert said.endswith("if its reset takes no seed, add apply_api_compatibility = true beside "
                         "disable_env_checker")  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"), [("Seeded", "GymV26CompatibilityV0"), ("Unseeded", "GymV21CompatibilityV0")]
)
def test_a_class_of_gym_that_is_registered_with_gymnasium_names_shimmys(refusal, name, kind):
    also = "import gymnasium\n" + OF_GYMNASIUM.format(name)
    assert refusal(f"other_envs:{name}-v7", also=also) == (
        f"env '{name}-v7' cannot be made; its class is of the old gym: register lambda: "
        f"shimmy.{kind}(env={name}()) as its entry_point"
    )


def test_a_name_that_gym_has_not_either_is_an_unknown_one(refusal):
    assert refusal("old_envs:Qqqqqq-v0") == (
        "module 'old_envs' registers no env 'Qqqqqq-v0'; correct the name, or register it there"
    )


NOW = "this game of Atari's is now 'ALE/{}-v5'"
FROM_V4 = "repeat_action_probability = 0.0 }"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "PongNoFrameskip-v4",
            NOW.format("Pong") + " with env_kwargs = { frameskip = 1, " + FROM_V4,
        ),
        ("Breakout-v4", NOW.format("Breakout") + " with env_kwargs = { " + FROM_V4),
        ("Breakout-v0", NOW.format("Breakout")),
        ("PongDeterministic-v0", NOW.format("Pong")),
        (
            "MsPacman-ramNoFrameskip-v0",
            NOW.format("MsPacman") + ' with env_kwargs = { obs_type = "ram", frameskip = 1 }',
        ),
        ("ALE/Pong-v5", ""),
        ("Pong-v5", ""),
        ("PongDuel-v0", ""),
        ("CartPole-v0", ""),
    ],
)
def test_an_old_id_of_atari_is_told_with_the_new_one_and_what_makes_it_the_old(
    monkeypatch, name, said
):
    monkeypatch.setattr(old_gym, "_is_installed", lambda name: True)
    assert old_atari(name) == said
    monkeypatch.setattr(old_gym, "_is_installed", lambda name: False)
    assert old_atari(name) == (said and f"{said}; run: pip install 'targetnet[atari]'")


def test_an_old_id_of_atari_is_no_unknown_name(monkeypatch):
    monkeypatch.setattr(old_gym, "_is_installed", lambda name: False)
    monkeypatch.delitem(gymnasium.registry, "PongNoFrameskip-v4", raising=False)
    with pytest.raises(EnvError) as refused:
        make_envs("PongNoFrameskip-v4", seed=0)
    assert str(refused.value) == (
        "there is no env 'PongNoFrameskip-v4'; this game of Atari's is now 'ALE/Pong-v5' with "
        "env_kwargs = { frameskip = 1, repeat_action_probability = 0.0 }; run: pip install "
        "'targetnet[atari]'"
    )


def test_every_game_that_had_an_old_id_has_a_new_one():
    pytest.importorskip("ale_py", reason="ale_py is not installed: pip install 'targetnet[atari]'")
    for name in old_gym._GAMES.split():
        assert f"ALE/{name}-v5" in gymnasium.registry, name
