"""Several commands in one poll, and a kill after every change on disk: each is applied once.

The disk is simulated: it is copied after each write and removal, and a process that was killed
there begins with the copy. No TensorFlow, no waiting.
"""

import copy
import itertools
import os
from collections import Counter

import pytest

from targetnet.rl_core.control import steering as steering_module
from targetnet.rl_core.control.commands import do_command, set_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import entries_to_do, read_log
from targetnet.rl_core.control.log_writer import Position
from targetnet.rl_core.control.steering import Steering
from targetnet.rl_core.control.timetable import RESUMED_ACTIONS, is_repeated
from tests.rl_core.control.fake_run import FakeRun

COMMANDS = {
    "set": lambda: set_command("sync_period", 50, "api"),
    "auto": lambda: set_command("epsilon", "auto", "api"),
    "sync": lambda: do_command("sync", "api"),
    "snapshot": lambda: do_command("snapshot", "api"),
    "rewind": lambda: do_command("rewind", "api", 1),
    "checkpoint": lambda: do_command("checkpoint", "api"),
    "evaluate": lambda: do_command("evaluate", "api"),
    "stop": lambda: do_command("stop", "api"),
}
FRESH = {"tick": 0, "history": [], "asked": 0, "log": {"bytes": 0, "to_do": []}}
TICKS = 2


class Disk:
    """What a killed process leaves behind."""

    def __init__(self):
        self.log, self.command_files, self.checkpoint = b"", {}, copy.deepcopy(FRESH)

    def save(self, files):
        """Takes what is in the files now."""
        self.log = files.log.read_bytes() if files.log.exists() else b""
        self.command_files = {path.name: path.read_bytes() for path in files.inbox.glob("*.json")}

    def load(self, files):
        """Makes the files be what was saved."""
        files.make()
        for old in files.inbox.iterdir():
            old.unlink()
        files.log.write_bytes(self.log)
        for name, data in self.command_files.items():
            (files.inbox / name).write_bytes(data)


class Run(FakeRun):
    """A run whose whole state is the history of what was done to it."""

    def __init__(self, files, disk, changed_disk):
        super().__init__()
        self.disk, self.changed_disk, begin = disk, changed_disk, copy.deepcopy(disk.checkpoint)
        self.tick, self.history, self.asked = begin["tick"], begin["history"], begin["asked"]
        script = entries_to_do(files.log, begin["log"])
        self.steering = Steering(self.live, files, self, script)
        self.live.set = self.note_set(self.live.set)

    @property
    def position(self):
        return Position(self.tick, self.tick, 2 * self.tick)

    def note_set(self, real):
        def set_(name, value):
            change = real(name, value)
            self.history.append((self.tick, name, value))
            return change

        return set_

    def do(self, action, value=None):
        if action == "checkpoint":
            self.take_checkpoint()
        elif action == "evaluate":
            self.asked += 1
        elif action != "stop":
            self.history.append((self.tick, action, value))
        return None, None

    def take_checkpoint(self):
        state = {"tick": self.tick, "history": list(self.history), "asked": self.asked}
        self.disk.checkpoint = state | {"log": self.steering.log_state()}
        self.changed_disk()

    def go(self):
        self.safe_point()
        while self.tick < TICKS:
            self.tick += 1
            self.safe_point()
        self.steering.close()

    def safe_point(self):
        self.steering.safe_point()
        while self.asked:
            self.history.append((self.tick, "evaluate", None))
            self.asked -= 1


@pytest.fixture
def crash_everywhere(tmp_path, monkeypatch):
    """Runs commands to the end, then once more from each state that the disk had meanwhile."""
    monkeypatch.setattr(steering_module, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(os, "fsync", lambda file: None)
    files = ControlFiles(tmp_path)
    watching = [None]

    def watched(real, *halves):
        def call(*arguments, **settings):
            for half in halves if watching[0] else ():
                half(*arguments)
                watching[0]()
            result = real(*arguments, **settings)
            if watching[0]:
                watching[0]()
            return result

        return call

    write = os.pwrite

    def half_a_write(file, data, at):
        """As a power cut leaves it; the whole comes over it."""
        write(file, bytes(data[: len(data) // 2]), at)

    monkeypatch.setattr(os, "pwrite", watched(write, half_a_write))
    monkeypatch.setattr(os, "unlink", watched(os.unlink))

    def run(names):
        disk, states = Disk(), []
        disk.load(files)
        commands = [COMMANDS[name]() for name in names]
        for command in commands:
            submit(files, command)

        def remember():
            disk.save(files)
            states.append(copy.deepcopy(disk))

        remember()
        first = Run(files, disk, remember)
        watching[0] = remember
        first.go()
        watching[0] = None
        check(names, commands, first, files)
        for state in states:
            state.load(files)
            again = Run(files, state, lambda: None)
            again.go()
            check(names, commands, again, files)
        return len(states)

    def check(names, commands, run, files):
        log = read_log(files.log)
        assert Counter(e.id for e in log) == Counter(c.id for c in commands), names
        assert list(files.inbox.iterdir()) == [], names
        wanted = [(e.tick, e.name, e.value) for e in log if is_repeated(e, RESUMED_ACTIONS)]
        learned = [entry for entry in run.history if entry[1] != "evaluate"]
        assert learned == [entry for entry in wanted if entry[1] != "evaluate"], names
        assert len(run.history) == len(wanted), names

    return run


@pytest.mark.cases(0, 6)
@pytest.mark.parametrize("first", COMMANDS)
def test_every_pair_and_triple_is_applied_once_wherever_the_run_was_killed(crash_everywhere, first):
    more = [(), *itertools.product(COMMANDS, repeat=1), *itertools.product(COMMANDS, repeat=2)]
    crashes = [crash_everywhere((first, *others)) for others in more]
    assert min(crashes) >= 4  # before, half a line, the line, the command file removed
