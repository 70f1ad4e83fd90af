"""The benchmark command, as far as it goes without peers: its page, its table, its protocol."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.errors import RlCoreError
from tests.benchmarks import readme_tables
from tests.benchmarks.performance import VENVS, Performance, vectors
from tests.benchmarks.performance_page import as_markdown, as_sitting, bar_cells
from tests.benchmarks.rounds import measure, spread, total
from tests.benchmarks.scenarios import SCENARIOS
from tests.benchmarks.scenarios.kinds import PEER, QUANTITIES, Bar, Scenario, Worker
from tests.benchmarks.workers import Process, threads_of

PEERS = Path(__file__).parent / "peers"
WORKERS = [(s, label, w) for s in SCENARIOS.values() for label, w in s.workers.items()]


def rounds(*seconds):
    counts = {"env_steps": 1_000, "updates": 500, "private": 250_000_000}
    return [{"seconds": s, **counts} for s in seconds]


def side(*seconds, **more):
    return {
        "setting": {"threads": 1}, "tried": [], "rounds": rounds(*seconds),
        "memory": {"private": 123_456_789, "files": 456_000_000, "peak": 600_000_000}, "cores": 1,
        "versions": {"python": "3.11.4", "torch": "2.13.0"},
    } | more  # fmt: skip


@pytest.fixture
def results():
    tried = [
        {"setting": {"threads": 1}, "median": 1_000.0},
        {"setting": {"threads": 4}, "median": 1_250.0},
    ]
    scenario = {
        "title": "a title",
        "quantity": "env steps/s",
        "note": "A note.",
        "made": {
            "command": "python -m tests.benchmarks.performance --only A --rounds 3",
            "rounds": 3, "cores": 4, "cpu": "a processor", "date": "2026-01-02",
            "commit": "abc1234",
        },
        "workers": {
            "ours": side(0.1, 0.2, 0.25),
            "theirs": side(1.0, 1.0, 0.5, setting={"threads": 4}, tried=tried, cores=4),
            "later": {"skipped": "DqnConfig has no field 'loop'"},
        },
        "bars": [
            {"of": "ours", "to": "theirs", "least": 5, "most": None},
            {"of": "ours", "to": "theirs", "least": 5.1, "most": None},
            {"of": "ours", "to": "", "least": None, "most": 4_000},
            {"of": "theirs", "to": "ours", "least": None, "most": None},
            {"of": "later", "to": "ours", "least": 1, "most": None},
        ],
    }  # fmt: skip
    ours, theirs = (scenario["workers"][label]["rounds"] for label in ("ours", "theirs"))
    pairs = {"ours": list(zip(ours, theirs, strict=True)), "later": []}
    pairs["theirs"] = [pair[::-1] for pair in pairs["ours"]]
    for bar in scenario["bars"]:
        bar["pairs"] = pairs[bar["of"]] if bar["to"] else []
    return {"scenarios": {"A": scenario}}


# Env steps per second: ours 10,000, 5,000, 4,000; theirs 1,000, 1,000, 2,000.
# Ratios of the rounds 10, 5, 2; the other way round 0.1, 0.2, 0.5.
CELLS = [
    ["ours / theirs", ">= 5", "5.00 (2.00 to 10.00)", "met"],
    ["ours / theirs", ">= 5.1", "5.00 (2.00 to 10.00)", "**not met**"],
    ["ours", "<= 4e+03 env steps/s", "5000.00 (4000.00 to 10000.00) env steps/s", "**not met**"],
    ["theirs / ours", "", "0.20 (0.10 to 0.50)", ""],
    ["later / ours", ">= 1", "not measured", "not measured"],
]


@pytest.mark.parametrize("number", range(5))
def test_a_bar_is_met_by_the_median_of_the_rounds_ratios(results, number):
    scenario = results["scenarios"]["A"]
    assert bar_cells(scenario, scenario["bars"][number]) == CELLS[number]


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


def test_the_page_has_every_command_setting_and_reason(results):
    page = as_markdown(results, "performance_wide.md")
    assert "python -m tests.benchmarks.performance --only A --rounds 3" in page
    assert page.startswith(
        "# Performance: a processor\n\nThis is docs/results/performance_wide.md,"
    )
    assert "3 rounds on 4 cores (a processor; 2026-01-02, commit abc1234)." in page
    versions, memory = "python 3.11.4, torch 2.13.0", "123 + 456 MB, at most 600"
    ours = f"| ours | 5,000 | 4,000 | 10,000 | 3 | 1 | 5,000 | 1 thread | {memory} | {versions} |"
    assert ours in page
    probes = "in probes 4 threads: 1,250; 1 thread: 1,000"
    assert f"| theirs | 1,000 | 1,000 | 2,000 | 3 | 4 | 250 | 4 threads ({probes}) |" in page
    assert "later: not measured (DqnConfig has no field 'loop')." in page
    assert "1 of 4 goals are met." in page


def test_what_was_measured_before_stands_beside(results):
    page = as_markdown(results, "x.md")
    assert "2025-12-31" not in page
    sitting = as_sitting(
        results["scenarios"]["A"] | {"made": {"date": "2025-12-31", "commit": "0ld"}}
    )
    page = as_markdown(results | {"earlier": {"A": [sitting]}}, "x.md")
    (head,) = [line for line in page.splitlines() if "2025-12-31, 0ld" in line]
    assert head.endswith("| 2025-12-31, 0ld |")
    found = bar_cells(results["scenarios"]["A"], results["scenarios"]["A"]["bars"][0])[2]
    assert any(line.endswith(f"| {found} |") for line in page.splitlines())


def test_a_ratio_to_the_most_that_a_peer_reached_stands_beside_that_of_the_rounds(results):
    """Ours makes 5,000 a second, the peer 1,000 in the rounds and 1,250 in a probe."""
    lines = as_markdown(results, "x.md").splitlines()
    assert next(line for line in lines if line.startswith("| ratio |")).endswith(
        "| by its best probe |"
    )
    assert any(
        line.startswith("| ours / theirs | >= 5 |") and line.endswith("| 4.00 |") for line in lines
    )
    results["scenarios"]["A"]["workers"]["theirs"]["tried"] = []
    assert "| by its best probe |" not in as_markdown(results, "x.md")


def test_a_mark_that_is_missed_by_less_than_a_hundredth_does_not_look_met(results):
    scenario = results["scenarios"]["A"]
    ours, theirs = rounds(1.0), rounds(4.996)  # seconds for as many env steps
    bar = scenario["bars"][0] | {"pairs": list(zip(ours, theirs, strict=True))}
    shown = [bar_cells(scenario, bar | {"least": least})[2].split()[0] for least in (5, 4.99)]
    assert shown == ["4.996", "5.00"]


@pytest.mark.parametrize("table", [readme_tables.FRAMEWORK, readme_tables.ARITHMETIC])
def test_the_tables_of_speeds_are_those_of_the_pages(table):
    page = (Path(__file__).parents[2] / "docs/results/speed.md").read_text()
    assert readme_tables.as_markdown(table, readme_tables.measured()) in page


def test_readmes_table_of_speeds_is_that_of_the_page():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    measured = readme_tables.measured()["AVX-512"]
    assert readme_tables.with_ranges(readme_tables.README, measured) in readme


def test_a_range_is_that_of_the_rounds_as_far_as_a_peers_best_probe_leaves_it(results):
    scenarios = results["scenarios"]
    del scenarios["A"]["bars"][1:]
    table = readme_tables.with_ranges([("both", [("A", "ours", "theirs")])], scenarios)
    assert table.splitlines()[-1] == "| both | 4.00 | 1.60 to 8.00 |"


def test_readme_tells_the_ratio_to_a_peers_best_probe_where_that_was_faster(results):
    scenarios = results["scenarios"]
    del scenarios["A"]["bars"][1:]
    rows = [("both", [("A", "ours", "theirs")])]
    cell = readme_tables.as_markdown(rows, {"one": scenarios}).splitlines()[-1]
    assert cell == "| both | 4.00 |"
    scenarios["A"]["workers"]["theirs"]["tried"] = []
    cell = readme_tables.as_markdown(rows, {"one": scenarios}).splitlines()[-1]
    assert cell == "| both | 5.00 |"


def test_products_are_told_as_flops_and_their_speed(results):
    # Half a millisecond for an update: 500 in 0.25 s is the median of a quarter, a half, one.
    products = side(0.25, 0.125, 0.5, flops=2_000_000)
    results["scenarios"]["A"]["workers"]["products"] = products
    assert "products: 2.00 MFLOP, 4 GFLOP/s." in as_markdown(results, "p.md")


def test_memory_is_in_megabytes_and_belongs_to_no_core(results):
    scenario = results["scenarios"]["A"]
    scenario["quantity"] = "MB"
    scenario["workers"]["ours"]["rounds"][0]["private"] = 310_000_000
    scenario["workers"]["ours"]["cores"] = 2
    # 310, 250 and 250 MB; beside theirs of 250 each time 1.24, 1 and 1.
    page = as_markdown(results, "p.md")
    assert "|  | megabytes of its own | least | most | turns | cores | per core |" in page
    assert "| ours | 250 | 250 | 310 | 3 | 2 | - | 1 thread |" in page
    whole = {"of": "ours", "to": "", "least": None, "most": 300, "pairs": []}
    wanted = ["ours", "<= 300 MB", "250.00 (250.00 to 310.00) MB", "met"]
    assert bar_cells(scenario, whole) == wanted
    assert bar_cells(scenario, whole | {"most": 249})[-1] == "**not met**"
    assert bar_cells(scenario, scenario["bars"][0])[2] == "1.00 (1.00 to 1.24)"


def test_the_same_results_give_the_same_page(results):
    assert as_markdown(json.loads(json.dumps(results)), "p.md") == as_markdown(results, "p.md")


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_bar_is_between_two_that_are_measured(name):
    scenario = SCENARIOS[name]
    assert scenario.quantity in QUANTITIES
    for bar in scenario.bars:
        assert {bar.of, bar.to} <= {*scenario.workers, ""}
        assert bar.least is None or bar.most is None


def test_every_worker_has_its_script_and_its_environment():
    for _, _, worker in WORKERS:
        assert (PEERS / f"{worker.program}_worker.py").exists()
        assert worker.venv in {"", *VENVS}


def test_no_file_beside_the_workers_is_called_as_a_package_of_a_peer():
    names = {path.stem for path in PEERS.glob("*.py")}
    assert not names & {"torch", "jax", "sbx", "tianshou", "stable_baselines3", "gymnasium"}


def test_every_config_is_one_that_the_agent_takes():
    for _, label, worker in WORKERS:
        config = dict(worker.setup.get("config", {}))
        if config.get("loop") and "loop" not in DqnConfig.model_fields:
            del config["loop"]
        if config:
            assert DqnConfig(**config), label


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
    """Starts a worker that makes an update every `period` env steps, in no time."""
    (tmp_path / "fake_worker.py").write_text(WORKER.format(peers=str(PEERS)))
    monkeypatch.setattr("tests.benchmarks.workers._PEERS", tmp_path)
    started = []

    def start(**more):
        worker = Worker("fake", {"period": 4}, **more)
        process = Process(
            "fake", worker, worker.tried[0], Path(sys.executable), [0], tmp_path / "l"
        )
        started.append(process)
        process.wait()
        return process

    yield start
    for process in started:
        process.close()


def test_a_worker_stays_alive_and_counts_what_it_does(start):
    process = start(updates=0.25)
    assert process.versions.keys() == {"python", "numpy"}
    for count in (4, 400):
        done = process.run(count)
        assert (done["env_steps"], done["updates"]) == (count, count / 4)
        assert done["seconds"] >= 0
        assert done["private"] == process.memory["private"]
    assert 1_000_000 < process.memory["private"] < process.memory["peak"]
    assert 0 < process.memory["files"] < process.memory["peak"]


def test_a_wrong_number_of_updates_ends_the_measurement(start):
    with pytest.raises(RlCoreError, match="fake made 100 updates in 400 env steps, wanted 200"):
        start(updates=0.5).run(400)
    start(updates=0.5, slack=100).run(400)


def test_a_worker_that_dies_says_its_last_words(start):
    process = start(updates=0.25)
    process._say({"walk": 3})
    with pytest.raises(RlCoreError, match="exit code 1: KeyError: 'run'"):
        process.run(4)


class Turns:
    """A worker that writes down when it is asked."""

    versions, memory, cores, flops = {}, {}, 1, 0

    def __init__(self, order, label, threads, seconds):
        self.order, self.label, self.seconds = order, label, seconds
        self.setting = {"threads": threads}

    def count_for(self, seconds):
        return 10

    def run(self, count):
        self.order.append(self.label)
        private = int(1e6 * self.seconds)
        return {"seconds": self.seconds, "env_steps": count, "updates": count, "private": private}

    def wait(self):
        pass

    def close(self):
        self.order.append(f"{self.label} closed")


def test_the_two_of_a_ratio_work_side_by_side_now_the_one_first_now_the_other():
    order = []
    groups = {label: [Turns(order, label, 1, 1.0)] for label in "abcd"}
    bars = (Bar("a", "b"), Bar("a", "c"), Bar("a", "b", least=2), Bar("d"), Bar("a", "later"))
    found = measure(Scenario("s", "", "env steps/s", {}, bars), groups, 2, 0.1)
    # In the second round each pair is the other way round; d is in none, and later is not there.
    assert "".join(order) == "abcad" + "baacd"
    assert {pair: len(made) for pair, made in found.pairs.items()} == {("a", "b"): 2, ("a", "c"): 2}
    assert {label: len(of["rounds"]) for label, of in found.workers.items()} == {
        "a": 4, "b": 2, "c": 2, "d": 2,
    }  # fmt: skip


def test_a_pair_is_kept_as_it_is_named_whoever_was_first():
    groups = {"a": [Turns([], "a", 1, 1.0)], "b": [Turns([], "b", 1, 3.0)]}
    found = measure(Scenario("s", "", "s", {}, (Bar("a", "b"),)), groups, 2, 0.1)
    seconds = [[side["seconds"] for side in pair] for pair in found.pairs["a", "b"]]
    assert seconds == [[1.0, 3.0], [1.0, 3.0]]


def test_the_slower_settings_are_closed_before_the_rounds():
    order = []
    groups = {
        "a": [Turns(order, "a1", 1, 2.0), Turns(order, "a4", 4, 1.0)],
        "b": [Turns(order, "b", 1, 1.0)],
    }
    scenario = Scenario("s", "", "env steps/s", {}, (Bar("a", "b"),))
    found = measure(scenario, groups, 2, 0.1)
    # Both settings of a are tried twice, the slower one is closed, then rounds of a and b.
    assert order == ["a1", "a4", "a1", "a4", "a1 closed", "a4", "b", "b", "a4"]
    assert [len(found.workers[label]["rounds"]) for label in "ab"] == [2, 2]


def test_settings_that_tie_are_tried_more_often():
    """5 % apart after two probes each: three more of these two, none of the one far behind."""
    order = []
    settings = ("a1", 1, 1.05), ("a2", 2, 1.0), ("a4", 4, 2.0)
    groups = {"a": [Turns(order, *of) for of in settings]}
    found = measure(Scenario("s", "", "env steps/s", {}), groups, 1, 0.1)
    assert order == ["a1", "a2", "a4"] * 2 + ["a1", "a2"] * 3 + ["a1 closed", "a4 closed", "a2"]
    assert found.workers["a"]["setting"] == {"threads": 2}


def test_a_round_of_several_turns_is_their_sum():
    order = []
    groups = {label: [Turns(order, label, 1, 0.5)] for label in "ab"}
    scenario = Scenario("s", "", "env steps/s", {}, (Bar("a", "b"),), turns=3)
    found = measure(scenario, groups, 1, 0.1)
    assert "".join(order) == "abbaab"
    (done,) = found.workers["b"]["rounds"]
    assert done == {"seconds": 1.5, "env_steps": 30, "updates": 30, "private": 500_000}


def test_the_memory_of_several_turns_is_their_largest():
    turns = [{"seconds": 1.0, "private": private} for private in (3, 5, 4)]
    assert total(turns) == {"seconds": 3.0, "private": 5}


@pytest.mark.parametrize("fresh", [True, False])
def test_each_round_has_processes_of_its_own_if_the_scenario_says_so(tmp_path, monkeypatch, fresh):
    order = []

    def start(self, scenario, label, worker):
        order.append(f"{label} starts")
        yield Turns(order, label, 1, 0.5)

    monkeypatch.setattr(Performance, "_started", start)
    monkeypatch.setattr("tests.benchmarks.performance._why_not", lambda *_: "")
    workers = {label: Worker("fake", {}) for label in "ab"}
    scenario = Scenario("s", "", "env steps/s", workers, (Bar("a", "b"),), fresh=fresh)
    found = Performance(rounds=2, out=tmp_path)._measured(scenario, {}, Console())
    begin, end = ["a starts", "b starts"], ["a closed", "b closed"]
    turns = ["a", "b"]
    in_one = begin + turns + turns[::-1] + end
    assert order == (2 * (begin + turns + end) if fresh else in_one)
    assert [len(found["workers"][label]["rounds"]) for label in "ab"] == [2, 2]
    assert len(found["bars"][0]["pairs"]) == 2


def test_settings_that_come_to_the_same_threads_are_tried_once(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        "tests.benchmarks.performance.Process",
        lambda label, worker, setting, *_: made.append(setting),
    )
    worker = Worker("fake", {}, tried=PEER)
    list(Performance(out=tmp_path, cores=(0, 1))._started("s", "a", worker))
    assert [threads_of(setting, [0, 1]) for setting in made] == [1, 2]


@pytest.mark.parametrize(("flags", "name"), [("avx avx2 fma", "avx2"), ("avx2 avx512f", "avx512")])
def test_the_vectors_of_a_processor_are_the_widest_it_has(monkeypatch, flags, name):
    info = f"model name\t: A Processor\nflags\t: fpu {flags} x\n"
    monkeypatch.setattr(Path, "read_text", lambda path: info)
    assert vectors() == name


def test_a_page_and_its_numbers_are_named_after_the_vectors_and_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.benchmarks.performance.vectors", lambda: "wide")
    about = {"cpu": "a processor", "command": "c", "date": "d", "commit": "e"}
    made = {"title": "T", "quantity": "s", "note": "", "workers": {}, "bars": []}
    made["made"] = about | {"rounds": 1, "cores": 1}
    monkeypatch.setattr(Performance, "_measured", lambda *_: made)
    monkeypatch.setattr("tests.benchmarks.performance.make_venvs", lambda *_: {})
    for name in ("start", "CP-B"):
        Performance(only=(name,), out=tmp_path, venvs=tmp_path, page=tmp_path / "p.md")(Console())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "p_wide.json", "p_wide.md"]
    page = (tmp_path / "p_wide.md").read_text()
    assert page.index("## CP-B: T") < page.index("## start: T")


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_the_faster_setting_is_kept_whatever_is_compared(quantity):
    groups = {"a": [Turns([], "a1", 1, 2.0), Turns([], "a4", 4, 1.0)]}
    found = measure(Scenario("s", "", quantity, {}), groups, 1, 0.1)
    assert found.workers["a"]["setting"] == {"threads": 4}
    assert [tried["setting"]["threads"] for tried in found.workers["a"]["tried"]] == [1, 4]


@pytest.mark.thorough
def test_an_unknown_scenario_is_named_with_the_nearest():
    command = [sys.executable, "-m", "tests.benchmarks.performance", "--only", "CP-C"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PEERS.parents[2])
    assert done.returncode == 2
    assert "no scenario 'CP-C'" in done.stdout and "Traceback" not in done.stderr
