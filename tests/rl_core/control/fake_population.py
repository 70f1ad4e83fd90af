"""A population without TensorFlow: `python fake_population.py DIRECTORY m00 m01:paused ...`.

All members are steered in this one process until each was told to stop. The kinds of members:

    repeats   refuses every change
    more      has one more live value, `temperature`
    paused    has been paused
    ended     has come to its end
    silent    is alive, and never looks at its commands
"""

import contextlib
import sys
import time
from pathlib import Path

from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.population import POPULATION
from targetnet.rl_core.control.steering import Steering
from targetnet.rl_core.hyperparameters import Hyperparameters, Knob
from tests.rl_core.control.fake_run import FakeRun


class Member:
    """One fake run among several in a process."""

    def __init__(self, run, kind):
        run.mkdir(parents=True)
        # No corner within a test's time: it would be an entry of the log that nobody asked for.
        self._fake, self._kind = FakeRun(schedule_steps=1_000_000_000), kind
        if kind == "more":
            self._fake.live = with_temperature(self._fake.live)
        self._fake.paused = kind == "paused"
        self._held = contextlib.ExitStack()
        steering = Steering(
            self._fake.live, ControlFiles(run), self._fake, repeats=kind == "repeats"
        )
        self._steering = self._held.enter_context(steering)
        self.step()
        if kind == "ended":
            self._end("finished")

    def step(self):
        fake = self._fake
        if "stop" in fake.done or self._kind == "ended":
            return
        fake.tick += not fake.paused
        fake.live.env_step = fake.tick
        if self._kind != "silent" or fake.tick == 1:
            self._steering.safe_point()
        if "stop" in fake.done:
            self._end("stopped")

    def _end(self, status):
        self._steering.publish(status)
        self._held.close()


def with_temperature(live):
    knobs = [*live.knobs.values(), Knob("temperature", "1", "of acting", above=0)]
    configured = {name: live.configured(name) for name in live.knobs} | {"temperature": 1.0}
    return Hyperparameters(knobs, configured, static=["batch_size"])


def main():
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    (directory / POPULATION).write_text("")
    members = []
    for argument in sys.argv[2:]:
        name, _, kind = argument.partition(":")
        members.append(Member(directory / name, kind))
    (directory / "ready").touch()
    while True:
        for member in members:
            member.step()
        time.sleep(0.002)


if __name__ == "__main__":
    main()
