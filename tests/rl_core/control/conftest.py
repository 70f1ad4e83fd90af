"""A steered run in this process, without TensorFlow and without waiting."""

import importlib.util
import json
import time
from pathlib import Path

import pytest

from targetnet.rl_core.control import steering as steering_module
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.steering import Steering

FAKE_RUN = Path(__file__).parent / "fake_run.py"
_spec = importlib.util.spec_from_file_location("fake_run", FAKE_RUN)
fake_run = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fake_run)


class Bench:
    """One fake run: put files into its inbox, move it on, read its log."""

    def __init__(self, path, **settings):
        path.mkdir(exist_ok=True)
        self.files = ControlFiles(path)
        self.run = fake_run.FakeRun()
        self.live = self.run.live
        self.steering = Steering(self.live, self.files, self.run, **settings)

    def move(self, ticks=1):
        for _ in range(ticks):
            self.run.tick += 1
            self.live.env_step = self.run.tick
            self.steering.safe_point()

    def put(self, name, content):
        """A file in the inbox, whole at once."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        path = self.files.inbox / name
        hidden = path.with_name(".being-written")
        hidden.write_bytes(data)
        hidden.rename(path)
        return path

    def command(self, number=1, **fields):
        """A command's file, as another program would write it; returns its id."""
        ident = f"{number:032x}"
        content = {"id": ident, "time": time.time(), "who": "cli"} | fields
        self.put(f"{number:017d}-{ident}.json", content)
        return ident

    @property
    def log(self):
        return read_log(self.files.log)

    @property
    def inbox(self):
        return sorted(path.name for path in self.files.inbox.iterdir())


@pytest.fixture
def make_bench(tmp_path, monkeypatch):
    monkeypatch.setattr(steering_module, "POLL_SECONDS", 0.0)
    made = []

    def make(path=tmp_path, **settings):
        made.append(Bench(path, **settings))
        return made[-1]

    yield make
    for bench in made:
        bench.steering.close()


@pytest.fixture
def bench(make_bench):
    return make_bench()
