"""A fake run below a log directory, real TensorBoard processes that show it, and Chromium."""

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import pytest

from targetnet.rl_core.board.events import EventWriter
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.state import read_state

FAKE_RUN = Path(__file__).parents[2] / "control" / "fake_run.py"
FAKE_POPULATION = FAKE_RUN.with_name("fake_population.py")
ROOT = Path(__file__).parents[4]
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture(scope="session")
def logdir(tmp_path_factory):
    """Holds one run that is alive, `some/run`, with a curve, and one without control files."""
    logdir = tmp_path_factory.mktemp("logdir")
    run = logdir / "some" / "run"
    with EventWriter(run) as events:
        for step in range(0, 1_000, 10):
            events.scalars({"episode/return": step / 10, "target/age": step % 70}, step)
    with EventWriter(logdir / "plain") as events:
        events.scalar("episode/return", 1.0, 1)
    with subprocess.Popen([sys.executable, FAKE_RUN, run]) as process:
        files = ControlFiles(run)
        # Beyond the curves that are there.
        while not (files.state.exists() and read_state(files)[0].env_step > 1_000):
            assert process.poll() is None
            time.sleep(0.01)
        yield logdir
        process.kill()


@pytest.fixture(scope="session")
def run(logdir):
    return ControlFiles(logdir / "some" / "run")


@pytest.fixture
def nothing_arrives(run):
    """Fails the test if anything reached the run."""
    before = len(read_log(run.log))
    yield
    time.sleep(0.2)  # ten looks into the inbox
    assert len(read_log(run.log)) == before
    assert list(run.inbox.iterdir()) == []


@pytest.fixture(scope="session")
def start_population(logdir):
    """Starts populations of fake runs, `name/m00`, ... below the log directory."""

    @contextlib.contextmanager
    def start(name, *members):
        path = logdir / name
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            [sys.executable, FAKE_POPULATION, path, *members], env=env
        ) as process:
            try:
                while not (path / "ready").exists():
                    assert process.poll() is None
                    time.sleep(0.01)
                time.sleep(1.1)  # a board keeps its list of runs for a second
                yield path
            finally:
                process.kill()
        shutil.rmtree(path)

    return start


class Board:
    """One TensorBoard process; it is waited for when its address is first asked for."""

    def __init__(self, logdir, *arguments, quick=True):
        if quick:
            command = [sys.executable, "-m", "targetnet.rl_core.board", str(logdir)]
        else:
            command = [sys.executable, "-m", "tensorboard.main"]
            command += [f"--logdir={logdir}"] if logdir else []
        # A file, not a pipe: nobody reads along, and a full pipe would stop it.
        self._out = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed in stop()
        self._process = subprocess.Popen(
            [*command, "--port=0", *arguments],
            stdout=self._out,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )

    @property
    def said(self):
        return Path(self._out.name).read_text()

    @functools.cached_property
    def url(self):
        while not (found := re.search(r"(http://\S+?)/? \(", self.said)):
            assert self._process.poll() is None, self.said
            time.sleep(0.02)
        return found[1]

    @property
    def port(self):
        return urllib.parse.urlsplit(self.url).port

    def stop(self):
        with self._out, self._process, contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def start_board():
    """Starts boards; all are stopped in the end."""
    boards = []

    def start(*arguments, **settings):
        boards.append(Board(*arguments, **settings))
        return boards[-1]

    yield start
    for board in boards:
        with contextlib.suppress(ValueError):  # a test stopped it
            board.stop()


@pytest.fixture(scope="session")
def board(start_board, logdir):
    return start_board(logdir, "--reload_interval=1")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """Headless Chromium; it takes seconds to start, so there is one."""
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
        "disable-background-networking", "disable-component-update", "disable-sync",
        "window-size=1280,1000", f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.set_page_load_timeout(60)
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def browser(chromium):
    """A new window of it, which remembers nothing of the others."""
    from selenium.common.exceptions import WebDriverException

    first = chromium.current_window_handle
    chromium.switch_to.new_window("tab")
    chromium.set_window_size(1280, 1000)
    chromium.get_log("browser")  # what was said before is not this test's
    yield chromium
    with contextlib.suppress(WebDriverException):  # the frame that was looked at may be gone
        print(chromium.find_element("css selector", "body").text)  # shown if the test failed
    chromium.close()
    chromium.switch_to.window(first)
