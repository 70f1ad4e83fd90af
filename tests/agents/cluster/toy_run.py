"""A run without an agent: it writes the files of one, and refuses to go on with damaged ones.

`python toy_run.py CONFIG --run DIR --resume`; the config says how many steps, how long each takes
and after how many there is a checkpoint. With `members`, so many runs below DIR, one by one.
"""

import hashlib
import json
import os
import signal
import sys
import time
import tomllib
from pathlib import Path

import numpy as np

from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.control.commands import parse_command
from targetnet.rl_core.control.files import ControlFiles, RunLock
from targetnet.rl_core.control.log import ControlLog, Entry, require_length
from targetnet.rl_core.control.records import TraceFile
from targetnet.rl_core.control.timetable import standing_orders
from targetnet.rl_core.files import write_whole

DAMAGED = 3
stopping = []


class Toy:
    def __init__(self, config, run):
        self.steps, self.every, self.seconds = (config[k] for k in ("steps", "every", "seconds"))
        self.run, self.files = run, ControlFiles(run)
        run.mkdir(parents=True, exist_ok=True)
        (run / "config.toml").write_text("")
        self.files.make()
        self.lock = RunLock(self.files)
        self.store = CheckpointStore(run / "checkpoints", keep=2)
        self.step, self.chunks, host = 0, {}, {"events": {}, "trace": [0, 0], "log": 0}
        last = self.store.latest()
        if last is not None:
            self.step, self.chunks, host = last.tick, dict(last.chunks), last.host
            rows = [self.store.rows(name, record)[2]["n"] for name, record in last.chunks.items()]
            if last.damaged or [*np.concatenate(rows)] != [*range(self.step)]:
                raise ValueError(f"checkpoint: {last.damaged}")
        self.cut(host)
        self.trace = TraceFile(self.files.trace, *host["trace"])
        self.log = ControlLog(self.files.log)
        standing = standing_orders(self.files)
        self.paused = standing.paused
        self.ends = min((entry.tick for entry in standing.stops), default=self.steps)
        self.events = self.run / f"events.out.tfevents.{time.time_ns()}.toy"
        self.events.touch()

    def cut(self, host):
        state = self.files.state
        if state.exists():
            require_length(self.files.log, json.loads(state.read_text())["log_bytes"])
        require_length(self.files.log, host["log"])
        for name in ("result.json", "digest.json"):
            (self.run / name).unlink(missing_ok=True)
        for path in self.run.glob("events*"):
            if path.name not in host["events"]:
                path.unlink()
        for name, size in host["events"].items():
            if (self.run / name).stat().st_size < size:
                raise ValueError(f"{name} is too short")
            os.truncate(self.run / name, size)

    def go(self):
        while self.step < self.steps and not stopping:
            self.read_command_files()
            if self.paused and not stopping:
                self.publish()
                time.sleep(self.seconds)
                continue
            if self.step >= self.ends:
                break
            self.trace.append(np.array([self.step], np.uint32))
            self.trace.write()
            with self.events.open("a") as events:
                events.write(f"{self.step} {time.time_ns()}\n")
            self.step += 1
            if self.step % self.every == 0:
                self.checkpoint()
            self.publish()
            time.sleep(self.seconds)
        self.checkpoint()
        if stopping:
            return 130
        digest = hashlib.sha256(self.files.trace.read_bytes()).hexdigest()
        write_whole(self.run / "digest.json", digest.encode())
        write_whole(self.run / "weights.safetensors", bytes(20_000))
        write_whole(self.run / "result.json", str(self.step).encode())
        print("done")
        return 0

    def publish(self):
        state = {"step": self.step, "paused": self.paused, "log_bytes": self.log.length}
        write_whole(self.files.state, json.dumps(state).encode(), durable=False)

    def checkpoint(self):
        begin = max((int(name[16:31]) for name in self.chunks), default=0)
        rows = [(begin, self.step, {"n": np.arange(begin, self.step)})] if begin < self.step else []
        host = {
            "events": {path.name: path.stat().st_size for path in self.run.glob("events*")},
            "trace": [self.step, self.trace.crc],
            "log": self.log.length,
        }
        weights = {"w": np.full(500, self.step)}
        self.chunks = self.store.write(self.step, weights, host, self.chunks, rows)

    def read_command_files(self):
        for path in sorted(self.files.inbox.glob("*.json")):
            command = parse_command(path.read_bytes())
            if command.id not in self.log.ids:
                kind, name = command.what
                if kind == "do":
                    self.paused = name == "pause"
                    self.ends = self.step if name == "stop" else self.ends
                self.log.append([
                    Entry(
                        id=command.id, asked=command.time, time=time.time(), who="api", kind=kind,
                        name=name, tick=self.step, env_step=self.step, update=0,
                    )
                ])  # fmt: skip
            path.unlink()


def main():
    signal.signal(signal.SIGINT, lambda *_: stopping.append(1))
    config, _, run, _ = sys.argv[1:]
    print("begins", flush=True)
    settings = tomllib.loads(Path(config).read_text())
    runs = [Path(run, f"m{i:02d}") for i in range(settings["members"])] or [Path(run)]
    try:
        for path in runs:
            time.sleep(0.1 * bool(settings["members"]))  # home has looked before one is there
            code = Toy(settings, path).go()
    except (OSError, ValueError) as error:
        print(f"cannot go on: {error}")
        return DAMAGED
    return code


if __name__ == "__main__":
    sys.exit(main())
