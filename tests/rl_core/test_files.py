"""What is opened: regular files within a size, and nothing that would be waited for."""

import os
from pathlib import Path

import pytest

from targetnet.rl_core.files import open_regular, read_regular


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"twelve bytes")
    return path


def test_a_regular_file_is_read_whole(file):
    assert read_regular(file, most=12) == b"twelve bytes"


def test_a_larger_file_is_refused_before_it_is_read(file):
    with pytest.raises(ValueError, match="it has 12 bytes, more than 11"):
        read_regular(file, most=11)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="it is not a regular file"):
        open_regular(tmp_path / "pipe")


@pytest.mark.parametrize("path", ["/dev/zero", "/"])
def test_devices_and_directories_are_refused(path):
    with pytest.raises(ValueError, match="it is not a regular file"):
        open_regular(path)


def test_a_link_is_followed_only_where_the_caller_says_so(file):
    link = file.with_name("link")
    link.symlink_to(file)
    with pytest.raises(OSError, match="it is a symbolic link"):
        read_regular(link, most=100)
    assert read_regular(link, most=100, follow=True) == b"twelve bytes"


def test_a_refused_file_is_closed(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with pytest.raises(ValueError):
            open_regular(tmp_path / "pipe")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
