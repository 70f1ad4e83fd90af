"""Which runs the tab finds, and under which names."""

from pathlib import Path

import pytest

from rl_core.steer.runs import Runs, log_directories


def make_run(path):
    (path / "control" / "inbox").mkdir(parents=True)
    (path / "control" / "state.json").write_text("{}")
    return path


def names(top):
    return sorted(Runs({"": top}).all())


def test_runs_have_the_names_that_tensorboard_gives_them(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "deep" / "er" / "b")
    (tmp_path / "empty").mkdir()
    assert names(tmp_path) == ["a", "deep/er/b"]
    assert names(tmp_path / "a") == ["."]


def test_what_lies_too_deep_or_is_hidden_is_not_looked_for(tmp_path):
    make_run(tmp_path / "1/2/3/4")
    make_run(tmp_path / "1/2/3/4b/5")
    make_run(tmp_path / ".trash/run")
    assert names(tmp_path) == ["1/2/3/4"]


def test_links_out_of_the_log_directory_are_not_followed(tmp_path):
    outside = make_run(tmp_path / "outside")
    inside = tmp_path / "logdir"
    inside.mkdir()
    (inside / "whole").symlink_to(outside)
    (inside / "control").mkdir()
    (inside / "control" / "state.json").symlink_to(outside / "control" / "state.json")
    (inside / "half" / "control").mkdir(parents=True)
    (inside / "half/control/state.json").write_text("{}")
    (inside / "half/control/inbox").symlink_to(outside / "control/inbox")
    assert names(inside) == []


def test_the_log_directory_itself_may_be_a_link(tmp_path):
    make_run(tmp_path / "real" / "a")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert names(tmp_path / "link") == ["a"]


@pytest.mark.parametrize(
    "name",
    ["../outside", "a/../../outside", "/etc", "a/", "./a", "a\0b", "", "%2e%2e", "a/control"],
)
def test_a_name_is_looked_up_and_never_a_path(tmp_path, name):
    make_run(tmp_path / "outside")
    make_run(tmp_path / "logdir" / "a")
    assert Runs({"": tmp_path / "logdir"}).get(name) is None


def test_a_missing_directory_has_no_runs(tmp_path):
    assert names(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("logdir", "spec", "expected"),
    [
        ("/a", "", {"": Path("/a")}),
        ("", "one:/a,two:/b", {"one": Path("/a"), "two": Path("/b")}),
        ("", "/a", {"": Path("/a")}),
        ("", "/a:b", {"": Path("/a:b")}),
        ("", "", {}),
    ],
)
def test_the_two_flags(logdir, spec, expected):
    assert log_directories(logdir, spec) == expected


def test_named_log_directories_prefix_their_runs(tmp_path):
    make_run(tmp_path / "x" / "a")
    runs = Runs(log_directories("", f"one:{tmp_path / 'x'}"))
    assert sorted(runs.all()) == ["one/a"]
