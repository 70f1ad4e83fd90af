"""The ids of the envs in the graph, known without TensorFlow."""

import subprocess
import sys

import gymnasium as gym
import pytest

from targetnet.envs import minatar
from targetnet.envs.in_graph.table import RULES, SPECS, make_rules
from targetnet.rl_core.errors import EnvError

EVERY_ID = pytest.mark.parametrize("env_id", RULES)


def test_the_names_are_read_without_tensorflow():
    code = "import sys, targetnet.envs.in_graph.table as t\n"
    code += "print(len(t.SPECS), 'tensorflow' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "9 False\n"


@EVERY_ID
def test_each_id_has_rules_with_the_tables_time_limit(env_id):
    from targetnet.envs.in_graph.interface import InGraphEnv

    rules = make_rules(env_id)
    assert isinstance(rules, InGraphEnv)
    assert rules.max_episode_steps == RULES[env_id].max_episode_steps


@EVERY_ID
def test_time_limits_are_the_twins(env_id):
    name = env_id.removeprefix("InGraph/").replace("MinAtar-", "MinAtar/")
    twin = {**gym.registry, **minatar.SPECS}.get(name)
    assert (twin is None) == (name == "Catch-v0")
    limit = twin.max_episode_steps if twin else None
    assert RULES[env_id].max_episode_steps == SPECS[env_id].max_episode_steps == limit


@pytest.mark.parametrize(
    ("env_id", "near"),
    [
        ("CartPole-v1", "InGraph/CartPole-v1"),
        ("InGraph/Acrobat-v1", "InGraph/Acrobot-v1"),
        ("InGraph/Catch-v1", "InGraph/Catch-v0"),
        ("MinAtar/Breakout-v1", "InGraph/MinAtar-Breakout-v1"),
    ],
)
def test_an_id_that_is_not_there_is_refused_with_the_nearest_one(env_id, near):
    with pytest.raises(EnvError) as refused:
        make_rules(env_id)
    assert str(refused.value) == (
        f"there is no env {env_id!r} in the graph; did you mean {near!r}?"
    )


def test_an_id_like_none_is_refused_with_all_there_are():
    with pytest.raises(EnvError) as refused:
        make_rules("xyz")
    assert "; there are InGraph/CartPole-v1, InGraph/M" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_argument_that_the_rules_do_not_take_is_refused_by_name():
    with pytest.raises(EnvError) as refused:
        make_rules("InGraph/Catch-v0", {"rows": 8})
    assert str(refused.value) == (
        "env 'InGraph/Catch-v0' takes no argument 'rows' (env_kwargs); it takes none"
    )
