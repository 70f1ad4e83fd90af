"""Actions on the weights in a run: logged, repeated, resumed, taken back."""

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.control import steering
from targetnet.rl_core.control.commands import do_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import read_log
from tests.agents.run.interrupting import Crash

SHORT = {
    "env_steps": 600,
    "hidden": (8,),
    "batch_size": 8,
    "replay_capacity": 300,
    "learn_start": 50,
    "updates_per_learn": 1,
    "learn_period": 2,
    "learning_rate": 0.01,
    "sync_period": 37,
    "log_period": 100,
    "eval_period": 10_000,
    "eval_episodes": 1,
    "final_eval_episodes": 1,
    "xla": False,
    "checkpoint_seconds": 0,
    "checkpoint_steps": 130,
}
PLANNED = [
    {"do": "reset", "block": "head", "every": 200},
    {"do": "recycle", "threshold": 0.2, "every": 150, "until": 500},
    {"do": "perturb", "factor": 0.9, "block": "torso", "every": 100},
]
LOOPS = {
    "plain": {"updates_per_learn": 2},
    "concurrent": {"loop": "concurrent", "learn_period": 16, "updates_per_learn": 8},
    "compiled": {"loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 20},
    "actors": {"loop": "remote", "actors": 2, "actor_steps": 9, "learn_period": 4},
}
# Sent at the first time step from that env step on, and answered at the next one: the second is
# answered where two actions of the plan are due.
BY_HAND = {
    150: ("perturb", 0.5),
    199: ("recycle", "0.3 torso"),
    300: ("rewind", 1),
    390: ("reset", "all"),
    400: ("sync", None),
    450: ("reset", "haed"),
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Every safe point looks into the inbox, so that commands land where they are meant to."""
    monkeypatch.setattr(steering, "POLL_SECONDS", 0.0)


def asked(run, left, crash=None):
    """Sends the commands that are left, each once."""

    def on_tick(agent, tick):
        if crash is not None and tick.env_step >= crash:
            raise Crash  # what was sent before has been answered at this safe point
        for moment in [m for m in left if m <= tick.env_step]:
            action, value = left.pop(moment)
            submit(ControlFiles(run), do_command(action, "cli", value))

    return on_tick


def entries(run):
    return [e for e in read_log(ControlFiles(run).log) if e.kind == "do"]


def made(run):
    """What was done, each once, where and by whom."""
    return [(e.tick, e.name, e.value, e.who, e.old, e.new, e.taken) for e in entries(run)]


def some(*loops):
    """These loops in the default tests, the others in the slow ones."""
    return [pytest.param(of, marks=() if of in loops else pytest.mark.slow) for of in LOOPS]


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("loop", some("plain", "concurrent"))
def test_steered_and_planned_actions_are_logged_and_repeated_bit_for_bit(tmp_path, loop):
    run = tmp_path / "run"
    config = DqnConfig(**SHORT | LOOPS[loop] | {"actions": PLANNED})
    outcome = train(config, run, on_tick=asked(run, dict(BY_HAND)))
    by = {who: [e for e in entries(run) if e.who == who] for who in ("cli", "schedule")}
    assert [(e.name, e.value, e.taken) for e in by["cli"]] == [
        (name, value, value != "haed") for name, value in BY_HAND.values()
    ]
    (refused,) = [e for e in by["cli"] if not e.taken]
    assert refused.reason == "no block 'haed' (torso, head, all); did you mean 'head'?"
    planned = [(e.name, e.env_step) for e in by["schedule"]]
    assert len(planned) == 3 + 3 + 6 and all(e.taken for e in by["schedule"])
    assert {name for name, _ in planned} == {"reset", "recycle", "perturb"}
    if loop == "plain":
        assert [step for name, step in planned if name == "recycle"] == [150, 300, 450]
        together = [e.who for e in entries(run) if e.env_step == 200]
        assert together == ["schedule", "schedule", "cli"]
    recycled = [e for e in entries(run) if e.name == "recycle"]
    assert all(0 <= e.old <= e.new == 8 for e in recycled)
    verdict = repeat(run, tmp_path / "again")
    assert verdict.identical and verdict.complete
    of_plan = [row for row in made(run) if row[3] == "schedule"]
    assert [row for row in made(tmp_path / "again") if row[3] == "schedule"] == of_plan
    plain = train(config.model_copy(update={"actions": ()}), tmp_path / "plain")
    assert plain.digest != outcome.digest


@pytest.mark.slow
@pytest.mark.parametrize("loop", some("plain", "compiled")[:3])
def test_a_kill_neither_loses_nor_doubles_an_action(tmp_path, pool, loop):
    """Right after actions, right before them, and between them and the next checkpoint."""
    config = DqnConfig(**SHORT | LOOPS[loop] | {"actions": PLANNED})
    straight = train(config, run := tmp_path / "straight", on_tick=asked(run, dict(BY_HAND)))
    pool.take_back()
    run, left = tmp_path / "broken", dict(BY_HAND)
    go = lambda on_tick: train(config, run, on_tick=on_tick)  # noqa: E731
    for crash in (200, 201, 310, 455):
        with pytest.raises(Crash):
            go(asked(run, left, crash))
        go = lambda on_tick: resume(run, on_tick=on_tick)  # noqa: E731
        pool.take_back()
    broken = go(asked(run, left))
    assert broken.digest == straight.digest
    assert sorted(made(run), key=lambda row: row[0]) == made(straight.run)
    assert repeat(run).identical


@pytest.mark.thorough
def test_a_rewind_takes_an_action_back_and_the_next_draw_is_another(tmp_path):
    run, seen = tmp_path / "run", {}
    actions = {200: ("reset", "head"), 210: ("rewind", 1), 220: ("reset", "head")}
    send = asked(run, actions)

    def on_tick(agent, tick):
        seen[tick.env_step] = agent.state.weights()["head/q/w"]
        send(agent, tick)

    # No update: what changes are the actions alone.
    config = DqnConfig(**SHORT | {"env_steps": 230, "learn_start": 10_000, "epsilon": 1.0})
    train(config, run, on_tick=on_tick)
    assert np.array_equal(seen[200], seen[50]) and not np.array_equal(seen[201], seen[200])
    assert np.array_equal(seen[211], seen[200])
    assert not np.array_equal(seen[221], seen[211]) and not np.array_equal(seen[221], seen[201])
    saved = CheckpointStore(run / "checkpoints").latest().host["agent"]
    assert saved["renewals"] == 2


def test_one_snapshot_is_taken_before_all_actions_at_a_time_step(tmp_path):
    run, seen = tmp_path / "run", {}

    def on_tick(agent, tick):
        seen[tick.env_step] = len(agent.state.snapshots)
        if tick.env_step == 100:
            for action in (("reset", "torso"), ("perturb", 0.9), ("reset", "haed")):
                submit(ControlFiles(run), do_command(action[0], "cli", action[1]))
        if tick.env_step == 110:
            submit(ControlFiles(run), do_command("reset", "cli", "haed"))

    train(DqnConfig(**SHORT | {"env_steps": 130}), run, on_tick=on_tick)
    assert (seen[100], seen[101], seen[120]) == (0, 1, 1)


@pytest.mark.slow
def test_a_planned_action_that_cannot_be_made_yet_is_refused_and_the_run_goes_on(tmp_path):
    config = DqnConfig(**SHORT | {"env_steps": 40, "actions": [{"do": "recycle", "every": 1}]})
    outcome = train(config, tmp_path / "run")
    first, *rest = entries(outcome.run)
    assert (first.env_step, first.taken) == (1, False)
    assert first.reason == "no transition is in the replay yet, by which units are scored"
    assert rest and all(e.taken for e in rest)
    assert repeat(outcome.run).identical
