"""Whose program is at the other end of a connection within this machine.

Whoever is logged in here can reach a port of localhost. A run is steered by its owner alone, so
the user of the other end is looked up in Linux's tables of connections.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from targetnet.rl_core.board.steer.guard import Refusal

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED, _ROOT = "01", 0


class _Socket(NamedTuple):
    local: str  # address:port, as the tables have it
    remote: str
    state: str
    user: int


def refuse_others(environ: Mapping[str, Any]) -> Refusal | None:
    """Returns the refusal of a request that another user's program sent, or None.

    Args:
      environ: WSGI's, with the address and port from which the request came, and the port at which
        it arrived. Where the system does not tell of this connection, nothing is refused.
    """
    address, port, ours = (environ.get(n) for n in ("REMOTE_ADDR", "REMOTE_PORT", "SERVER_PORT"))
    if not address or not port or not ours:
        return None
    theirs = {f"{form}:{int(port):04X}" for form in _forms(str(address))}
    sockets, at = _sockets(), f":{int(ours):04X}"
    if not any(of.local.endswith(at) and of.remote in theirs for of in sockets):
        return None
    # Only of a connection that is open: the system notes user 0 for those that are being closed.
    users = {
        of.user
        for of in sockets
        if of.local in theirs and of.remote.endswith(at) and of.state == _ESTABLISHED
    }
    if users and users <= {os.getuid(), _ROOT}:
        return None
    who = f"is user {', '.join(map(str, users))}" if users else "has hung up"
    return Refusal(403, f"only user {os.getuid()} of this machine may steer here; this one {who}")


def _sockets() -> list[_Socket]:
    found = []
    for table in _TABLES:
        with contextlib.suppress(OSError):  # without IPv6 there is one table
            for line in table.read_text().splitlines()[1:]:
                _, local, remote, state, _, _, _, user, *_ = line.split()
                found.append(_Socket(local, remote, state, int(user)))
    return found


def _forms(address: str) -> list[str]:
    """Returns the forms that an address has in the tables: words of 4 bytes as the machine has."""
    ip = ipaddress.ip_address(address.split("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    ips = [ip] if mapped is None else [ip, mapped]
    if isinstance(ip, ipaddress.IPv4Address):
        ips.append(ipaddress.IPv6Address(f"::ffff:{ip}"))
    return [_words(of.packed) for of in ips]


def _words(packed: bytes) -> str:
    words = [packed[i : i + 4] for i in range(0, len(packed), 4)]
    return "".join(f"{socket.ntohl(int.from_bytes(word)):08X}" for word in words)
