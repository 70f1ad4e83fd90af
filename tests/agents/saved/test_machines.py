"""The list of machines that a run was on."""

import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.saved.directory import RunDir
from targetnet.agents.saved.machines import add_machine, machines_of, note_return, processor_of
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.machine import processor


def test_a_run_that_was_always_here_has_this_machines_processor(tmp_path):
    assert machines_of(tmp_path) == []
    assert processor_of(tmp_path) == processor()


def test_a_run_that_moved_has_the_processors_of_all_its_machines_once(tmp_path):
    for host, kind in (("a", "Abacus"), ("b", "Abacus"), ("c", "Slide rule")):
        add_machine(tmp_path, host, kind)
    assert [machine.host for machine in machines_of(tmp_path)] == ["a", "b", "c"]
    assert processor_of(tmp_path) == "Abacus and Slide rule"


def test_a_run_that_came_back_has_this_machines_processor_too(tmp_path):
    note_return(tmp_path)  # it was always here
    assert machines_of(tmp_path) == []
    add_machine(tmp_path, "a", "Abacus")
    for _ in range(2):  # the second time it was here already
        note_return(tmp_path)
        assert processor_of(tmp_path) == f"Abacus and {processor()}"
        assert len(machines_of(tmp_path)) == 2


def test_a_new_run_has_no_machines_of_one_that_was_there_before(tmp_path):
    add_machine(tmp_path, "a", "Abacus")
    run = RunDir.create(tmp_path, "x", DqnConfig())
    assert processor_of(run.path) == processor()


def test_a_damaged_list_is_one_line(tmp_path):
    add_machine(tmp_path, "a", "Abacus")
    path = tmp_path / "machines.json"
    path.write_text(path.read_text().replace("Abacus", "Abacas"))
    with pytest.raises(RunDirError, match=r"cannot read .*machines\.json: it is damaged"):
        processor_of(tmp_path)
    path.write_text('{"machines": [{"host": 1}]}')
    with pytest.raises(RunDirError, match="it lists no machines"):
        add_machine(tmp_path, "b", "Abacus")
