"""A run without TensorFlow: `python fake_run.py RUN [TICKS]` is steered until it is told to stop.

`python fake_run.py RUN TICKS repeats` refuses every change.

One tick a millisecond, one env step and two updates a tick.
"""

import sys
import time
from pathlib import Path

from targetnet.rl_core.control.changes import Refused
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log_writer import Position
from targetnet.rl_core.control.steering import Steering
from targetnet.rl_core.hyperparameters import BlocksKnob, Hyperparameters, Knob
from targetnet.rl_core.schedules import Linear

BLOCKS = ("torso", "head")


def some_blocks(names):
    names = frozenset(names)
    if names - set(BLOCKS):
        raise Refused(f"no block {sorted(names - set(BLOCKS))[0]!r}")
    return names


def live_values(schedule_steps):
    """A period, a share, a rate that follows a schedule of so many env steps, blocks."""
    knobs = [
        Knob("sync_period", "updates", "age of a copy", whole=True, at_least=1),
        Knob("tau", "1", "share of a copy", above=0, at_most=1),
        Knob("epsilon", "probability", "of a random action", at_least=0, at_most=1),
        BlocksKnob("exempt", some_blocks, BLOCKS),
    ]
    epsilon = Linear(start=1.0, end=0.1, steps=schedule_steps)
    configured = {"sync_period": 500, "tau": 1.0, "epsilon": epsilon, "exempt": frozenset()}
    return Hyperparameters(knobs, configured, static=["batch_size"])


class FakeRun:
    """Remembers what it was asked."""

    def __init__(self, schedule_steps=1_000):
        self.live = live_values(schedule_steps)
        self.done, self.entries, self.changes, self.warnings = [], [], 0, []
        self.paused = False
        self.tick = 0

    @property
    def position(self):
        return Position(self.tick, self.tick, 2 * self.tick)

    def changed(self):
        self.changes += 1

    def do(self, action, value=None):
        if action == "resume" and not self.paused:
            raise Refused("the run is not paused")
        self.done.append(action)
        self.paused = action == "pause" or (self.paused and action != "resume")
        return None, None

    def answered(self, entry):
        self.entries.append(entry)

    def warn(self, text):
        self.warnings.append(text)

    def report(self):
        step = self.tick
        return {
            "status": "paused" if self.paused else "running",
            "env_id": "Fake-v0",
            "env_steps": 1_000_000,
            "env_steps_per_second": 1_000.0,
            "eta_seconds": 60.0,
            "episodes": step // 100,
            "mean_return": float(step % 100),
            "target_age": step % self.live["sync_period"],
            "recent": {
                "episode/return": (step, float(step % 100)),
                "target/age": (step, float(self.live["sync_period"])),
                "learn/q_mean": (step, 0.5),
                "learn/td_error_mean_abs": (step, 0.25),
            },
        }


def main():
    run, ticks = Path(sys.argv[1]), int([*sys.argv, "1000000000"][2])
    repeats = sys.argv[3:] == ["repeats"]
    # No corner within a test's time: it would be an entry of the log that nobody asked for.
    fake = FakeRun(schedule_steps=1_000_000_000)
    run.mkdir(parents=True, exist_ok=True)
    with Steering(fake.live, ControlFiles(run), fake, repeats=repeats) as steering:
        while "stop" not in fake.done and fake.tick < ticks:
            fake.tick += not fake.paused
            fake.live.env_step = fake.tick
            steering.safe_point()
            time.sleep(0.001)
        steering.publish("stopped")


if __name__ == "__main__":
    main()
