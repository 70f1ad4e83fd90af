"""Stores what XLA compiled for the next process: compiling takes seconds, reading it hundredths.

TensorFlow stores it itself, in a directory that a flag names. It trusts the files it finds there,
fails where it cannot write, and does not ask which processor they are for. So that directory is in
memory here, and files go from there to the user's cache and back:

    ~/.cache/targetnet/xla/              below XDG_CACHE_HOME, if that is set
      <processor, versions and flags>/   a hash of all that the machine code depends on
        <graph>/                         a hash of the names of its operations
          <TensorFlow's name>            SHA-256 of what follows, and what TensorFlow wrote

It is machine code, so only files are read that belong to the user, that nobody else can write, and
that have not changed since. TensorFlow compares the program that a file was compiled from with the
one that it has, byte for byte, and compiles where they differ. Whatever goes wrong, it compiles.
TARGETNET_XLA_CACHE=off does without.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.rl_core.files import read_regular
from targetnet.rl_core.lazy import XLA_FLAGS
from targetnet.rl_core.machine import cores, processor_features

CACHE_VARIABLE, FLAGS_VARIABLE = "TARGETNET_XLA_CACHE", "TF_XLA_FLAGS"
_IN_MEMORY = "ram://targetnet-xla"
_FLAG = f"--tf_xla_persistent_cache_directory={_IN_MEMORY}"
_NAME = re.compile(r"xla_compile_cache__\w+\.pb")
_DIGEST = 32  # bytes of SHA-256
_MOST, _MOST_OF_GRAPH = 500_000_000, 32_000_000  # bytes
_TEMPORARY = ".tmp"
_ABANDONED = 3600.0  # seconds after which a writer is dead


@functools.cache
def tell_tensorflow() -> bool:
    """Names the directory in memory to TensorFlow; False if the user has other wishes."""
    is_off = os.environ.get(CACHE_VARIABLE, "").strip().lower() == "off"
    if is_off or FLAGS_VARIABLE in os.environ:
        return False
    # TensorFlow reads its flags once, when it looks for devices.
    os.environ[FLAGS_VARIABLE] = _FLAG
    try:
        tf2.config.list_physical_devices()
    finally:
        del os.environ[FLAGS_VARIABLE]
    return True


def cache_directory() -> Path:
    """Returns where it is stored."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    parent = Path(home) if Path(home).is_absolute() else Path.home() / ".cache"
    return parent / "targetnet" / "xla"


class XlaCache:
    """Stores what XLA compiles of one graph.

    Args:
      graph: finalized before the first use.
      threads: of one operation; XLA divides its work by them.
    """

    def __init__(self, graph: tf.Graph, threads: int) -> None:
        self._graph, self._threads, self._given = graph, threads, False

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Has TensorFlow find what was stored, and stores what it compiles inside this context."""
        if not tell_tensorflow():
            yield
            return
        if not self._given:
            self._given = True
            with _without_complaint():
                give_to_tensorflow(self._place)
        before = _in_memory()
        yield
        for name in _in_memory() - before:
            with _without_complaint():
                store(self._place, name)
            with _without_complaint():  # another thread may have removed it
                tf.io.gfile.remove(f"{_IN_MEMORY}/{name}")

    @functools.cached_property
    def _place(self) -> Path:
        operations = [f"{op.type} {op.name}" for op in self._graph.get_operations()]
        return cache_directory() / _machine(self._threads) / _hash("\n".join(operations))


@functools.cache
def _machine(threads: int) -> str:
    flags = os.environ.get("XLA_FLAGS", "")
    return _hash(repr((processor_features(), cores(), threads, tf.version.VERSION,
                       tf.version.GIT_VERSION, XLA_FLAGS, flags)))  # fmt: skip


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@contextlib.contextmanager
def _without_complaint() -> Iterator[None]:
    # It is there to save time: without it XLA compiles.
    with contextlib.suppress(OSError, RuntimeError, ValueError, tf.errors.OpError):
        yield


def _in_memory() -> set[str]:
    try:
        return set(tf.io.gfile.listdir(_IN_MEMORY))
    except tf.errors.OpError:  # nothing was compiled yet
        return set()


def give_to_tensorflow(place: Path) -> None:
    """Copies into memory what is stored in a directory, as far as it is the user's and undamaged.

    Raises:
      OSError, ValueError: there is no such directory, or others can write it.
    """
    _require_own_directories(place)
    files = [(path.stat().st_mtime, path) for path in place.iterdir() if _NAME.fullmatch(path.name)]
    left = _MOST_OF_GRAPH
    for _, path in sorted(files, reverse=True):
        if tf.io.gfile.exists(f"{_IN_MEMORY}/{path.name}"):
            continue
        with contextlib.suppress(OSError, ValueError):
            content = _read(path, left)
            left -= len(content)
            with tf.io.gfile.GFile(f"{_IN_MEMORY}/{path.name}", "wb") as file:
                file.write(content)
            os.utime(path)  # the least recently used is removed first


def _read(path: Path, most: int) -> bytes:
    """Returns what TensorFlow wrote into a file that is the user's and has not changed."""
    _require_own(path.lstat())
    content = read_regular(path, most=most)
    if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
        raise ValueError(f"{path} is damaged")
    return content[_DIGEST:]


def store(place: Path, name: str) -> None:
    """Copies a file from memory into a directory, which is made if it is missing.

    Raises:
      OSError, ValueError: it cannot be written, or others can write the directory.
    """
    with tf.io.gfile.GFile(f"{_IN_MEMORY}/{name}", "rb") as file:
        content = file.read()
    for path in *reversed(place.parents), place:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
    _require_own_directories(place)
    handle, temporary = tempfile.mkstemp(_TEMPORARY, dir=place)  # nobody else may read it
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        Path(temporary).replace(place / name)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
    _remove_oldest()


def _remove_oldest() -> None:
    found = []
    for path in cache_directory().glob("*/*/*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if path.suffix == _TEMPORARY and time.time() - status.st_mtime > _ABANDONED:
                path.unlink()
            found.append((status.st_mtime, status.st_size, path))
    size = sum(of for _, of, _ in found)
    for _, of, path in sorted(found):
        if size <= _MOST:
            return
        path.unlink(missing_ok=True)
        size -= of


def _require_own_directories(place: Path) -> None:
    for path in place, *place.parents[:2]:
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise ValueError(f"{path} is not a directory")
        _require_own(status)


def _require_own(status: os.stat_result) -> None:
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError("others can write it")
