"""A run whose files were damaged: told in one line, and nothing of it is changed."""

import json
import os
import shutil

import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.errors import RlCoreError
from tests.agents.steady import STEADY

CONFIG = DqnConfig(
    **STEADY,
    env_steps=400, hidden=(8,), batch_size=8, replay_capacity=200, learn_start=50, xla=False,
    eval_period=1_000, final_eval_episodes=1, checkpoint_seconds=0, checkpoint_steps=130,
    log_period=100,
)  # fmt: skip


def steer(agent, tick):
    if tick.env_step in (60, 300):
        agent.hyperparameters["sync_period"] = tick.env_step


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run; look, do not touch."""
    return train(CONFIG, tmp_path_factory.mktemp("damaged") / "run", on_tick=steer).run


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def contents(run):
    """Every file but the lock and what other processes' heartbeats may touch."""
    files = (path for path in run.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def cut(size):
    return lambda path: os.truncate(path, size)


def flip(place):
    def damage(path):
        data = bytearray(path.read_bytes())
        data[int(place * len(data))] ^= 1
        path.write_bytes(data)

    return damage


def cut_at_a_line(path):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:31]))


def another_discount(path):
    path.write_text(path.read_text().replace("discount = 0.99", "discount = 0.91"))


def without_a_line(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))


def without_last_line(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))


def a_later_tick(path):
    path.write_bytes(path.read_bytes().replace(b'"tick": ', b'"tick": 1', 1))


DAMAGE = {
    "trace cut": ("control/trace.bin", cut(400)),
    "trace missing": ("control/trace.bin", os.unlink),
    "trace flipped": ("control/trace.bin", flip(0.5)),
    "log cut to 100 bytes": ("control/log.jsonl", cut(100)),
    "log missing": ("control/log.jsonl", os.unlink),
    "log without its first line": ("control/log.jsonl", without_a_line),
    "log without its last line": ("control/log.jsonl", without_last_line),
    "log flipped": ("control/log.jsonl", flip(0.25)),
    "log with a later tick": ("control/log.jsonl", a_later_tick),
    "config cut at a line's end": ("config.toml", cut_at_a_line),
    "config with another discount": ("config.toml", another_discount),
}


@pytest.mark.cases(0)
@pytest.mark.parametrize("name", DAMAGE)
def test_a_resume_that_is_refused_changes_nothing(run, name, capsys):
    file, damage = DAMAGE[name]
    damage(run / file)
    before = contents(run)
    assert main(["resume", str(run), "--set", "env_steps=600"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and file in err and "damaged" in err
    assert contents(run) == before
    assert (run / "result.json").exists() and (run / "digest.json").exists()


@pytest.mark.thorough
def test_without_damage_it_goes_on_to_the_same_end_as_a_longer_run(run, tmp_path):
    """The refusals above are not of everything."""
    longer = CONFIG.model_copy(update={"env_steps": 600})
    straight = train(longer, tmp_path / "straight", on_tick=steer)
    assert resume(run, longer, on_tick=steer).digest == straight.digest


@pytest.mark.parametrize("name", [name for name in DAMAGE if name.startswith("log")])
def test_log_says_that_answers_are_missing(run, name, capsys):
    file, damage = DAMAGE[name]
    damage(run / file)
    assert main(["log", str(run)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "log.jsonl is damaged" in err


def test_a_digest_whose_digit_turned_is_not_printed(run, capsys):
    path = run / "digest.json"
    fields = json.loads(path.read_text())
    path.write_text(path.read_text().replace(fields["digest"], "0" * 64))
    assert main(["digest", str(run)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "digest.json" in err and "damaged" in err


def test_a_shorter_curve_is_said_and_costs_nothing_else(run, tmp_path):
    from rich.console import Console

    (events,) = run.glob("events.*")
    os.truncate(events, 200)
    console = Console(record=True, width=200)
    longer = CONFIG.model_copy(update={"env_steps": 500})
    resume(run, longer, on_tick=steer, console=console)
    assert f"{events.name} is shorter than it was: curves lack points" in console.export_text()


def test_a_link_among_the_event_files_is_not_followed_out_of_the_run(run, tmp_path):
    (events,) = run.glob("events.*")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"x" * 1_000_000)
    events.unlink()
    events.symlink_to(elsewhere)
    before = contents(run)
    with pytest.raises(RlCoreError, match="is not a regular file"):
        resume(run, CONFIG.model_copy(update={"env_steps": 500}))
    assert contents(run) == before
    assert elsewhere.stat().st_size == 1_000_000


@pytest.mark.parametrize("linked", ["checkpoints", "checkpoints/rows"])
def test_a_resume_removes_nothing_where_a_link_leads(run, tmp_path, linked, capsys):
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id").write_text("secret")
    (home / f"{0:015d}-{9:015d}.safetensors").write_text("rows of another run")
    theirs = contents(home)
    shutil.rmtree(run / linked)
    (run / linked).symlink_to(home)
    before = contents(run)
    assert main(["resume", str(run), "--set", "env_steps=600"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and f"{linked} is a link" in err
    assert contents(run) == before and contents(home) == theirs


def as_of_version_0_1(run):
    """Takes away everything by which damage is noticed."""
    config = run / "config.toml"
    config.write_text(config.read_text().split("\n", 2)[2])  # without seal and version
    log = run / "control/log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps(e | {}) + "\n" for e in map(without_seal, lines)))
    for name in ("result.json", "digest.json"):
        fields = without_seal(json.loads((run / name).read_text()))
        fields.pop("trace_crc", None)
        (run / name).write_text(json.dumps(fields))
    state = ControlFiles(run).state
    fields = json.loads(state.read_text())
    fields.pop("log_bytes")
    state.write_text(json.dumps(fields))


def without_seal(fields):
    return {name: value for name, value in fields.items() if name not in ("seal", "targetnet")}


def test_a_run_of_version_0_1_resumes_from_its_checkpoint(run, tmp_path, monkeypatch):
    as_of_version_0_1(run)
    latest = CheckpointStore.latest

    def old(store):
        checkpoint = latest(store)
        host = checkpoint.host
        host["trace"] = host["trace"][:2]
        size = len((run / "control/log.jsonl").read_bytes())
        host["log"]["bytes"] = size  # its lines were shorter
        del host["evaluations_asked"]
        return checkpoint

    monkeypatch.setattr(CheckpointStore, "latest", old)
    longer = CONFIG.model_copy(update={"env_steps": 600})
    straight = train(longer, tmp_path / "straight", on_tick=steer)
    assert resume(run, longer, on_tick=steer).digest == straight.digest
