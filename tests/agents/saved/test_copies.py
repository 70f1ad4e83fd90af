"""Copies of members in a run's directory: only its own files are ever removed."""

import numpy as np
import pytest

from targetnet.agents.saved.copies import clear_copies, save_copy
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.errors import RunDirError


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    return RunDir(tmp_path / "run")


def names(directory):
    return {path.name for path in directory.iterdir()}


def test_all_copies_but_the_kept_ones_are_removed_and_nothing_else(run):
    kept, other = (save_copy([run], {"w": np.full(2, k, np.float32)}) for k in (1, 2))
    copies = run.path / "copies"
    (copies / f".{kept}.safetensors.77.tmp").write_text("half of one")
    for theirs in ("notes", f"{other}.txt"):
        (copies / theirs).write_text("theirs")
    clear_copies(run, {kept})
    assert names(copies) == {f"{kept}.safetensors", "notes", f"{other}.txt"}


def test_a_link_is_not_followed(run, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / f"{'a' * 64}.safetensors").write_text("of another run")
    (run.path / "copies").symlink_to(theirs)
    before = names(theirs)
    clear_copies(run, ())
    with pytest.raises(RunDirError, match="copies is a link"):
        save_copy([run], {"w": np.zeros(2, np.float32)})
    assert names(theirs) == before
