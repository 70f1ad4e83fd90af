"""A job on nodes that die: at home there is at every moment a run that can go on."""

import contextlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from targetnet.agents.cluster import remote_job
from targetnet.agents.cluster.connect import ClusterError
from targetnet.agents.cluster.nodes import NoNodeLeft
from targetnet.agents.cluster.remote_job import MOST_DEATHS, RemoteJob
from targetnet.agents.cluster.worker import Scratch, Worker
from targetnet.agents.saved.machines import machines_of
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.control.commands import do_command, set_command
from targetnet.rl_core.control.files import ControlFiles, is_alive, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.records import read_trace
from tests.agents.cluster import toys
from tests.agents.cluster.toys import ToyActor, toy, usable, wait_for

ROOT = Path(__file__).parents[3]
HOME = str(Path(__file__).parent / "toy_home.py")


@pytest.fixture
def scratch(monkeypatch, tmp_path):
    return toys.install(monkeypatch, tmp_path)


@pytest.fixture
def begin(scratch, tmp_path):
    """Begins an errand, which is killed at the end of the test."""
    with contextlib.ExitStack() as last:
        nodes = usable()

        def begin(**how):
            command, portable = toy(tmp_path, **how)
            said = []
            made = RemoteJob("toy", command, tmp_path / "log", portable, nodes, said.append)
            last.callback(made.wait)
            last.callback(made.kill)
            return made, said

        yield begin


def ended(job):
    wait_for(lambda: job.poll() is not None)
    return job.poll()


def ended_at(files):
    return json.loads(files.state.read_text())["step"]


def steps_in_curves(run):
    """Every step that the curves have, in order."""
    lines = [line for path in run.glob("events*") for line in path.read_text().splitlines()]
    return sorted(int(line.split()[0]) for line in lines)


def require_whole(run, steps):
    """Everything is there once: trace, curves, rows, results."""
    assert [*read_trace(run / "control/trace.bin")] == [*range(steps)]
    assert steps_in_curves(run) == [*range(steps)]
    store = CheckpointStore(run / "checkpoints")
    last = store.latest()
    assert last is not None and (last.tick, last.damaged) == (steps, ())
    rows = [store.rows(*chunk)[2]["n"] for chunk in last.chunks.items()]
    assert [*np.concatenate(rows)] == [*range(steps)]
    assert (run / "result.json").read_text() == str(steps)
    assert (run / "weights.safetensors").stat().st_size == 20_000
    assert not [*run.rglob("*.tmp")]


@pytest.mark.thorough
def test_a_job_leaves_at_home_what_it_would_leave_here_and_nothing_on_the_node(
    begin, scratch, tmp_path
):
    job, said = begin()
    assert (ended(job), said) == (0, [])
    require_whole(tmp_path / "run", 30)
    assert (tmp_path / "log").read_text().split() == ["begins", "done"]
    assert [*scratch.glob("*/*/")] == []
    assert len(machines_of(tmp_path / "run")) == 1
    here = tmp_path / "here"
    command, _ = toy(here.parent)
    command[command.index(str(tmp_path / "run"))] = str(here)
    subprocess.run(command, check=True, capture_output=True)
    names = {str(path.relative_to(here)) for path in here.rglob("*") if "events" not in path.name}
    run = tmp_path / "run"
    there = {str(path.relative_to(run)) for path in run.rglob("*") if "events" not in path.name}
    assert there - names == {"machines.json"} and names - there == set()
    assert (run / "digest.json").read_bytes() == (here / "digest.json").read_bytes()


@pytest.mark.thorough
def test_members_come_home_also_if_home_looks_before_the_first_is_there(begin, tmp_path):
    job, said = begin(members=2, steps=12)
    assert (ended(job), said) == (0, [])
    for name in ("m00", "m01"):
        require_whole(tmp_path / "run" / name, 12)


@pytest.mark.thorough
def test_it_goes_on_elsewhere_from_the_last_checkpoint_at_home(begin, monkeypatch, tmp_path):
    store = CheckpointStore(tmp_path / "run" / "checkpoints")
    monkeypatch.setattr(
        ToyActor,
        "dies",
        lambda calls: len(ToyActor.made) == 1 and bool(store._numbers()),
    )
    job, said = begin(seconds=0.02)
    assert ended(job) == 0
    (line,) = said
    assert line.startswith("toy: lost ") and line.endswith(
        ": the node is dead; it goes on elsewhere from its last checkpoint"
    )
    first, second = ToyActor.made
    assert "hold" in first.calls and second.calls.count("prepare") == 1
    assert (tmp_path / "log").read_text().split() == ["begins", "begins", "done"]
    assert len(machines_of(tmp_path / "run")) == 2
    require_whole(tmp_path / "run", 30)


def test_a_checkpoint_appears_at_home_after_all_that_it_needs(begin, monkeypatch, tmp_path):
    store, appeared = CheckpointStore(tmp_path / "run" / "checkpoints"), []
    monkeypatch.setattr(ToyActor, "dies", lambda calls: bool(appeared.append(store._numbers())))
    job, _ = begin(steps=10)
    assert ended(job) == 0
    first = next(n for n, numbers in enumerate(appeared) if numbers)
    calls = ToyActor.made[0].calls[:first]
    # Its own files and those of rows; then log, trace and curves, which were as long as it says.
    last = len(calls) - calls[::-1].index("look") - 1
    assert last == len(calls) - 1 and calls[last - 1] == "read_held"
    assert calls.index("hold") < calls.index("read_held")


def campaign(begin, monkeypatch, tmp_path, deaths, seed):
    """Lets nodes die after a random number of calls, and sends command files all the while.

    Where calls are slow the run ends before them: then the node dies with its end not at home.
    """
    draw = random.Random(seed)
    lives = [draw.randrange(1, 90) for _ in range(deaths)]

    def dies(calls):
        n, process = len(ToyActor.made), ToyActor.made[-1].worker._process
        has_ended = process is not None and process.poll() is not None
        return n <= deaths and (has_ended or calls >= lives[n - 1])

    monkeypatch.setattr(remote_job, "MOST_DEATHS", deaths)
    monkeypatch.setattr(ToyActor, "dies", dies)
    job, said = begin(steps=60, seconds=0.01)
    files, sent = ControlFiles(tmp_path / "run"), []
    while job.poll() is None:
        if files.inbox.is_dir() and len(ToyActor.made) <= deaths:
            sent.append(set_command("x", len(sent), "api"))
            submit(files, sent[-1])
        time.sleep(0.05)
    assert job.poll() == 0, (tmp_path / "log").read_text()
    assert len(said) == deaths
    require_whole(tmp_path / "run", 60)
    # What the run had no time to read is still there.
    waiting = [path.name[18:50] for path in sorted(files.inbox.iterdir())]
    answered = [entry.id for entry in read_log(files.log)]
    assert answered
    assert [*answered, *waiting] == [command.id for command in sent]


@pytest.mark.thorough
def test_nodes_die_at_any_moment_and_nothing_is_lost_or_doubled(begin, monkeypatch, tmp_path):
    campaign(begin, monkeypatch, tmp_path, deaths=6, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 21))
def test_many_nodes_die_and_nothing_is_lost_or_doubled(begin, monkeypatch, tmp_path, seed):
    campaign(begin, monkeypatch, tmp_path, deaths=25, seed=seed)


def die_once(monkeypatch, condition):
    """Lets the first node die as soon as a condition holds at home."""
    monkeypatch.setattr(ToyActor, "dies", lambda calls: len(ToyActor.made) == 1 and condition())


def names_in(log):
    return [entry.name for entry in read_log(log)]


def paused_at(files):
    with contextlib.suppress(FileNotFoundError):
        state = json.loads(files.state.read_text())
        return state["step"] if state["paused"] else None
    return None


@pytest.mark.thorough
def test_a_run_that_was_paused_stays_paused_where_it_goes_on(begin, monkeypatch, tmp_path):
    files, doomed = ControlFiles(tmp_path / "run"), []
    die_once(monkeypatch, lambda: bool(doomed))
    job, said = begin(steps=1_000, seconds=0.02)
    wait_for((tmp_path / "run/checkpoints/00000005").exists)
    command_file = submit(files, do_command("pause", "api"))
    wait_for(lambda: not command_file.exists())
    doomed.append(True)
    wait_for(lambda: len(ToyActor.made) == 2 and "look" in ToyActor.made[1].calls)
    last = CheckpointStore(tmp_path / "run/checkpoints").latest().tick
    wait_for(lambda: (tmp_path / "log").read_text().count("begins") == 2)
    wait_for(lambda: paused_at(files) == last)
    for order in ("resume", "stop"):
        submit(files, do_command(order, "api"))
    assert ended(job) == 0 and len(said) == 1
    assert names_in(files.log) == ["pause", "resume", "stop"]  # each once
    require_whole(tmp_path / "run", last)


@pytest.mark.thorough
def test_a_run_that_was_resumed_after_a_pause_goes_on_elsewhere(begin, monkeypatch, tmp_path):
    files = ControlFiles(tmp_path / "run")
    die_once(monkeypatch, lambda: names_in(files.log) == ["pause", "resume"])
    job, said = begin(steps=1_000, seconds=0.02)
    wait_for((tmp_path / "run/checkpoints/00000005").exists)
    for order in ("pause", "resume"):
        submit(files, do_command(order, "api"))
    wait_for(lambda: len(said) == 1)
    store = CheckpointStore(tmp_path / "run/checkpoints")
    newest = store._numbers()[-1]
    wait_for(lambda: store._numbers()[-1] > newest)
    submit(files, do_command("stop", "api"))
    assert ended(job) == 0
    require_whole(tmp_path / "run", read_log(files.log)[-1].tick)


@pytest.mark.thorough
def test_a_run_that_was_stopped_ends_at_the_same_step_where_it_goes_on(
    begin, monkeypatch, tmp_path
):
    files = ControlFiles(tmp_path / "run")
    die_once(monkeypatch, lambda: "stop" in names_in(files.log))
    job, said = begin(steps=1_000, seconds=0.02, every=7)
    wait_for((tmp_path / "run/checkpoints/00000007").exists)
    submit(files, do_command("stop", "api"))
    assert ended(job) == 0 and len(said) == 1
    (entry,) = read_log(files.log)
    require_whole(tmp_path / "run", entry.tick)


@pytest.mark.thorough
def test_orders_of_before_the_job_do_not_hold_in_it(begin, monkeypatch, tmp_path):
    files = ControlFiles(tmp_path / "run")
    first, _ = begin(steps=1_000, seconds=0.02)
    wait_for((tmp_path / "run/checkpoints/00000005").exists)
    command_file = submit(files, do_command("pause", "api"))
    wait_for(lambda: not command_file.exists())
    first.kill()
    first.wait()
    store = CheckpointStore(tmp_path / "run/checkpoints")
    newest = store._numbers()[-1]
    monkeypatch.setattr(ToyActor, "made", [])
    die_once(monkeypatch, lambda n=newest: store._numbers()[-1] > n)
    again, said = begin(steps=1_000, seconds=0.02)
    wait_for(lambda: len(said) == 1)
    newest = store._numbers()[-1]
    wait_for(lambda: store._numbers()[-1] > newest)
    submit(files, do_command("stop", "api"))
    assert ended(again) == 0
    require_whole(tmp_path / "run", read_log(files.log)[-1].tick)


@pytest.mark.thorough
def test_command_files_that_wait_are_on_a_node_before_its_process_starts(
    begin, monkeypatch, tmp_path
):
    files, seen = ControlFiles(tmp_path / "run"), []
    start = Worker.start

    def starts(worker, *arguments):
        inbox = ControlFiles(worker._tree).inbox
        seen.append([path.name for path in inbox.glob("*.json")])
        start(worker, *arguments)

    monkeypatch.setattr(Worker, "start", starts)
    first, _ = begin(steps=10)
    assert ended(first) == 0
    command_file = submit(files, set_command("x", 1, "api"))
    again, _ = begin(steps=20)
    assert ended(again) == 0
    assert seen == [[], [command_file.name]] and names_in(files.log) == ["x"]


def test_nodes_that_die_again_and_again_end_a_job_with_a_line(begin, monkeypatch):
    monkeypatch.setattr(ToyActor, "dies", lambda calls: calls > 3)
    job, said = begin()
    assert ended(job) == 1
    assert len(said) == MOST_DEATHS == len(ToyActor.made) - 1
    assert job.how.endswith("the node is dead, the 4th without a new checkpoint in between")


@pytest.mark.slow
def test_deaths_with_a_new_checkpoint_in_between_may_be_many(begin, monkeypatch, tmp_path):
    seen = set()

    def dies(calls):
        numbers = CheckpointStore(tmp_path / "run" / "checkpoints")._numbers()
        if len(ToyActor.made) <= MOST_DEATHS + 2 and numbers and numbers[-1] not in seen:
            seen.add(numbers[-1])
            return True
        return False

    monkeypatch.setattr(ToyActor, "dies", dies)
    job, said = begin(steps=60, seconds=0.02)
    assert ended(job) == 0 and len(said) == MOST_DEATHS + 2
    require_whole(tmp_path / "run", 60)


@pytest.mark.thorough
def test_an_interrupt_lets_the_run_save_and_the_same_job_goes_on(begin, tmp_path):
    files = ControlFiles(tmp_path / "run")
    first, _ = begin(steps=10)
    assert ended(first) == 0
    job, said = begin(steps=1_000)
    wait_for(lambda: ended_at(files) > 20)
    job.interrupt()
    assert (ended(job), said) == (130, [])
    assert not (tmp_path / "run/result.json").exists()  # it is none of the longer run
    last = CheckpointStore(tmp_path / "run" / "checkpoints").latest()
    assert [*read_trace(files.trace)] == [*range(last.tick)]
    again, said = begin(steps=last.tick + 20)
    assert (ended(again), said) == (0, [])
    require_whole(tmp_path / "run", last.tick + 20)


def test_to_others_the_run_is_alive_at_home_and_takes_command_files_there(begin, tmp_path):
    files = ControlFiles(tmp_path / "run")
    job, _ = begin(steps=1_000)
    wait_for(files.state.exists)
    assert is_alive(files)
    command = set_command("x", 1, "api")
    command_file = submit(files, command)
    wait_for(lambda: not command_file.exists())
    assert [entry.id for entry in read_log(files.log)] == [command.id]
    job.kill()
    job.wait()
    assert not is_alive(files)


def test_a_run_that_is_alive_here_is_not_begun_elsewhere(begin, tmp_path):
    first, _ = begin(steps=1_000)
    wait_for(ControlFiles(tmp_path / "run").state.exists)
    second, _ = begin()
    assert ended(second) == 1
    assert second.how == f"another process is running {tmp_path / 'run'}"
    assert first.poll() is None


def test_a_program_that_fails_says_its_code_and_leaves_nothing(scratch, tmp_path):
    _, portable = toy(tmp_path)
    job = RemoteJob(
        "toy", [sys.executable, "-c", "1 / 0"], tmp_path / "log", portable, usable(), print
    )
    assert (ended(job), job.how, len(ToyActor.made)) == (
        1,
        "exit code 1",
        1,
    )  # no fault of its node
    assert "ZeroDivisionError" in (tmp_path / "log").read_text()
    assert not (tmp_path / "run").exists()


def on_the_first_node(monkeypatch, method, error):
    """Lets a method fail on one of the two nodes."""
    real = getattr(Worker, method)

    def failing(worker, *arguments, **more):
        if worker.node == "first":
            raise error
        return real(worker, *arguments, **more)

    monkeypatch.setattr(Worker, method, failing)


FULL = OSError(28, "No space left on device")


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    ("method", "error", "said_of_it"),
    [
        (
            "prepare",
            ClusterError("cannot write /tmp/x: Permission denied"),
            "cannot write /tmp/x: ",
        ),
        ("put", FULL, "[Errno 28] No space left on device"),
        ("start", ClusterError("cannot start python: no"), "cannot start python: no"),
        ("hold", FULL, "[Errno 28] No space left on device"),
    ],
)
def test_a_fault_of_a_node_is_none_of_the_run_which_goes_to_another_one(
    begin, monkeypatch, tmp_path, method, error, said_of_it
):
    on_the_first_node(monkeypatch, method, error)
    job, said = begin()
    assert ended(job) == 0
    (line,) = said
    assert line.startswith(f"toy: first cannot be used: {said_of_it}")
    assert line.endswith("; it goes on elsewhere, and no run goes there any more")
    require_whole(tmp_path / "run", 30)
    again, said = begin(steps=40)  # of the same command: it does not ask the first one again
    assert (ended(again), said) == (0, [])
    assert [actor.node.id for actor in ToyActor.made] == ["first", "second", "second"]


@pytest.mark.thorough
def test_a_process_that_failed_for_the_disk_of_its_node_goes_on_elsewhere(
    begin, monkeypatch, tmp_path
):
    job, said = begin(seconds=0.02)
    wait_for((tmp_path / "run/checkpoints/00000005").exists)
    process = ToyActor.made[0].worker._process
    with (ToyActor.made[0].worker._place / "output").open("a") as log:
        log.write("targetnet: cannot write weights.safetensors: No space left on device\n")
    process.terminate()
    assert ended(job) == 0
    (line,) = said
    assert "first cannot be used: targetnet: cannot write weights.safetensors: No space" in line
    assert [actor.node.id for actor in ToyActor.made] == ["first", "second"]
    require_whole(tmp_path / "run", 30)


@pytest.mark.thorough
def test_a_process_that_failed_where_the_disk_is_full_goes_on_elsewhere(
    begin, scratch, monkeypatch, tmp_path, small_disk
):
    prepare = Worker.prepare

    def in_its_own_place(worker):
        place = small_disk[0] if worker.node == "first" else scratch
        monkeypatch.setattr("tempfile.tempdir", str(place))
        prepare(worker)

    monkeypatch.setattr(Worker, "prepare", in_its_own_place)
    job, said = begin(steps=400, every=2, seconds=0.001)
    assert ended(job) == 0
    (line,) = said
    assert line.startswith("toy: first cannot be used: ") and "No space left" in line
    require_whole(tmp_path / "run", 400)


def test_no_node_left_ends_the_command_and_is_no_failure_of_the_run(begin, monkeypatch, tmp_path):
    monkeypatch.setattr(Worker, "start", lambda *_: (_ for _ in ()).throw(FULL))
    job, said = begin()
    with pytest.raises(NoNodeLeft) as caught:
        ended(job)
    assert caught.value.exit_code == 2 and len(said) == 2
    assert str(caught.value) == (
        "no node of the Ray cluster can be used any more: first: [Errno 28] No space left on "
        "device; second: [Errno 28] No space left on device"
    )
    assert job.how == "" and not (tmp_path / "run").exists()


def test_a_fault_of_our_own_is_raised_where_the_job_is_waited_for(begin, monkeypatch):
    monkeypatch.setattr(ToyActor, "call", lambda *_, **__: 1 / 0)
    job, _ = begin()
    with pytest.raises(ZeroDivisionError):
        ended(job)


def test_a_full_disk_at_home_is_one_line(scratch, small_disk):
    place, _ = small_disk
    command, portable = toy(place, steps=4_000, every=2, seconds=0)
    job = RemoteJob("toy", command, place / "log", portable, usable(), print)
    assert ended(job) == 1
    assert "No space left" in job.how


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_home_is_killed_at_any_moment_and_the_same_job_goes_on(monkeypatch, tmp_path, seed):
    draw, code, kills, begin = random.Random(seed), None, 0, time.monotonic()
    (tmp_path / "whole").mkdir()
    subprocess.run([sys.executable, HOME, str(tmp_path / "whole")], cwd=ROOT, check=True)
    usual = time.monotonic() - begin
    while code is None:
        at_home = subprocess.Popen([sys.executable, HOME, str(tmp_path)], cwd=ROOT)
        try:
            # Longer and longer, so that on any machine it comes to its end.
            code = at_home.wait(draw.uniform(0.15, 0.35) * usual * 1.1**kills)
        except subprocess.TimeoutExpired:
            at_home.kill()
            at_home.wait()
            kills += 1
    assert code == 0, (tmp_path / "log").read_text()
    assert kills >= 2
    assert "cannot go on" not in (tmp_path / "log").read_text()
    require_whole(tmp_path / "run", 150)
    # The next job on a node removes what is left of those whose home was killed.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))

    def is_empty():
        Scratch().remove()
        return not [*(tmp_path / "scratch").glob("*/*/")]

    wait_for(is_empty, 20)
