"""`--budget SECONDS`: what is not done by then is skipped by name, and fails nothing by that."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import time

def test_quick():
    pass

def test_at_work():
    time.sleep(600)

def test_not_begun():
    raise AssertionError
"""

# What it leaves behind is a ResourceWarning, which is an error here, and so is its fixture.
TESTS_THAT_LEAVE = """
import subprocess, sys, time
import pytest

@pytest.fixture
def careful():
    yield
    raise OSError("it was still at work")

def test_at_work(careful):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    time.sleep(600)

def test_not_begun():
    raise AssertionError
"""

# An exception within a `__del__` ends nothing, and is a warning.
TESTS_IN_DEL = """
import time

class Slow:
    def __del__(self):
        time.sleep(6)

def test_at_work():
    Slow()
    time.sleep(600)

def test_not_begun():
    raise AssertionError
"""


def run(folder, tests, *arguments):
    (folder / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-rs", "-W", "error", "-p", "no:cacheprovider"]
    command += arguments
    done = subprocess.run([*command, str(folder)], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout


@pytest.mark.thorough
def test_what_there_is_no_time_for_is_told_by_name_and_fails_nothing(tmp_path):
    code, out = run(tmp_path, TESTS, "--budget", "4")
    assert code == 0 and "1 passed, 2 skipped" in out
    told = [line for line in out.splitlines() if line.startswith("test_it.py::")]
    assert told == ["test_it.py::test_at_work", "test_it.py::test_not_begun"]
    assert "no time left (--budget)" in out


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "1"])
def test_what_a_test_that_is_cut_leaves_behind_fails_nothing(processes, tmp_path):
    code, out = run(tmp_path, TESTS_THAT_LEAVE, "--budget", "6", "-n", processes)
    assert code == 0 and "2 skipped" in out, out


@pytest.mark.slow
def test_a_test_that_frees_something_is_cut_after_that(tmp_path):
    code, out = run(tmp_path, TESTS_IN_DEL, "--budget", "5")
    assert code == 0 and "2 skipped" in out, out


@pytest.mark.slow  # most of it is waiting
def test_a_failure_in_time_still_fails(tmp_path):
    code, out = run(tmp_path, TESTS.replace("pass", "raise KeyError"), "--budget", "4")
    assert code == 1 and "1 failed, 2 skipped" in out
