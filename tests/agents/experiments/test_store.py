"""Finished runs in a file: what is stored of a run, and what is refused when it is read."""

import json
import re
from pathlib import Path

import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.store import (
    ResultStore,
    append_rows,
    read_row,
    read_rows,
    read_run,
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
def path(tmp_path, run):
    """A file with this run."""
    path = tmp_path / "rows" / "some.jsonl"
    ResultStore(path).add(read_run(run, "cartpole", CONFIG))
    return path


def change(path, **fields):
    """Changes fields of the seed, with a new seal."""
    head, row = (unsealed_row(line) for line in path.read_bytes().splitlines())
    path.unlink()
    append_rows(path, [head, row | fields])


def test_a_row_is_the_same_when_its_runs_are_gone(path, run):
    for file in run.iterdir():
        file.unlink()
    (found,) = ResultStore(path).runs("cartpole").values()
    assert (found.seed, found.mean, found.std, found.low, found.high) == (3_000, 5.0, 1.0, 4.0, 6.0)
    assert found.curve == [(100, 1.5), (300, 5.0)] and found.training_curve == [(100, 10.0)]
    assert (found.training, found.returns, found.seconds) == (10.0, [4.0, 6.0], None)
    assert found.settings["env_steps"] == 300 and "seed" not in found.settings
    assert "tensorflow" in found.versions and ResultStore(path).runs("other") == {}


def test_an_unfinished_run_is_not_read(run):
    (run / "result.json").unlink()
    assert read_run(run, "cartpole", CONFIG) is None


def test_a_file_that_cannot_be_written_is_one_line(run, tmp_path):
    (tmp_path / "rows").touch()
    store = ResultStore(tmp_path / "new" / "some.jsonl")
    (tmp_path / "new").touch()
    with pytest.raises(RunDirError, match=r"cannot write .*new/some\.jsonl: (Not a dir|File ex)"):
        store.add(read_run(run, "cartpole", CONFIG))
    assert store.runs("cartpole") == {}


def test_a_peers_seed_is_read_in_the_same_way(tmp_path, peer_result):
    path = tmp_path / "0.json"
    path.write_bytes(sealed_row(peer_result))
    run = read_row(path, "sb3")
    assert (run.agent, run.mean, run.seconds) == ("sb3", 20.0, 61.5)
    assert run.source == "https://example.org/dqn.yml" and run.processor == "A Processor"
    path.write_bytes(path.read_bytes().replace(b"20.0", b"30.0"))
    with pytest.raises(RunDirError, match=r"0\.json: it is damaged: not what was written"):
        read_row(path, "sb3")


def test_where_nothing_is_added_no_file_is_made(tmp_path):
    ResultStore(tmp_path / "some.jsonl").add()
    assert not [*tmp_path.iterdir()]


def test_settings_stand_once_until_they_change(path, run):
    store = ResultStore(path)
    more = [CONFIG.model_copy(update={"seed": seed}) for seed in (1, 2)]
    store.add(*(read_run(run, "cartpole", config) for config in more))
    store.add(read_run(run, "cartpole", CONFIG.model_copy(update={"batch_size": 7, "seed": 3})))
    lines = [row for _, row in read_rows(path)]
    assert [row.get("seed") for row in lines] == [None, 3_000, 1, 2, None, 3]
    read = ResultStore(path).runs("cartpole")
    assert [run.settings["batch_size"] for run in read.values()] == [64, 64, 64, 7]
    assert read == store.runs("cartpole")


def test_a_line_that_was_not_written_to_its_end_is_left_out_and_cut_off(path, run):
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[1][:40])
    store = ResultStore(path)
    assert [*store.runs("cartpole")] == [3_000]
    store.add(read_run(run, "cartpole", CONFIG.model_copy(update={"seed": 1})))
    assert path.read_bytes().startswith(whole) and [*ResultStore(path).runs("cartpole")] == [
        3_000,
        1,
    ]


def test_nothing_is_left_of_what_a_full_disk_cut(path, run, monkeypatch):
    before, store = path.read_bytes(), ResultStore(path)

    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunDirError, match="No space left"):
        store.add(read_run(run, "cartpole", CONFIG.model_copy(update={"seed": 1})))
    assert path.read_bytes() == before and [*store.runs("cartpole")] == [3_000]


def test_one_process_at_a_time_adds_and_sees_what_others_have_added(path, run):
    one, other = ResultStore(path), ResultStore(path)
    with one.held():
        one.add(read_run(run, "cartpole", CONFIG.model_copy(update={"seed": 1})))
        with (
            pytest.raises(RunDirError, match="another process adds finished runs to"),
            other.held(),
        ):
            pass
    with other.held():
        assert [*other.runs("cartpole")] == [3_000, 1]


def test_the_same_config_may_be_logged_and_saved_in_another_way(path):
    other = CONFIG.model_copy(update={"checkpoint_keep": 7, "log_to": ()})
    ResultStore(path).require_same_settings("cartpole", other)


def test_a_key_that_is_newer_than_the_file_had_its_default(run, tmp_path):
    older = read_run(run, "cartpole", CONFIG)
    assert older.settings.pop("min_weight") == 0.0
    store = ResultStore(tmp_path / "some.jsonl")
    store.add(older)
    store.require_same_settings("cartpole", CONFIG)
    with pytest.raises(RunDirError, match=r"min_weight is 0\.0 there, not 0\.5"):
        store.require_same_settings("cartpole", CONFIG.model_copy(update={"min_weight": 0.5}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batch_size": 7}, "batch_size is 64 there, not 7"),
        ({"env_steps": 400}, "env_steps is 300 there, not 400"),
        ({"final_eval_episodes": 5}, "final_eval_episodes is 100 there, not 5"),
    ],
)
def test_a_seed_of_another_config_is_refused(path, changes, said):
    store, other = ResultStore(path), CONFIG.model_copy(update=changes)
    with pytest.raises(RunDirError, match=said) as error:
        store.require_same_settings("cartpole", other)
    assert "some.jsonl: cartpole is of another config" in str(error.value)
    store.require_same_settings("cartpole", other, seeds=range(10))  # not asked for


@pytest.mark.parametrize(("key", "value"), [("mean", "NaN"), ("high", "Infinity")])
def test_numbers_that_no_seed_has_are_damage(path, key, value):
    change(path, **{key: float(value)})
    with pytest.raises(RunDirError, match=r"some\.jsonl: line 2: it is damaged"):
        ResultStore(path)


@pytest.mark.parametrize(
    "line", [b"{", b"[1]", b"[" * 5_000, sealed_row({}).strip(), sealed_row({"seed": 1}).strip()]
)
def test_a_damaged_line_is_said_so(path, line):
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(RunDirError, match=r"some\.jsonl: line 3: ") as error:
        ResultStore(path)
    assert "Delete the line to train its seed again" in str(error.value)


@pytest.mark.parametrize(("changed", "said"), TAMPERED)
def test_a_score_that_was_written_by_hand_is_refused(path, changed, said):
    head, row = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(head + changed(row))
    with pytest.raises(RunDirError, match=rf"line 2: {said}.* Delete the line to train its seed"):
        ResultStore(path)


def test_rows_of_version_0_2_are_taken_over(tmp_path, peer_result, run):
    directory = tmp_path / "rows"
    of_seed = {**peer_result, "seed": 3}
    of_arm = {key: peer_result[key] for key in ("env_steps", "updates", "mean", "curve", "seconds")}
    of_arm |= {key: peer_result[key] for key in ("versions", "processor", "date")}
    of_arm |= {"signs": {"learn/loss": [1.0, None, 2.0, 3.0]}, "digest": "abc"}
    arm = {"env_id": "CartPole-v1", "settings": {"hidden": [8]}, "seeds": {"5000": of_arm}}
    for name, row in (("cartpole/3", of_seed), ("CartPole/hard-100", arm)):
        (directory / name).parent.mkdir(parents=True)
        (directory / f"{name}.json").write_bytes(sealed_row(row))
    store = ResultStore(tmp_path / "rows.jsonl")
    assert store.runs("cartpole")[3].returns == [10.0, 30.0]
    assert store.runs("CartPole/hard-100")[5000].digest == "abc"
    again = ResultStore(tmp_path / "rows.jsonl")
    assert again.runs("CartPole/hard-100") == store.runs("CartPole/hard-100")
    assert (directory / "cartpole/3.json").exists()
    (tmp_path / "rows.jsonl").unlink()
    (directory / "cartpole/3.json").write_text("{}")
    with pytest.raises(RunDirError, match=r"cannot use .*cartpole/3\.json: it has no seal"):
        ResultStore(tmp_path / "rows.jsonl")


@pytest.mark.thorough
def test_all_rows_that_pages_are_made_of_have_their_seals():
    rows = [row for path in (DOCS / "rows").glob("*.jsonl") for _, row in read_rows(path)]
    assert len(rows) > 4_000


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["results", "cartpole", "--seeds", "1", "--first-seed", "3000"], "learning.jsonl"),
        (["compare", str(DOCS / "study/periods.toml")], "study_period.jsonl"),
    ],
    ids=["results", "compare"],
)
@pytest.mark.parametrize(
    "changed",
    [
        lambda data: re.sub(rb', "seal": "\w+"\}', b"}", data, count=1),
        lambda data: data.replace(b'"mean": ', b'"mean": 9', 1),
    ],
)
def test_a_published_row_that_was_changed_makes_no_page(
    tmp_path, monkeypatch, capsys, command, name, changed
):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(changed((DOCS / "rows" / name).read_bytes()))
    assert main([*command, "--rows", name, "--finished"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and f"cannot use {name}: line " in err
    assert "Delete the line" in err and not [*tmp_path.rglob("*.md")]


def test_a_seed_of_rollouts_is_one_of_its_config_whatever_the_defaults_were(tmp_path, run):
    config = DqnConfig(rollout=32, num_envs=4)
    store, found = ResultStore(tmp_path / "some.jsonl"), read_run(run, "a", config)
    before = settings_of(config) | {"sync_period": 500, "tau": 1.0, "updates_per_learn": 1}
    store.add(found.model_copy(update={"settings": before}))
    store.require_same_settings("a", config)
    store.add(found.model_copy(update={"settings": before | {"q_lambda": 0.5}}))
    with pytest.raises(RunDirError, match=r"q_lambda is 0\.5 there, not 0\.65"):
        store.require_same_settings("a", config)
