"""A steered run repeated: the same bits, or where they begin to differ."""

import json
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.repeat import Recording, repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.commands import do_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.records import read_trace
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.errors import RlCoreError, RunDirError

SHORT = {
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 300,  # several times around the ring
    "learn_start": 50,
    "learn_period": 2,
    "learning_rate": 0.01,
    "loss": "huber",
    "updates_per_learn": 1,
    "log_period": 100,
    "eval_period": 10_000,
    "eval_episodes": 1,
    "final_eval_episodes": 1,
    "xla": False,
    "epsilon": {"schedule": "linear", "start": 1.0, "end": 0.1, "steps": 500},
}
ARMS = [{"exempt": ["head"], "updates": 7}, {"exempt": ["torso"], "updates": 5}]
KINDS = {
    "one env": {},
    "eight envs": {"num_envs": 8},
    "one env, fused": {"updates_per_learn": 4},
    "eight envs, fused": {"num_envs": 8, "updates_per_learn": 4},
    "freezing": {"updates_per_learn": 3, "freeze": ARMS},
    "compiled": {"updates_per_learn": 4, "xla": True},
    "prioritized": {"prioritized": True, "n_step": 3, "updates_per_learn": 3},
}
CHANGES = {
    "sync_period": lambda rng: int(rng.integers(1, 60)),
    "tau": lambda rng: float(rng.choice([1.0, 0.5, 0.01])),
    "learning_rate": lambda rng: float(10 ** rng.uniform(-5, -2)),
    "epsilon": lambda rng: ["auto", 0.1, 0.9][rng.integers(3)],
    "learn_period": lambda rng: int(rng.integers(1, 9)),
    "updates_per_learn": lambda rng: int(rng.integers(1, 6)),
    "exempt": lambda rng: ["auto", "torso", "head", "none"][rng.integers(4)],
    "discount": lambda rng: float(rng.uniform(0.8, 1.0)),
    "huber_delta": lambda rng: float(rng.uniform(0.1, 2.0)),
    "max_grad_norm": lambda rng: float(rng.uniform(0.1, 10.0)),
}


def steered(run, changes, draw=0, **settings):
    """A run with that many random changes at random ticks."""
    config = DqnConfig(**(SHORT | settings))
    rng = np.random.default_rng(draw)
    ticks = config.env_steps // config.num_envs
    when = set(rng.choice(np.arange(1, ticks), changes, replace=False).tolist())
    number = 0

    def on_tick(agent, tick):
        nonlocal number
        number += 1
        if number in when:
            name = list(CHANGES)[rng.integers(len(CHANGES))]
            agent.hyperparameters[name] = CHANGES[name](rng)

    return train(config, run, on_tick=on_tick)


def entries(run):
    return [json.loads(line) for line in (run / "control/log.jsonl").read_text().splitlines()]


def write_entries(run, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run / "control/log.jsonl").write_text(text)


FAST = ("prioritized",)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(how, marks=() if kind in FAST else pytest.mark.slow, id=kind)
        for kind, how in KINDS.items()
    ],
)
def test_a_run_with_random_changes_is_repeated_bit_for_bit(tmp_path, pool, settings):
    outcome = steered(tmp_path / "run", 25, env_steps=500, **settings)
    pool.take_back()
    verdict = repeat(tmp_path / "run")
    assert verdict.identical and verdict.digest == outcome.digest
    assert verdict.first_difference is None and verdict.env_steps == outcome.env_steps
    assert len([e for e in entries(tmp_path / "run") if e["who"] == "api"]) == 25


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_a_run_with_fifty_random_changes_is_repeated_bit_for_bit(tmp_path, settings, seed):
    longer = {"env_steps": 6_000, "seed": seed, "hidden": (32, 32)} | settings
    outcome = steered(tmp_path / "run", 50, seed, **longer)
    verdict = repeat(tmp_path / "run")
    assert verdict.identical and verdict.digest == outcome.digest


@pytest.fixture(scope="module")
def run(tmp_path_factory, pool):
    """One env, one change of epsilon that surely matters, at tick 300."""
    path = tmp_path_factory.mktemp("replaying") / "run"

    def on_tick(agent, tick):
        if tick.env_step == 200:
            agent.hyperparameters["updates_per_learn"] = 3
        if tick.env_step == 300:
            agent.hyperparameters["epsilon"] = 0.0

    with pool.open():
        train(DqnConfig(**(SHORT | {"env_steps": 600, "learn_period": 1})), path, on_tick=on_tick)
    return path


@pytest.fixture
def copy(run, tmp_path):
    """The run as version 0.1 would have left it: with nothing that tells of a changed file."""
    copy = shutil.copytree(run, tmp_path / "copy")
    write_entries(
        copy,
        [{k: v for k, v in e.items() if k not in ("seal", "targetnet")} for e in entries(copy)],
    )
    digest = json.loads((copy / "digest.json").read_text())
    bare = {k: v for k, v in digest.items() if k not in ("seal", "targetnet", "trace_crc")}
    (copy / "digest.json").write_text(json.dumps(bare))
    (copy / "control/state.json").unlink()
    return copy


def flip_a_digit(path):
    """One digit of the middle of a file becomes another one."""
    data = bytearray(path.read_bytes())
    place = next(i for i in range(len(data) // 2, len(data)) if chr(data[i]).isdigit())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "name", ["control/log.jsonl", "control/trace.bin", "digest.json", "config.toml"]
)
def test_a_digit_that_turned_is_told_as_damage_and_not_as_a_difference(run, tmp_path, name):
    damaged = shutil.copytree(run, tmp_path / "damaged")
    flip_a_digit(damaged / name)
    with pytest.raises(RlCoreError, match=r"damaged") as raised:
        repeat(damaged)
    assert name in str(raised.value)


@pytest.mark.thorough
def test_a_log_without_its_last_line_is_told_as_damage(run, tmp_path):
    log = shutil.copytree(run, tmp_path / "damaged") / "control/log.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(RlCoreError, match="so answered commands are missing"):
        repeat(tmp_path / "damaged")


@pytest.mark.thorough
def test_the_repetition_is_thrown_away_or_kept_as_a_run_of_its_own(run, tmp_path):
    before = sorted(p.name for p in run.parent.iterdir())
    assert repeat(run, tmp_path / "kept").identical
    assert sorted(p.name for p in run.parent.iterdir()) == before
    assert (tmp_path / "kept/weights.safetensors").read_bytes() == (
        run / "weights.safetensors"
    ).read_bytes()
    state, _ = read_state(ControlFiles(tmp_path / "kept"))
    assert state.note == f"repeats {run}"
    # Its log is the same one, so it can be repeated again.
    kept = [(e["id"], e["tick"], e["new"]) for e in entries(tmp_path / "kept") if e["who"] == "api"]
    assert kept == [(e["id"], e["tick"], e["new"]) for e in entries(run) if e["who"] == "api"]
    assert repeat(tmp_path / "kept").identical


@pytest.mark.parametrize(
    ("number", "change"),
    [
        pytest.param(0, lambda e: e | {"tick": e["tick"] + 1}, id="later"),
        pytest.param(1, lambda e: e | {"value": 1.0}, id="another epsilon"),
        *(
            pytest.param(number, change, id=name, marks=pytest.mark.slow)
            for name, number, change in [
                ("earlier", 0, lambda e: e | {"tick": e["tick"] - 1}),
                ("another value", 0, lambda e: e | {"value": 2}),
                ("left out", 1, lambda e: e | {"taken": False, "reason": "no"}),
            ]
        ),
    ],
)
def test_a_log_that_was_tampered_with_is_found_out(copy, number, change):
    lines = entries(copy)
    index = [i for i, line in enumerate(lines) if line["who"] == "api"][number]
    changed_at = lines[index]["env_step"]
    lines[index] = change(lines[index])
    write_entries(copy, lines)
    verdict = repeat(copy)
    assert not verdict.identical
    if number == 1:  # epsilon shows in the very next actions, or soon
        assert changed_at < verdict.first_difference < changed_at + 30
    else:
        assert verdict.first_difference is None or verdict.first_difference > changed_at


def test_the_first_difference_is_the_env_step_at_which_it_is(copy):
    trace = np.fromfile(copy / "control/trace.bin", "<u4")
    trace[250] ^= 1
    trace.tofile(copy / "control/trace.bin")
    verdict = repeat(copy)
    assert not verdict.identical
    resets = 250 - verdict.first_difference + 1  # pseudo-steps are ticks, not env steps
    assert 2 <= resets <= 30


def test_a_digest_that_was_tampered_with_is_found_out(copy):
    path = copy / "digest.json"
    digest = json.loads(path.read_text())
    path.write_text(json.dumps(digest | {"digest": "0" * 64}))
    verdict = repeat(copy)
    assert not verdict.identical and verdict.first_difference is None


def test_a_repetition_that_ends_too_soon_says_nothing_of_the_rest(copy):
    """By `targetnet do stop` for instance: it is no difference, and not the whole either."""
    recording = Recording(RunDir.open(copy))
    trace = read_trace(ControlFiles(copy).trace)
    half = len(trace) // 2
    outcome = SimpleNamespace(interrupted=False, digest="0", env_steps=half)
    recording.compare(0, trace[:half], np.arange(half))
    verdict = recording.verdict(outcome)
    assert verdict.interrupted and not verdict.identical and verdict.first_difference is None
    recording.compare(half, trace[half:], np.arange(half, len(trace)))
    outcome.digest = recording.digest
    assert recording.verdict(outcome).identical


def test_a_stopped_run_is_repeated_up_to_where_it_was_stopped(tmp_path):
    def on_tick(agent, tick):
        if tick.env_step == 200:
            submit(ControlFiles(tmp_path / "run"), do_command("stop", "cli"))

    outcome = train(DqnConfig(**SHORT, env_steps=10_000), tmp_path / "run", on_tick=on_tick)
    assert outcome.env_steps < 10_000
    verdict = repeat(tmp_path / "run")
    assert verdict.identical and verdict.env_steps == outcome.env_steps


@pytest.mark.slow
def test_a_killed_run_is_repeated_as_far_as_it_was_recorded_and_goes_on(tmp_path):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "targetnet.agents.cli", "train", "cartpole", "--run", str(run)]
    more = ["--set", "xla=false", "hidden=[8]", "updates_per_learn=1", "learn_start=100"]
    more += ["checkpoint_steps=600", "replay_capacity=1000", "final_eval_episodes=1"]
    with subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL) as process:
        trace = run / "control" / "trace.bin"
        while not (trace.exists() and trace.stat().st_size > 4 * 2_000):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    verdict = repeat(run)
    assert verdict.identical and not verdict.complete and verdict.env_steps > 1_500
    further = {"env_steps": verdict.env_steps + 500}
    outcome = resume(run, RunDir.open(run).config().model_copy(update=further))
    verdict = repeat(run)
    assert verdict.identical and verdict.complete and verdict.digest == outcome.digest


@pytest.mark.parametrize("action", ["evaluate", "checkpoint"])
def test_a_repetition_refuses_what_it_never_does(run, tmp_path, action):
    """An evaluation that is never made would be waited for without an end."""

    def ask(directory):
        directory.control.make()
        submit(directory.control, do_command(action, "api"))

    directory = RunDir.open(run)
    train(directory.config(), tmp_path / "again", repeat=Recording(directory), on_start=ask)
    (entry,) = (e for e in entries(tmp_path / "again") if e["name"] == action)
    assert not entry["taken"] and "this run repeats another one" in entry["reason"]


def test_a_run_that_is_alive_is_not_replayed(run, tmp_path):
    from targetnet.rl_core.control.files import RunLock

    lock = RunLock(ControlFiles(run))
    try:
        with pytest.raises(RunDirError, match="still running"):
            repeat(run)
    finally:
        lock.release()


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunDirError, match="not a run directory"):
        repeat(tmp_path)


def test_another_runs_directory_is_not_written_over(run, copy):
    with pytest.raises(RunDirError, match="already holds a run"):
        repeat(run, copy)
