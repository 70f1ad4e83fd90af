"""The current directory on the path of `python -m`."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from targetnet.rl_core.search_path import leave_current_directory

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("first", ["", "{here}"])
def test_the_current_directory_is_taken_off_the_path(first, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [first.format(here=tmp_path), "/first", str(tmp_path)])
    leave_current_directory()
    assert sys.path == ["/first", str(tmp_path)]  # the last one is the user's own choice


def test_another_directory_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["/first", str(tmp_path)])
    leave_current_directory()
    assert sys.path == ["/first", str(tmp_path)]


def test_a_checkout_stays_because_the_command_itself_comes_from_there(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", [str(ROOT), "/first"])
    leave_current_directory()
    assert sys.path == [str(ROOT), "/first"]


def test_with_a_safe_path_the_first_place_is_the_users(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), "/first"])
    monkeypatch.setattr(sys, "flags", SimpleNamespace(safe_path=True))
    leave_current_directory()
    assert sys.path == [str(tmp_path), "/first"]


def test_a_directory_that_was_removed_is_none(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "path", ["/first"])
    leave_current_directory()
    assert sys.path == ["/first"]
