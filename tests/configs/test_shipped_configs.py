"""The configs that come with the package."""

from pathlib import Path

import pytest

from targetnet.agents.config.files import load_config, shipped_configs
from targetnet.agents.config.model import DqnConfig

ROOT = Path(__file__).parents[2]
CONFIGS, ATARI = ROOT / "configs", ROOT / "docs" / "atari"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.toml"))


def test_every_file_in_the_folder_is_shipped_under_its_own_name():
    assert list(shipped_configs()) == NAMES
    assert "cartpole" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_config_can_be_loaded_by_name_and_by_path(name):
    assert load_config(name) == load_config(CONFIGS / f"{name}.toml")


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_config_names_its_env_with_its_version(name):
    assert "-v" in load_config(name).env_id


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_config_begins_with_a_line_about_it(name):
    first = shipped_configs()[name].splitlines()[0]
    assert first.startswith("# ") and first.endswith(".")


def made_envs(config):
    from targetnet.agents.config.envs import envs_beside

    return envs_beside(config, config.num_envs)


# One of each env.
@pytest.mark.parametrize("name", ["cartpole", "acrobot", "mountaincar", "atari-dqn"])
def test_a_shipped_configs_env_can_be_made(name):
    envs = made_envs(load_config(name))
    assert envs.reset().observation.shape[1:] == envs.observation_shape
    envs.close()


# A network for pictures; the others in the slow run.
SOME = {"minatar-breakout"}


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in SOME else pytest.mark.slow) for n in NAMES]
)
def test_a_shipped_configs_env_and_network_can_be_made(name):
    from targetnet.agents.dqn.agent import DqnAgent

    # What is compiled is left out: it costs more than all the rest. oneDNN is a process's choice.
    config = load_config(name).model_copy(update={"xla": False, "onednn": False})
    if not config.rollout:
        config = config.model_copy(update={"updates_per_learn": 1})
    envs = made_envs(config)
    agent = DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
    assert agent.step(*envs.reset()[:3], envs.reset().autoreset).shape == (config.num_envs,)
    envs.close()
    agent.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_config_learns_before_it_ends_and_evaluates_on_the_way(name):
    config = load_config(name)
    assert config.learn_start + config.batch_size < config.env_steps
    assert config.eval_period < config.env_steps
    assert config.log_period < config.env_steps


def test_the_defaults_are_within_their_own_bounds_and_survive_a_check():
    config = DqnConfig()
    assert DqnConfig.model_validate(config.model_dump()) == config
    for knob in DqnConfig.knobs():
        value = getattr(config, knob.name)
        for extreme in value.extremes() if hasattr(value, "extremes") else [value]:
            assert knob.check(extreme) == extreme


@pytest.mark.parametrize("path", sorted(ATARI.glob("*.toml")), ids=lambda path: path.stem)
def test_a_config_of_the_atari_page_plays_its_game_for_two_million_frames(path):
    config = load_config(str(path))
    of_config, _, game = path.stem.rpartition("-")
    assert config.env_id == f"ALE/{game.title()}-v5"
    shipped = load_config("atari-qrdqn").model_dump()
    differ = {key for key, value in config.model_dump().items() if value != shipped[key]}
    weighted = {"priority_beta", "max_grad_norm"} if of_config == "atari-qrdqn-weighted" else set()
    assert of_config == "atari-qrdqn" or weighted
    assert differ - {"env_id", "env_steps", "replay_capacity"} == weighted
    assert 4 * config.env_steps == 2_000_000 and config.replay_capacity == config.env_steps
