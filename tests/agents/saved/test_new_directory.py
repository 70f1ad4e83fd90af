"""A new directory: complete or not at all, and never in the place of something."""

import pytest

from targetnet.agents.saved.directory import new_directory, require_new
from targetnet.rl_core.errors import RlCoreError


def attempt(out):
    with new_directory(out, RlCoreError) as making:
        (making / "file").write_text("whole")


def test_an_empty_directory_is_filled(tmp_path):
    (tmp_path / "out").mkdir()
    attempt(tmp_path / "out")
    assert (tmp_path / "out/file").read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("whole_path", [False, True])
def test_the_current_directory_is_refused_even_if_it_is_empty(tmp_path, monkeypatch, whole_path):
    """Whoever stands in it would go on to stand in the one that was replaced."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    out = here if whole_path else here.relative_to(here)
    for call in (attempt, lambda out: require_new(out, RlCoreError)):
        with pytest.raises(RlCoreError, match="is the current directory; name a new directory"):
            call(out)
    assert not any(here.iterdir())


def test_an_end_on_the_way_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), new_directory(tmp_path / "out", RlCoreError) as making:
        (making / "file").write_text("half")
        raise KeyboardInterrupt
    assert not any(tmp_path.iterdir())


def test_directories_above_that_were_made_for_nothing_are_gone_too(tmp_path):
    (tmp_path / "there").mkdir()
    out = tmp_path / "there/new/newer/out"
    with pytest.raises(KeyboardInterrupt), new_directory(out, RlCoreError):
        raise KeyboardInterrupt
    assert [*tmp_path.rglob("*")] == [tmp_path / "there"]
    with new_directory(out, RlCoreError) as making:
        (making / "file").touch()
    assert (out / "file").exists()
