"""Access checks of the Steer tab for reading and writing.

TensorBoard has no login, does not check the origin of a request, answers to any Host, and any
page may show it in a frame. So our page gets a token that no other site can read. A command needs
this token, JSON, POST, an allowed Host and the same Origin.
"""

from __future__ import annotations

import collections
import hmac
import ipaddress
import re
import secrets
import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from targetnet.rl_core.errors import in_one_line, quoted

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
