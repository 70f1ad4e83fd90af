"""The table [pbt]: how members of a population copy one another."""

import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.files import load_config
from targetnet.agents.config.members import as_members, load_members, members_text, read_members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.pbt import PbtKeys
from targetnet.rl_core.errors import ConfigError
from tests.agents.steady import STEADY

FOUR = ["learning_rate=1e-4,3e-4,1e-3,3e-3"]
HALF = 'learning_rate={schedule="linear", start=1.0, end=0.1, fraction=0.5},0.1,0.2,0.3'
CONFIG = """
env_steps = 50_000
sync_period = 500
learning_rate = 1e-3
[pbt]
period = 10_000
factors = [0.5, 2.0]
[[members]]
learning_rate = 1e-3
[[members]]
learning_rate = 2e-3
[[members]]
tau = 0.5
[[members]]
seed = 3
"""


def test_what_the_members_differ_in_is_perturbed_if_nothing_is_named():
    pbt = load_members("cartpole", (), [*FOUR, "tau=0.5,1.0"], None, ["period=10_000"]).pbt
    assert pbt == PbtKeys(period=10_000, perturb=("learning_rate", "tau"))
    assert (pbt.share, pbt.factors, pbt.score) == (0.25, (0.8, 1.25), "evaluation")
    assert pbt.copying(8) == 2


def test_texts_change_what_a_file_says_and_all_is_written_and_read_back(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(CONFIG)
    assert load_members(path).pbt == PbtKeys(
        period=10_000, perturb=("learning_rate", "tau"), factors=(0.5, 2.0)
    )
    given = ["share=0.5", "perturb=sync_period, learning_rate,sync_period", "factors=0.5"]
    members = load_members(path, (), (), None, given)
    wanted = PbtKeys(
        period=10_000, share=0.5, perturb=("sync_period", "learning_rate"), factors=(0.5,)
    )
    assert members.pbt == wanted
    assert load_members(path, (), (), None, ["perturb="]).pbt.perturb == ()
    (tmp_path / "population.toml").write_text(members_text(members))
    assert read_members(tmp_path / "population.toml") == members
    assert members.with_changes({"env_steps": 60_000}).pbt == wanted
    with pytest.raises(ConfigError, match=r"pbt: m00: period must be less than env_steps = 9,000"):
        members.with_changes({"env_steps": 9_000})


def test_from_python_it_is_a_dictionary():
    config = DqnConfig(**STEADY, env_steps=50_000)
    of = as_members(config, FOUR, None, {"period": 10_000, "factors": [0.5]})
    assert of.pbt == PbtKeys(period=10_000, perturb=("learning_rate",), factors=(0.5,))
    assert as_members(of) == of and as_members(config, FOUR).pbt is None


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["share=0.25"], "pbt: period is missing"),
        (["perod=10_000"], "pbt: unknown key 'perod'; did you mean 'period'?"),
        (["period"], "--pbt wants name=value, got 'period'"),
        (["period=12.5"], "period should be a whole number, got 12.5"),
        (["period=0"], "period should be greater than or equal to 1, got 0"),
        (["period=10_000", "share=0.6"], "share: must be a number in (0, 0.5], got 0.6"),
        (["period=10_000", "share=nan"], "share: must be a number in (0, 0.5], got nan"),
        (["period=10_000", "share=0.2"], "share = 0.2 needs at least 5 members, got 4"),
        (["period=10_000", "factors=0,1"], "factors: must be numbers > 0, at least one"),
        (["period=10_000", "factors="], "factors: must be numbers > 0, at least one"),
        (["period=10_000", "factors=big"], "factors.0 should be a number, got 'big'"),
        (["period=10_000", "score=best"], "score should be 'evaluation' or 'training'"),
        (["period=50_000"], "m00: period must be less than env_steps = 50,000"),
        (["period=9_999"], "at least eval_period = 10,000, so that each exchange has new"),
        (["period=10_000", "perturb=learning_rat"], "did you mean 'learning_rate'?"),
        (["period=10_000", "perturb=hidden"], "hidden is fixed when the graph is built"),
        (["period=10_000", "perturb=exempt"], "exempt is a set of blocks, and no number"),
        (["period=10_000", "perturb=epsilon"], "m00 has a schedule for epsilon"),
        (["period=10_000", "perturb=priority_beta"], "it needs prioritized = true"),
        (["period=10_000", "perturb=[[1]]"], "perturb.0 should be a string, got [1]"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_line(given, wanted):
    with pytest.raises(ConfigError) as error:
        load_members("cartpole", (), FOUR, None, given)
    assert wanted in str(error.value) and "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("members", "seeds", "wanted"),
    [
        ((), None, "--pbt needs --members or --seeds"),
        ((), 1, "share = 0.25 needs at least 4 members, got 1"),
        ((), 4, "perturb is missing: the members differ in no live value"),
        ([HALF], None, "m00 has a schedule for learning_rate"),
    ],
)
def test_members_that_cannot_be_trained_so_are_told(members, seeds, wanted):
    more = ["perturb=tau"] if seeds == 1 else []
    with pytest.raises(ConfigError) as error:
        load_members("cartpole", (), members, seeds, ["period=10_000", *more])
    assert wanted in str(error.value)


def test_a_config_of_one_run_has_no_such_table(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text("[pbt]\nperiod = 3\n")
    for load in (load_config, load_members):
        with pytest.raises(ConfigError, match=r"p\.toml has the table \[pbt\], which is for a pop"):
            load(path)
    path.write_text("pbt = 3\n[[members]]\n")
    with pytest.raises(ConfigError, match=r"p\.toml: pbt must be a table, \[pbt\], got 3"):
        load_members(path)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--pbt", "period=10_000"], "--pbt needs --members or --seeds"),
        (["--members", *FOUR, "--pbt"], "--pbt wants NAME=VALUE ..., as in period=5000"),
        (["--members", *FOUR, "--pbt", "period=3"], "or score = 'training'"),
        (["--seeds", "4", "--pbt", "period=10_000"], "perturb is missing"),
    ],
)
def test_flags_that_cannot_be_used_leave_nothing(tmp_path, monkeypatch, capsys, words, wanted):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "cartpole", *words]) == 2
    said = capsys.readouterr().err
    assert wanted in said and said.count("\n") == 1 and not [*tmp_path.iterdir()]


def test_a_shorter_score_period_will_do_for_training_returns():
    given = ["period=100", "score=training"]
    assert load_members("cartpole", (), FOUR, None, given).pbt.period == 100
