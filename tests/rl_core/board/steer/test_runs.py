"""Which runs the tab finds, and under which names."""

import os
from pathlib import Path

import pytest

from targetnet.rl_core.board.steer.runs import LogDirectory, Runs, log_directories


def make_run(path):
    (path / "control" / "inbox").mkdir(parents=True)
    (path / "control" / "state.json").write_text("{}")
    return path


def runs_in(top):
    return Runs([LogDirectory("", top)])


def names(top):
    return sorted(runs_in(top).all())


def problems(top):
    return sorted(f"{name}: {problem}" for name, problem in runs_in(top).problems().items())


def test_runs_have_the_names_that_tensorboard_gives_them(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "deep" / "er" / "b")
    (tmp_path / "empty").mkdir()
    assert names(tmp_path) == ["a", "deep/er/b"]
    assert names(tmp_path / "a") == ["."]


def test_a_run_may_be_called_control_and_a_run_has_no_runs_inside(tmp_path):
    make_run(tmp_path / "control")
    make_run(tmp_path / "treatment")
    make_run(tmp_path / "treatment/copies/of/another")
    assert names(tmp_path) == ["control", "treatment"]


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
    assert problems(inside) == [
        f".: {inside}/control/state.json leads out of the log directory",
    ]


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
    assert runs_in(tmp_path / "logdir").get(name) is None


def test_a_missing_directory_has_no_runs(tmp_path):
    assert names(tmp_path / "none") == []


@pytest.mark.parametrize("name", ["state.json", "inbox", "log.jsonl", "token", "lock"])
def test_a_run_with_a_file_elsewhere_is_not_shown(tmp_path, name):
    path = make_run(tmp_path / "logdir" / "a") / "control" / name
    path.rename(tmp_path / "moved") if path.exists() else (tmp_path / "moved").touch()
    assert names(tmp_path / "logdir") == ([] if name == "state.json" else ["a"])
    path.symlink_to(tmp_path / "moved")
    assert names(tmp_path / "logdir") == []
    assert problems(tmp_path / "logdir") == [f"a: {path} leads out of the log directory"]


def test_a_link_to_itself_hides_no_other_run(tmp_path):
    make_run(tmp_path / "good")
    (tmp_path / "bad" / "control").mkdir(parents=True)
    (tmp_path / "bad" / "control" / "state.json").symlink_to("state.json")
    (tmp_path / "worse").symlink_to("worse")
    (make_run(tmp_path / "token") / "control" / "token").symlink_to("token")
    assert names(tmp_path) == ["good"]
    assert [problem.split(": ")[0] for problem in problems(tmp_path)] == ["bad", "token"]
    assert all(problem.endswith("is a link to itself") for problem in problems(tmp_path))


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_a_run_whose_state_is_no_file_is_not_left_out(tmp_path, make):
    (tmp_path / "a" / "control").mkdir(parents=True)
    make(tmp_path / "a" / "control" / "state.json")
    assert names(tmp_path) == ["a"]


def test_a_directory_that_may_not_be_read_hides_no_other_run(tmp_path, monkeypatch):
    make_run(tmp_path / "good")
    make_run(tmp_path / "somebody_elses")
    lstat = Path.lstat

    def of_another_user(path):
        if "somebody_elses" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", of_another_user)
    assert names(tmp_path) == ["good"]
    (problem,) = problems(tmp_path)
    assert problem.startswith("somebody_elses: cannot read") and "Permission denied" in problem


def test_a_directory_that_may_not_be_listed_is_told_and_hides_no_other_run(tmp_path, monkeypatch):
    make_run(tmp_path / "good")
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def of_another_user(path):
        if path.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", of_another_user)
    assert names(tmp_path) == ["good"]
    assert problems(tmp_path) == [f"closed: cannot read {tmp_path / 'closed'}: Permission denied"]


def test_a_log_directory_that_is_a_link_to_itself_hides_no_other(tmp_path):
    make_run(tmp_path / "good" / "a")
    (tmp_path / "loop").symlink_to("loop")
    found = Runs(log_directories("", f"{tmp_path / 'loop'},{tmp_path / 'good'}"))
    assert sorted(found.all()) == ["a"]


def test_a_list_that_took_long_is_kept_ten_times_as_long(tmp_path, monkeypatch):
    clock = iter([0.0, 3.0, 32.9, 33.1, 33.1, 100.0])  # looks from 0 to 3: kept until 33
    monkeypatch.setattr("targetnet.rl_core.board.steer.runs.time.monotonic", lambda: next(clock))
    runs = runs_in(tmp_path)
    assert list(runs.all()) == []
    make_run(tmp_path / "new")
    assert list(runs.all()) == []
    assert list(runs.all()) == ["new"]


@pytest.mark.parametrize(
    ("logdir", "spec", "expected"),
    [
        ("/a", "", [("", "/a")]),
        ("", "one:/a,two:/b", [("one", "/a"), ("two", "/b")]),
        ("", "/a,/b", [("", "/a"), ("", "/b")]),
        ("", "/a:b", [("", "/a:b")]),
        ("", "one/two:/a:b", [("one/two", "/a:b")]),
        ("", "one:/a,one:/b", [("one", "/a"), ("one", "/b")]),
        ("", "a,,", [("", "a")]),
        ("", "", []),
    ],
)
def test_the_two_flags(logdir, spec, expected):
    found = log_directories(logdir, spec)
    assert [(group, str(path)) for group, path in found] == expected


def test_runs_of_several_log_directories_have_the_names_that_tensorboard_gives_them(tmp_path):
    for name in ("x/a", "y/b", "z", "w/a"):
        make_run(tmp_path / name)
    spec = ",".join(f"{group}{tmp_path / name}" for group, name in
                    [("one:", "x"), ("", "y"), ("two:", "z"), ("", "x"), ("", "w")])  # fmt: skip
    runs = Runs(log_directories("", spec)).all()
    assert sorted(runs) == ["a", "b", "one/a", "two/."]
    assert runs["a"].run == tmp_path / "x" / "a"  # the first of two of one name
