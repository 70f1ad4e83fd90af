"""Access checks of the Steer tab for reading and writing.

TensorBoard has no login, does not check the origin of a request, answers to any Host, and any
page may show it in a frame. So our page gets a token that no other site can read. A command needs
this token, JSON, POST, an allowed Host and the same Origin.

Whoever is logged in here can reach a port of localhost. A run is steered by its owner alone, so
the user of the other end is looked up in Linux's tables of connections.
"""

from __future__ import annotations

import collections
import contextlib
import hmac
import ipaddress
import os
import re
import secrets
import socket
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from targetnet.rl_core.errors import in_one_line, quoted

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


TOKEN_HEADER = "X-Targetnet-Token"
_PAGES = 1_000  # open pages; beyond that the oldest page must ask for a token again
# Strictly the form that browsers send: a URL parser would find "localhost" in "x@localhost".
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d{0,5})?", re.ASCII | re.IGNORECASE)


class Refusal(NamedTuple):
    """A refusal of a request: HTTP status and reason."""

    status: int
    reason: str


class Guard:
    """A check of requests by method and headers alone.

    Args:
      bound_host: the address on which the server listens; None or "" means every address.
      allowed: allowed host names besides localhost.
    """

    def __init__(self, bound_host: str | None, allowed: Iterable[str] = ()) -> None:
        self.loopback_only = bound_host is not None and is_loopback(bound_host)
        names = [name.strip().lower() for entry in allowed for name in entry.split(",")]
        self._allowed = {name for name in names if name}
        if bound_host and not is_any_address(bound_host):
            self._allowed.add(bound_host.strip("[]").lower())
        self._pages: collections.OrderedDict[str, str] = collections.OrderedDict()
        self._lock = threading.Lock()

    def new_page(self, headers: Mapping[str, str]) -> str:
        """Returns a token for one page; it is valid only for the Host of this request."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._pages[token] = headers.get("Host", "")
            while len(self._pages) > _PAGES:
                self._pages.popitem(last=False)
        return token

    def refuse_reading(self, headers: Mapping[str, str]) -> Refusal | None:
        """Returns the refusal of a reading request, or None."""
        # An unknown Host may be an attacker's name that points at this machine (DNS rebinding).
        host = host_name(headers.get("Host", ""))
        if not self._allows_host(host):
            return Refusal(
                403,
                f"the Steer tab does not answer to the host name {quoted(host)}; start TensorBoard "
                f"with --steer_allow_host={in_one_line(host) or 'NAME'} if it is yours",
            )
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return Refusal(403, "the Steer tab does not answer to other sites")
        return None

    def refuse_page(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Returns the refusal of a page's request for a token, or None."""
        if method != "POST":
            return Refusal(405, "POST only")
        content_type = headers.get("Content-Type", "").split(";")[0].strip().lower()
        if content_type != "application/json":
            # A plain HTML form on another site cannot send this content type.
            return Refusal(415, "the content type must be application/json")
        if refusal := self.refuse_reading(headers):
            return refusal
        origin = headers.get("Origin")
        if origin is None or not self._same_origin(origin, headers.get("Host", "")):
            return Refusal(403, f"a request from {quoted(origin)} may not steer")
        return None

    def refuse_writing(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Returns the refusal of a command by its headers, or None."""
        if refusal := self.refuse_page(method, headers):
            return refusal
        given, host = headers.get(TOKEN_HEADER, ""), headers.get("Host", "")
        with self._lock:
            # Compare with each token in constant time: the time of a dict lookup leaks the token.
            owners = [
                owner
                for token, owner in self._pages.items()
                if hmac.compare_digest(token.encode(), given.encode())
            ]
        if not owners or owners[0] != host:
            return Refusal(401, "the page's token is missing or not known; reload the page")
        return None

    def _allows_host(self, host: str) -> bool:
        return is_loopback(host) or host in self._allowed

    def _same_origin(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
            return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()
        except ValueError:
            return False


def host_name(host: str) -> str:
    """Returns the name in a Host header in lower case, without port and brackets; "" if invalid."""
    match = _HOST.fullmatch(host)
    return (match[1] or match[2]).lower() if match else ""


def is_loopback(host: str) -> bool:
    """Returns True for localhost and loopback addresses."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_any_address(host: str) -> bool:
    """Returns True for 0.0.0.0 and ::, which mean every address of the machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False
