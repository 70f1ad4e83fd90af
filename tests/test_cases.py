"""`cases(n, m)`: `make test` makes the first n cases of a test, and `make check` the first m."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.cases(1)
@pytest.mark.parametrize("x", "ab")
@pytest.mark.parametrize("y", [1, 2])
def test_of_four(x, y):
    pass

@pytest.mark.cases(2)
@pytest.mark.parametrize("x", [pytest.param("a", marks=pytest.mark.slow), "b", "c", "d"])
def test_of_three_and_a_slow_one(x):
    pass

@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("x", "ab")
def test_of_two_a_thorough_one(x):
    pass

@pytest.mark.thorough
def test_left_out():
    pass

def test_as_ever():
    pass
"""
SHORT = {"test_of_four[1-a]", "test_of_three_and_a_slow_one[b]", "test_of_three_and_a_slow_one[c]",
         "test_as_ever"}  # fmt: skip
ROOT = Path(__file__).parents[1]


def collected(folder, *arguments):
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (folder / "test_it.py").write_text(TESTS)
    markers = "markers=cases(n, m): few\nthorough: all\nslow: minutes"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", markers, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return re.findall(r"^test_it\.py::(\S+)$", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_the_first_cases_are_those_of_make_test(tmp_path):
    assert {*collected(tmp_path, "-m", "not thorough and not slow")} == SHORT
    checked = collected(tmp_path, "-m", "not slow")
    assert len(checked) == 10 and "test_of_two_a_thorough_one[a]" in checked
    # One that is asked for by its name is made.
    last = "test_it.py::test_of_four[2-b]"
    assert collected(tmp_path, last, "-m", "not thorough") == ["test_of_four[2-b]"]


@pytest.mark.slow
def test_a_start_is_a_share_of_the_tests_that_are_made(tmp_path):
    made = collected(tmp_path, "-m", "thorough or slow")
    assert len(made) == 8 and made[-1] == "test_left_out"
    started = collected(tmp_path, "-m", "thorough or slow", "--start", "0.5")
    assert started == made[4:] + made[:4]


@pytest.mark.parametrize(
    ("target", "wanted"),
    [("test", ""), ("check", " -m 'not slow and not benchmark'")],
)
def test_make_asks_for_them(target, wanted):
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    assert recipe and recipe[1].endswith(f"$(TESTS){wanted}\n")
    options = (ROOT / "pyproject.toml").read_text()
    assert "-m 'not thorough and not slow and not benchmark'\"" in options
