"""The members of a population, from a file or from texts."""

import pytest

from targetnet.agents.config import members as members_module
from targetnet.agents.config.files import load_config
from targetnet.agents.config.members import (
    as_members,
    load_members,
    members_text,
    read_members,
    require_one_form,
)
from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.errors import ConfigError

OWN = "[live.dropout]\ndefault = 0.1\nge = 0\nlt = 1\n"


def listed(tmp_path, text, top=""):
    path = tmp_path / "p.toml"
    path.write_text(f'base = "cartpole"\n{top}{text}')
    return path


def test_the_first_value_has_all_its_seeds_then_the_next():
    members = load_members("cartpole", {"seed": 7}, ["sync_period=25,50"], 2)
    assert [*members.configs] == ["m00", "m01", "m02", "m03"]
    got = [(config.sync_period, config.seed) for config in members.configs.values()]
    assert got == [(25, 7), (25, 8), (50, 7), (50, 8)]
    assert members.own["m02"] == {"sync_period": 50, "seed": 7}


def test_of_several_keys_the_last_varies_fastest():
    members = load_members("cartpole", (), ["sync_period=25,50", "learning_rate=1e-3,1e-4"])
    got = [(config.sync_period, config.learning_rate) for config in members.configs.values()]
    assert got == [(25, 1e-3), (25, 1e-4), (50, 1e-3), (50, 1e-4)]


def test_seeds_alone_make_a_population_and_nothing_makes_none():
    assert [c.seed for c in load_members("cartpole", (), (), 3).configs.values()] == [0, 1, 2]
    assert load_members("cartpole") is None
    assert len(as_members("cartpole").configs) == 1
    assert len(as_members(load_config("cartpole"), ["tau=0.1,0.2"]).configs) == 2


def test_a_value_may_be_a_schedule_or_the_seed():
    half = '{schedule="linear", start=1.0, end=0.1, fraction=0.5}'
    members = load_members("cartpole", {"env_steps": 1_000}, [f"epsilon=0.1, {half}", "seed=3,4"])
    first, _, third, _ = members.configs.values()
    assert first.epsilon == 0.1 and third.epsilon.steps == 500
    assert [config.seed for config in members.configs.values()] == [3, 4, 3, 4]


def test_a_file_lists_them_and_a_base_may_too(tmp_path):
    path = listed(tmp_path, "[[members]]\nsync_period = 25\n[[members]]\ntau = 0.5\nseed = 9\n")
    members = load_members(path, {"env_steps": 500})
    one, two = members.configs.values()
    shipped = load_config("cartpole", {"env_steps": 500})
    assert one == shipped.model_copy(update={"sync_period": 25})
    assert two == shipped.model_copy(update={"tau": 0.5, "seed": 9})
    above = tmp_path / "q.toml"
    above.write_text('base = "./p.toml"\n')
    assert load_members(above, {"env_steps": 500}) == members


def test_texts_replace_what_a_file_lists(tmp_path):
    path = listed(tmp_path, "[[members]]\nsync_period = 25\n")
    assert len(load_members(path, (), ["tau=0.1,0.2,0.3"]).configs) == 3


def test_a_live_value_of_ones_own_may_differ(tmp_path):
    path = listed(tmp_path, OWN)
    members = load_members(path, (), ["dropout=0.0,0.25"])
    assert [c.live["dropout"].default for c in members.configs.values()] == [0.0, 0.25]
    with pytest.raises(ConfigError, match="m01"):
        load_members(path, (), ["dropout=0.0,1.25"])


def test_what_is_written_is_read_back(tmp_path):
    half = '{schedule="linear", start=1.0, end=0.1, fraction=0.5}'
    members = load_members(listed(tmp_path, OWN), (), ["dropout=0.0,0.25", f"epsilon={half}"], 2)
    path = tmp_path / "population.toml"
    path.write_text(members_text(members))
    again = read_members(path)
    assert again.configs == members.configs and again.base == members.base
    path.write_text(members_text(members).replace("0.25", "0.26"))
    with pytest.raises(ConfigError, match=r"population\.toml"):
        read_members(path)


def test_many_have_names_of_one_length():
    names = [*load_members("cartpole", (), (), 101).configs]
    assert names[0] == "m000" and names[100] == "m100"


@pytest.mark.parametrize(
    ("given", "seeds", "wanted"),
    [
        (["sync_period"], None, "--members wants NAME=VALUE"),
        (["sync_period="], None, "--members wants NAME=VALUE"),
        (["=3"], None, "--members wants NAME=VALUE"),
        (["sync_period=1", "sync_period=2"], None, "'sync_period' twice"),
        (["hidden=[8],[16]"], None, "m00: members may differ in the seed and in live values"),
        (["sync_perio=1"], None, "did you mean 'sync_period'"),
        (["sync_period=25,25"], None, "m00 and m01 are alike (sync_period=25)"),
        (["seed=1,1"], None, "m00 and m01 are alike"),
        (["seed=1,2"], 2, "either the members have a seed of their own, or --seeds"),
        (["sync_period=25,-1"], None, "m01"),
        (["sync_period=abc"], None, "m00"),
        (["priority_alpha=0.1,0.2"], None, "has no effect here: it needs prioritized = true"),
        (["ema_decay=0.1,0.2"], None, "has no effect here: it needs ema_decay > 0"),
        ([], 0, "--seeds must be a whole number >= 1, got 0"),
        ([], 100_000, "at most 1,000 members, got 100,000"),
        (["sync_period=" + ",".join(map(str, range(1, 1_002)))], None, "at most 1,000 members"),
        (["sync_period=" + "[" * 3_000], None, "nested more than 20 deep"),
        (["sync_period=1]\nmembers=[2"], None, "got several lines"),
        (
            [f"{n}=" + ",".join(map(str, range(1, 1_001))) for n in ("tau", "seed")],
            None,
            "1,000,000",
        ),
    ],
)
def test_what_makes_no_members_is_told_in_a_line(given, seeds, wanted):
    with pytest.raises(ConfigError) as error:
        load_members("cartpole", (), given, seeds)
    assert wanted in str(error.value) and "\n" not in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("members = 3\n", "members must be tables"),
        ("members = [1, 2]\n", "members must be tables"),
        ("members = []\n", "needs at least one member"),
        ("members = false\n", "members must be tables"),
        ("members = {}\n", "members must be tables"),
        ("[members]\nsync_period = 3\n", "members must be tables"),
        ("[[members]]\nhidden = [8]\n", "hidden is neither"),
        ("[[members]]\n[[members]]\n", "are alike (the config as it is)"),
        ("[[members]]\nmembers = 3\n", "members is neither"),
    ],
)
def test_a_list_that_is_none_is_told_in_a_line(tmp_path, text, wanted):
    with pytest.raises(ConfigError) as error:
        load_members(listed(tmp_path, text))
    assert wanted in str(error.value) and "p.toml" in str(error.value)


def test_where_one_run_is_wanted_a_population_is_named(tmp_path):
    with pytest.raises(ConfigError, match="lists the members of a population"):
        load_config(listed(tmp_path, "[[members]]\nsync_period = 3\n"))


def test_too_many_are_refused_before_any_is_made(monkeypatch):
    """Five texts of a thousand values would be a thousand to the fifth members."""
    monkeypatch.setattr(members_module.itertools, "product", None)
    values = ",".join(map(str, range(1, 1_001)))
    with pytest.raises(ConfigError, match="at most 1,000 members"):
        load_members("cartpole", (), [f"tau={values}", f"seed={values}"])


def test_one_graph_serves_all():
    plain = DqnConfig(ema_decay=0.5)
    with pytest.raises(ConfigError, match="not in ema_decay: a and b have"):
        require_one_form({"a": plain, "b": plain.model_copy(update={"ema_decay": 0.0})})
    require_one_form({"a": plain, "b": plain.model_copy(update={"ema_decay": 0.25})})
    with pytest.raises(ConfigError, match="at least one member"):
        require_one_form({})
