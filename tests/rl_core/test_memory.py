"""Memory that is given back to the system."""

import ctypes
import subprocess
import sys

import pytest

from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.machine import give_back_memory

# 100 MB in pieces that malloc does not map one by one; a piece at the end keeps the heap's top.
FREED = """
import ctypes
from pathlib import Path
from targetnet.rl_core.machine import give_back_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def private():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) // 1024

pieces = [libc.malloc(10_000) for _ in range(10_000)]
for piece in pieces:
    ctypes.memset(piece, 1, 10_000)
for piece in pieces[:-1]:
    libc.free(piece)
before = private()
give_back_memory()
print(before - private())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not glibc")
def test_what_was_freed_goes_back_to_the_system():
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 80  # MB of 100


def test_a_c_library_that_cannot_is_no_mistake(monkeypatch):
    asked = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: asked.append(name) or object())
    give_back_memory()
    assert asked == [None]  # it was looked for, and is not there


def test_the_first_call_gives_back_what_compiling_took(monkeypatch):
    import tensorflow.compat.v1 as tf

    given = []
    monkeypatch.setattr("targetnet.rl_core.graph.engine.give_back_memory", lambda: given.append(1))
    engine = Engine()
    with engine.building():
        one = tf.constant(1)
    engine.start()
    call = engine.callable(one)
    assert (call(), call(), given) == (1, 1, [1])
    engine.close()
