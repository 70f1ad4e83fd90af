"""The same commands to many runs at once."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from targetnet.rl_core.control.client import RunClient, begin_all
from targetnet.rl_core.control.commands import BadCommand, do_command, set_command
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import read_log

FAKE_POPULATION = Path(__file__).parent / "fake_population.py"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def population(tmp_path):
    """Two members at work, one that refuses, one that has ended."""
    path = tmp_path / "population"
    command = [sys.executable, FAKE_POPULATION, path, "m00", "m01", "m02:repeats", "m03:ended"]
    with subprocess.Popen(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}) as process:
        try:
            while not (path / "ready").exists():
                assert process.poll() is None
                time.sleep(0.01)
            yield path
        finally:
            process.kill()


def clients(population, *names):
    return {name: RunClient(population / name, who="cli") for name in names}


def logged(population, name):
    return read_log(ControlFiles(population / name).log)


def test_each_run_gets_commands_of_its_own_and_answers_for_itself(population):
    sent = begin_all(
        clients(population, "m00", "m01", "m02"),
        lambda: [set_command("tau", 0.5, "cli"), do_command("sync", "cli")],
    )
    assert sent.problems == {}
    answers = {name: asked.answers() for name, asked in sent.asked.items()}
    assert {name: [entry.taken for entry in entries] for name, entries in answers.items()} == {
        "m00": [True, True], "m01": [True, True], "m02": [False, False],
    }  # fmt: skip
    ids = [id_ for asked in sent.asked.values() for id_ in asked.ids]
    assert len(set(ids)) == 6
    assert [e.id for name in answers for e in logged(population, name)] == ids


def test_a_run_that_has_ended_or_is_gone_does_not_keep_the_others_from_theirs(population):
    shutil.copytree(population / "m01", population / "m04")
    (population / "m04/control/state.json").unlink()
    sent = begin_all(
        clients(population, "m03", "m04", "m05", "m00"), lambda: [do_command("sync", "cli")]
    )
    assert list(sent.asked) == ["m00"] and sent.asked["m00"].answers()[0].taken
    assert list(sent.problems) == ["m03", "m04", "m05"]
    assert "is not running: finished" in sent.problems["m03"]
    assert "it has no control/state.json" in sent.problems["m05"]


def test_what_cannot_be_sent_reaches_no_run(population):
    for commands in (lambda: [set_command("tau", True, "cli")], lambda: [do_command("rm", "cli")]):
        with pytest.raises(BadCommand):
            begin_all(clients(population, "m00", "m01"), commands)
    time.sleep(0.1)
    assert logged(population, "m00") == logged(population, "m01") == []


def test_the_answers_come_after_the_position_that_was_told(population):
    first = begin_all(clients(population, "m00"), lambda: [do_command("sync", "cli")])
    first.asked["m00"].answers()
    second = begin_all(clients(population, "m00"), lambda: [do_command("sync", "cli")])
    second.asked["m00"].answers()
    log = ControlFiles(population / "m00").log
    assert (first.asked["m00"].position, second.asked["m00"].position) == (
        0,
        len(log.read_bytes().splitlines(keepends=True)[0]),
    )
