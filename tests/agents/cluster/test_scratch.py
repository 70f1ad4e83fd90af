"""Directories on a node: none is left for long, and none is somebody else's."""

import os
import subprocess
import sys

import pytest

from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.worker import Scratch


@pytest.fixture
def above(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"targetnet-{os.getuid()}"


def test_a_scratch_directory_is_removed_at_the_end(above):
    scratch = Scratch()
    (scratch.path / "file").touch()
    assert above.stat().st_mode & 0o777 == 0o700
    scratch.remove()
    assert not scratch.path.exists()


def test_what_a_killed_job_left_is_removed_by_the_next_one(above):
    code = "import os, sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
    code += (
        "from targetnet.agents.cluster.worker import Scratch\nprint(Scratch().path); os._exit(1)"
    )
    command = [sys.executable, "-c", code, str(above.parent)]
    left = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    assert os.path.isdir(left)  # noqa: PTH112 - text
    used = Scratch()
    assert not os.path.exists(left)  # noqa: PTH110
    other = Scratch()
    assert used.path.exists()
    for scratch in (used, other):
        scratch.remove()


def test_one_that_a_child_still_uses_is_left(above):
    scratch = Scratch()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                             pass_fds=[scratch.lock])  # fmt: skip
    os.close(scratch.lock)
    other = Scratch()
    assert scratch.path.exists()
    child.communicate(b"\n")
    Scratch().remove()
    assert not scratch.path.exists()
    other.remove()


def test_a_directory_of_somebody_else_is_not_used(above, tmp_path):
    above.symlink_to(tmp_path)
    with pytest.raises(ClusterError, match="it must be a directory of this user"):
        Scratch()
