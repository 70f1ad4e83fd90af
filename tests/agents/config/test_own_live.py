"""Live values of one's own in a config."""

import pytest

from targetnet.agents.config.files import (
    changed_config,
    dump_config,
    load_config,
    read_config,
    require_can_go_on,
)
from targetnet.agents.config.live_values import live_knobs, own_values
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.own_live import OwnLive
from targetnet.rl_core.errors import BoundsError, ConfigError
from targetnet.rl_core.schedules import Linear

TEXT = """
env_id = "CartPole-v1"
[live.dropout]
default = 0.1
ge = 0
lt = 1
unit = "share"
meaning = "share of the features that an update leaves out"
[live.gain]
default = { schedule = "linear", start = 1.0, end = 3.0, steps = 100 }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(TEXT)
    return path


def test_the_table_is_a_knob_behind_those_of_targetnet(file):
    knobs = live_knobs(load_config(str(file)))
    assert [knob.name for knob in knobs][-2:] == ["dropout", "gain"]
    dropout = knobs[-2]
    assert (dropout.unit, dropout.bounds, dropout.whole) == ("share", "in [0, 1)", False)
    assert dropout.meaning == "share of the features that an update leaves out"
    assert dropout.check(0) == 0.0
    with pytest.raises(BoundsError, match=r"dropout must be a number of share in \[0, 1\), got 1"):
        dropout.check(1)


def test_the_config_comes_back_from_its_file(file, tmp_path):
    config = load_config(str(file))
    (tmp_path / "again.toml").write_text(dump_config(config))
    assert read_config(tmp_path / "again.toml") == config
    assert config.live["gain"].default == Linear(start=1.0, end=3.0, steps=100)


def test_set_changes_the_default(file):
    config = load_config(str(file), ["dropout=0.3", "gain=2"])
    assert (config.live["dropout"].default, config.live["gain"].default) == (0.3, 2)
    assert config.live["dropout"].lt == 1
    # A run that goes on keeps the default and sets the value.
    assert changed_config(config, {"dropout": 0.5}) == (config, {"dropout": 0.5})
    with pytest.raises(ConfigError, match=r"live.dropout: default must be a number of share in"):
        load_config(str(file), ["dropout=1"])


def test_a_config_that_is_based_on_another_has_its_live_values(file, tmp_path):
    path = tmp_path / "more.toml"
    path.write_text('base = "./own.toml"\nseed = 3\n')
    assert load_config(str(path)).live == load_config(str(file)).live


def test_values_at_an_env_step_are_those_of_schedules_and_overrides(file):
    config = load_config(str(file))
    assert own_values(config, {}, 50) == {"dropout": 0.1, "gain": 2.0}  # 1 + 2 * 50 / 100
    overrides = {"dropout": 0.5, "sync_period": 7}
    assert own_values(config, overrides, 500) == {"dropout": 0.5, "gain": 3.0}


@pytest.mark.parametrize(
    ("live", "message"),
    [
        ({"tau": {"default": 1}}, "tau is a name of targetnet's own; take another"),
        ({"exempt": {"default": 1}}, "exempt is a name of targetnet's own"),
        ({"arm_0_updates": {"default": 1}}, "arm_0_updates is a name of targetnet's own"),
        ({"arm": {"default": 1}}, "arm is a name of targetnet's own"),
        ({"A b": {"default": 1}}, "'A b' cannot name a live value: a name has lower-case letters"),
        ({"x" * 41: {"default": 1}}, "has at most 40 characters"),
        ({f"x{i}": {"default": 1} for i in range(65)}, "at most 64 live values of your own"),
        ({"x": 0.1}, "live.x should be a table, got 0.1"),
        ({"x": {}}, "live.x.default is missing"),
        ({"x": {"default": 1, "most": 2}}, "unknown key 'live.x.most'"),
        ({"x": {"default": 1, "ge": 2}}, "live.x: default must be a number >= 2, got 1.0"),
        ({"x": {"default": 1, "ge": 0, "gt": 0}}, "ge and gt are two bounds of one side"),
        ({"x": {"default": 1, "ge": 2, "le": 1}}, "its bounds 2 and 1 leave no value between them"),
        ({"x": {"default": 1, "unit": "a" * 21}}, "must have 1 to 20 characters"),
        ({"x": {"default": 1, "meaning": "a\nb"}}, "must be one line of at most 200 characters"),
        ({"x": {"default": float("nan")}}, "live.x.default.* should be a finite number"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_line(live, message, tmp_path):
    import tomli_w

    path = tmp_path / "bad.toml"
    path.write_text(tomli_w.dumps({"live": live}))
    with pytest.raises(ConfigError, match=message) as refused:
        load_config(str(path))
    assert "\n" not in str(refused.value)


def test_from_python():
    config = DqnConfig(live={"dropout": OwnLive(default=0.1, ge=0, lt=1)})
    assert config.live["dropout"].knob("dropout").bounds == "in [0, 1)"


def test_a_share_is_of_the_run_that_begins_and_a_run_that_goes_on_keeps_its_env_steps(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(
        "env_steps = 1_000\n[live.gain]\n"
        'default = { schedule = "linear", start = 1.0, end = 3.0, fraction = 0.5 }\n'
    )

    def steps(config):
        return config.live["gain"].default.steps

    begun = load_config(path)
    longer = load_config(path, ["env_steps=3_000"])
    assert (steps(begun), steps(longer)) == (500, 1_500)
    assert steps(begun.model_copy(update={"env_steps": 200})) == 100
    goes_on = require_can_go_on(begun, longer)
    assert (goes_on.env_steps, steps(goes_on)) == (3_000, 500)
    path.write_text(dump_config(goes_on))
    assert steps(read_config(path)) == 500 and steps(load_config(path)) == 1_500
