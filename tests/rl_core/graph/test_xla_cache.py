"""What XLA compiled is read by the next process, unless anything about the file is wrong."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core.graph import xla_cache
from targetnet.rl_core.graph.xla_cache import give_to_tensorflow, store

NAME = "xla_compile_cache__1__2__XLA_CPU_JIT.pb"
MEMORY = "ram://targetnet-xla"
PROGRAM = """
import os, sys
import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2
from targetnet.rl_core import Engine
from targetnet.rl_core.graph import xla_cache

stored, store = [], xla_cache.store
xla_cache.store = lambda *args: stored.append(store(*args))
engine = Engine()
with engine.building():
    x = tf.placeholder(tf.float32, [64])
    y = tf2.function(lambda x: tf.sqrt(x) / 3.0, jit_compile=True)(x)
engine.start()
value = engine.callable(y, [x])(np.arange(64, dtype=np.float32))
print(value.tobytes().hex(), len(stored), os.environ.get("TF_XLA_FLAGS"))
"""


def compiled_by_a_process(cache, **more):
    """The value's bits, how many files were stored, TensorFlow's flags afterwards."""
    kept = {n: v for n, v in os.environ.items() if n not in ("TARGETNET_XLA_CACHE", "TF_XLA_FLAGS")}
    environ = kept | {"XDG_CACHE_HOME": str(cache)} | more
    return subprocess.check_output([sys.executable, "-c", PROGRAM], env=environ, text=True).split()


def files_below(folder):
    return sorted(path for path in Path(folder).rglob("*") if path.is_file())


@pytest.mark.thorough
def test_the_next_process_compiles_nothing_and_has_the_same_bits(tmp_path):
    bits, stored, flags = compiled_by_a_process(tmp_path)
    assert (stored, flags) == ("1", "None")
    (file,) = files_below(tmp_path / "targetnet/xla")
    assert file.stat().st_mode & 0o777 == 0o600
    assert {place.stat().st_mode & 0o777 for place in list(file.parents)[:3]} == {0o700}
    file.write_bytes(file.read_bytes()[:-1])  # as a machine that was switched off may leave it
    assert compiled_by_a_process(tmp_path) == [bits, "1", "None"]
    assert compiled_by_a_process(tmp_path) == [bits, "0", "None"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"TARGETNET_XLA_CACHE": "off"},
        {"TF_XLA_FLAGS": "--tf_xla_auto_jit=0"},
        {"XDG_CACHE_HOME": "/dev/null"},
    ],
    ids=["off", "flags of the user", "no directory can be made"],
)
def test_without_it_the_bits_are_the_same_and_nothing_is_stored(tmp_path, more):
    value, stored, flags = compiled_by_a_process(tmp_path, **more)
    wanted = np.sqrt(np.arange(64, dtype=np.float32)) / np.float32(3)
    np.testing.assert_allclose(np.frombuffer(bytes.fromhex(value), np.float32), wanted, rtol=1e-6)
    assert (stored, flags) == ("0", more.get("TF_XLA_FLAGS", "None"))
    assert files_below(tmp_path / "targetnet") == []


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the files of a graph are, with one of them in it, and none in memory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if tf.io.gfile.exists(MEMORY):
        tf.io.gfile.rmtree(MEMORY)
    tf.io.gfile.makedirs(MEMORY)
    place = tmp_path / "targetnet/xla/machine/graph"
    written(place, NAME)
    return place


def written(place, name, content=b"machine code"):
    with tf.io.gfile.GFile(f"{MEMORY}/{name}", "wb") as file:
        file.write(content)
    store(place, name)
    tf.io.gfile.remove(f"{MEMORY}/{name}")
    return place / name


def in_memory():
    return set(tf.io.gfile.listdir(MEMORY))


def test_what_is_stored_comes_back_as_it_was(place):
    give_to_tensorflow(place)
    with tf.io.gfile.GFile(f"{MEMORY}/{NAME}", "rb") as file:
        assert file.read() == b"machine code"


def truncated(path):
    path.write_bytes(path.read_bytes()[:-1])


def empty(path):
    path.write_bytes(b"")


def another_byte(path):
    path.write_bytes(path.read_bytes()[:-1] + b"!")


def others_can_write(path):
    path.chmod(0o602)


def of_another_user(path):
    if os.getuid():
        pytest.skip("only root can give a file to another user")
    os.chown(path, 12345, -1)


def link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def folder(path):
    path.unlink()
    path.mkdir()


def too_large(path):
    path.unlink()
    written(path.parent, path.name, bytes(xla_cache._MOST_OF_GRAPH))


@pytest.mark.parametrize(
    "spoil",
    [
        truncated,
        empty,
        another_byte,
        others_can_write,
        of_another_user,
        link,
        pipe,
        folder,
        too_large,
    ],
)
def test_a_file_that_may_not_be_what_was_stored_is_not_given_to_tensorflow(place, spoil):
    other = "xla_compile_cache__3__4__XLA_CPU_JIT.pb"
    spoil(written(place, other))
    written(place, "evil.so")
    give_to_tensorflow(place)
    assert in_memory() == {NAME}


@pytest.mark.parametrize("which", [0, 1, 2], ids=["of the graph", "of the machine", "of all"])
@pytest.mark.parametrize("spoil", [others_can_write, of_another_user, link])
def test_nothing_is_read_or_written_where_others_could_write(place, which, spoil):
    spoil([place, *place.parents][which])
    wrong = "is not a directory" if spoil is link else "others can write it"
    with pytest.raises(ValueError, match=wrong):
        give_to_tensorflow(place)
    assert in_memory() == set()
    with pytest.raises(ValueError, match=wrong):
        written(place, "xla_compile_cache__5__6__XLA_CPU_JIT.pb")


def test_a_full_disk_leaves_no_part_of_a_file(place, small_disk, monkeypatch):
    disk, _ = small_disk
    monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
    place = disk / "targetnet/xla/machine/graph"
    with pytest.raises(OSError, match="No space left"):
        written(place, NAME, bytes(1_000_000))
    assert files_below(disk) == []


def test_the_files_that_were_used_last_are_kept(place, monkeypatch):
    os.utime(place / NAME, (0, 0))
    give_to_tensorflow(place)  # that is a use
    assert time.time() - (place / NAME).stat().st_mtime < 100
    paths = [place / NAME] + [
        written(place, f"xla_compile_cache__{i}__XLA_CPU_JIT.pb", bytes(68)) for i in range(3)
    ]
    for age, path in enumerate(paths):
        os.utime(path, (time.time() - 1000 * age,) * 2)
    dead, alive = place / "a.tmp", place / "b.tmp"
    for path in dead, alive:
        path.touch()
    os.utime(dead, (0, 0))
    monkeypatch.setattr(xla_cache, "_MOST", 290)
    new = written(place, "xla_compile_cache__9__XLA_CPU_JIT.pb", bytes(68))
    assert {path for path in place.iterdir() if path != alive} == {*paths[:2], new}
    assert alive.exists()


def test_machine_code_for_another_processor_is_in_another_folder(monkeypatch):
    def folder(threads=1):
        xla_cache._machine.cache_clear()
        return xla_cache._machine(threads)

    folders = [folder(), folder(2)]
    monkeypatch.setattr(xla_cache, "cores", lambda: 77)
    folders.append(folder())
    monkeypatch.setattr(xla_cache, "processor_features", lambda: "a model, avx2")
    folders.append(folder())
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_prefer_vector_width=128")
    folders.append(folder())
    assert len(set(folders)) == 5
    xla_cache._machine.cache_clear()


def test_a_file_that_another_thread_has_stored_meanwhile_ends_nothing(place, monkeypatch):
    monkeypatch.setattr(xla_cache, "tell_tensorflow", lambda: True)
    monkeypatch.setattr(xla_cache, "store", lambda _, name: tf.io.gfile.remove(f"{MEMORY}/{name}"))
    cache = xla_cache.XlaCache(tf.Graph(), 1)
    with cache.in_use(), tf.io.gfile.GFile(f"{MEMORY}/{NAME}", "wb") as file:
        file.write(b"machine code")
    assert in_memory() == set()
