"""Members of a population, shown and steered together: the requests, against real processes."""

import json
import shutil
import time
import urllib.parse

import pytest

from targetnet.rl_core.board.steer.runs import BadPosition, by_number, in_one, read_positions
from targetnet.rl_core.control.client import RunClient
from targetnet.rl_core.control.commands import MAX_BYTES
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.state import RunState
from tests.rl_core.board.steer.test_requests import FORGED, ask, page_headers

MEMBERS = ("m00", "m01", "m02:repeats", "m03:ended", "m04:more")
AT_WORK = ("m00", "m01", "m02", "m04")


@pytest.fixture(scope="module")
def crowd(start_population):
    """Two plain members, one that refuses, one that has ended, one with one more live value."""
    with start_population("crowd", *MEMBERS) as path:
        yield path


def log(population, member):
    return read_log(ControlFiles(population / member).log)


def logs(population, members=AT_WORK):
    return {member: log(population, member) for member in members}


def command_files(population):
    return [path for path in population.glob("m*/control/inbox/*") if path.suffix == ".json"]


def body(members=AT_WORK, name="sync_period", value=50, population="crowd", **more):
    commands = [{"set": name, "value": value}]
    return {"population": population, "members": list(members), "commands": commands} | more


def tell(board, told, **headers):
    return ask(board, "POST", "command_members", told, page_headers(board) | headers)


def look(board, population="crowd", **positions):
    of = [("of", f"{member}:{position}") for member, position in positions.items()]
    query = urllib.parse.urlencode([("name", population), *of])
    return ask(board, "GET", f"members?{query}")


def answers(board, asked, population="crowd"):
    """Member -> the entries that answer, as a page reads them."""
    positions = {member: told["position"] for member, told in asked.items()}
    deadline = time.monotonic() + 20
    while True:
        assert time.monotonic() < deadline
        shown = {m["member"]: m for m in look(board, population, **positions).json["members"]}
        found = {
            member: [entry for entry in shown[member]["log"] if entry["id"] in told["ids"]]
            for member, told in asked.items()
        }
        if all(len(found[member]) == len(told["ids"]) for member, told in asked.items()):
            return found
        time.sleep(0.02)


@pytest.mark.thorough
def test_a_population_is_listed_with_its_members(board, crowd):
    (listed,) = ask(board, "GET", "runs").json["populations"]
    assert (listed["name"], listed["path"]) == ("crowd", str(crowd))
    assert listed["members"] == [f"crowd/m{i:02}" for i in range(5)]


def test_a_change_goes_once_to_each_member_and_each_answers_for_itself(board, crowd):
    before = logs(crowd)
    told = tell(board, body(value=51)).json
    assert list(told["asked"]) == list(AT_WORK) and told["problems"] == {}
    found = answers(board, told["asked"])
    after = {member: entries[len(before[member]) :] for member, entries in logs(crowd).items()}
    assert {member: len(entries) for member, entries in after.items()} == dict.fromkeys(AT_WORK, 1)
    ids = [entries[0].id for entries in after.values()]
    assert ids == [of["ids"][0] for of in told["asked"].values()] and len(set(ids)) == len(ids)
    for member, (entry,) in after.items():
        assert (entry.who, entry.name, entry.value) == ("board", "sync_period", 51)
        assert entry.taken is (member != "m02")
        assert found[member][0]["text"] == entry.describe()
    assert f"at update {after['m00'][0].update:,} (env step" in found["m00"][0]["text"]
    assert "this run repeats another one" in found["m02"][0]["text"]


def test_several_commands_reach_each_member_in_their_order(board, crowd):
    commands = [{"set": "tau", "value": 0.5}, {"do": "sync"}, {"set": "tau", "value": "auto"}]
    told = tell(board, body(("m00", "m01"), commands=commands)).json
    found = answers(board, told["asked"])
    for member in ("m00", "m01"):
        assert [entry["name"] for entry in found[member]] == ["tau", "sync", "tau"]
        assert [entry["id"] for entry in found[member]] == told["asked"][member]["ids"]


def test_a_member_that_is_named_twice_gets_its_command_once(board, crowd):
    before = len(log(crowd, "m00"))
    told = tell(board, body(("m00", "m00", "m00"))).json
    answers(board, told["asked"])
    time.sleep(0.2)  # ten looks into the inbox
    assert len(log(crowd, "m00")) == before + 1


def test_a_member_that_has_ended_is_told_as_such_and_is_sent_nothing(board, crowd):
    told = tell(board, body(("m03", "m00"), value=52)).json
    assert "is not running: finished" in told["problems"]["m03"]
    assert answers(board, told["asked"])["m00"][0]["new"] == 52
    assert command_files(crowd) == [] and log(crowd, "m03") == []


def test_a_value_that_only_one_has_is_refused_by_the_others_alone(board, crowd):
    told = tell(board, body(name="temperature", value=2.0)).json
    found = answers(board, told["asked"])
    taken = {member for member, (entry,) in found.items() if entry["taken"]}
    assert taken == {"m04"}
    assert "temperature" in found["m00"][0]["reason"]


@pytest.mark.parametrize(
    "member", ["../some/run", "some/run", "m99", "", ".", "crowd/m00", "m00/control", "x" * 5_000]
)
def test_what_is_no_member_is_not_sent_anything(board, crowd, nothing_arrives, member):
    told = tell(board, body((member,))).json
    assert told["asked"] == {} and list(told["problems"]) == [member]
    assert told["problems"][member].startswith("no member ")
    assert len(told["problems"][member]) <= 600


@pytest.mark.parametrize("name", ["some", "crowd/", "../crowd", "some/run", "crowd/m00", "", "."])
def test_what_is_no_population_is_not_found(board, crowd, nothing_arrives, name):
    assert tell(board, body(population=name)).status == 404
    assert look(board, name).status == 404


@pytest.mark.cases(10)
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_forged_command_reaches_no_member(board, crowd, forged):
    before = logs(crowd)
    headers = page_headers(board) | forged
    answer = ask(board, "POST", "command_members", body(), headers)
    assert answer.status in (401, 403, 415) and answer.json["error"]
    time.sleep(0.2)
    assert logs(crowd) == before and command_files(crowd) == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_the_route_that_commands_members_is_for_post(board, crowd, method):
    told = None if method == "GET" else body()
    assert ask(board, method, "command_members", told, page_headers(board)).status == 405


@pytest.mark.parametrize("host", ["evil.example", "10.1.2.3"])
def test_a_foreign_host_does_not_see_the_members(board, crowd, host):
    answer = ask(board, "GET", "members?name=crowd", host=host)
    assert answer.status == 403 and "m00" not in answer.body.decode()


DIGITS = f"{'9' * 5_000}}}"
BODIES = {
    "no members": body(()),
    "a member that is no text": body((3,)),
    "no population": {"members": ["m00"], "commands": [{"do": "sync"}]},
    "a run too": body(run="some/run"),
    "no commands": body(commands=[]),
    "too many commands": body(commands=[{"do": "sync"}] * 51),
    "a bad command after a good one": body(commands=[{"do": "sync"}, {"do": "rm"}]),
    "a bad command to nobody": body(("m99",), commands=[{"do": "rm"}]),
    "a number with many digits": json.dumps(body(value=0)).replace("0}", DIGITS).encode(),
    "true": body(value=True),
    "too large": body(["m00"] * MAX_BYTES),
}  # fmt: skip


@pytest.mark.parametrize("told", BODIES.values(), ids=BODIES)
def test_a_body_that_is_not_right_reaches_no_member(board, crowd, told):
    before = logs(crowd)
    answer = tell(board, told)
    assert answer.status in (400, 413)
    assert answer.json["error"].isprintable() and 0 < len(answer.json["error"]) <= 600
    time.sleep(0.1)
    assert logs(crowd) == before and command_files(crowd) == []


@pytest.mark.parametrize("position", ["m00", "m00:", "m00:-1", "m00:x", "m00:1" + "0" * 20, ":²"])
def test_a_position_that_is_none_is_refused(board, crowd, position):
    query = urllib.parse.urlencode({"name": "crowd", "of": position})
    answer = ask(board, "GET", f"members?{query}")
    assert answer.status == 400 and "m00:1234" in answer.json["error"]
    with pytest.raises(BadPosition):
        read_positions([position])


def test_members_are_shown_with_their_values_in_one(board, crowd):
    RunClient(crowd / "m00").set("sync_period", 60)
    RunClient(crowd / "m01").set("sync_period", 90)
    shown = look(board).json
    members = {member["member"]: member for member in shown["members"]}
    assert [members[m]["status"] for m in members] == ["running"] * 3 + ["finished", "running"]
    assert [members[m]["alive"] for m in members] == [True] * 3 + [False, True]
    assert members["m00"]["run"] == "crowd/m00" and "log" not in members["m00"]
    values = {value["name"]: value for value in shown["values"]}
    period, temperature = values["sync_period"], values["temperature"]
    assert (period["have"], period["of"], period["value"]) == (4, 4, None)
    assert (temperature["have"], temperature["of"]) == (1, 4)
    assert period["each"][:2] == [["m00", 60], ["m01", 90]]
    assert set(shown["actions"]) >= {"sync", "pause", "resume", "stop"}


@pytest.mark.thorough
def test_a_damaged_and_a_removed_member_do_not_keep_the_others_from_theirs(board, start_population):
    with start_population("hurt", "m00", "m01:silent", "m02:silent", "m03") as path:
        (path / "m01/control/state.json").write_text("no JSON")
        shutil.rmtree(path / "m02")
        told = tell(board, body(("m00", "m01", "m02", "m03"), value=53, population="hurt")).json
        assert "m01/control/state.json is damaged" in told["problems"]["m01"]
        assert "m02" in told["problems"]["m02"] and list(told["asked"]) == ["m00", "m03"]
        found = answers(board, told["asked"], "hurt")
        assert [found[member][0]["new"] for member in ("m00", "m03")] == [53, 53]
        time.sleep(1.1)  # the list of runs is kept for a second
        shown = {member["member"]: member for member in look(board, "hurt").json["members"]}
        assert list(shown) == ["m00", "m01", "m03"]
        assert shown["m01"]["status"] == "damaged" and "damaged" in shown["m01"]["problem"]
        again = tell(board, body(("m02",), population="hurt")).json
        assert again["problems"]["m02"].startswith("no member 'm02'") and again["asked"] == {}


@pytest.mark.thorough
def test_an_answer_that_was_written_before_its_member_ended_is_shown(board, start_population):
    with start_population("ending", "m00") as path:
        told = tell(board, body(("m00",), population="ending", commands=[{"do": "stop"}])).json
        while (path / "m00/control/state.json").read_text().count('"stopped"') == 0:
            time.sleep(0.01)
        position = told["asked"]["m00"]["position"]
        (member,) = look(board, "ending", m00=position).json["members"]
        assert (member["alive"], member["status"]) == (False, "stopped")
        assert [entry["id"] for entry in member["log"]] == told["asked"]["m00"]["ids"]


@pytest.mark.thorough
def test_sixty_four_members_are_told_in_one_request_and_shown_in_one(board, start_population):
    names = [f"m{i:02}" for i in range(64)]
    with start_population("large", *names) as path:
        told = tell(board, body(names, value=54, population="large")).json
        assert list(told["asked"]) == names
        found = answers(board, told["asked"], "large")
        assert {entry["new"] for (entry,) in found.values()} == {54}
        assert [len(log(path, name)) for name in names] == [1] * 64
        shown = look(board, "large")
        assert len(shown.body) < 100_000
        assert [member["member"] for member in shown.json["members"]] == names


# A board that other machines can reach.


@pytest.fixture(scope="module")
def open_board(start_board, logdir):
    return start_board(logdir, "--bind_all")


def token(population, member):
    return ControlFiles(population / member).token.read_text()


def test_an_open_board_steers_the_members_whose_tokens_were_given_and_no_others(open_board, crowd):
    before = logs(crowd)
    given = f"{token(crowd, 'm01')} {'x' * 32} {token(crowd, 'm00')}"
    told = tell(open_board, body(("m00", "m01", "m04"), value=55, run_token=given)).json
    assert "token of the run" in told["problems"]["m04"]
    found = answers(open_board, told["asked"])
    assert {member: entry["new"] for member, (entry,) in found.items()} == {"m00": 55, "m01": 55}
    assert log(crowd, "m04") == before["m04"]


@pytest.mark.parametrize("given", ["", " ", "x" * 32, "\ud800 x"])
def test_an_open_board_steers_no_member_without_its_token(open_board, crowd, given):
    before = logs(crowd)
    told = tell(open_board, body(run_token=given)).json
    assert told["asked"] == {} and list(told["problems"]) == list(AT_WORK)
    time.sleep(0.1)
    assert logs(crowd) == before and command_files(crowd) == []


# Many runs' live values in one.


def live(name, value, source="config", **more):
    fixed = {
        "configured": "500", "unit": "updates", "bounds": ">= 1", "meaning": "m", "effect": "e",
        "whole": True, "low": 1, "high": None, "scale": "log", "blocks": [],
    }  # fmt: skip
    return fixed | {"name": name, "value": value, "source": source} | more


def state(*values):
    counts = dict.fromkeys(
        ("pid", "started", "time", "tick", "env_step", "env_steps", "update", "episodes"), 0
    )
    return RunState.model_validate(
        counts
        | {"status": "running", "host": "h", "env_id": "E", "env_steps_per_second": 0.0}
        | {"eta_seconds": None, "mean_return": None, "target_age": None, "recent": {}}
        | {"values": list(values), "actions": []}
    )


def summary(*of_members):
    states = [(f"m{i:02}", state(*values)) for i, values in enumerate(of_members)]
    return {value["name"]: value for value in in_one(states)}


# values            value  least  most   each
ROWS = [
    ([25, 25, 25],    25,    25,    25,    []),
    ([100, 25, 50],   None,  25,    100,   [("m00", 100), ("m01", 25), ("m02", 50)]),
    ([["a"], ["a"]],  ["a"], None,  None,  []),
    ([["a"], []],     None,  None,  None,  [("m00", ["a"]), ("m01", [])]),
    ([["a"], 5],      None,  None,  None,  [("m00", ["a"]), ("m01", 5)]),
    ([1, 1.0],        1,     1,     1,     []),
]  # fmt: skip


@pytest.mark.parametrize(("values", "value", "least", "most", "each"), ROWS)
def test_values_in_one_are_alike_or_have_a_range_or_differ(values, value, least, most, each):
    found = summary(*([live("x", one)] for one in values))["x"]
    assert (found["value"], found["least"], found["most"]) == (value, least, most)
    assert found["each"] == each and (found["have"], found["of"]) == (len(values), len(values))


def test_sources_and_configs_that_differ_are_none_and_all_sources_are_named():
    found = summary(
        [live("x", 1), live("y", 1)],
        [live("x", 1, "override", configured="7"), live("y", 1)],
    )
    assert (found["x"]["source"], found["x"]["configured"]) == (None, None)
    assert found["x"]["sources"] == ["config", "override"]
    assert (found["y"]["source"], found["y"]["configured"]) == ("config", "500")


def test_a_value_that_only_some_have_says_how_many():
    found = summary([live("x", 1)], [live("x", 1), live("y", 2)], [])
    assert (found["x"]["have"], found["x"]["of"]) == (2, 3)
    assert (found["y"]["have"], found["y"]["of"]) == (1, 3)


def test_members_are_in_the_order_of_their_numbers():
    assert by_number(["m100", "m11", "m02", "m10"]) == ["m02", "m10", "m11", "m100"]
