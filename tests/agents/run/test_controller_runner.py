"""A controller in a run: called at its env steps, logged, resumed, and not needed by a replay."""

import sys

import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.control import steering
from targetnet.rl_core.control.commands import set_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.errors import ConfigError, ControllerFault
from tests.agents.run.interrupting import Crash, crash_at

SHORT = {
    "env_steps": 400, "hidden": (8,), "batch_size": 8, "replay_capacity": 300, "learn_start": 50,
    "updates_per_learn": 1,
    "learn_period": 2, "learning_rate": 0.01, "sync_period": 37, "log_period": 50,
    "eval_period": 80, "eval_episodes": 1, "final_eval_episodes": 1, "xla": False,
    "checkpoint_seconds": 0, "checkpoint_steps": 70, "past_states": 1,
}  # fmt: skip
LOOPS = {
    "plain": {"updates_per_learn": 2},
    "concurrent": {"loop": "concurrent", "learn_period": 16, "updates_per_learn": 8},
    "compiled": {"loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 20},
}
MODULE = """
import numpy as np

calls = []

def wanted(seen, memory, *, first=11):
    calls.append(seen)
    n = memory["n"] = memory.get("n", 0) + 1
    loss = seen.curves.get("learn/loss", (0, 0.0))[1]
    memory.setdefault("losses", []).append([loss, seen.live["learning_rate"]])
    answer = {"sync_period": first + n, "learning_rate": 1.05 * seen.live["learning_rate"]}
    if n % 3 == 0:
        answer["do"] = ["sync", "perturb 0.9 head"]
    if n % 4 == 0:
        answer["epsilon"] = 7.0  # out of bounds
    return answer if n != 2 else None

def stops(seen, memory):
    return {"do": "stop"} if seen.env_step >= 120 else None

def fails(seen, memory):
    memory["n"] = memory.get("n", 0) + 1
    memory.setdefault("steps", []).append(seen.env_step)
    if seen.env_step >= 120:
        raise KeyError("returns")

def keeps(seen, memory):
    memory["n"] = memory.get("n", 0) + 1
    return {"do": ["perturb 0.9", "checkpoint", "sync"], "sync_period": 30 + memory["n"]}

def answers(seen, memory, *, what):
    if what == "array":
        return {"sync_period": np.array([1, 2])}
    return {"sync_period": None} if what == "none" else what

def forgets(seen, memory):
    memory["seen"] = seen
"""


@pytest.fixture(autouse=True)
def module(monkeypatch, tmp_path_factory):
    """The user's module; every safe point looks into the inbox."""
    monkeypatch.setattr(steering, "POLL_SECONDS", 0.0)
    folder = tmp_path_factory.mktemp("own")
    (folder / "my_controllers.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder)
    yield folder / "my_controllers.py"
    sys.modules.pop("my_controllers", None)


def controlled(controller="my_controllers:wanted", period=30, **settings):
    keys = {"controller": controller, "controller_period": period} | settings
    return DqnConfig(**SHORT | keys)


def made(run):
    entries = [e for e in read_log(ControlFiles(run).log) if e.who != "schedule"]
    return [(e.tick, e.kind, e.name, e.value, e.who, e.old, e.new, e.taken) for e in entries]


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("loop", LOOPS)
def test_what_it_wants_is_logged_and_repeated_without_it(tmp_path, loop, module):
    outcome = train(controlled(**LOOPS[loop]), tmp_path / "run")
    import my_controllers

    steps = [seen.env_step for seen in my_controllers.calls]
    assert steps == sorted(steps) and len(steps) == len({s // 30 for s in steps})
    assert 8 <= len(steps) <= 13
    if loop == "plain":
        assert steps == [*range(30, 400, 30)]
    entries = made(tmp_path / "run")
    assert {entry[4] for entry in entries} == {"controller"}
    refused = [entry for entry in entries if not entry[7]]
    assert {entry[2] for entry in refused} == {"epsilon"}
    assert {"sync", "perturb"} <= {entry[2] for entry in entries}
    # It sees the evaluation of the same env step, and nothing that the clock decides.
    by_step = {seen.env_step: seen for seen in my_controllers.calls}
    if loop == "plain":
        assert by_step[240].curves["evaluation/return"][0] == 240
    assert not any(tag.startswith("speed/") for seen in by_step.values() for tag in seen.curves)
    module.unlink()
    del sys.modules["my_controllers"]
    verdict = repeat(tmp_path / "run")
    assert verdict.identical and verdict.digest == outcome.digest
    assert "my_controllers" not in sys.modules


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_kill_neither_loses_nor_doubles_what_it_wanted(tmp_path, pool, loop):
    config = controlled(**LOOPS[loop])
    straight = train(config, tmp_path / "straight")
    pool.take_back()
    run = tmp_path / "broken"
    go = lambda on_tick: train(config, run, on_tick=on_tick)  # noqa: E731
    for moment in (95, 152, 241, 335):  # after a call, after an evaluation, after both at 240
        with pytest.raises(Crash):
            go(crash_at(moment))
        go = lambda on_tick: resume(run, on_tick=on_tick)  # noqa: E731
        pool.take_back()
    broken = go(None)
    assert broken.digest == straight.digest
    assert made(run) == made(tmp_path / "straight")
    assert remembered(run) == remembered(tmp_path / "straight")
    assert repeat(run).identical


def remembered(run):
    return CheckpointStore(run / "checkpoints").latest().host["controller"]


@pytest.mark.slow
def test_what_it_did_before_a_checkpoint_of_its_own_is_in_it_and_what_came_after_is_not_lost(
    tmp_path, pool
):
    """The peer's bug would be our own: an entry after the checkpoint's place in the log."""
    config = controlled("my_controllers:keeps", 60, checkpoint_steps=10_000)
    straight = train(config, tmp_path / "straight")
    pool.take_back()
    with pytest.raises(Crash):
        train(config, run := tmp_path / "broken", on_tick=crash_at(130))
    assert CheckpointStore(run / "checkpoints").latest().host["loop"]["env_step"] == 120
    pool.take_back()
    assert resume(run).digest == straight.digest
    assert made(run) == made(tmp_path / "straight")
    assert [entry[2] for entry in made(run)][:4] == ["perturb", "sync", "sync_period", "checkpoint"]


@pytest.mark.thorough
def test_its_memory_is_in_the_checkpoint(tmp_path):
    train(controlled(), tmp_path / "run")
    part = remembered(tmp_path / "run")
    assert part["due"] == 420 and part["memory"]["n"] == len(part["memory"]["losses"]) == 13
    train(DqnConfig(**SHORT), tmp_path / "plain")
    assert remembered(tmp_path / "plain") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "controller", "arguments"),
    [
        ({"sync_distance": 0.05}, "copy_when_far", {"distance": 0.05}),
        ({"sync_fit": 0.9, "sync_fit_updates": 5}, "copy_when_fit", {"share": 0.9}),
    ],
)
def test_the_rules_in_the_graph_and_those_in_python_copy_at_the_same_updates(
    tmp_path, rule, controller, arguments
):
    same = SHORT | {"learn_period": 1, "sync_period": 10_000, "past_states": 0, "env_steps": 250}
    in_graph = train(DqnConfig(**same | rule), tmp_path / "graph")
    config = same | {"prepared": [*rule][:1], "controller": controller, "controller_period": 1}
    config |= {"controller_args": arguments, "sync_fit_updates": rule.get("sync_fit_updates", 100)}
    in_python = train(DqnConfig(**config), tmp_path / "python")
    copies = [entry for entry in made(tmp_path / "python") if entry[2] == "sync"]
    assert len(copies) > 3
    weights = [
        (outcome.run / "weights.safetensors").read_bytes() for outcome in (in_graph, in_python)
    ]
    assert weights[0] == weights[1]


def test_a_person_and_a_controller_take_turns(tmp_path):
    """Who comes last rules; the replay has them in the same order."""
    run = tmp_path / "run"

    def on_tick(agent, tick):
        if tick.env_step == 59:  # is answered at env step 60, before the controller is called
            submit(ControlFiles(run), set_command("sync_period", 5, "cli"))

    train(controlled(env_steps=100, period=60), run, on_tick=on_tick)
    set_ = [(e[4], e[5], e[6]) for e in made(run) if e[2] == "sync_period"]
    assert set_ == [("cli", 37, 5), ("controller", 5, 12)]
    assert repeat(run).identical


def test_it_may_stop_the_run_which_then_goes_on(tmp_path):
    outcome = train(controlled("my_controllers:stops"), run := tmp_path / "run")
    assert outcome.env_steps == 120
    assert repeat(run).identical
    assert resume(run).env_steps == 150  # called again, it stops again


def test_one_that_fails_ends_the_run_with_a_line_and_a_checkpoint(tmp_path, module, pool):
    config = controlled("my_controllers:fails")
    with pytest.raises(ControllerFault) as fault:
        train(config, run := tmp_path / "run")
    line = str(fault.value)
    assert "\n" not in line
    assert "controller 'my_controllers:fails' failed (KeyError: 'returns')" in line
    assert "my_controllers.py:" in line and "the checkpoint of env step 120" in line
    pool.take_back()
    module.write_text(MODULE.replace("raise KeyError", "KeyError"))
    del sys.modules["my_controllers"]
    assert resume(run).env_steps == 400
    # The call that failed is made again, once.
    assert remembered(run)["memory"] == {"n": 13, "steps": [*range(30, 400, 30)]}


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ([1], r"must return live values by name, or None, got \[1\]"),
        ({"do": "sink"}, r"cannot do 'sink'.*did you mean 'sync'"),
        ({"do": "perturb 2"}, r"cannot do 'perturb 2'"),
        ({"do": 3}, r"cannot do 3"),
        ({"do": ["rewind x"]}, r"cannot do 'rewind x'"),
        ("none", r"cannot set 'sync_period'"),
        ({"": 3}, r"cannot set ''"),
        ("array", r"cannot set 'sync_period'"),
        ({"do": "  "}, r"cannot do ' '"),
        ({"do": "rewind \u00b2"}, r"cannot do 'rewind \u00b2'"),
    ],
)
def test_answers_that_are_no_changes(tmp_path, what, message):
    config = controlled("my_controllers:answers", env_steps=40)
    config = config.model_copy(update={"controller_args": {"what": what}})
    with pytest.raises(ControllerFault, match=message) as fault:
        train(config, tmp_path / "run")
    assert "\n" not in str(fault.value)


def test_a_memory_that_is_no_json(tmp_path):
    with pytest.raises(ControllerFault, match=r"keeps in its memory what is no JSON"):
        train(controlled("my_controllers:forgets", env_steps=40), tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"controller": "my_controllers:wnated"}, r"no function 'wnated'; did you mean 'wanted'"),
        ({"controller": "copy_when_fit"}, r'needs prepared = \["sync_fit"\]'),
        ({"controller": "copy_when_far", "sync_fit": 0.5}, r'needs prepared = \["sync_distance"\]'),
        (
            {
                "controller": "copy_when_far",
                "prepared": ["sync_distance"],
                "controller_args": {"distance": "far"},
            },
            "distance must be a number > 0, got 'far'",
        ),
        (
            {
                "controller": "copy_when_fit",
                "prepared": ["sync_fit"],
                "controller_args": {"share": -1.0},
            },
            "share must be a number > 0, got -1.0",
        ),
        (
            {
                "controller": "copy_when_fit",
                "prepared": ["sync_fit"],
                "controller_args": {"min_age": 2.5},
            },
            "min_age must be a whole number >= 0, got 2.5",
        ),
        (
            {"controller": "period_bandit", "controller_args": {"periods": 3}},
            "periods must be at least two whole numbers >= 1, got 3",
        ),
        (
            {"controller": "period_bandit", "controller_args": {"window": "40"}},
            "window must be a whole number >= ",
        ),
    ],
    ids=str,
)
def test_a_mistake_leaves_nothing_on_disk(tmp_path, settings, said):
    with pytest.raises(ConfigError, match=said):
        train(controlled(**settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()
