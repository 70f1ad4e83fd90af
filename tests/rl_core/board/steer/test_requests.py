"""The request table, against real TensorBoard processes."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import pytest

from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.state import read_state

RUN = "some/run"


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)


def ask(board, method, path, body=None, headers=None, host=None):
    """One request with exactly these headers."""
    prefix = urllib.parse.urlsplit(board.url).path
    connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=30)
    try:
        connection.putrequest(
            method, f"{prefix}/data/plugin/steer/{path}", skip_host=True, skip_accept_encoding=True
        )
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Host": host or f"localhost:{board.port}"} | (headers or {})
        if data is not None:
            sent.setdefault("Content-Length", str(len(data)))
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(data)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def page_headers(board, host=None):
    """What a page of ours sends with a command, its token too."""
    host = host or f"localhost:{board.port}"
    headers = {"Origin": f"http://{host}", "Content-Type": "application/json"}
    answer = ask(board, "POST", "session", {}, headers, host)
    assert answer.status == 200, answer.body
    return headers | {"X-Targetnet-Token": answer.json["token"]}


def command(name="sync_period", value=50, run=RUN, **more):
    return {"run": run, "commands": [{"set": name, "value": value}]} | more


def new_entries(run, before):
    while len(entries := read_log(run.log)) == before:
        time.sleep(0.01)
    return entries[before:]


@pytest.mark.thorough
def test_a_command_of_our_page_arrives_and_its_answer_is_shown(board, run):
    before = len(read_log(run.log))
    answer = ask(board, "POST", "command", command(value=51), page_headers(board))
    assert answer.status == 200
    (entry,) = new_entries(run, before)
    assert [entry.id] == answer.json["ids"]
    assert (entry.who, entry.name, entry.new, entry.taken) == ("board", "sync_period", 51, True)
    shown = ask(board, "GET", f"run?name={RUN}").json
    assert shown["alive"] and shown["state"]["status"] == "running"
    assert shown["log"][-1]["text"].startswith("sync_period ")
    assert ask(board, "GET", f"run?name={RUN}&position={shown['position']}").json["log"] == []


@pytest.mark.thorough
def test_what_a_dead_run_has_not_read_is_taken_back_once_the_page_knows_of_its_death(
    board, start_population
):
    """Else it would change the run when it is resumed, maybe days later."""
    with start_population("stopped", "m00", "m01") as path:
        pid = int(read_state(ControlFiles(path / "m00"))[0].pid)
        os.kill(pid, signal.SIGSTOP)
        try:
            one = command(run="stopped/m00")
            both = {"population": "stopped", "members": ["m01"], "commands": one["commands"]}
            assert ask(board, "POST", "command", one, page_headers(board)).status == 200
            assert ask(board, "POST", "command_members", both, page_headers(board)).status == 200
            ask(board, "GET", "run?name=stopped/m00")
            ask(board, "GET", "members?name=stopped")
            command_files = [path / member / "control/inbox" for member in ("m00", "m01")]
            assert [len([*of.iterdir()]) for of in command_files] == [1, 1]  # it may go on yet
        finally:
            os.kill(pid, signal.SIGKILL)
        while ask(board, "GET", "run?name=stopped/m00").json["alive"]:
            time.sleep(0.01)
        ask(board, "GET", "members?name=stopped")
        assert [len([*of.iterdir()]) for of in command_files] == [0, 0]


def test_several_changes_and_an_action_arrive_in_order(board, run):
    before = len(read_log(run.log))
    commands = [{"set": "tau", "value": 0.5}, {"set": "exempt", "value": ["torso"]}, {"do": "sync"}]
    answer = ask(board, "POST", "command", {"run": RUN, "commands": commands}, page_headers(board))
    assert answer.status == 200
    while len(entries := read_log(run.log)[before:]) < 3:
        time.sleep(0.01)
    assert [entry.name for entry in entries] == ["tau", "exempt", "sync"]


FORGED = {
    "no token": {"X-Targetnet-Token": None},
    "a wrong token": {"X-Targetnet-Token": "x" * 32},
    "no content type": {"Content-Type": None},
    "a form's content type": {"Content-Type": "application/x-www-form-urlencoded"},
    "plain text": {"Content-Type": "text/plain"},
    "no origin": {"Origin": None},
    "a foreign origin": {"Origin": "http://evil.example"},
    "the null origin": {"Origin": "null"},
    "another port's origin": {"Origin": "http://localhost:1"},
    "a foreign host": {"Host": "evil.example"},
    "a foreign host and its origin": {"Host": "evil.example", "Origin": "http://evil.example"},
    "cross-site": {"Sec-Fetch-Site": "cross-site"},
}


@pytest.mark.cases(11)
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_forged_command_is_refused_and_changes_nothing(board, nothing_arrives, forged):
    answer = ask(board, "POST", "command", command(), page_headers(board) | forged)
    assert answer.status in (401, 403, 415) and answer.json["error"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_the_command_route_is_for_post(board, nothing_arrives, method):
    body = None if method in ("GET", "HEAD", "OPTIONS") else command()
    query = urllib.parse.urlencode({"run": RUN, "set": "tau", "value": 0.5})
    answer = ask(board, method, f"command?{query}", body, page_headers(board))
    assert answer.status == 405


@pytest.mark.parametrize("path", ["session", "command"])
def test_no_answer_allows_another_site_to_read_it(board, path):
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST",
               "Access-Control-Request-Headers": "content-type,x-targetnet-token"}  # fmt: skip
    answer = ask(board, "OPTIONS", path, None, headers)
    assert answer.status == 405 and not answer.headers.get("Access-Control-Allow-Origin")


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{1}", "10.1.2.3"])
@pytest.mark.parametrize(
    "path", ["runs", f"run?name={RUN}", f"tags?name={RUN}", f"history?name={RUN}&tag=target/age"]
)
def test_a_foreign_host_reads_nothing(board, host, path):
    answer = ask(board, "GET", path, host=host)
    assert answer.status == 403 and "some/run" not in answer.body.decode()


def test_a_foreign_host_gets_no_token(board):
    headers = {"Origin": "http://evil.example", "Content-Type": "application/json"}
    answer = ask(board, "POST", "session", {}, headers, host="evil.example")
    assert answer.status == 403 and "token" not in answer.json


@pytest.mark.cases(10)
@pytest.mark.parametrize(
    "name",
    ["../logdir/some/run", "some/../some/run", "/etc", "some/run/", "", "some", "plain", "..",
     "some/run/control", "x\n", "x" * 10_000, "\x1b[2J"],
)  # fmt: skip
def test_a_run_name_with_tricks_is_not_found(board, nothing_arrives, name):
    answer = ask(board, "POST", "command", command(run=name), page_headers(board))
    assert answer.status == 404 and answer.json["error"].isprintable()
    assert len(answer.json["error"]) <= 600
    query = urllib.parse.urlencode({"name": name})
    for path in ("run", "tags", "history"):
        assert ask(board, "GET", f"{path}?{query}").status == 404


def raw(value):
    return b'{"run": "some/run", "commands": [{"set": "tau", "value": %s}]}' % value


BODIES = {
    "NaN": raw(b"NaN"),
    "infinity": raw(b"-Infinity"),
    "huge exponent": raw(b"1e999"),
    "true": raw(b"true"),
    "null": raw(b"null"),
    "an object": raw(b"{}"),
    "two keys alike": b'{"run": "some/run", "run": "some/run", "commands": [{"do": "stop"}]}',
    "deep": raw(b"[" * 5_000 + b"]" * 5_000),
    "not JSON": b"tau=0.5",
    "a list": b"[]",
    "nothing": b"",
    "no commands": b'{"run": "some/run", "commands": []}',
    "too many": json.dumps({"run": RUN, "commands": [{"do": "sync"}] * 51}).encode(),
    "set and do": b'{"run": "some/run", "commands": [{"set": "tau", "value": 1, "do": "stop"}]}',
    "neither": b'{"run": "some/run", "commands": [{}]}',
    "an unknown action": b'{"run": "some/run", "commands": [{"do": "rm"}]}',
    "an unknown key": b'{"run": "some/run", "commands": [{"do": "stop", "now": 1}]}',
    "one bad among good": b'{"run": "some/run", "commands": [{"do": "stop"}, {"do": "rm"}]}',
    "a run that is no text": b'{"run": 3, "commands": [{"do": "stop"}]}',
    "a huge action": json.dumps({"run": RUN, "commands": [{"do": "x" * 15_000}]}).encode(),
    "a huge name": json.dumps({"run": RUN, "commands": [{"set": "x" * 15_000}]}).encode(),
    "a huge value": json.dumps(
        {"run": RUN, "commands": [{"do": "stop", "value": "x" * 15_000}]}
    ).encode(),
    "a huge key": json.dumps({"run": RUN, "commands": [{"x" * 15_000: 1}]}).encode(),
    "half a character": b'{"run": "some/run", "commands": [{"set": "\\ud800", "value": 1}]}',
    "5,000 digits": raw(b"9" * 5_000),
    "20 kB": raw(b'"' + b"x" * 20_000 + b'"'),
    "10 MB": raw(b'"' + b"x" * 10_000_000 + b'"'),
}


@pytest.mark.cases(10)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_that_is_no_command_is_refused_with_one_line(board, nothing_arrives, body):
    try:
        answer = ask(board, "POST", "command", body, page_headers(board))
    except (BrokenPipeError, ConnectionResetError):
        assert len(body) > 1_000_000  # it does not wait for the rest
        return
    assert answer.status in (400, 413)
    assert answer.json["error"].isprintable() and 0 < len(answer.json["error"]) <= 600


def test_a_body_of_unknown_length_is_refused(board, nothing_arrives):
    headers = page_headers(board) | {"Transfer-Encoding": "chunked", "Content-Length": None}
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(raw(b"0.5")), raw(b"0.5"))
    answer = ask(board, "POST", "command", chunks, headers)
    assert answer.status in (400, 413)


@pytest.mark.thorough
def test_a_run_that_is_over_is_not_sent_anything(board, logdir):
    run = logdir / "dead" / "run"
    fake = next((p for p in sys.path if p), "")
    script = str(Path(__file__).parents[2] / "control" / "fake_run.py")
    subprocess.run([sys.executable, script, run, "3"], check=True, cwd=fake or None)
    time.sleep(1.1)  # the list of runs is kept for a second
    answer = ask(board, "POST", "command", command(run="dead/run"), page_headers(board))
    assert answer.status == 409 and "is not running: stopped" in answer.json["error"]
    assert list((run / "control/inbox").iterdir()) == []


def test_the_runs_are_listed(board):
    runs = {run["name"]: run for run in ask(board, "GET", "runs").json["runs"]}
    assert runs[RUN]["alive"] and runs[RUN]["env_id"] == "Fake-v0"
    assert "plain" not in runs


def history(board, *asked):
    answer = ask(board, "GET", f"history?{urllib.parse.urlencode([('name', RUN), *asked])}")
    return answer.json["curves"] if answer.status == 200 else answer


def loaded(board, tag="episode/return"):
    while not history(board, ("tag", tag)):
        time.sleep(0.1)


def test_the_curves_that_are_asked_for_are_answered_and_no_others(board):
    loaded(board)
    curves = history(board, ("tag", "target/age"), ("tag", "episode/return"), ("tag", "none"))
    assert set(curves) == {"target/age", "episode/return"}
    assert curves["episode/return"] == [[step, step / 10] for step in range(0, 1_000, 10)]
    assert history(board) == {}


def test_a_curve_is_thinned_on_the_server_and_keeps_its_last_point(board):
    loaded(board)
    points = history(board, ("tag", "episode/return"), ("points", 7))["episode/return"]
    assert len(points) == 7 and points[-1] == [990, 99.0]


@pytest.mark.parametrize("points", [0, -1, 1_001, 10**30])
def test_a_number_of_points_out_of_bounds_is_refused(board, points):
    answer = history(board, ("tag", "episode/return"), ("points", points))
    assert answer.status == 400 and "points must be 1 to 1000" in answer.json["error"]


def test_too_many_curves_at_once_are_refused(board):
    answer = history(board, *(("tag", str(number)) for number in range(9)))
    assert answer.status == 400 and "at most 8 curves" in answer.json["error"]


def test_each_change_comes_with_the_command_that_does_the_same(board, run):
    before = len(read_log(run.log))
    ask(board, "POST", "command", command(value=54), page_headers(board))
    new_entries(run, before)
    last = ask(board, "GET", f"run?name={RUN}").json["log"][-1]
    assert last["command"] == f"targetnet set {run.run} sync_period=54"


def huge(path):
    path.touch()
    os.truncate(path, 1 << 38)


def test_a_huge_log_is_said_to_be_damaged_and_not_read(board, spoiled):
    other = spoiled(board, "log.jsonl", huge)
    answer = ask(board, "GET", f"run?name={other.parent.name}")
    assert answer.status == 409 and "hold no whole line" in answer.json["error"]


def test_the_pages_files_have_the_kinds_that_browsers_want(board):
    from targetnet.rl_core.board.steer.plugin import STATIC

    kinds = {".js": "text/javascript", ".css": "text/css"}
    for path in STATIC.iterdir():
        answer = ask(board, "GET", path.name)
        assert answer.status == 200 and answer.body == path.read_bytes()
        assert answer.headers["Content-Type"].split(";")[0] == kinds[path.suffix]


@pytest.fixture
def spoiled(logdir, run):
    """Makes a run with files of which one is not what it should be; returns its control files."""
    made = []

    def make(board, name, spoil):
        other = logdir / f"damaged-{len(made)}-{name}" / "control"
        other.mkdir(parents=True)
        (other / "inbox").mkdir()
        (other / "lock").touch()
        (other / "state.json").write_bytes(run.state.read_bytes())
        (other / name).unlink(missing_ok=True)
        spoil(other / name)
        made.append(other.parent)
        end = time.monotonic() + 60  # the list of runs is kept for a second, or longer under load
        while ask(board, "GET", f"run?name={other.parent.name}").status == 404:
            assert time.monotonic() < end
            time.sleep(0.2)
        return other

    yield make
    for path in made:
        shutil.rmtree(path)


def not_json(path):
    path.write_text("no JSON\n")


def of_no_time(path):
    path.write_text('{"time": -Infinity}')


def deep(path):
    path.write_text("[" * 100_000)


def device(path):
    path.symlink_to("/dev/zero")


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        *(("state.json", spoil) for spoil in (not_json, of_no_time, deep, os.mkfifo, device)),
        *(("lock", spoil) for spoil in (os.mkfifo, device)),
    ],
)
def test_a_damaged_run_is_listed_as_such_and_the_others_go_on(board, spoiled, name, spoil):
    other = spoiled(board, name, spoil)
    answer = ask(board, "GET", f"run?name={other.parent.name}")
    assert answer.status == 409 and name in answer.json["error"]
    assert answer.json["error"].isprintable()
    runs = {run["name"]: run for run in ask(board, "GET", "runs").json["runs"]}
    damaged = runs[other.parent.name]
    assert damaged["status"] == "damaged" and not damaged["alive"]
    assert damaged["problem"] == answer.json["error"]
    assert runs[RUN]["status"] == "running" and runs[RUN]["problem"] is None


def test_a_damaged_log_is_said_to_be_so_in_one_line(board, spoiled):
    other = spoiled(board, "log.jsonl", not_json)
    answer = ask(board, "GET", f"run?name={other.parent.name}")
    assert answer.status == 409 and "log.jsonl is damaged" in answer.json["error"]


# Reachable from other machines.


@pytest.fixture(scope="module")
def open_board(start_board, logdir):
    return start_board(logdir, "--bind_all", "--steer_allow_host=lab.example", quick=False)


@pytest.mark.thorough
@pytest.mark.parametrize("given", ["", "x" * 32, "RUN\n\n"])
def test_an_open_board_wants_the_runs_token(open_board, nothing_arrives, given):
    body = command(run_token=given)
    answer = ask(open_board, "POST", "command", body, page_headers(open_board))
    # Not 401, at which the page would only get itself another token of its own.
    assert answer.status == 403 and "token of the run" in answer.json["error"]


@pytest.mark.cases(0)
@pytest.mark.parametrize("given", ["", "\ud800", "x" * 10_000])
@pytest.mark.parametrize("spoil", [os.mkfifo, device, deep])
def test_a_token_that_is_none_lets_nobody_in(open_board, spoiled, run, given, spoil):
    other = spoiled(open_board, "token", spoil)
    body = command(run=other.parent.name, run_token=given)
    answer = ask(open_board, "POST", "command", body, page_headers(open_board))
    assert answer.status in (403, 409) and answer.json["error"].isprintable()
    assert list((other / "inbox").iterdir()) == []


def test_an_open_board_steers_with_the_runs_token(open_board, run):
    before = len(read_log(run.log))
    body = command(value=52, run_token=run.token.read_text())
    host = f"lab.example:{open_board.port}"
    answer = ask(open_board, "POST", "command", body, page_headers(open_board, host), host)
    assert answer.status == 200
    assert new_entries(run, before)[0].new == 52


def test_an_open_board_answers_to_no_name_it_was_not_told(open_board, nothing_arrives):
    body = command(run_token="")
    headers = page_headers(open_board) | {"Origin": "http://evil.example", "Host": "evil.example"}
    assert ask(open_board, "POST", "command", body, headers).status == 403
    address = socket.gethostbyname(socket.gethostname())
    if not address.startswith("127."):
        assert ask(open_board, "GET", "runs", host=f"{address}:{open_board.port}").status == 403


def test_the_page_is_told_whether_it_needs_the_runs_token(board, open_board):
    for server, needs in ((board, False), (open_board, True)):
        headers = page_headers(server)
        headers.pop("X-Targetnet-Token")
        assert ask(server, "POST", "session", {}, headers).json["needs_run_token"] is needs


# Every way to start TensorBoard.


WAYS = {
    "board": lambda d: ((d, "--reload_interval=1"), {}),
    "plain": lambda d: ((d, "--reload_interval=1"), {"quick": False}),
    "fast loader": lambda d: ((d, "--load_fast=true"), {"quick": False}),
    "slow loader": lambda d: ((d, "--load_fast=false", "--reload_interval=1"), {"quick": False}),
    "prefix": lambda d: ((d, "--path_prefix=/tb"), {}),
    "spec": lambda d: ((None, f"--logdir_spec=my:{d}"), {"quick": False}),
    "spec of one run": lambda d: (
        (None, f"--logdir_spec={d / 'plain'},my:{d / RUN}"),
        {"quick": False},
    ),
}
NAMES = {"spec": f"my/{RUN}", "spec of one run": "my/."}


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "ways",
    [
        ("board",),
        pytest.param(("plain",), marks=pytest.mark.thorough),  # it imports TensorFlow
        pytest.param(tuple(WAYS), marks=pytest.mark.slow),
    ],
    ids=["board", "plain", "all"],
)
def test_the_tab_works_however_tensorboard_is_started(start_board, logdir, run, ways):
    # All at once: most of their time goes into importing TensorFlow.
    started = {}
    for way in ways:
        arguments, settings = WAYS[way](logdir)
        started[way] = start_board(*arguments, **settings)
    for way, board in started.items():
        name = NAMES.get(way, RUN)
        prefix = urllib.parse.urlsplit(board.url).path
        listing = http.client.HTTPConnection("127.0.0.1", board.port, timeout=30)
        listing.request("GET", f"{prefix}/data/plugins_listing")
        assert json.loads(listing.getresponse().read())["steer"]["enabled"] is True, way
        listing.close()
        for _ in range(200):
            query = urllib.parse.urlencode({"name": name, "tag": "episode/return"})
            if curves := ask(board, "GET", f"history?{query}").json["curves"]:
                break
            time.sleep(0.1)
        assert curves["episode/return"][-1] == [990, 99.0], way
        tags = ask(board, "GET", f"tags?{urllib.parse.urlencode({'name': name})}").json["tags"]
        assert [tag["tag"] for tag in tags] == ["episode/return", "target/age"], way
        assert tags[1]["unit"] == "updates" and tags[1]["meaning"].startswith(
            "Age of the target"
        ), way
        before = len(read_log(run.log))
        answer = ask(board, "POST", "command", command(value=53, run=name), page_headers(board))
        assert answer.status == 200, (way, answer.body)
        assert new_entries(run, before)[0].new == 53, way
        board.stop()


BROKEN = {
    "a library is missing": "import sys; sys.modules['pydantic'] = None",
    "TensorBoard is another one": "import tensorboard.data.provider as p; del p.RunTagFilter",
    "a module of ours is broken": "import sys\n"
    "sys.modules['targetnet.rl_core.board.steer.guard'] = None",
    "it fails when made": """
import targetnet.rl_core.board.steer.runs
def broken(*_): raise RuntimeError("broken\\nin two lines")
targetnet.rl_core.board.steer.runs.log_directories = broken
""",
}


@pytest.mark.cases(0)
@pytest.mark.parametrize("spoil", BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_costs_one_line_and_the_tab_but_not_tensorboard(
    start_board, logdir, tmp_path, monkeypatch, spoil
):
    # Python runs a module of this name at its start.
    (tmp_path / "sitecustomize.py").write_text(spoil)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    board = start_board(logdir)
    connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=30)
    connection.request("GET", "/data/plugins_listing")
    listing = json.loads(connection.getresponse().read())
    connection.close()
    assert "scalars" in listing and "steer" not in listing
    (line,) = [line for line in board.said.splitlines() if "Steer tab is left out" in line]
    assert any(reason in line for reason in ("broken in two lines", "NotFoundError", "ImportError"))
    board.stop()


@pytest.mark.parametrize("failure", [OSError(), RecursionError(), SystemError("x" * 1_000)])
def test_making_the_plugin_may_fail_in_any_way(caplog, failure):
    from targetnet.rl_core.board.steer.entry import SteerLoader

    class Context:
        @property
        def flags(self):
            raise failure

    assert SteerLoader().load(Context()) is None
    (record,) = caplog.records
    assert len(record.getMessage()) < 300 and "\n" not in record.getMessage()
