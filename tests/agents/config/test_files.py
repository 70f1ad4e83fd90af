"""Configs in TOML: read, changed on the way, written back, refused in one line."""

import re
import tomllib

import pytest

from targetnet.agents.config.files import (
    config_name,
    dump_config,
    is_env_id,
    load_config,
    read_config,
    require_can_go_on,
    shipped_for,
    stored_text,
)
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.settings import Settings
from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.schedules import Geometric, Linear, Piecewise
from targetnet.rl_core.seal import sealed_text


@pytest.fixture
def write(tmp_path):
    """Writes a TOML file and returns its path."""

    def write(text):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return path

    return write


def complaint(*changes, source="cartpole"):
    """What is said about them; always one line that names the source."""
    with pytest.raises(ConfigError) as caught:
        load_config(source, changes)
    message = str(caught.value)
    assert "\n" not in message
    return message


# What can be used.


def test_a_file_is_read_over_the_defaults(write):
    config = read_config(write('env_id = "Acrobot-v1"\nsync_period = 7\nhidden = [32, 16]\n'))
    # Which are those of a run that an older version began, as it names none.
    older = {"byte_scale": "255", "action_masks": "info", "check_env": False}
    assert config == DqnConfig(env_id="Acrobot-v1", sync_period=7, hidden=(32, 16), **older)


def test_a_stored_config_of_rollouts_is_read_whatever_the_defaults_were(write):
    """It has all keys, those of a target network too, as they were when it began."""
    mine = DqnConfig(rollout=32, num_envs=4)
    then = dump_config(mine)
    for key, value in {"sync_period": "500", "tau": "1.0", "updates_per_learn": "1"}.items():
        then, found = re.subn(rf"(?m)^{key} = .*", f"{key} = {value}", then)
        assert found == 1
    assert read_config(write(sealed_text(then))) == mine


@pytest.mark.parametrize(
    ("ring", "chunk"),
    [({"replay_capacity": 84}, 15), ({"rollout": 32}, 500), ({"replay_capacity": 100_000}, 500)],
)
def test_a_compiled_run_of_0_2_keeps_its_chunks(write, ring, chunk):
    """They ended after three quarters of the ring, here of 84 // 4 = 21 time steps."""
    mine = DqnConfig(env_id="InGraph/CartPole-v1", loop="compiled", num_envs=4, **ring)
    assert read_config(write(sealed_text(dump_config(mine)))).chunk == chunk
    assert read_config(write(stored_text(tomllib.loads(dump_config(mine))))).chunk == 500


def test_an_empty_file_is_all_defaults(write):
    assert read_config(write("")) == DqnConfig()


def test_a_path_is_loaded_as_a_path_and_named_after_its_file(write):
    path = write("sync_period = 7")
    assert load_config(str(path)).sync_period == 7
    assert config_name(str(path)) == "mine"
    assert config_name("cartpole") == "cartpole"


@pytest.mark.parametrize(
    ("env_id", "name"),
    [("CartPole-v1", "CartPole-v1"), ("ALE/Pong-v5", "Pong-v5"), ("my.envs:Maze-v0", "Maze-v0")],
)
def test_an_envs_id_is_a_config_with_the_defaults(env_id, name, tmp_path, monkeypatch):
    config = load_config(env_id, {"env_steps": 7_000})
    assert config == DqnConfig(env_id=env_id, env_steps=7_000)
    assert config_name(env_id) == name
    monkeypatch.chdir(tmp_path)
    (tmp_path / env_id).mkdir(parents=True)  # such as a run's, with this name
    assert load_config(env_id, {"env_steps": 7_000}) == config


def test_an_envs_id_is_a_base_too_and_a_file_that_is_there_comes_first(tmp_path, monkeypatch):
    mine, place = tmp_path / "mine", tmp_path / "mine" / "ALE"
    place.mkdir(parents=True)
    (mine / "a.toml").write_text('base = "ALE/Pong-v5"\nsync_period = 7\n')
    assert load_config(mine / "a.toml") == DqnConfig(env_id="ALE/Pong-v5", sync_period=7)
    (place / "Pong-v5").write_text('env_id = "Acrobot-v1"')
    assert load_config(mine / "a.toml") == DqnConfig(env_id="Acrobot-v1", sync_period=7)
    monkeypatch.chdir(mine)
    assert load_config("ALE/Pong-v5").env_id == "Acrobot-v1"


@pytest.mark.parametrize(
    "path", ["./CartPole-v1", "../CartPole-v1", "/runs/CartPole-v1", "a//b-v1"]
)
def test_a_path_that_ends_like_an_env_is_a_path(path):
    assert not is_env_id(path)


def test_the_configs_of_an_env_are_those_that_name_it():
    assert shipped_for("MountainCar-v0") == ["mountaincar"]
    assert shipped_for("ALE/Pong-v5") == ["atari-dqn", "atari-qrdqn", "atari-rainbow"]
    assert shipped_for("Taxi-v3") == []


def test_a_base_is_a_shipped_config_or_a_path_beside_the_file(write, tmp_path):
    (tmp_path / "below.toml").write_text('base = "cartpole"\nsync_period = 7\nbatch_size = 8\n')
    config = load_config(str(write('base = "./below.toml"\nbatch_size = 16\n')), ["seed=3"])
    expected = load_config("cartpole", ["sync_period=7", "batch_size=16", "seed=3"])
    assert config == expected


def test_a_base_that_leads_back_or_is_no_config_is_refused(write, tmp_path):
    path = write('base = "./mine.toml"')
    with pytest.raises(ConfigError, match="leads back"):
        read_config(path)
    with pytest.raises(ConfigError, match="did you mean 'cartpole'"):
        read_config(write('base = "cartpol"'))
    with pytest.raises(ConfigError, match="base must be a config's name or path, got 3"):
        read_config(write("base = 3"))


@pytest.mark.parametrize(
    ("network", "hidden"),
    [("mlp", (256, 256)), ("minatar", (128,)), ("nature", (512,)), ("impala", (256,))],
)
def test_a_network_brings_the_dense_layers_of_its_paper(network, hidden):
    assert DqnConfig(network=network).hidden == hidden
    assert DqnConfig(network=network, hidden=(7,)).hidden == (7,)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["network=natur"], "did you mean 'nature'"),
        (["network=module:"], "'module:function'"),
        (["v_min=10"], "v_min must be below v_max, got 10 and 10"),
        (["head=quantile"], "a quantile head has its own"),
        (["head=categorical", "loss=huber", "double=false", "munchausen=true"], "munchausen needs"),
        (["munchausen=true", "double=true"], "leave one out"),
        (["munchausen=true", "double=false", "n_step=3"], "munchausen needs n_step = 1"),
        (["averaged_targets=0"], "averaged_targets"),
        (["head=quantil"], "'scalar', 'categorical', 'quantile', 'implicit' or 'fqf'"),
    ],
)
def test_parts_that_do_not_fit_are_refused_in_one_line(changes, said):
    assert said in complaint(*changes, source="cartpole-plain")


def test_changes_are_made_on_top_and_the_last_one_holds(write):
    path = write("sync_period = 7\ntau = 0.5")
    config = load_config(str(path), ["sync_period=8", "hidden=[4,4]", "sync_period=9"])
    assert (config.sync_period, config.tau, config.hidden) == (9, 0.5, (4, 4))


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("learning_rate=1e-4", 1e-4),
        ("discount=1", 1.0),
        ("double=true", True),
        ("env_id=Acrobot-v1", "Acrobot-v1"),  # no quotes: the shell ate them
        ('env_id="Acrobot-v1"', "Acrobot-v1"),
        ("env_kwargs={a = 1, b = [true]}", {"a": 1, "b": [True]}),
        (
            'epsilon={schedule="linear", start=1.0, end=0.1, steps=8_000}',
            Linear(start=1.0, end=0.1, steps=8000),
        ),
        (
            'sync_period={schedule="geometric", start=1, end=1000, steps=50}',
            Geometric(start=1, end=1000, steps=50),
        ),
        (
            'tau={schedule="piecewise", points=[[0, 1.0], [5, 0.5]], between="hold"}',
            Piecewise(points=[[0, 1.0], [5, 0.5]], between="hold"),
        ),
    ],
)
def test_a_change_is_in_the_notation_of_toml(change, value):
    name = change.split("=")[0]
    assert getattr(load_config("cartpole", [change]), name) == value


FULL = DqnConfig(
    env_kwargs={"a": 1, "b": [1.5, True, "x"], "c": {"d": "e"}},
    hidden=(3, 4),
    sync_period=Geometric(start=1, end=100, steps=5),
    learning_rate=Linear(start=1e-3, end=1e-5, steps=7, begin=2),
    epsilon=Piecewise(points=[[0, 1.0], [5, 0.5]], between="hold"),
    freeze=[{"exempt": ["torso"], "updates": 3}, {"exempt": [], "updates": 2}],
    double=True,
    loss="squared",
    max_grad_norm=0.1 + 0.2,
)


@pytest.mark.parametrize("config", [DqnConfig(), FULL, load_config("cartpole")])
def test_what_is_dumped_is_read_back_equal(write, config):
    assert read_config(write(dump_config(config))) == config


def test_what_toml_can_hold_in_env_kwargs_is_read_back_equal(write):
    text = "[env_kwargs]\na = inf\nb = 1979-05-27\nc = 07:32:00\nd = [[1], [2.5]]\n"
    config = read_config(write(text))
    assert read_config(write(dump_config(config))) == config


@pytest.mark.parametrize(
    "table", [{"plan": {"schedule": "a", "fraction": 0.5, "steps": 3}}, {"fraction": 1, "steps": 3}]
)
def test_a_table_of_the_env_that_reads_like_a_schedule_keeps_its_keys(write, table):
    config = load_config("cartpole", {"env_kwargs": table})
    assert config.env_kwargs == table
    assert load_config(write(dump_config(config))).env_kwargs == table
    assert config.model_copy(update={"env_steps": 70}).env_kwargs == table


def test_a_config_cannot_be_changed_afterwards():
    with pytest.raises(ValueError, match="cannot be changed; make another"):
        DqnConfig().sync_period = 3


# What cannot.


def test_an_unknown_config_is_refused_with_the_nearest():
    message = complaint(source="cartpol")
    assert "'cartpol'" in message and "did you mean 'cartpole'?" in message


def test_a_missing_file_is_refused_by_its_path(tmp_path):
    path = tmp_path / "none.toml"
    assert str(path) in complaint(source=str(path))


def test_a_directory_or_binary_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "dir.toml").mkdir()
    assert "dir.toml" in complaint(source=str(tmp_path / "dir.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00\x01")
    assert "binary.toml" in complaint(source=str(tmp_path / "binary.toml"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("sync_period = 7\ntau = \n", 2),
        ("sync_period = 7\n\nhidden = [1, 2\ntau = 1.0\n", None),
        ("sync_period = 7\nsync_period = 8\n", 2),
        ("sync_period\n", 1),
    ],
)
def test_malformed_toml_is_refused_with_its_line(write, text, line):
    message = complaint(source=str(write(text)))
    assert "mine.toml" in message
    assert f"line {line or ''}" in message


def test_an_unknown_key_is_refused_with_the_nearest(write):
    message = complaint(source=str(write("sync_perod = 7")))
    assert "sync_perod" in message and "did you mean 'sync_period'?" in message
    assert "mine.toml" in message
    message = complaint("sync_perod=7")
    assert "sync_perod" in message and "did you mean 'sync_period'?" in message


@pytest.mark.parametrize(
    ("change", "wanted", "came"),
    [
        ("sync_period=2.5", "whole number", "2.5"),
        ("sync_period=fast", "whole number", "'fast'"),
        ("sync_period=true", "whole number", "True"),
        ("learning_rate=true", "number", "True"),
        ("double=1", "bool", "1"),
        ('double="yes"', "bool", "'yes'"),
        ("env_id=3", "str", "3"),
        ("hidden=64", "", "64"),
        ("hidden=[64, 2.5]", "whole number", "2.5"),
        ("loss=hubber", "'huber', 'squared' or 'hl_gauss'", "'hubber'"),
        ("env_kwargs=3", "", "3"),
        ("freeze=3", "", "3"),
    ],
)
def test_a_wrong_type_is_refused_with_what_was_wanted_and_what_came(change, wanted, came):
    message = complaint(change)
    assert change.split("=")[0] in message
    assert wanted in message and message.endswith(f"got {came}")


@pytest.mark.parametrize(
    ("change", "bound"),
    [
        ("sync_period=0", ">= 1"),
        ("tau=0", "(0, 1]"),
        ("tau=1.5", "(0, 1]"),
        ("discount=1.01", "[0, 1]"),
        ("epsilon=-0.1", "[0, 1]"),
        ("learning_rate=-1e-3", ">= 0"),
        ("learn_period=0", ">= 1"),
        ("updates_per_learn=0", "in [1, 1e+06]"),
        ("batch_size=0", "1"),
        ("replay_capacity=2", "3"),
        ("num_envs=0", "1"),
        ("env_steps=0", "1"),
        ("seed=-1", "0"),
        ("hidden=[8, 0]", "1"),
        ("threads=0", "1"),
        ("final_eval_episodes=0", "1"),
        ('freeze=[{exempt=["torso"], updates=0}]', "1"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_bound_and_what_came(change, bound):
    message = complaint(change)
    assert change.split("=")[0] in message and bound in message
    assert "got " in message


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("name", ["learning_rate", "tau", "epsilon", "max_grad_norm"])
def test_nan_and_infinities_are_refused(name, value):
    assert name in complaint(f"{name}={value}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("sync_period=9223372036854775808", "sync_period"),  # 2 ** 63: no int64
        ("seed=18446744073709551616", "seed"),  # 2 ** 64
        ("learning_rate=1e39", "learning_rate"),  # no float32
        ("learn_period=" + 400 * "9", "learn_period"),
    ],
)
def test_a_number_that_the_graph_cannot_hold_is_refused(change, said):
    assert said in complaint(change)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ('{schedule="lnear", start=1, end=0, steps=5}', "did you mean 'linear'"),
        ("{start=1, end=0, steps=5}", "schedule"),
        ('{schedule="linear", start=1, end=0}', "steps"),
        ('{schedule="linear", start=1, end=0, steps=0}', "steps"),
        ('{schedule="linear", start=1, end=0, steps=5, stop=3}', "stop"),
        ('{schedule="linear", start="a", end=0, steps=5}', "start"),
        ('{schedule="geometric", start=1, end=0, steps=5}', "end"),
        ('{schedule="piecewise", points=[]}', "points"),
        ('{schedule="piecewise", points=[[5, 1.0], [5, 0.5]]}', "points"),
        ('{schedule="linear", start=1.5, end=0, steps=5}', "[0, 1]"),  # beyond epsilon's bounds
        ('{schedule="piecewise", points=[[0, 0.5], [5, 2.0], [9, 0.5]]}', "[0, 1]"),
    ],
)
def test_a_schedule_that_cannot_be_used_is_refused_in_one_line(schedule, said):
    message = complaint(f"epsilon={schedule}")
    assert "epsilon" in message and said in message


@pytest.mark.parametrize("change", ["sync_period", "", "=3", "sync_period 3"])
def test_a_change_that_is_not_name_equals_value_is_refused(change):
    assert "name=value" in complaint(change)


def test_settings_do_not_guess_types_and_know_their_live_fields():
    assert issubclass(DqnConfig, Settings)
    knobs = {knob.name: knob for knob in DqnConfig.knobs()}
    assert list(knobs) == [
        *(
            "reward_scale",
            "reward_clip",
            "fraction_learning_rate",
            "fraction_entropy",
            "priority_eta",
            "sync_period",
            "tau",
            "refresh_period",
            "sync_growth",
            "sync_fit",
        ),
        *("sync_distance", "min_target_age", "max_target_age", "discount"),
        *("online_weight", "min_weight", "functional_weight", "proximal_weight"),
        *("munchausen_alpha", "munchausen_temperature", "munchausen_clip"),
        *(
            "n_step",
            "priority_alpha",
            "priority_beta",
            "q_lambda",
            "cql_weight",
            "margin_weight",
            "margin",
            "demonstration_bonus",
            "learn_period",
            "updates_per_learn",
        ),
        *("learning_rate", "weight_decay", "momentum"),
        *("huber_delta", "hl_gauss_sigma", "max_grad_norm", "ema_decay"),
        *("epsilon", "temperature", "histograms"),
    ]
    assert knobs["sync_period"].whole and knobs["sync_period"].unit == "updates"
    assert all(knob.unit and knob.meaning for knob in knobs.values())


def test_a_share_is_of_the_changed_length_and_is_inherited(tmp_path):
    """`--set env_steps` comes first; a base's share is of the run that inherits it."""
    (tmp_path / "base.toml").write_text(
        "env_steps = 1_000\n"
        'learning_rate = { schedule = "linear", start = 1e-3, end = 1e-5, fraction = 0.8 }\n'
        'epsilon = { schedule = "piecewise", fractions = [[0, 1.0], [0.5, 0.1]] }\n'
    )
    (tmp_path / "mine.toml").write_text('base = "base.toml"\nenv_steps = 2_000\n')
    mine = load_config(tmp_path / "mine.toml")
    assert (mine.learning_rate.steps, mine.epsilon.points) == (1_600, ((0, 1.0), (1_000, 0.1)))
    assert load_config(str(tmp_path / "mine.toml"), ["env_steps=100"]).learning_rate.steps == 80
    change = 'tau={schedule="geometric", start=0.1, end=1.0, fraction=0.1}'
    assert load_config("cartpole", [change, "env_steps=300"]).tau.steps == 30


def test_the_config_of_a_run_keeps_its_env_steps_and_a_new_run_from_it_gets_its_own(tmp_path):
    config = DqnConfig(
        env_steps=1_000,
        tau=Linear(start=0.1, end=1.0, fraction=0.8),
        epsilon=Piecewise(fractions=[[0, 1.0], [0.5, 0.1]]),
    )
    path = tmp_path / "config.toml"
    text = dump_config(config)
    path.write_text(text.replace("env_steps = 1000", "env_steps = 3000"))  # it was made longer
    assert read_config(path).tau == Linear(start=0.1, end=1.0, steps=800, fraction=0.8)
    assert read_config(path).epsilon.points == ((0, 1.0), (500, 0.1))
    assert load_config(path).tau.steps == 2_400
    assert load_config(path).epsilon.points == ((0, 1.0), (1_500, 0.1))
    path.write_text(text)
    assert read_config(path) == load_config(path) == config


@pytest.mark.parametrize("key", ["env_kwargs", "env_wrapper_kwargs", "controller_args"])
def test_a_tuple_in_a_table_is_from_the_beginning_what_it_will_be_when_it_is_read_back(
    tmp_path, key
):
    config = DqnConfig(
        env_wrapper="some:wrapper", controller="some:controller", **{key: {"a": {"b": (1, (2,))}}}
    )
    assert getattr(config, key) == {"a": {"b": [1, [2]]}}
    (tmp_path / "config.toml").write_text(dump_config(config))
    assert read_config(tmp_path / "config.toml") == config


@pytest.mark.parametrize(
    ("wrapper", "kwargs"),
    [
        ("elements", {"keep": [0]}),
        (["elements", "seed_globals"], [{"keep": [0]}, {}]),
        (["elements"], []),
        ([], {}),
    ],
)
def test_wrappers_are_read_back_in_the_form_in_which_they_were_given(tmp_path, wrapper, kwargs):
    config = DqnConfig(env_wrapper=wrapper, env_wrapper_kwargs=kwargs)
    (tmp_path / "config.toml").write_text(dump_config(config))
    read = read_config(tmp_path / "config.toml")
    assert read == load_config(tmp_path / "config.toml") == config
    assert type(read.env_wrapper) is (str if isinstance(wrapper, str) else tuple)
    assert list(read.env_wrapper) == list(wrapper) and list(read.env_wrapper_kwargs) == list(kwargs)


ATARI = 'env_id = "ALE/Pong-v5"\nenv_wrapper = "atari"\nenv_wrapper_kwargs = { noop_max = 3, '


def test_a_run_of_before_0_3_begins_a_game_anew_at_a_lost_life(tmp_path):
    """True said so until then; the version that wrote a config tells which is meant."""
    path = tmp_path / "config.toml"
    for written, read in [("true", "restart"), ("false", False), ('"restart"', "restart")]:
        text = ATARI + f"terminal_on_life_loss = {written} }}\n"
        path.write_text(sealed_text(text))
        old = read_config(path)
        assert old.env_wrapper_kwargs == {"noop_max": 3, "terminal_on_life_loss": read}
        path.write_text(sealed_text(f'targetnet = "0.3.0"\n{text}'))
        assert read_config(path).env_wrapper_kwargs["terminal_on_life_loss"] == (
            True if written == "true" else read
        )
        # As `train CONFIG --resume` does it, with the file that the run was begun with.
        mine = tmp_path / "mine.toml"
        mine.write_text(text)
        goes_on = require_can_go_on(old, load_config(mine))
        assert goes_on == old.model_copy(update={"check_env": True})  # which may change
        with_a_list = load_config(mine, {"env_wrapper": ["atari"], "env_wrapper_kwargs": [{}]})
        with pytest.raises(ConfigError, match="env_wrapper is 'atari' in this run and cannot"):
            require_can_go_on(old, with_a_list)
