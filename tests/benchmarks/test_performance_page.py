"""The benchmark command, as far as it goes without peers: its pages, its ratios, its protocol."""

import contextlib
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.errors import RlCoreError
from tests.benchmarks import readme_tables
from tests.benchmarks.performance import VENVS, Performance
from tests.benchmarks.performance_page import as_markdown, as_sitting, bar_cells
from tests.benchmarks.readme_tables import RESULTS
from tests.benchmarks.rounds import Measured, measure, spread
from tests.benchmarks.scenarios import SCENARIOS
from tests.benchmarks.scenarios.kinds import PEER, QUANTITIES, Bar, Scenario, Worker
from tests.benchmarks.workers import Process

PEERS = Path(__file__).parent / "peers"


def rounds(*seconds):
    counts = {"env_steps": 1_000, "updates": 500, "private": 250_000_000}
    return [{"seconds": s, **counts} for s in seconds]


@pytest.fixture
def scenario():
    """Env steps per second: ours 10,000, 5,000, 4,000; theirs 1,000, 1,000, 2,000.

    Ratios of the rounds are 10, 5, 2; the other way round 0.1, 0.2, 0.5. Theirs reached 1,250 in a
    probe.
    """
    ours, theirs = rounds(0.1, 0.2, 0.25), rounds(1.0, 1.0, 0.5)
    pairs = list(zip(ours, theirs, strict=True))
    tried = [{"setting": {"threads": n}, "median": m} for n, m in ((1, 1_000.0), (4, 1_250.0))]
    bars = [
        {"of": "ours", "to": "theirs", "least": 5, "most": None, "pairs": pairs},
        {"of": "ours", "to": "theirs", "least": 5.1, "most": None, "pairs": pairs},
        {"of": "ours", "to": "", "least": None, "most": 4_000, "pairs": []},
        {"of": "theirs", "to": "ours", "least": None, "most": None,
         "pairs": [pair[::-1] for pair in pairs]},
        {"of": "later", "to": "ours", "least": 1, "most": None, "pairs": []},
    ]  # fmt: skip
    workers = {"ours": {"rounds": ours, "tried": []}, "theirs": {"rounds": theirs, "tried": tried}}
    return {"quantity": "env steps/s", "workers": workers, "bars": bars}


CELLS = [
    ["ours / theirs", ">= 5", "5.00 (2.00 to 10.00)", "met"],
    ["ours / theirs", ">= 5.1", "5.00 (2.00 to 10.00)", "**not met**"],
    ["ours", "<= 4e+03 env steps/s", "5000.00 (4000.00 to 10000.00) env steps/s", "**not met**"],
    ["theirs / ours", "", "0.20 (0.10 to 0.50)", ""],
    ["later / ours", ">= 1", "not measured", "not measured"],
]


def test_a_bar_is_met_by_the_median_of_the_rounds_ratios(scenario):
    assert [bar_cells(scenario, bar) for bar in scenario["bars"]] == CELLS


def test_a_mark_that_is_missed_by_less_than_a_hundredth_does_not_look_met(scenario):
    ours, theirs = rounds(1.0), rounds(4.996)  # seconds for as many env steps
    bar = scenario["bars"][0] | {"pairs": list(zip(ours, theirs, strict=True))}
    shown = [bar_cells(scenario, bar | {"least": least})[2].split()[0] for least in (5, 4.99)]
    assert shown == ["4.996", "5.00"]


def test_readme_tells_the_ratio_to_a_peers_best_probe_where_that_was_faster(scenario):
    """Ours makes 5,000 a second, the peer 1,000 in the rounds and 1,250 in a probe."""
    del scenario["bars"][1:]
    rows = [("both", [("A", "ours", "theirs")])]

    def last_lines():
        tables = (
            readme_tables.as_markdown(rows, {"one": {"A": scenario}}),
            readme_tables.with_ranges(rows, {"A": scenario}),
        )
        return [table.splitlines()[-1] for table in tables]

    # The range is that of the rounds, 2 to 10, times 1,000 / 1,250.
    assert last_lines() == ["| both | 4.00 |", "| both | 4.00 | 1.60 to 8.00 |"]
    scenario["workers"]["theirs"]["tried"] = []
    assert last_lines() == ["| both | 5.00 |", "| both | 5.00 | 2.00 to 10.00 |"]


def test_each_quantity_from_a_rounds_counts():
    (only,) = rounds(0.5)
    medians = {quantity: spread(quantity, [only]).median for quantity in QUANTITIES}
    # 1,000 / 0.5, 500 / 0.5, 1e6 * 0.5 / 500, 1e6 * 0.5 / 1,000, 250e6 / 1e6
    assert medians == {
        "env steps/s": 2_000, "updates/s": 1_000, "us/update": 1_000, "us": 500, "s": 0.5,
        "MB": 250,
    }  # fmt: skip


def test_a_ratio_is_of_neighbours_and_not_of_medians():
    fast_then_slow, same = rounds(1.0, 10.0, 3.0), rounds(2.0, 20.0, 6.0)
    assert spread("env steps/s", fast_then_slow, same) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("performance_*.json")), ids=lambda p: p.stem)
def test_a_page_is_what_its_json_says(path):
    """Of all that was measured: each table, setting, reason and earlier sitting."""
    page = path.with_suffix(".md")
    assert as_markdown(json.loads(path.read_text()), page.name) == page.read_text()


def test_the_tables_of_speeds_are_those_of_the_pages():
    measured, speed = readme_tables.measured(), (RESULTS / "speed.md").read_text()
    for table in (readme_tables.FRAMEWORK, readme_tables.ARITHMETIC):
        assert readme_tables.as_markdown(table, measured) in speed
    readme = (RESULTS.parents[1] / "README.md").read_text()
    assert readme_tables.with_ranges(readme_tables.README, measured["AVX-512"]) in readme


def test_a_scenario_that_is_measured_again_keeps_its_earlier_ratios(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.benchmarks.performance.vectors", lambda: "wide")
    monkeypatch.setattr("tests.benchmarks.performance.make_venvs", lambda *_: {})
    stored = json.loads((RESULTS / "performance_avx2.json").read_text())["scenarios"]["CP-B"]
    monkeypatch.setattr(Performance, "_measured", lambda *_: stored)
    for _ in range(2):
        Performance(only=("CP-B",), out=tmp_path, page=tmp_path / "p.md")(Console())
    results = json.loads((tmp_path / "p_wide.json").read_text())
    assert results == {"scenarios": {"CP-B": stored}, "earlier": {"CP-B": [as_sitting(stored)]}}
    assert (tmp_path / "p_wide.md").read_text() == as_markdown(results, "p_wide.md")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_can_be_measured(name):
    scenario = SCENARIOS[name]
    assert scenario.quantity in QUANTITIES
    for bar in scenario.bars:
        assert {bar.of, bar.to} <= {*scenario.workers, ""}
        assert bar.least is None or bar.most is None
    for worker in scenario.workers.values():
        assert (PEERS / f"{worker.program}_worker.py").exists()
        assert worker.venv in {"", *VENVS}
        DqnConfig(**worker.setup.get("config", {}))


# Processes.

WORKER = """
import sys
sys.path.insert(0, {peers!r})
from protocol import Work, serve


def make(setup):
    def run(count):
        print("what libraries print")
        return count, count // setup["period"]

    return Work(run, setup["period"], ("numpy",))


serve(make)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a worker that makes an update every 4 env steps, in no time."""
    (tmp_path / "fake_worker.py").write_text(WORKER.format(peers=str(PEERS)))
    monkeypatch.setattr("tests.benchmarks.workers._PEERS", tmp_path)
    started = []

    def start(**more):
        worker = Worker("fake", {"period": 4}, **more)
        log = tmp_path / "log"
        process = Process("fake", worker, {"threads": 1}, Path(sys.executable), [0], log)
        started.append(process)
        process.wait()
        return process

    yield start
    for process in started:
        process.close()


def test_a_worker_stays_alive_and_counts_what_it_does(start):
    process = start(updates=0.25)
    assert process.about["versions"].keys() == {"python", "numpy"}
    for count in (4, 400):
        done = process.run(count)
        assert (done["env_steps"], done["updates"]) == (count, count / 4)
        assert done["seconds"] >= 0 and done["private"] == process.about["memory"]["private"]
    memory = process.about["memory"]
    assert 1_000_000 < memory["private"] < memory["peak"] and 0 < memory["files"] < memory["peak"]


def test_a_wrong_number_of_updates_ends_the_measurement(start):
    with pytest.raises(RlCoreError, match="fake made 100 updates in 400 env steps, wanted 200"):
        start(updates=0.5).run(400)
    start(updates=0.5, slack=100).run(400)


def test_a_worker_that_dies_says_its_last_words(start):
    with pytest.raises(RlCoreError, match="exit code 1: TypeError: unsupported operand"):
        start().run("four")


# Rounds.


class Turns:
    """A worker that writes down when it is asked."""

    def __init__(self, order, label, threads=1, seconds=1.0):
        self.order, self.label, self.seconds = order, label, seconds
        self.setting, self.about = {"threads": threads}, {"cores": threads}

    def count_for(self, seconds):
        return 10

    def run(self, count):
        self.order.append(self.label)
        private = int(1e6 * self.seconds)
        return {"seconds": self.seconds, "env_steps": count, "updates": count, "private": private}

    def close(self):
        self.order.append(f"{self.label} closed")


def measured(groups, bars, rounds=2, quantity="s", **more):
    found = Measured({}, {})
    measure(Scenario("s", "", quantity, {}, bars, **more), groups, rounds, found)
    return found


def test_the_two_of_a_ratio_work_side_by_side_now_the_one_first_now_the_other():
    order = []
    seconds = dict(zip("abcd", (1.0, 3.0, 5.0, 7.0), strict=True))
    groups = {label: [Turns(order, label, seconds=s)] for label, s in seconds.items()}
    bars = (Bar("a", "b"), Bar("a", "c"), Bar("a", "b", least=2), Bar("d"), Bar("a", "later"))
    found = measured(groups, bars)
    # In the second round each pair is the other way round; d is in none, and later is not there.
    assert "".join(order) == "abcad" + "baacd"
    # A pair is kept as it is named, whoever was first.
    assert {
        pair: [[side["seconds"] for side in both] for both in made]
        for pair, made in found.pairs.items()
    } == {("a", "b"): [[1.0, 3.0]] * 2, ("a", "c"): [[1.0, 5.0]] * 2}
    turns = {label: len(of["rounds"]) for label, of in found.workers.items()}
    assert turns == {"a": 4, "b": 2, "c": 2, "d": 2}


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_the_fastest_setting_is_kept_and_those_that_tie_are_tried_more_often(quantity):
    """5 % apart after two probes each: three more of these two, none of the one far behind."""
    order = []
    settings = ("a1", 1, 1.05), ("a2", 2, 1.0), ("a4", 4, 2.0)
    groups = {"a": [Turns(order, *of) for of in settings], "b": [Turns(order, "b")]}
    found = measured(groups, (Bar("a", "b"),), 1, quantity)
    probes = ["a1", "a2", "a4"] * 2 + ["a1", "a2"] * 3
    assert order == [*probes, "a1 closed", "a4 closed", "a2", "b"]
    assert found.workers["a"]["setting"] == {"threads": 2}
    assert [tried["setting"]["threads"] for tried in found.workers["a"]["tried"]] == [1, 2, 4]


def test_a_round_of_several_turns_is_their_sum_and_its_memory_their_largest():
    order = []
    groups = {label: [Turns(order, label, seconds=0.5)] for label in "ab"}
    found = measured(groups, (Bar("a", "b"),), rounds=1, turns=3)
    assert "".join(order) == "abbaab"
    (done,) = found.workers["b"]["rounds"]
    assert done == {"seconds": 1.5, "env_steps": 30, "updates": 30, "private": 500_000}


@pytest.fixture
def order(monkeypatch):
    """The order in which the command's processes, on two cores, start, work and end."""
    order = []

    class Started(Turns):
        def __init__(self, label, worker, setting, *_):
            super().__init__(order, label, setting["threads"])
            order.append(f"{label}{setting['threads']} starts")

        def wait(self):
            if self.label == "broken":
                raise RlCoreError("exit code 1: no such module")

    monkeypatch.setattr("tests.benchmarks.performance.Process", Started)
    monkeypatch.setattr("tests.benchmarks.performance.os.sched_getaffinity", lambda _: {0, 1})
    return order


@pytest.mark.parametrize("fresh", [True, False])
def test_each_round_has_processes_of_its_own_if_the_scenario_says_so(tmp_path, order, fresh):
    workers = {label: Worker("fake", {}) for label in ("a", "b", "broken")}
    workers["missing"] = Worker("fake", {}, "jax", PEER)
    scenario = Scenario("s", "", "env steps/s", workers, (Bar("a", "b"),), fresh=fresh)
    command = Performance(rounds=2, out=tmp_path)
    found = command._measured(scenario, {"jax": "no network"}, Console())
    begin, end = ["a1 starts", "b1 starts"], ["b closed", "a closed"]
    broken, broken_end = ["broken1 starts"], ["broken closed"]
    if fresh:
        assert order == [*begin, *broken, "a", "b", *broken_end, *end, *begin, "a", "b", *end]
    else:
        assert order == [*begin, *broken, *"abba", *broken_end, *end]
    assert [len(found["workers"][label]["rounds"]) for label in "ab"] == [2, 2]
    assert len(found["bars"][0]["pairs"]) == 2
    assert found["workers"]["broken"] == {"skipped": "exit code 1: no such module"}
    assert found["workers"]["missing"] == {"skipped": "no network"}


def test_settings_that_come_to_the_same_threads_are_tried_once(tmp_path, order):
    with contextlib.ExitStack() as stack:
        worker = Worker("fake", {}, tried=PEER)
        list(Performance(out=tmp_path)._started(stack, "s", "a", worker))
    assert order == ["a1 starts", "a2 starts", "a closed", "a closed"]
