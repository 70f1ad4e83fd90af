"""Fixtures for every test. They import TensorFlow on first use: some tests prove its absence."""

import gc
import os
import signal
import subprocess
import threading
import time
import warnings
from collections import Counter

import hypothesis  # noqa: F401  before a run calls gc.freeze: afterwards it takes generators for lost
import pytest

import targetnet  # noqa: F401  before a test module imports TensorFlow, with whichever of them it begins

# A shell that starts the tests in the background makes them, and every process they start, deaf
# to Ctrl-C; some tests send one.
signal.signal(signal.SIGINT, signal.default_int_handler)

# To look for garbage among all that TensorFlow imports took a tenth of the time.
gc.set_threshold(20_000, 20, 20)

# What tests compile is of no use to the user: TensorFlow counts the functions of a process, and
# finds what it compiled by their numbers.
os.environ["TARGETNET_XLA_CACHE"] = "off"


def pytest_addoption(parser):
    parser.addoption(
        "--budget", type=float, metavar="SECONDS", help="skip what is not done by then, by name"
    )
    parser.addoption(
        "--start", type=float, default=0.0, metavar="SHARE",
        help="begin after this share of the tests, from 0 to 1; the ones before it come last",
    )  # fmt: skip


def pytest_configure(config):
    if seconds := config.getoption("budget"):
        config.pluginmanager.register(Budget(seconds), "budget")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Of a test marked `cases(n, m)`, marks what is after n as thorough, and after m as slow."""
    made = Counter()
    for item in items:
        mark = item.get_closest_marker("cases")
        if mark is None or item.get_closest_marker("slow"):
            continue
        test = item.nodeid.partition("[")[0]
        made[test] += 1
        quick, *thorough = mark.args
        if thorough and made[test] > thorough[0]:
            item.add_marker("slow")
        elif made[test] > quick:
            item.add_marker("thorough")
    yield
    first = int(config.getoption("start") * len(items))
    items[:] = items[first:] + items[:first]


class Budget:
    """Ends the tests in time: one at work is cut, the others are not begun. That fails nothing.

    A test that is cut may leave a file open or a process running, and that is an error elsewhere,
    found then or when the next test is not begun.
    """

    REASON = "no time left (--budget)"

    def __init__(self, seconds):
        self._end = time.monotonic() + seconds
        self._main, self._at_work = threading.get_ident(), False
        self._left_out, self._late = [], None
        signal.signal(signal.SIGUSR1, self._cut)
        self._cut_in(seconds)

    def _cut_in(self, seconds):
        timer = threading.Timer(seconds, signal.pthread_kill, (self._main, signal.SIGUSR1))
        timer.daemon = True
        timer.start()

    def _cut(self, _, frame):
        while frame is not None:  # an exception in a __del__ would be lost, and told as a fault
            if frame.f_code.co_name == "__del__":
                return self._cut_in(0.05)
            frame = frame.f_back
        # Within a test: it is left as by any other exception, and its processes are ended.
        if self._at_work:
            pytest.skip(self.REASON)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        if time.monotonic() > self._end:
            pytest.skip(self.REASON)
        self._at_work = True
        try:
            return (yield)
        finally:
            self._at_work = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        if time.monotonic() > self._end:
            pytest.skip(self.REASON)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.skipped and self.REASON in str(report.longrepr):
            self._late = item
        elif report.failed and self._late is item:
            report.outcome = "passed"
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self):
        if self._late:  # pytest looks once more
            warnings.simplefilter("ignore", pytest.PytestUnraisableExceptionWarning)

    def pytest_runtest_logreport(self, report):
        if report.skipped and self.REASON in str(report.longrepr):
            self._left_out.append(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter):
        if self._left_out:
            terminalreporter.section("not run: no time left")
            terminalreporter.write_line("\n".join(self._left_out))


@pytest.fixture
def engine():
    """A fresh engine: build in `with engine.building():`, then `engine.start()`."""
    from targetnet.rl_core import Engine

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
