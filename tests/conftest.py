"""Fixtures for every test. They import TensorFlow on first use: some tests prove its absence."""

import os
import signal
import subprocess

import pytest

# A shell that starts the tests in the background makes them, and every process they start, deaf
# to Ctrl-C; some tests send one.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def engine():
    """A fresh engine: build in `with engine.building():`, then `engine.start()`."""
    from rl_core import Engine

    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def evaluate():
    """Runs tensors of the test's own graph; a variable is initialised before its first use."""
    import tensorflow.compat.v1 as tf

    ready = set()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(0)  # initial weights: what fails once fails again

        def evaluate(fetches, feed_dict=None):
            session.run([v.initializer for v in tf.global_variables() if v.name not in ready])
            ready.update(v.name for v in tf.global_variables())
            return session.run(fetches, feed_dict)

        yield evaluate


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 kB in memory, and what gives it more room."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(*options):
        return subprocess.run(["mount", *options, str(place)], capture_output=True).returncode == 0

    if os.geteuid() != 0 or not mount("-t", "tmpfs", "-o", "size=400k", "tmpfs"):
        pytest.skip("needs to be allowed to mount a file system")
    yield place, lambda: mount("-o", "remount,size=30m")
    subprocess.run(["umount", "--lazy", str(place)], check=True)
