"""Who may read and write through the Steer tab.

TensorBoard has no login, does not look at where a request comes from, answers to any Host and
may be framed by any page. So a page of ours gets a token that no other site can read, and a
command needs that token, JSON, POST, and a Host and an Origin that we know.
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

from rl_core.errors import in_one_line, shown

TOKEN_HEADER = "X-Targetnet-Token"
_PAGES = 1_000  # open at once; the oldest is forgotten, and asks for a token again
# No more than a browser sends: a URL parser would find "localhost" in "x@localhost" as well.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d{0,5})?", re.ASCII | re.IGNORECASE)


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    reason: str


class Guard:
    """Decides over requests by method and headers alone.

    Args:
      bound_host: the address that the server listens on, None or "" for every one.
      allowed: host names beside localhost that may be used.
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
        """A token for one page; it counts for the Host it was given to."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._pages[token] = headers.get("Host", "")
            while len(self._pages) > _PAGES:
                self._pages.popitem(last=False)
        return token

    def refuse_reading(self, headers: Mapping[str, str]) -> Refusal | None:
        """A foreign Host is a name that somebody else points at this machine."""
        host = host_name(headers.get("Host", ""))
        if not self._knows(host):
            return Refusal(
                403,
                f"the Steer tab does not answer to the host name {shown(host)}; start TensorBoard "
                f"with --steer_allow_host={in_one_line(host) or 'NAME'} if it is yours",
            )
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return Refusal(403, "the Steer tab does not answer to other sites")
        return None

    def refuse_page(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Whether a page may have a token."""
        if method != "POST":
            return Refusal(405, "POST only")
        content_type = headers.get("Content-Type", "").split(";")[0].strip().lower()
        if content_type != "application/json":
            # Anything that a plain HTML form can send is refused by this.
            return Refusal(415, "the content type must be application/json")
        if refusal := self.refuse_reading(headers):
            return refusal
        origin = headers.get("Origin")
        if origin is None or not self._same_origin(origin, headers.get("Host", "")):
            return Refusal(403, f"a request from {shown(origin)} may not steer")
        return None

    def refuse_writing(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Whether a request may steer, as far as its headers tell."""
        if refusal := self.refuse_page(method, headers):
            return refusal
        given, host = headers.get(TOKEN_HEADER, ""), headers.get("Host", "")
        with self._lock:
            # Compared one by one and in constant time: a dict lookup would tell by its time.
            owners = [
                owner
                for token, owner in self._pages.items()
                if hmac.compare_digest(token.encode(), given.encode())
            ]
        if not owners or owners[0] != host:
            return Refusal(401, "the page's token is missing or not known; reload the page")
        return None

    def _knows(self, host: str) -> bool:
        return is_loopback(host) or host in self._allowed

    def _same_origin(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
            return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()
        except ValueError:
            return False


def host_name(host: str) -> str:
    """Of a Host header: without port and brackets, in lower case; "" if it is none."""
    match = _HOST.fullmatch(host)
    return (match[1] or match[2]).lower() if match else ""


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_any_address(host: str) -> bool:
    """0.0.0.0 and ::, which stand for every address of the machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False
