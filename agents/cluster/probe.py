"""Tries to join a cluster in a process of its own.

`python -m targetnet.agents.cluster.probe ADDRESS` prints one JSON object: the address of the
head, or why it cannot be joined.
"""

from __future__ import annotations

import json
import sys

from targetnet.agents.cluster.connect import join


def main(address: str) -> None:
    """Prints what comes of it."""
    try:
        said = {"address": join(address)}
    except BaseException as error:  # Ray also raises SystemExit
        said = {"error": f"{error}" or type(error).__name__}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
