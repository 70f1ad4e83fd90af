"""`python -m targetnet.rl_core.board LOGDIR`: quick TensorBoard from a terminal or beside a run."""

from targetnet.rl_core.search_path import leave_current_directory

if __name__ == "__main__":
    leave_current_directory()  # before the imports of everything else

import argparse
import ctypes
import os
import signal
import sys
from pathlib import Path

from targetnet.rl_core.board.launcher import DEFAULT_PORT, BoardError, serve

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Serves a log directory until Ctrl-C; returns the exit code."""
    options, arguments = _parser().parse_known_args()
    if options.parent is not None:
        _end_with_parent(options.parent)
    try:
        serve(
            options.logdir,
            host=options.host,
            port=options.port,
            full=options.full,
            arguments=arguments,
        )
    except BoardError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m targetnet.rl_core.board",
        description="TensorBoard without TensorFlow. TensorBoard gets all other arguments.",
        allow_abbrev=False,
    )
    parser.add_argument("logdir", type=Path, help="a run directory, or a directory of runs")
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, help=f"default: first free port from {DEFAULT_PORT} on")
    parser.add_argument("--full", action="store_true", help="start with TensorFlow (slow)")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    return parser


def _end_with_parent(parent: int) -> None:
    """Makes the kernel end this process when `parent` ends for any reason."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent ended before the call above
        sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
