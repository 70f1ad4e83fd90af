"""Names of other libraries: what they are here, wherever a key is unknown."""

import re
import subprocess
import sys
import tomllib

import pytest

from targetnet.agents.config.files import changed_config, load_config
from targetnet.agents.config.members import load_members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.synonyms import SYNONYMS, VERSIONS, near_key
from targetnet.agents.experiments.compare.plan import load_plan
from targetnet.agents.experiments.sweep.space import Space
from targetnet.rl_core.errors import ConfigError, UnknownName

ALL = [(library, synonym) for library, of in SYNONYMS.items() for synonym in of]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "target_update_interval",
            "; target_update_interval of Stable-Baselines3 is sync_period here, counted in "
            "updates: target_update_interval * gradient_steps / (train_freq * n_envs); 10,000 with "
            "train_freq = 4 is 2,500",
        ),
        ("buffer_size", "; buffer_size of Stable-Baselines3, CleanRL and Tianshou is "
                        "replay_capacity here"),
        ("gamma", "; gamma of other libraries is discount here"),
        ("lr", "; lr of RLlib and Tianshou is learning_rate here"),
        # One name, two units.
        (
            "target_update_period",
            "; target_update_period of Dopamine is sync_period here, counted in updates: 8000 with "
            "update_period = 4 is 2000; that of TF-Agents is sync_period here, in updates there "
            "too",
        ),
        ("epsilon_eval", "; epsilon_eval of Dopamine has no key here: evaluations are greedy; "
                         "targetnet eval RUN --epsilon plays with random actions"),
        ("--Buffer-Size", near_key("buffer_size", ())),
        ("JaxDQNAgent.gamma", near_key("gamma", ())),
        ("sync_perod", "; did you mean 'sync_period'?"),
        ("zzz", ""),
        (3, ""),
    ],
)  # fmt: skip
def test_a_name_of_another_library_is_told_as_the_key_here(name, told):
    assert near_key(name, DqnConfig.model_fields) == told


def test_every_name_is_told_as_keys_that_there_are_and_is_none_itself():
    assert len({synonym.name for _, synonym in ALL}) > 60
    for library, synonym in ALL:
        assert set(synonym.keys.split()) <= DqnConfig.model_fields.keys(), synonym
        assert synonym.keys or synonym.note, synonym
        assert synonym.name not in DqnConfig.model_fields, synonym
        told = near_key(synonym.name, ())
        assert library in told or "of other libraries is" in told, synonym
    for library, synonyms in SYNONYMS.items():
        assert len({synonym.name for synonym in synonyms}) == len(synonyms), library
    assert VERSIONS.keys() == SYNONYMS.keys()


def test_a_schedule_that_a_note_shows_is_one_that_a_config_takes():
    shown = {(s.keys, found[0]) for _, s in ALL if (found := re.search(r"\{.*\}", s.note))}
    assert {key for key, _ in shown} == {"epsilon", "learning_rate"}
    for key, schedule in shown:
        assert DqnConfig(**tomllib.loads(f"{key} = {schedule}"))


PLAN = """
title = "When?"
seeds = { first = 5000, count = 1 }
tuning = { first = 0, count = 1 }
baseline = "hard"
sections = []
[envs.CartPole]
config = "cartpole"
[groups.hard]
label = "hard copies"
over = "gamma"
values = [0.9, 0.99]
"""


def in_a_file(folder):
    path = folder / "own.toml"
    path.write_text("gamma = 0.9\n")
    load_config(path)


def in_a_plan(folder):
    path = folder / "plan.toml"
    path.write_text(PLAN)
    load_plan(path)


@pytest.mark.parametrize(
    "read",
    [
        in_a_file,
        lambda _: load_config("cartpole", ["gamma=0.9"]),
        lambda _: load_config("cartpole", {"gamma": 0.9}),
        lambda _: DqnConfig(gamma=0.9),
        lambda _: DqnConfig().model_copy(update={"gamma": 0.9}),
        lambda _: changed_config(DqnConfig(), ["gamma=0.9"]),
        lambda _: Space(DqnConfig(), ["gamma=0.9..0.99"]),
        lambda _: load_members("cartpole", (), ["gamma=0.9,0.99"]),
        in_a_plan,
    ],
)
def test_it_is_told_wherever_a_key_is_unknown(read, tmp_path):
    with pytest.raises(ConfigError, match="gamma of other libraries is discount here"):
        read(tmp_path)


def test_it_is_told_where_a_live_value_is_set(lab):
    agent = lab.agent()
    with pytest.raises(UnknownName, match="'gamma'; gamma of other libraries is discount here"):
        agent.hyperparameters["gamma"] = 0.9


def test_the_table_needs_neither_the_keys_nor_tensorflow():
    code = "import targetnet.agents.config.synonyms, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"tensorflow", "pydantic", "gymnasium"} & set(done.stdout.split())
