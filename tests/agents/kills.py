"""Kills one run again and again, with -9, and sees whether it still becomes the same run.

    python -m tests.agents.kills --kills 1000

Half of the kills come at a random moment, half at a random system call of those that write,
sync, rename or remove, start-up included. Every process is a fork of one that has imported
TensorFlow, which is most of a start's time.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.progress import track

CALLS = ("write", "fsync", "rename", "unlink", "replace", "rmdir", "mkdir", "truncate")
SETTINGS = {
    "env_steps": 6_000,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 1_000,
    "learn_start": 50,
    "learn_period": 2,
    "sync_period": 37,
    "log_period": 100,
    "eval_period": 2_000,
    "eval_episodes": 2,
    "final_eval_episodes": 2,
    "xla": False,
    "checkpoint_seconds": 0.05,
}


def campaign(folder, kills, seed=0):
    """Returns how many kills hit a run at work; asserts that nothing came of them."""
    rng = random.Random(seed)
    straight, run = folder / "straight", folder / "run"
    finish(child(straight, begin=True))
    wanted = json.loads((straight / "digest.json").read_text())
    hits, runs = 0, 0
    for _ in track(range(kills), "killing", disable=not sys.stderr.isatty()):
        at_call = rng.randrange(1, 400) if rng.random() < 0.5 else None
        process = child(run, begin=not (run / "config.toml").exists(), die_at=at_call)
        if at_call is None:
            time.sleep(rng.uniform(0, 2.5))
            os.kill(process, signal.SIGKILL)
        code = finish(process, allowed=(0, -signal.SIGKILL))
        hits += code != 0
        if code == 0:  # it came to its end before: once more from the beginning
            runs += 1
            compare(run, wanted)
            shutil.rmtree(run)
    if not (run / "config.toml").exists():
        finish(child(run, begin=True))
    else:
        finish(child(run, begin=False))
    compare(run, wanted)
    return hits, runs + 1


def compare(run, wanted):
    got = json.loads((run / "digest.json").read_text())
    assert got == wanted, (got, wanted)
    left = [str(path) for path in run.rglob(".*")]
    assert left == [], left
    used = {
        name
        for manifest in run.glob("checkpoints/0*/manifest.json")
        for name in json.loads(manifest.read_text().split("\n")[0])["chunks"]
    }
    assert {path.name for path in (run / "checkpoints/rows").iterdir()} == used


def child(run, *, begin, die_at=None):
    """Forks a process that begins or resumes the run; it may kill itself at a system call."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        from agents.config import DqnConfig
        from agents.training import resume, train
        from rl_core.errors import RunDirError

        if die_at:
            count_down(die_at)
        if begin:
            train(DqnConfig(**SETTINGS), run)
        else:
            try:
                resume(run)
            except RunDirError as error:
                # It was killed after its last word.
                if "is finished" not in str(error):
                    raise
        status = 0
    finally:
        if status:
            import traceback

            traceback.print_exc()
        os._exit(status)


def count_down(left):
    """Kills this process at the left-th system call that changes something on disk."""

    def wrapped(real):
        def call(*arguments, **settings):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **settings)

        return call

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))


def finish(process, allowed=(0,)):
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in allowed, code
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    import agents.training  # noqa: F401 - once, for all forks

    with tempfile.TemporaryDirectory() as folder:
        hits, runs = campaign(Path(folder), arguments.kills, arguments.seed)
    print(
        f"{hits} of {arguments.kills} kills hit a run at work; {runs} runs, each as if not killed"
    )


if __name__ == "__main__":
    main()
