"""A fake run below a log directory, real TensorBoard processes that show it, and Chromium."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rl_core.control.files import ControlFiles
from rl_core.control.log import read_log
from rl_core.control.state import read_state
from rl_core.events import EventWriter

FAKE_RUN = Path(__file__).parents[1] / "control" / "fake_run.py"
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
        # Its schedule's corner is in the log by then, so that nothing comes by itself any more.
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


class Board:
    """One TensorBoard process."""

    def __init__(self, logdir, *arguments, quick=True):
        if quick:
            command = [sys.executable, "-m", "rl_core.board", *([str(logdir)] if logdir else [])]
        else:
            command = [sys.executable, "-m", "tensorboard.main"]
            command += [f"--logdir={logdir}"] if logdir else []
        if not any(argument.startswith("--port") for argument in arguments):
            arguments = (*arguments, "--port=0")
        self._out = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        said = b""
        while b"http://" not in said:
            line = self._out.stdout.readline()
            assert line, said.decode()
            said += line
        self.url = "http://" + said.decode().split("http://")[1].split()[0].rstrip("/")
        self.port = int(self.url.split(":")[2].split("/")[0])

    def stop(self):
        with self._out, contextlib.suppress(ProcessLookupError):
            os.killpg(self._out.pid, signal.SIGTERM)
            try:
                self._out.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self._out.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def start_board():
    """Starts boards; all are stopped in the end."""
    boards = []

    def start(*arguments, **settings):
        boards.append(Board(*arguments, **settings))
        return boards[-1]

    yield start
    for board in boards:
        board.stop()


@pytest.fixture(scope="session")
def board(start_board, logdir):
    return start_board(logdir, "--reload_interval=1")


@pytest.fixture
def browser(tmp_path):
    """Headless Chromium."""
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
        "disable-background-networking", "disable-component-update", "disable-sync",
        "window-size=1280,1000", f"user-data-dir={tmp_path / 'profile'}",
    ):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.set_page_load_timeout(60)
        yield driver
    finally:
        driver.quit()
