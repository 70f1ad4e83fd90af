"""Who may read and who may write, decided by method and headers alone."""

import pytest

from targetnet.rl_core.board.steer.guard import (
    TOKEN_HEADER,
    Guard,
    host_name,
    is_any_address,
    is_loopback,
)

OURS = "localhost:6006"


def headers(guard, **changes):
    """Those of a command from our own page, with some changed; None leaves one out."""
    sent = {
        "Host": OURS,
        "Origin": f"http://{OURS}",
        "Content-Type": "application/json",
        "Sec-Fetch-Site": "same-origin",
    }
    sent[TOKEN_HEADER] = guard.new_page(sent)
    for name, value in changes.items():
        key = TOKEN_HEADER if name == "token" else name.replace("_", "-")
        sent.pop(key) if value is None else sent.update({key: value})
    return sent


@pytest.fixture
def guard():
    return Guard("localhost")


def test_a_command_from_our_page_is_let_through(guard):
    assert guard.refuse_writing("POST", headers(guard)) is None


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"token": None}, 401),
        ({"token": ""}, 401),
        ({"token": "x" * 32}, 401),
        ({"token": "ü"}, 401),
        ({"Content_Type": None}, 415),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Type": "multipart/form-data; boundary=application/json"}, 415),
        ({"Content_Type": "text/plain; application/json"}, 415),
        ({"Origin": None}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:7007"}, 403),
        ({"Origin": "http://localhost"}, 403),
        ({"Origin": "http://127.0.0.1:6006"}, 403),
        ({"Origin": "http://localhost:6006.evil.example"}, 403),
        ({"Origin": "http://evil.example#localhost:6006"}, 403),
        ({"Origin": "http://user@localhost:6006"}, 403),
        ({"Origin": "file://localhost:6006"}, 403),
        ({"Origin": "http://[", "Host": "["}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost.evil.example", "Origin": "http://localhost.evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example", "Origin": "http://127.0.0.1.evil.example"}, 403),
        ({"Host": "10.0.0.1:6006", "Origin": "http://10.0.0.1:6006"}, 403),
        ({"Host": "", "Origin": "http://"}, 403),
        ({"Host": None}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
    ],
)
def test_anything_else_is_not(guard, changes, status):
    refusal = guard.refuse_writing("POST", headers(guard, **changes))
    assert refusal is not None and refusal.status == status and refusal.reason


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "post"])
def test_only_post_writes(guard, method):
    assert guard.refuse_writing(method, headers(guard)).status == 405
    assert guard.refuse_page(method, headers(guard)).status == 405


def test_a_token_counts_for_the_host_it_was_given_to(guard):
    token = guard.new_page({"Host": "localhost:6006"})
    other = headers(guard, Host="127.0.0.1:6006", Origin="http://127.0.0.1:6006", token=token)
    assert guard.refuse_writing("POST", other).status == 401


def test_another_servers_token_does_not_count(guard):
    token = Guard("localhost").new_page({"Host": OURS})
    assert guard.refuse_writing("POST", headers(guard, token=token)).status == 401


def test_the_oldest_of_very_many_pages_is_forgotten_and_the_newest_known(guard):
    first = headers(guard)
    for _ in range(1_000):
        last = headers(guard)
    assert guard.refuse_writing("POST", first).status == 401
    assert guard.refuse_writing("POST", last) is None
    assert len(guard._pages) <= 1_000


@pytest.mark.parametrize(
    ("host", "known"),
    [("localhost:6006", True), ("LOCALHOST", True), ("127.0.0.1:1", True), ("127.9.9.9", True),
     ("[::1]:6006", True), ("::1", False), ("192.168.1.2:6006", False), ("0.0.0.0", False),
     ("lab.example", False), ("", False), ("[", False), ("localhost:", True),
     ("x@localhost", False), ("localhost/x", False), ("localhost#x", False), ("localhost ", False),
     ("localhost:x", False), ("localhost,evil.example", False), ("127.1", False),
     ("[::1]evil.example", False), ("localhost\n", False), ("١٢٧.0.0.1", False)],
)  # fmt: skip
def test_which_hosts_are_answered_without_being_told(guard, host, known):
    assert (guard.refuse_reading({"Host": host}) is None) is known


def test_a_host_may_be_allowed_by_name():
    guard = Guard("localhost", ["lab.example, other.example", "third.example"])
    for host in ("lab.example:6006", "OTHER.example", "third.example:80"):
        assert guard.refuse_reading({"Host": host}) is None
    assert guard.refuse_reading({"Host": "fourth.example"}).status == 403
    assert "--steer_allow_host" in guard.refuse_reading({"Host": "fourth.example"}).reason


@pytest.mark.parametrize(
    ("bound", "loopback_only"),
    [("localhost", True), ("127.0.0.1", True), ("::1", True), ("0.0.0.0", False), ("::", False),
     ("192.168.1.2", False), ("lab.example", False), ("", False), (None, False)],
)  # fmt: skip
def test_whether_other_machines_can_reach_it(bound, loopback_only):
    assert Guard(bound).loopback_only is loopback_only


def test_the_name_it_is_bound_to_is_answered():
    assert Guard("lab.example").refuse_reading({"Host": "lab.example:6006"}) is None
    assert Guard("0.0.0.0").refuse_reading({"Host": "0.0.0.0:6006"}).status == 403


def test_names_and_addresses():
    assert [host_name(h) for h in ("a.b:1", "[::1]:2", "A", "[", "x@y:1")] == [
        "a.b", "::1", "a", "", "",
    ]  # fmt: skip
    assert is_loopback("LocalHost") and not is_loopback("localhost.") and not is_loopback("1")
    assert is_any_address("0.0.0.0") and is_any_address("[::]") and not is_any_address("lab")
