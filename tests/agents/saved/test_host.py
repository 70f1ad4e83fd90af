"""The host state of a checkpoint: each part has a type, and what does not fit is one line."""

import copy
import hashlib
import json
import math
import shutil
from pathlib import Path

import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.saved.host import new_host, read_host
from targetnet.rl_core.checkpoint.store import Checkpoint, CheckpointError

GOLDEN = Path(__file__).parents[2] / "golden/first"
HOST = json.loads((GOLDEN / "checkpoints/00000001/host.json").read_text())

# As they are read and written now.
ENVS = {"lanes": [lane | {"lives": 0} for lane in HOST["envs"]["lanes"]]}


def checkpoint(host):
    return Checkpoint(1, 103, None, {}, host, {}, ())


def changed(path, value):
    """HOST with another value at "a.b.c"; `...` takes the key away."""
    host = copy.deepcopy(HOST)
    *above, last = path.split(".")
    part = host
    for name in above:
        part = part[int(name) if isinstance(part, list) else name]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return host


def test_a_host_state_of_version_0_1_lacks_what_has_a_default():
    host = read_host(checkpoint(HOST))
    assert host.trace == (102, 198, None)
    assert (host.evaluations_asked, host.seconds, host.loop.due_updates) == (0, 0.0, 0)
    assert host.reporter.recent["episode/return"] == (195, 25.0)
    assert host.envs_state() == ENVS
    assert host.agent.model_dump() == HOST["agent"] | {"freeze": (0, 0), "renewals": 0}


def test_what_is_written_is_read_again_as_it_was():
    host = read_host(checkpoint(changed("reporter.recent", {"learn/loss": [3, math.nan]})))
    again = read_host(checkpoint(json.loads(json.dumps(host.model_dump()))))
    assert repr(again) == repr(host) and math.isnan(again.reporter.recent["learn/loss"][1])
    # Older code reads these keys, at these places.
    written = json.loads(json.dumps(host.model_dump()))
    assert HOST.keys() <= written.keys() and written["envs"] == ENVS
    assert written["loop"] == HOST["loop"] | {"due_updates": 0}


def test_before_the_first_time_step_there_is_nothing():
    host = new_host(DqnConfig(log_period=7, eval_period=9))
    assert (host.loop.tick, host.loop.next_log, host.next_evaluation) == (0, 7, 9)
    assert host.reporter is None and host.envs is None and host.trace == (0, 0, None)
    with pytest.raises(CheckpointError, match="agent is missing"):
        read_host(checkpoint(host.model_dump()))


PROBLEMS = [
    ("loop", ..., "loop is missing"),
    ("loop.learn_age", ..., "loop.learn_age is missing"),
    ("loop.tick", 104, "loop.tick is 104, in manifest.json it is 103"),
    ("loop.env_step", -1, "loop.env_step should be greater than or equal to 0, got -1"),
    ("loop.env_step", 2**63, "loop.env_step should be less than"),
    ("loop.env_step", "200", "loop.env_step should be a whole number, got '200'"),
    ("loop.extra", 1, "unknown key 'loop.extra'"),
    ("loop", [1, 2], "loop should be"),
    ("next_evaluation", None, "next_evaluation should be a whole number, got None"),
    ("recent_returns", [1.0, "2"], "recent_returns.1 should be a number"),
    ("trace", [1], "trace.1 "),
    ("trace", [1, 2, 3, 4], "trace"),
    ("trace", "x", "trace"),
    ("log.bytes", 1.5, "log.bytes should be a whole number, got 1.5"),
    ("log.to_do", [["x"]], "log.to_do.0 should be"),
    ("events", {"a": -1}, "events.a should be"),
    ("reporter.recent", {"a": [1]}, "reporter.recent.a.1 is missing"),
    ("reporter.recent", {"a\nb": 5}, "reporter.recent.a"),
    ("reporter.chagned", [], "unknown key 'reporter.chagned'"),
    ("envs", None, "envs is missing"),
    ("envs", {"lanes": 5}, "envs.lanes should be"),
    ("envs", {"lanes": [{"episode": 1}]}, "envs.lanes.0.actions is missing"),
    ("agent", {}, "agent.updates is missing"),
    ("agent.freeze", [0], "agent.freeze.1 is missing"),
    ("agent.snapshots", {"a": 1}, "agent.snapshots should be"),
    ("agent.overrides", [], "agent.overrides should be"),
]


@pytest.mark.parametrize(("path", "value", "problem"), PROBLEMS, ids=lambda case: str(case)[:30])
def test_what_does_not_fit_is_named_in_one_line(path, value, problem):
    with pytest.raises(CheckpointError) as raised:
        read_host(checkpoint(changed(path, value)))
    said = str(raised.value)
    assert said.startswith("host.json of checkpoint 1 is damaged: ") and problem in said, said
    assert "\n" not in said and len(said) < 400


def sealed(run, host):
    """Puts a host state into a copy of the golden run as an attacker would: all digests fit."""
    directory = shutil.copytree(GOLDEN, run) / "checkpoints/00000001"
    data = json.dumps(host).encode()
    (directory / "host.json").write_bytes(data)
    manifest = json.loads((directory / "manifest.json").read_text().split("\n")[0])
    record = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest["files"]["host.json"] = record
    text = json.dumps(manifest, sort_keys=True)
    seal = hashlib.sha256(text.encode()).hexdigest()
    (directory / "manifest.json").write_text(f"{text}\n{seal}\n")
    return run


def contents(run):
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("loop.env_step", "200", "loop.env_step should be a whole number"),
        ("trace", [10**12, 0], "trace.bin is damaged: it has 102 time steps"),
        ("log.bytes", 10**12, "log.jsonl is damaged"),
        ("envs.lanes", [], "checkpoint 1 is of 0 envs, not of 2"),
        ("envs.lanes.1.actions", [0, 2], "checkpoint 1 has an action that is none of 0 to 1"),
        ("envs.lanes.1.actions", [-1], "checkpoint 1 has an action that is none of 0 to 1"),
        ("loop.new_steps", 3, "checkpoint 1 has 3 env steps in one time step of 2 envs"),
        ("reporter.changed", ["tau", "tua"], "no live value 'tua'"),
        ("agent.freeze", [7, 0], "checkpoint 1 is of arm 7 of a freeze schedule, and this run has"),
        ("agent.overrides", {"tua": 0.5}, "no live value 'tua'"),
        ("agent.overrides", {"tau": {"a": [0.5]}}, "tau must be"),
        ("agent.overrides", {"exempt": [["head"]]}, "exempt"),
    ],
    ids=lambda case: str(case)[:30],
)
def test_a_run_with_a_hostile_host_state_is_refused_and_nothing_of_it_is_changed(
    tmp_path, capsys, path, value, problem
):
    run = sealed(tmp_path / "run", changed(path, value))
    before = contents(run)
    assert main(["resume", str(run), "--set", "env_steps=300"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and problem in err, err
    after = contents(run)
    assert {path: after[path] for path in before} == before


@pytest.mark.thorough
def test_the_same_run_with_its_own_host_state_goes_on(tmp_path, capsys):
    """The refusals above are not of everything."""
    run = sealed(tmp_path / "run", HOST)
    assert main(["resume", str(run), "--set", "env_steps=210"]) == 0
    assert "resumed at env step 200" in capsys.readouterr().out
