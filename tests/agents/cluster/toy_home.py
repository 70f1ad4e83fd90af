"""One errand of a toy run in a process of its own, which may be killed: `toy_home.py DIR`."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from targetnet.agents.cluster.remote_job import RemoteJob
from tests.agents.cluster import toys


class Setter:
    """As pytest's monkeypatch, but nothing is put back."""

    setattr = staticmethod(setattr)


def main():
    place = Path(sys.argv[1])
    toys.install(Setter(), place)
    command, portable = toys.toy(place, steps=150, every=7, seconds=0.02)
    job = RemoteJob("toy", command, place / "log", portable, toys.usable(), print)
    while job.poll() is None:
        time.sleep(0.02)
    return job.poll()


if __name__ == "__main__":
    sys.exit(main())
