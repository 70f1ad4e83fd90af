"""Finished seeds as JSON files: what is kept of a run, and what is refused when it is read."""

import json
import re
import shutil
from pathlib import Path

import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.results.seed_files import (
    keep,
    kept_row,
    require_same_config,
    require_same_settings,
    settings_of,
)
from targetnet.rl_core.board.events import EventWriter
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.seal import sealed_row, unsealed_row

DOCS = Path(__file__).parents[3] / "docs"
RESULT = {
    "env_steps": 300, "updates": 70, "mean": 5.0, "std": 1.0, "min": 4.0, "max": 6.0,
    "returns": [4.0, 6.0],
}  # fmt: skip
CONFIG = DqnConfig(env_id="CartPole-v1", env_steps=300, seed=3_000)


# Changes of a row's bytes -> what is said.
TAMPERED = [
    (lambda row: row.replace(b'"mean": 5.0', b'"mean": 499.0'), "it is damaged: not what was"),
    (lambda row: row.replace(b'"seed": 3000', b'"seed": 3001'), "it is damaged: not what was"),
    (lambda row: re.sub(rb', "seal": "\w+"', b"", row), "it has no seal"),
    (lambda row: re.sub(rb'"seal": "\w+"', b'"seal": null', row), "it is damaged: not what was"),
]


@pytest.fixture
def run(tmp_path):
    """Evaluated once, with three training episodes."""
    run = tmp_path / "run"
    with EventWriter(run) as events:
        events.scalar("evaluation/return", 1.5, 100)
        for number in range(3):
            events.scalar("episode/return", 10.0 * number, number)
    (run / "result.json").write_text(json.dumps(RESULT))
    return run


@pytest.fixture
def kept(tmp_path, run):
    path = tmp_path / "rows" / "cartpole" / "3000.json"
    keep(path, run, CONFIG)
    return path


def test_a_row_is_the_same_when_its_runs_are_gone(kept, run):
    for path in run.iterdir():
        path.unlink()
    row = kept_row("CartPole-v1", "cartpole", {3_000: kept, 3_001: kept.with_name("3001.json")})
    (seed,) = row.seeds
    assert (seed.seed, seed.mean, seed.std, seed.low, seed.high) == (3_000, 5.0, 1.0, 4.0, 6.0)
    assert seed.curve == {100: 1.5, 300: 5.0} and seed.training_curve == {100: 10.0}
    assert (seed.training, seed.returns, seed.seconds) == (10.0, [4.0, 6.0], None)
    assert row.about["settings"]["env_steps"] == 300 and "seed" not in row.about["settings"]
    assert "tensorflow" in row.about["versions"] and len(row.about["dates"]) == 1


def test_an_unfinished_run_is_not_kept(run, tmp_path):
    (run / "result.json").unlink()
    keep(tmp_path / "3000.json", run, CONFIG)
    assert not (tmp_path / "3000.json").exists()


def test_a_file_that_cannot_be_written_is_one_line(run, tmp_path):
    (tmp_path / "rows").touch()
    with pytest.raises(RunDirError, match=r"cannot write .*rows/3000\.json: (Not a dir|File ex)"):
        keep(tmp_path / "rows" / "3000.json", run, CONFIG)


def test_a_peers_seed_is_read_in_the_same_way(tmp_path, peer_result):
    path = tmp_path / "0.json"
    path.write_bytes(sealed_row(peer_result))
    row = kept_row("CartPole-v1", "SB3 DQN", {0: path}, peer=True)
    assert row.peer and row.means == [20.0] and row.seeds[0].seconds == 61.5
    assert row.about["source"] == "https://example.org/dqn.yml"
    assert row.about["processors"] == ["A Processor"]


def test_the_same_config_may_be_logged_and_saved_in_another_way(kept):
    require_same_config(kept, CONFIG.model_copy(update={"checkpoint_keep": 7, "log_to": ()}))


def test_a_key_that_is_newer_than_the_file_had_its_default(kept):
    seed = unsealed_row(kept.read_bytes())
    assert seed["settings"].pop("min_weight") == 0.0
    kept.write_bytes(sealed_row(seed))
    require_same_config(kept, CONFIG)
    with pytest.raises(RunDirError, match=r"min_weight is 0\.0 there, not 0\.5"):
        require_same_config(kept, CONFIG.model_copy(update={"min_weight": 0.5}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"batch_size": 7}, "batch_size is 64 there, not 7"),
        ({"env_steps": 400}, "env_steps is 300 there, not 400"),
        ({"final_eval_episodes": 5}, "final_eval_episodes is 100 there, not 5"),
    ],
)
def test_a_seed_of_another_config_is_refused(kept, change, said):
    with pytest.raises(RunDirError, match=said) as error:
        require_same_config(kept, CONFIG.model_copy(update=change))
    assert "3000.json is of another config" in str(error.value)


@pytest.mark.parametrize(
    ("env_id", "seed", "said"),
    [
        ("CartPole-v1", 3_001, "has seed 3000 of CartPole-v1, not seed 3001 of CartPole-v1"),
        ("Acrobot-v1", 3_000, "not seed 3000 of Acrobot-v1"),
    ],
)
def test_a_file_that_was_renamed_is_refused(kept, env_id, seed, said):
    with pytest.raises(RunDirError, match=said):
        kept_row(env_id, "cartpole", {seed: kept})


@pytest.mark.parametrize(("key", "value"), [("mean", "NaN"), ("high", "Infinity")])
def test_numbers_that_no_seed_has_are_damage(kept, key, value):
    kept.write_bytes(sealed_row(unsealed_row(kept.read_bytes()) | {key: float(value)}))
    with pytest.raises(RunDirError, match=r"3000\.json is damaged"):
        kept_row("CartPole-v1", "cartpole", {3_000: kept})


def test_a_seed_without_a_curve_has_none(kept):
    kept.write_bytes(sealed_row(unsealed_row(kept.read_bytes()) | {"curve": []}))
    assert kept_row("CartPole-v1", "cartpole", {3_000: kept}).curves == {}


@pytest.mark.parametrize("data", [b"{", b"[1]", sealed_row({}), sealed_row({"env_id": 1})])
def test_a_damaged_file_is_said_so(kept, data):
    kept.write_bytes(data)
    with pytest.raises(RunDirError, match=r"3000\.json is damaged"):
        kept_row("CartPole-v1", "cartpole", {3_000: kept})


@pytest.mark.parametrize(("change", "said"), TAMPERED)
def test_a_score_that_was_written_by_hand_is_refused(kept, change, said):
    kept.write_bytes(change(kept.read_bytes()))
    with pytest.raises(RunDirError, match=rf"3000\.json: {said}.* Delete it to train it again$"):
        kept_row("CartPole-v1", "cartpole", {3_000: kept})
    with pytest.raises(RunDirError, match=said):
        require_same_config(kept, CONFIG)


@pytest.mark.thorough
def test_all_rows_that_pages_are_made_of_have_their_seals():
    rows = [*(DOCS / "rows").rglob("*.json"), *(DOCS / "results/wall_clock").glob("*.json")]
    assert len(rows) > 600
    for path in rows:
        data = path.read_bytes()
        assert data == sealed_row(unsealed_row(data)), path


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (["results", "cartpole", "--seeds", "1", "--first-seed", "3000"], "cartpole/3000.json"),
        (["compare", str(DOCS / "study/periods.toml")], "Catch/hard-100.json"),
    ],
    ids=["results", "compare"],
)
@pytest.mark.parametrize(
    "change", [TAMPERED[2][0], lambda row: row.replace(b'"mean": ', b'"mean": 9')]
)
def test_a_published_row_that_was_changed_makes_no_page(
    tmp_path, monkeypatch, capsys, command, place, change
):
    monkeypatch.chdir(tmp_path)
    of = DOCS / "rows" if command[0] == "results" else DOCS / "rows/study_period"
    path = tmp_path / "rows" / place
    path.parent.mkdir(parents=True)
    shutil.copy(of / place, path)
    path.write_bytes(change(path.read_bytes()))
    assert main([*command, "--rows", str(tmp_path / "rows"), "--finished"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and f"cannot use {path}: " in err
    assert "Delete it to train it again" in err and not [*tmp_path.rglob("*.md")]


def test_a_seed_of_rollouts_is_one_of_its_config_whatever_the_defaults_were(tmp_path):
    config = DqnConfig(rollout=32, num_envs=4)
    before = settings_of(config) | {"sync_period": 500, "tau": 1.0, "updates_per_learn": 1}
    require_same_settings(tmp_path / "0.json", before, config)
    with pytest.raises(RunDirError, match=r"q_lambda is 0\.5 there, not 0\.65"):
        require_same_settings(tmp_path / "0.json", before | {"q_lambda": 0.5}, config)
