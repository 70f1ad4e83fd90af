"""`results` and `sweep` on a real Ray cluster of several nodes on this machine."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from targetnet.agents.experiments.sweep.plan import read_plan
from targetnet.agents.saved.machines import machines_of
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.control.files import ControlFiles
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.machine import processor
from tests.agents.cluster.nodes import Nodes
from tests.agents.cluster.toys import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3_600),
    # Of Ray's own, in the process that starts the nodes.
    pytest.mark.filterwarnings("ignore"),
]
ROOT = Path(__file__).parents[3]
TARGETNET = [sys.executable, "-m", "targetnet.agents.cli"]
SHORT = """base = "cartpole"
env_steps = 3_000
learn_start = 500
checkpoint_steps = 500
checkpoint_seconds = 0.0
eval_period = 1_000
eval_episodes = 2
final_eval_episodes = 5
"""


@pytest.fixture(scope="module")
def nodes():
    pytest.importorskip("ray")
    with Nodes(2) as nodes:
        yield nodes


@pytest.fixture(autouse=True)
def two_nodes(request):
    """Nodes that a test has killed are there again for the next one."""
    yield
    if "nodes" in request.fixturenames:
        nodes = request.getfixturevalue("nodes")
        while len(nodes.alive) < 2:
            nodes.add()


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "short.toml"
    path.write_text(SHORT)
    return path


def command(*words):
    return [*TARGETNET, *map(str, words)]


def run(*words, code=0):
    """What a command says; it has to end with the code."""
    done = subprocess.run(command(*words), cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def results(config, out, *more):
    return "results", config, "--seeds", "4", "--out", out, *more


@pytest.fixture(scope="module")
def at_home(config, tmp_path_factory):
    """The digests of four seeds that were trained without a cluster."""
    out = tmp_path_factory.mktemp("home")
    run(*results(config, out))
    return digests(out)


def digests(out):
    found = sorted((out / "runs" / "short").glob("*/digest.json"))
    return {path.parent.name: json.loads(path.read_text())["digest"] for path in found}


def left_on_nodes():
    return [*Path(tempfile.gettempdir()).glob(f"targetnet-{os.getuid()}/*/")]


def test_seeds_trained_on_nodes_are_those_of_home(nodes, config, at_home, tmp_path):
    said = run(*results(config, tmp_path, "--ray", nodes.address))
    lines = said.splitlines()
    assert lines[0] == "Ray cluster: 2 nodes, 2 CPUs"
    assert len(lines) == 7 and lines[-1] == f"page: {tmp_path / 'results.md'}", said
    assert digests(tmp_path) == at_home and len(at_home) == 4
    assert left_on_nodes() == []
    (machine,) = machines_of(tmp_path / "runs/short/0")
    assert machine.processor == processor()
    assert processor() in (tmp_path / "results.md").read_text()


def test_nodes_are_killed_at_random_and_every_run_ends_as_at_home(nodes, config, at_home, tmp_path):
    draw, kills = random.Random(0), 0
    log = tmp_path / "said"
    with log.open("w") as said:
        job = subprocess.Popen(
            command(*results(config, tmp_path, "--ray", nodes.address)), cwd=ROOT, stdout=said
        )
    while job.poll() is None and kills < 8:
        # Wherever a run was killed in vain, it comes to a checkpoint before nodes die again, or
        # it would be given up; then two nodes die, the second one perhaps before it got so far.
        before = newest(tmp_path)
        wait_for(lambda at=before: job.poll() is not None or all_went_on(tmp_path, at), 300)
        for _ in range(2):
            time.sleep(6 * draw.random())
            if job.poll() is None:
                nodes.kill(draw.choice(nodes.alive))
                nodes.add()
                kills += 1
    assert job.wait(600) == 0, log.read_text()
    # How many is the machine's speed: nodes come back while fast runs end.
    assert kills >= 2
    assert "goes on elsewhere from its last checkpoint" in log.read_text()
    assert digests(tmp_path) == at_home
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    kept = [line for line in lines if "seed" in line]
    assert sorted(seed["seed"] for seed in kept) == [*range(4)]
    for seed in kept:  # each greedy evaluation is in the curve once
        assert [step for step, _ in seed["curve"]] == [1_000, 2_000, 3_000]


def newest(out):
    """The newest checkpoint of each run that has begun."""
    runs = (out / "runs/short").glob("*")
    return {
        run.name: max((path.name for path in (run / "checkpoints").glob("0*")), default="")
        for run in runs
        if not (run / "result.json").exists()
    }


def all_went_on(out, before):
    """Whether the runs have newer checkpoints, or have ended."""
    now = newest(out)
    return bool(now) and all(name not in now or now[name] > at for name, at in before.items())


def test_ctrl_c_saves_on_the_nodes_and_the_command_goes_on_without_a_cluster(
    nodes, config, at_home, tmp_path
):
    states = [tmp_path / f"runs/short/{seed}/control/state.json" for seed in (0, 1)]
    job = subprocess.Popen(
        command(*results(config, tmp_path, "--ray", nodes.address)), cwd=ROOT,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: all(path.exists() for path in states), 200)
    job.send_signal(signal.SIGINT)
    said, _ = job.communicate(timeout=100)
    assert job.returncode == 130
    assert said.splitlines()[1] == "stopping: 2 at work; waiting until they have saved"
    assert said.splitlines()[-1] == "interrupted; run the same command again to continue"
    assert all(any(path.parents[1].glob("checkpoints/0*")) for path in states)
    assert left_on_nodes() == []
    run(*results(config, tmp_path))
    assert digests(tmp_path) == at_home


def test_home_is_killed_and_its_processes_end_and_the_command_goes_on(
    nodes, config, at_home, tmp_path
):
    state = tmp_path / "runs/short/0/control/state.json"
    words = results(config, tmp_path, "--ray", nodes.address)
    job = subprocess.Popen(command(*words), cwd=ROOT, stdout=subprocess.PIPE)
    wait_for(state.exists, 200)
    job.kill()
    job.communicate()
    wait_for(lambda: not children_of(tmp_path), 60)
    run(*words)
    assert digests(tmp_path) == at_home
    assert left_on_nodes() == []


def children_of(out):
    """Processes that train in scratch directories."""
    found = subprocess.run(["pgrep", "-f", "agents.cli train short.toml"], capture_output=True)
    return found.stdout.split()


def test_a_run_on_a_node_is_steered_and_looked_at_at_home(nodes, tmp_path):
    config = tmp_path / "short.toml"
    config.write_text(SHORT.replace("3_000", "200_000", 1))
    home = tmp_path / "out/runs/short/0"
    job = subprocess.Popen(
        command("results", config, "--seeds", 1, "--out", tmp_path / "out", "--ray", nodes.address),
        cwd=ROOT, stdout=subprocess.PIPE,
    )  # fmt: skip
    wait_for((home / "control/state.json").exists, 200)
    assert "epsilon" in run("set", home, "epsilon=0.25")
    assert "0.25" in run("status", home)
    said = run("train", config, "--run", home, "--resume", code=2)
    assert said.rstrip().endswith(f"another process is running {home}")
    assert "stop at update" in run("do", home, "stop")
    job.communicate(timeout=100)
    assert "epsilon" in run("log", home)


def test_a_run_that_was_paused_and_stopped_is_so_where_it_goes_on(nodes, tmp_path):
    config = tmp_path / "short.toml"
    config.write_text(SHORT.replace("3_000", "200_000", 1))
    home = tmp_path / "out/runs/short/0"
    files = ControlFiles(home)
    job = subprocess.Popen(
        command("results", config, "--seeds", 1, "--out", tmp_path / "out", "--ray", nodes.address),
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: [*home.glob("checkpoints/0*")], 200)
    assert "pause at update" in run("do", home, "pause")
    kill_all(nodes)
    wait_for(lambda: len(machines_of(home)) == 2, 200)
    wait_for(lambda: is_paused_anew(files), 200)
    assert "stop at update" in run("do", home, "stop")
    said, _ = job.communicate(timeout=200)
    assert said.count("goes on elsewhere from its last checkpoint") == 1
    orders = [entry.name for entry in read_log(files.log) if entry.kind == "do"]
    assert orders == ["pause", "stop"]
    assert read_state(files)[0].status == "stopped"


def is_paused_anew(files):
    """Whether it stands at its last checkpoint: before, it was paused some steps after one."""
    last = CheckpointStore(files.run / "checkpoints").latest().host["loop"]["env_step"]
    state, _ = read_state(files)
    return (state.status, state.env_step) == ("paused", last)


def kill_all(nodes):
    for node in [*nodes.alive]:
        nodes.kill(node)
        nodes.add()


SWEEP = ("--over", "sync_period=10..1000:log", "learning_rate=1e-4..1e-2:log", "--trials", 4,
         "--jobs", 2, "--best", 1, "--fresh-seeds", 2)  # fmt: skip


def trials_of(directory):
    from targetnet.agents.experiments.sweep.study import Study

    study = Study(directory / "study.log", read_plan(directory / "sweep.toml"))
    return [(of.params, of.value, of.user_attrs.get("digests")) for of in study.trials]


def test_the_trials_of_a_sweep_do_not_depend_on_where_they_run(nodes, config, tmp_path):
    run("sweep", config, *SWEEP, "--dir", tmp_path / "here")
    job = subprocess.Popen(
        command("sweep", config, *SWEEP, "--dir", tmp_path / "there", "--ray", nodes.address),
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for((tmp_path / "there/trials/001/control/state.json").exists, 200)
    nodes.kill(nodes.alive[0])
    nodes.add()
    said, _ = job.communicate(timeout=400)
    assert job.returncode == 0, said
    assert trials_of(tmp_path / "there") == trials_of(tmp_path / "here")
    said = run("sweep", config, "--dir", tmp_path / "there", "--verify", "--ray", nodes.address)
    assert ": identical " in said


def test_a_population_is_one_job_and_its_members_are_runs_at_home(nodes, config, at_home, tmp_path):
    words = ("results", config, "--seeds", 2, "--together", 2, "--out", tmp_path)
    job = subprocess.Popen(
        command(*words, "--ray", nodes.address), cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    place = tmp_path / "runs/short/population-0"
    wait_for(lambda: [*place.glob("m01/checkpoints/0*")], 200)
    kill_all(nodes)
    said, _ = job.communicate(timeout=300)
    assert job.returncode == 0, said
    assert "goes on elsewhere" in said
    found = {path.parent.name: path for path in place.glob("m0?/digest.json")}
    for member, seed in (("m00", "0"), ("m01", "1")):
        assert json.loads(found[member].read_text())["digest"] == at_home[seed]


def test_a_node_with_other_versions_is_refused_by_name(nodes, config, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", other_versions(tmp_path))
        nodes.add()
    said = run(*results(config, tmp_path / "out", "--ray", nodes.address), code=2)
    nodes.kill(nodes.alive[-1])
    assert said.startswith("targetnet: the nodes have to have the versions of this machine: ")
    assert " has gymnasium 0.1 (here " in said and len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def other_versions(tmp_path):
    """A path with which a node has another version of gymnasium."""
    fake = tmp_path / "path/gymnasium-0.1.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: gymnasium\nVersion: 0.1\n")
    return str(fake.parent)


def test_a_node_with_other_versions_that_joins_later_gets_no_run(
    nodes, config, at_home, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    words = results(config, out, "--ray", nodes.address, "--jobs", 3)
    job = subprocess.Popen(command(*words), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    wait_for((out / "runs/short/0/control/state.json").exists, 200)
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", other_versions(tmp_path))
        nodes.add()
    said, _ = job.communicate(timeout=400)
    nodes.kill(nodes.alive[-1])
    assert job.returncode == 0, said
    assert digests(out) == at_home
    (line,) = [line for line in said.splitlines() if "not used" in line]
    assert " has gymnasium 0.1 (here " in line and line.endswith(": it is not used")


def test_a_sweep_ends_where_no_node_is_left_and_goes_on_once_one_is_mended(
    config, tmp_path, monkeypatch
):
    words = ("sweep", config, *SWEEP, "--dir", tmp_path / "sweep")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    in_the_way = temporary / f"targetnet-{os.getuid()}"
    in_the_way.touch()
    with monkeypatch.context() as patch:
        patch.setenv("RAY_TMPDIR", tempfile.gettempdir())  # paths of its sockets have to be short
        patch.setenv("TMPDIR", str(temporary))
        many = Nodes(2)
    with many as nodes:
        said = run(*words, "--ray", nodes.address, code=2)
        line = said.splitlines()[-1]
        assert line.startswith("targetnet: no node of the Ray cluster can be used any more: ")
        assert line.count("File exists") == 2 and "failed" not in said
        assert all(value is None and about is None for _, value, about in trials_of(words[-1]))
        in_the_way.unlink()
        run(*words, "--ray", nodes.address)
    assert all(value is not None for _, value, _ in trials_of(words[-1]))


def test_a_cluster_without_cpus_is_refused(config, tmp_path):
    with Nodes(0) as nodes:
        said = run(*results(config, tmp_path / "out", "--ray", nodes.address), code=2)
    assert said == "targetnet: the Ray cluster has no CPUs: no node was started with any\n"
    assert not (tmp_path / "out").exists()
