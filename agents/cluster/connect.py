"""Connection to a Ray cluster: in bounded time, one line if it fails, no output of Ray's own.

`python -m targetnet.agents.cluster.connect ADDRESS` tries to join one and prints one JSON object:
the address of the head, or why it cannot be joined.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from targetnet.rl_core.errors import RlCoreError, in_one_line, quoted, reason_of
from targetnet.rl_core.extras import require_package
from targetnet.rl_core.own_function import code_directory

_SECONDS = 40.0  # for a whole try; Ray itself would try for two minutes
_KNOCK_SECONDS = 5.0  # until a machine answers at all
_MOST_SHOWN = 400  # characters of Ray's own words


class ClusterError(RlCoreError, ConnectionError):
    """A cluster that cannot be used."""


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """Joins a cluster as long as the context lasts; this machine has to be one of its nodes.

    Args:
      address: HOST:PORT of the head, or "auto" for the cluster that this machine belongs to.

    Raises:
      ClusterError: there is none, or it cannot be used; one line that says why.
    """
    require_package("ray", "--ray needs Ray", "ray", ClusterError)
    _require_address(address)
    with _joined(_probed(address), address):
        yield


@contextlib.contextmanager
def started_here(cpus: int, store_bytes: int) -> Iterator[None]:
    """Starts Ray on this machine alone, as long as the context lasts.

    Args:
      cpus: that it may give away.
      store_bytes: memory for what its processes share.

    Raises:
      ClusterError: it cannot be started.
    """
    who = "loop = 'remote' (without --ray off) needs Ray"
    require_package("ray", who, "ray", ClusterError)
    how = {"num_cpus": cpus, "object_store_memory": store_bytes, "include_dashboard": False}
    with _joined("local", "this machine", **how):
        yield


@contextlib.contextmanager
def _joined(address: str, name: str, **how: Any) -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _join(address, **how)
    except Exception as error:  # whatever Ray raises: there are many kinds
        raise _refused(name, error) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():  # Ray sets one of its own
                signal.signal(number, handler)
    try:
        yield
    finally:
        import ray

        ray.shutdown()


def _join(address: str, **how: Any) -> str:
    """Joins a cluster quietly, in whatever time Ray takes; returns the address of its head."""
    # Read when Ray is imported. Nothing is reported to anybody.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of that
    import ray
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):  # private: without it nodes' reports are shown
        worker.print_to_stdstream = lambda *_, **__: None
    job = ray.job_config.JobConfig()
    job._py_driver_sys_path = _SearchPath()  # private: without it Ray adds the current directory
    ray.init(
        address=address, job_config=job, log_to_driver=False, logging_level=logging.CRITICAL, **how
    )
    return str(ray.get_runtime_context().gcs_address)


class _SearchPath(list[str]):
    """Directories that Ray puts first on the path of its workers: those of this program alone."""

    def extend(self, places: Iterable[str]) -> None:
        # A command itself has put "" there, and last; its actors do so when they need it.
        own = {os.path.abspath(p) for p in sys.path if p or code_directory() is None}  # noqa: PTH100
        super().extend(place for place in places if place in own)


def _require_address(address: str) -> None:
    """Checks what can be known without Ray; a machine that does not answer is named at once."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if "://" in address or not (host and colon and port.isascii() and port.isdigit()):
        raise ClusterError(f"--ray wants HOST:PORT or auto, got {quoted(address)}")
    if not 0 < int(port) < 1 << 16:
        raise ClusterError(f"--ray wants a port of 1 to 65535, got {quoted(address)}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK_SECONDS).close()
    except (OSError, UnicodeError) as error:  # a name such as 10.0.0..1 cannot be encoded
        why = "no answer" if isinstance(error, TimeoutError) else reason_of(error)
        raise ClusterError(
            f"no Ray cluster at {in_one_line(address)}: {in_one_line(why)}; start one with: "
            "ray start --head"
        ) from None


def _probed(address: str) -> str:
    """Tries in another process, which Ray may keep waiting or end; returns the head's address."""
    command = [sys.executable, "-P", "-m", __name__, address]
    try:
        tried = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, text=True
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"no Ray cluster of this machine answers at {in_one_line(address)} within "
            f"{_SECONDS:.0f} s; this machine has to be one of its nodes: ray start --address "
            "HOST:PORT"
        ) from None
    try:
        said = json.loads(tried.stdout.rstrip().rpartition("\n")[2])
    except ValueError:
        said = {"error": tried.stderr or f"exit code {tried.returncode}"}
    if "error" in said and "InvalidAuthToken" in tried.stderr:
        said["error"] = (
            "it has a token, and this machine has none or another one: RAY_AUTH_MODE=token and the "
            "cluster's ~/.ray/auth_token are wanted here"
        )
    if "error" in said:
        raise _refused(address, said["error"])
    return str(said["address"])


def _refused(address: str, why: object) -> ClusterError:
    what = f"cannot use the Ray cluster at {in_one_line(address)}"
    if address == "auto":
        what = "cannot use a Ray cluster of this machine"
    return ClusterError(f"{what}: {in_one_line(why, _MOST_SHOWN)}")


if __name__ == "__main__":
    try:
        said = {"address": _join(sys.argv[1])}
    except BaseException as error:  # Ray also raises SystemExit
        said = {"error": f"{error}" or type(error).__name__}
    print(json.dumps(said), flush=True)
