"""Child processes: what they inherit, and that they end with their parent."""

import signal
import subprocess
import sys
import time

from targetnet.agents.cluster.process import start_child


def test_a_child_of_a_process_that_blocks_sigint_gets_it_nevertheless(tmp_path):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # as Ray's processes do
    code = "import time\nprint('on', flush=True)\ntime.sleep(60)"
    try:
        child = start_child([sys.executable, "-c", code], tmp_path / "log", {})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    while not (tmp_path / "log").read_text():
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    assert child.wait(20) != 0
    assert "KeyboardInterrupt" in (tmp_path / "log").read_text()


def test_a_child_gets_a_sigint_when_its_parent_is_killed(tmp_path):
    log, code = tmp_path / "log", "import time\nprint('on', flush=True)\ntime.sleep(60)"
    parent = subprocess.Popen([
        sys.executable, "-c",
        "import sys, time, pathlib\nfrom targetnet.agents.cluster.process import start_child\n"
        f"start_child([sys.executable, '-c', {code!r}], pathlib.Path({str(log)!r}), {{}})\n"
        "time.sleep(60)",
    ])  # fmt: skip
    assert _within_a_minute(lambda: log.exists() and log.read_text())
    parent.kill()
    parent.wait()
    assert _within_a_minute(lambda: "KeyboardInterrupt" in log.read_text())


def _within_a_minute(happens):
    until = time.monotonic() + 60
    while not happens() and time.monotonic() < until:
        time.sleep(0.01)
    return happens()


def test_variables_are_added_to_those_of_this_process(tmp_path, monkeypatch):
    monkeypatch.setenv("MINE", "1")
    code = "import os; print(os.environ['MINE'], os.environ['X'], os.environ['OMP_NUM_THREADS'])"
    child = start_child([sys.executable, "-c", code], tmp_path / "deep/log", {"X": "2"})
    assert child.wait(20) == 0
    assert (tmp_path / "deep/log").read_text().split() == ["1", "2", "1"]
