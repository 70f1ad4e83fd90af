"""Whose program sent a request: Linux's tables of connections, and a real connection."""

import os
import socket

import pytest

from targetnet.rl_core.board.steer import guard
from targetnet.rl_core.board.steer.guard import refuse_others

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
SERVER, CLIENT = "0100007F:1776", "0100007F:C001"  # 127.0.0.1, ports 6006 and 49153
MINE = os.getuid()
ENVIRON = {"REMOTE_ADDR": "127.0.0.1", "REMOTE_PORT": 49_153, "SERVER_PORT": "6006"}


def line(local, remote, user, state="01"):
    return f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {user} 0 1 1\n"


OURS = line(SERVER, CLIENT, MINE)


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Writes the tables of connections."""

    def write(four, six=None):
        paths = tmp_path / "tcp", tmp_path / "tcp6"
        for path, lines in zip(paths, (four, six), strict=True):
            if lines is not None:
                path.write_text(HEAD + lines)
        monkeypatch.setattr(guard, "_TABLES", paths)

    return write


@pytest.mark.parametrize(
    ("theirs", "refusal"),
    [
        (line(CLIENT, SERVER, MINE), None),
        (line(CLIENT, SERVER, 0), None),  # root
        (line(CLIENT, SERVER, MINE + 1), f"this one is user {MINE + 1}"),
        (line(CLIENT, SERVER, 0, "04"), "this one has hung up"),  # of nobody while it is closed
        ("", "this one has hung up"),
        # Another connection from the same port.
        (line(CLIENT, "0100007F:0050", MINE), "this one has hung up"),
    ],
)
def test_only_ones_own_programs_may_steer(tables, theirs, refusal):
    tables(OURS + theirs)
    found = refuse_others(ENVIRON)
    assert found is None if refusal is None else (found.status, refusal in found.reason) == (403, 1)


@pytest.mark.parametrize("tables_of", [None, "", line(SERVER, "0100007F:C002", MINE)])
def test_where_the_system_does_not_tell_of_the_connection_nothing_is_refused(tables, tables_of):
    tables(tables_of)
    assert refuse_others(ENVIRON) is None


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("::1", "00000000000000000000000001000000"),
        ("127.0.0.1", "0000000000000000FFFF00000100007F"),  # a server that listens to IPv6 too
        ("::ffff:127.0.0.1", "0000000000000000FFFF00000100007F"),
    ],
)
def test_addresses_of_ipv6_are_found(tables, address, local):
    both = line(f"{local}:1776", f"{local}:C001", MINE)
    tables("", both + line(f"{local}:C001", f"{local}:1776", MINE + 1))
    assert refuse_others(ENVIRON | {"REMOTE_ADDR": address}).status == 403


@pytest.mark.parametrize("missing", ENVIRON)
def test_without_an_address_nothing_can_be_looked_up(missing):
    assert refuse_others({n: v for n, v in ENVIRON.items() if n != missing}) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_real_connection_of_ones_own_is_let_in_and_of_another_user_is_not(host, monkeypatch):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("there is no IPv6 here")
    with server, socket.create_connection(server.getsockname()[:2]) as client:
        address, port = client.getsockname()[:2]
        environ = {
            "REMOTE_ADDR": address, "REMOTE_PORT": port, "SERVER_PORT": server.getsockname()[1],
        }  # fmt: skip
        assert refuse_others(environ) is None
        monkeypatch.setattr(os, "getuid", lambda: MINE + 1)
        monkeypatch.setattr(guard, "_ROOT", MINE + 1)
        assert f"this one is user {MINE}" in refuse_others(environ).reason
