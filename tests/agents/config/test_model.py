"""The groups of keys that make up a config."""

from __future__ import annotations

import numpy as np
import pytest

from targetnet.agents.config.members import as_members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.sweep.space import Space
from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.schedules import Linear


def test_a_config_has_the_keys_of_its_groups_in_their_order_and_none_twice():
    groups = DqnConfig.__bases__[::-1]
    keys = [key for group in groups for key in group.__annotations__]
    assert list(DqnConfig.model_fields) == keys
    assert (keys[0], keys[-1]) == ("env_id", "live")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sync_perod": 5}, "DqnConfig: unknown key 'sync_perod'; did you mean 'sync_period'?"),
        ({"seed": "a"}, "DqnConfig: seed should be a whole number, got 'a'"),
        ({"hidden": 5}, "DqnConfig: hidden should be a list in brackets, got 5"),
        ({"hidden": (8, 0)}, "DqnConfig: hidden.1 should be greater than or equal to 1, got 0"),
        ({"tau": 1.5}, "DqnConfig: tau must be a number in (0, 1], got 1.5"),
        (
            {"network": "natur"},
            "DqnConfig: network: there is no network 'natur' (mlp, minatar, nature, impala, or "
            "your own as 'module:function'); did you mean 'nature'?",
        ),
        ({"epsilon": {"schedule": "linear", "start": 1.0, "end": 0.1}}, "steps is missing"),
        ({"epsilon": "a"}, "DqnConfig: epsilon should be a number, got 'a'"),
        ({"sync_period": 1.5}, "DqnConfig: sync_period should be a whole number, got 1.5"),
        (
            {"epsilon": {"schedule": "linear", "start": 1.0, "end": "a", "steps": 9}},
            "DqnConfig: epsilon: in the linear schedule: end should be a number, got 'a'",
        ),
        ({"freeze": [{"exempt": ["head"]}]}, "DqnConfig: freeze.updates is missing"),
        ({"v_min": 3.0, "v_max": 1.0}, "DqnConfig: v_min must be below v_max, got 3 and 1"),
        (
            {"env_wrapper": "atarri"},
            "DqnConfig: env_wrapper: there is no env_wrapper 'atarri' (atari, elements, "
            "seed_globals, or your own as 'module:function'); did you mean 'atari'?",
        ),
        ({"env_wrapper_kwargs": {"a": 1}}, "DqnConfig: env_wrapper_kwargs needs env_wrapper"),
        ({"env_wrapper_kwargs": [{"a": 1}]}, "DqnConfig: env_wrapper_kwargs needs env_wrapper"),
        (
            {"env_wrapper": ["elements", "atarri"]},
            "DqnConfig: env_wrapper: there is no env_wrapper 'atarri' (atari, elements, "
            "seed_globals, or your own as 'module:function'); did you mean 'atari'?",
        ),
        (
            {"env_wrapper": ["elements", 3]},
            "DqnConfig: env_wrapper: must be a wrapper's name, or a list of names, got "
            "['elements', 3]",
        ),
        (
            {"env_wrapper": ["elements"], "env_wrapper_kwargs": {"keep": [0]}},
            "DqnConfig: env_wrapper is a list, and env_wrapper_kwargs is one table; write a list "
            "with a table for each wrapper, {} where it takes nothing",
        ),
        (
            {"env_wrapper": ["elements", "seed_globals"], "env_wrapper_kwargs": [{"keep": [0]}]},
            "DqnConfig: env_wrapper_kwargs must be as many tables as env_wrapper has names, 2, got "
            "1; write {} where one takes nothing",
        ),
        (
            {"env_wrapper": ["elements"], "env_wrapper_kwargs": [3]},
            "DqnConfig: env_wrapper_kwargs: must be a table, or a list of tables, got [3]",
        ),
        (
            {"env_wrapper": ["elements"], "env_wrapper_kwargs": [{"keep": None}]},
            "DqnConfig: env_wrapper_kwargs: 'keep' is None, which a TOML file cannot hold",
        ),
        (
            {"observation_keys": ("place", "height", "place")},
            "DqnConfig: observation_keys: 'place' is named twice",
        ),
        (
            {"env_wrapper": "atari", "loop": "compiled"},
            "DqnConfig: loop = 'compiled' has its envs in the graph; leave env_wrapper out",
        ),
        (
            {"observation_keys": ("x",), "loop": "compiled"},
            "DqnConfig: loop = 'compiled' has its envs in the graph; leave observation_keys out",
        ),
        (
            {"vectorization": "envpool", "loop": "compiled"},
            "DqnConfig: loop = 'compiled' has its envs in the graph, and evaluates on single ones; "
            "leave vectorization out, got 'envpool'",
        ),
        (
            {"network": ["mlp"]},
            "DqnConfig: network should be a string, got ['mlp']",
        ),
        (
            {"env_kwargs": {"size": np.int64(5)}},
            "DqnConfig: env_kwargs: 'size' is np.int64(5), which a TOML file cannot hold",
        ),
        (
            {"env_kwargs": {"a": {"b": [1, None]}}},
            "DqnConfig: env_kwargs: 'a' is {'b': [1, None]}, which a TOML file cannot hold",
        ),
        (
            {"controller_args": {"f": len}},
            "DqnConfig: controller_args: 'f' is <built-in function len>, which a TOML file cannot "
            "hold",
        ),
        (
            {"loss": "hl_gauss"},
            "DqnConfig: loss = 'hl_gauss' needs head = 'categorical', got head = 'scalar'",
        ),
        (
            {"loss": "squared", "head": "categorical"},
            "DqnConfig: loss = 'squared' is for head = 'scalar'; a categorical head has its own",
        ),
        (
            {"munchausen": True, "head": "categorical"},
            "munchausen needs head = 'scalar', 'quantile' or 'implicit', or loss = 'hl_gauss'",
        ),
        (
            {"compute": "bfloat16", "network": "minatar", "onednn": True},
            "compute = 'bfloat16' is for the networks nature and impala, got 'minatar'; leave it",
        ),
        (
            {"compute": "bfloat16", "part_networks": {"far": "nature"}, "onednn": True},
            "compute = 'bfloat16' is for the networks nature and impala, got 'mlp'; leave it out",
        ),
        (
            {"compute": "bfloat16", "network": "impala", "onednn": True, "loop": "compiled"},
            "compute = 'bfloat16' needs oneDNN's convolutions; take another loop than 'compiled'",
        ),
        (
            {"compute": "bfloat16", "network": "nature"},
            "compute = 'bfloat16' needs oneDNN's convolutions; set onednn = true",
        ),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else "",
)
def test_a_mistake_in_a_call_is_one_line_of_our_own(values, message):
    with pytest.raises(ConfigError) as caught:
        DqnConfig(**values)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_copy_is_checked_like_a_new_config():
    """Pydantic's own `model_copy` takes any key and any value."""
    config = DqnConfig(seed=3)
    assert config.model_copy(update={"hidden": [4]}).hidden == (4,)
    assert config.model_copy() == config
    with pytest.raises(ConfigError, match="unknown key 'sync_perod'; did you mean 'sync_period'"):
        config.model_copy(update={"sync_perod": 5})
    with pytest.raises(ConfigError, match="sync_period must be a whole number of updates >= 1"):
        config.model_copy(update={"sync_period": 0})
    with pytest.raises(ConfigError, match="unknown key 'sed'; did you mean 'seed'"):
        config.sed = 4


def test_shares_are_of_the_run_that_the_config_is_for():
    epsilon = Linear(start=1.0, end=0.1, fraction=0.25)
    config = DqnConfig(env_steps=1_000, epsilon=epsilon)
    assert config.epsilon == Linear(start=1.0, end=0.1, steps=250, fraction=0.25)
    assert config.model_copy(update={"env_steps": 400}).epsilon.steps == 100
    assert config.model_copy(update={"seed": 4}).epsilon.steps == 250
    assert DqnConfig(epsilon=epsilon).epsilon.steps == 12_500  # of the default length


# Defaults that depend on other keys.


@pytest.mark.parametrize(
    ("named", "period", "tau"),
    [
        ({}, 10, 0.1),
        ({"sync_period": 500}, 500, 1.0),
        ({"sync_period": 10}, 10, 1.0),
        ({"sync_period": 500, "tau": 0.2}, 500, 0.2),
        ({"tau": 0.2}, 10, 0.2),
        ({"chain": 3}, 100, 1.0),
        ({"averaged_targets": 2}, 100, 1.0),
        ({"on_sync": ["reset_time"]}, 100, 1.0),
        ({"sync_growth": 0.5}, 100, 1.0),
        ({"sync_fit": 0.5}, 100, 1.0),
        ({"sync_distance": 0.5}, 100, 1.0),
        ({"controller": "copy_when_fit"}, 100, 1.0),
        ({"prepared": ["sync_fit"]}, 100, 1.0),
        ({"prepared": ["min_weight"]}, 10, 0.1),
        ({"chain": 1, "averaged_targets": 1, "on_sync": [], "sync_growth": 0.0}, 10, 0.1),
        ({"controller": "mine:rule"}, 10, 0.1),
    ],
    ids=str,
)
def test_a_config_that_names_a_period_makes_full_copies(named, period, tau):
    """Who writes `sync_period = 500` means a copy every 500 updates, not a tenth of one."""
    config = DqnConfig(**named)
    assert (config.sync_period, config.tau) == (period, tau)
    for other in (config.model_copy(update={"seed": 3}), DqnConfig().model_copy(update=named)):
        assert (other.sync_period, other.tau) == (period, tau)


@pytest.mark.parametrize(
    ("base", "over", "tau", "loss"),
    [
        ({}, "sync_period=5,9", 1.0, "squared"),
        ({"tau": 0.2}, "sync_period=5,9", 0.2, "squared"),
        ({}, "tau=0.2,0.2001", 0.2, "squared"),
        ({}, "learning_rate=1e-3,1e-4", 0.1, "squared"),
        ({"prepared": ["sync_growth"]}, "sync_growth=0.1,0.2", 1.0, "squared"),
        ({"loss": "huber"}, "huber_delta=1.0,2.0", 0.1, "huber"),
    ],
    ids=str,
)
def test_members_and_trials_have_the_defaults_of_what_they_differ_in(base, over, tau, loss):
    config = DqnConfig(**base)
    first = as_members(config, [over]).configs["m00"]
    assert (first.tau, first.loss) == (tau, loss)
    name = over.partition("=")[0]
    plan = dumped(config.with_shared_defaults([name]))
    assert Space(plan, [over]).config({name: getattr(first, name)}) == first


@pytest.mark.parametrize("over", ["chain=1,3", "head=scalar,quantile", "averaged_targets=1,3"])
def test_trials_of_a_sweep_may_differ_in_what_a_default_depends_on(over):
    name = over.partition("=")[0]
    plan = dumped(DqnConfig().with_shared_defaults([name]))
    space = Space(plan, [over])
    for value in space.axes[name].values:
        assert getattr(space.config({name: value}), name) == value


def test_the_part_of_a_schedule_that_a_trial_has_replaces_its_share():
    space = Space(dumped(DqnConfig()), ["epsilon.steps=100..900"])
    assert space.config({"epsilon.steps": 300}).epsilon.value_at(300) == 0.05
    assert space.config({"epsilon.steps": 600}).epsilon.value_at(300) == 0.525


def dumped(config):
    """As a plan has it: with all keys."""
    return DqnConfig(**config.model_dump(exclude_none=True))


@pytest.mark.parametrize(
    ("head", "loss"), [("scalar", "squared"), ("quantile", "huber"), ("categorical", "huber")]
)
def test_the_default_loss_is_one_that_the_head_has(head, loss):
    assert DqnConfig(head=head).loss == loss
    assert DqnConfig(head=head, loss="huber").loss == "huber"
    assert DqnConfig(head=head).model_copy(update={"head": "scalar"}).loss == "squared"
    assert DqnConfig(huber_delta=3.0).loss == "huber"
    assert DqnConfig(huber_delta=3.0, loss="squared").loss == "squared"


def test_defaults_in_shares_of_the_run_have_its_env_steps():
    config = DqnConfig(env_steps=700)
    ends = [config.learning_rate.value_at(step) for step in (0, 350, 700)]
    assert ends == pytest.approx([1e-3, 5.5e-4, 1e-4])
    assert [config.epsilon.value_at(step) for step in (0, 70, 140)] == [1.0, 0.525, 0.05]
    longer = config.model_copy(update={"env_steps": 7_000})
    assert longer.epsilon.value_at(700) == 0.525


def test_a_copy_with_another_network_has_its_units():
    assert DqnConfig().model_copy(update={"network": "minatar"}).hidden == (128,)
    assert DqnConfig(network="minatar").model_copy(update={"network": "mlp"}).hidden == (256, 256)
    assert DqnConfig(hidden=(8,)).model_copy(update={"network": "minatar"}).hidden == (8,)
