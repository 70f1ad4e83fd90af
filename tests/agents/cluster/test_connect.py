"""A cluster that cannot be joined: one line, in bounded time."""

import importlib.util
import socket
import subprocess
import sys

import pytest

from targetnet.agents.cluster import connect
from targetnet.agents.cluster.connect import ClusterError, connected


def refusal(address):
    with pytest.raises(ClusterError) as caught, connected(address):
        pass
    return str(caught.value)


@pytest.fixture
def port():
    """A port at which somebody listens who is no Ray."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_without_ray_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refusal("auto") == "--ray needs Ray: pip install 'targetnet[ray]'"


@pytest.mark.parametrize(
    "address", ["here", "ray://here:10001", "here:", ":6379", "here:6379x", ""]
)
def test_an_address_that_is_none_is_refused(address):
    assert refusal(address) == f"--ray wants HOST:PORT or auto, got {address!r}"


def test_a_port_that_is_none_is_refused():
    assert refusal("here:65536") == "--ray wants a port of 1 to 65535, got 'here:65536'"


def test_where_nobody_listens_it_says_so_at_once(monkeypatch):
    monkeypatch.setattr(connect, "_probed", lambda address: pytest.fail("it was tried"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    said = refusal(f"127.0.0.1:{free}")
    assert said == (
        f"no Ray cluster at 127.0.0.1:{free}: Connection refused; start one with: ray start --head"
    )


@pytest.mark.parametrize("host", ["10.0.0..1", ".here", "a" * 64])
def test_a_name_that_no_machine_can_have_is_one_line(host):
    said = refusal(f"{host}:6379")
    assert said.startswith(f"no Ray cluster at {host}:6379: ") and "\n" not in said


@pytest.mark.thorough
def test_somebody_who_is_no_ray_is_not_waited_for_forever(port, monkeypatch):
    monkeypatch.setattr(connect, "_SECONDS", 2.0)
    assert refusal(f"127.0.0.1:{port}") == (
        f"no Ray cluster of this machine answers at 127.0.0.1:{port} within 2 s; this machine has "
        "to be one of its nodes: ray start --address HOST:PORT"
    )


def test_what_ray_says_of_a_try_is_one_line(monkeypatch):
    def run(command, **how):
        return subprocess.CompletedProcess(command, 0, 'noise\n{"error": "one\\n  two"}\n', "")

    monkeypatch.setattr(subprocess, "run", run)
    assert refusal("auto") == "cannot use a Ray cluster of this machine: one two"


def test_a_try_that_crashes_is_one_line(monkeypatch):
    def run(command, **how):
        return subprocess.CompletedProcess(command, -6, "", "Check failed:\n  gcs\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert refusal("auto") == "cannot use a Ray cluster of this machine: Check failed: gcs"


def test_ray_is_not_imported_with_the_room():
    code = (
        "import sys, targetnet.agents.cluster.connect, targetnet.agents.cluster.nodes\n"
        "from targetnet.agents.experiments.results import command\n"
        "from targetnet.agents.experiments.sweep import command\n"
        "print('ray' in sys.modules, 'tensorflow' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "False"]
