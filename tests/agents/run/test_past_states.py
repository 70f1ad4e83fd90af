"""Snapshots and rewinds: what goes back, what does not, and that a repeat repeats them."""

import shutil

import numpy as np
import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.rl_core.checkpoint.store import CheckpointStore
from targetnet.rl_core.control.commands import do_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.errors import RlCoreError
from tests.agents.run.interrupting import Crash, crash_at

# Of the optimizer's moments, which single updates and loops keep in variables of their own.
IN_BOTH_FORMS = pytest.mark.parametrize(
    "form",
    [{"past_states": 4}, {"past_states": 4, "updates_per_learn": 2}],
    ids=["single updates", "loops"],
)


@pytest.fixture(scope="module")
def shared(lab):
    """One with rows to learn from and three snapshots, of updates 0, 5 and 10; and all of it."""
    agent = lab.agent(past_states=3, sync_period=4)
    rng = np.random.default_rng(0)
    for t in range(40):
        lab.step(agent, rng.normal(size=2), 1.0, terminated=t % 9 == 8)
    for _ in range(3):
        agent.state.snapshot()
        agent.learn(5)
    return agent, agent.state.read(), [(0, agent.state.contents.time_steps(0, 40))]


@pytest.fixture
def agent(shared):
    """The same for each test."""
    agent, state, rows = shared
    agent.hyperparameters["tau"] = "auto"
    agent.state.restore(state, rows)
    return agent


def learned(agent):
    """Every variable but the ring itself and the count of updates."""
    variables = agent.state.read().variables
    return {
        name: value
        for name, value in variables.items()
        if not name.startswith(("past/", "counters/updates", "replay/"))
    }


def same(given, wanted):
    assert given.keys() == wanted.keys()
    return all(np.array_equal(given[name], value) for name, value in wanted.items())


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    "form",
    [
        {"past_states": 4},
        {"past_states": 2, "averaged_targets": 3},
        {"past_states": 4, "updates_per_learn": 2},
    ],
    ids=["single updates", "older copies of the target", "loops"],
)
def test_rewind_brings_back_both_networks_the_optimizer_and_the_age_bit_for_bit(lab, form):
    agent = lab.agent(sync_period=4, **form)
    for t in range(40):
        lab.step(agent, [t / 40, 1.0], 1.0)
    agent.learn(6)
    agent.state.snapshot()
    then = learned(agent)
    agent.learn(7)
    now = learned(agent)
    changed = {name.split("/")[0] for name in now if not np.array_equal(now[name], then[name])}
    wanted = {"online", "target", "counters"}
    assert changed >= (wanted | {"past_target"} if "averaged_targets" in form else wanted)
    slots = [name for name in now if "Adam" in name or "beta" in name]
    assert any(not np.array_equal(now[name], then[name]) for name in slots)
    assert agent.state.rewind() == 6
    assert same(learned(agent), then)
    assert agent.inspect().target_age == 2  # six updates, copied at the fourth


@pytest.mark.cases(0)
@IN_BOTH_FORMS
def test_from_there_learning_goes_on_as_if_those_weights_had_been_loaded(lab, form):
    """The batches are new ones: the count of updates, which draws them, goes forward."""
    twins = [lab.agent(sync_period=4, **form) for _ in range(2)]
    for agent in twins:
        for t in range(40):
            lab.step(agent, [t / 40, 1.0], 1.0)
        agent.learn(6)
    twins[0].state.snapshot()
    then = learned(twins[0])
    for agent in twins:
        agent.learn(3)
    twins[0].state.rewind()
    state, rows = twins[1].state.read(), twins[1].state.contents
    rows = [(0, rows.time_steps(0, rows.written()))]
    twins[1].state.restore(state._replace(variables=state.variables | then), rows)
    for agent in twins:
        agent.learn(5)
    assert same(learned(twins[0]), learned(twins[1]))


@pytest.mark.cases(0)
@pytest.mark.parametrize(("back", "update"), [(1, 10), (2, 5), (3, 0)])
def test_rewind_goes_back_as_many_snapshots_as_it_is_told(agent, back, update):
    assert agent.state.snapshots == (0, 5, 10)
    assert agent.state.rewind(back) == update


def test_the_state_before_a_rewind_is_the_last_snapshot(agent):
    now = learned(agent)
    agent.state.rewind(3)  # the oldest, whose place a fourth snapshot must not take
    then = learned(agent)
    assert not same(then, now)
    assert agent.state.snapshots == (5, 10, 15)
    assert agent.state.rewind() == 15
    assert same(learned(agent), now)
    agent.state.rewind()
    assert same(learned(agent), then)


def test_what_is_no_learning_does_not_go_back(agent):
    agent.hyperparameters["tau"] = 0.5
    written, rows = agent.state.contents.written(), agent.rows()
    agent.state.rewind(2)
    assert agent.updates == 15 and agent.state.read().variables["counters/updates"] == 15
    assert agent.state.contents.written() == written and agent.rows() == rows
    assert agent.hyperparameters["tau"] == 0.5


@pytest.mark.parametrize("back", [4, 100])
def test_further_back_than_there_are_snapshots_is_refused(agent, back):
    before = learned(agent)
    with pytest.raises(RlCoreError, match=f"cannot go back {back}: there are 3 snapshots"):
        agent.state.rewind(back)
    assert same(learned(agent), before)


def test_without_a_ring_there_is_nothing_to_go_back_to(lab):
    agent = lab.agent(past_states=0)
    for act in (agent.state.snapshot, agent.state.rewind):
        with pytest.raises(RlCoreError, match="snapshots"):
            act()
    assert not any(name.startswith("past/") for name in agent.state.read().variables)


@pytest.mark.thorough
def test_snapshots_are_the_past_of_one_agent_and_change_no_other_number(lab):
    twins = [lab.agent(past_states=k) for k in (0, 3)]
    for agent in twins:
        for t in range(40):
            lab.step(agent, [t / 40, 1.0], 1.0)
        for _ in range(5):
            agent.learn(3)
            if agent.config.past_states:
                agent.state.snapshot()
    assert same(learned(twins[1]), learned(twins[0]))


# In a run.

SHORT = DqnConfig(
    env_steps=900, hidden=(8,), batch_size=8, replay_capacity=300, learn_start=50,
    updates_per_learn=1,
    learn_period=2,
    learning_rate=0.01, sync_period=23, eval_period=10_000, final_eval_episodes=1, xla=False,
    checkpoint_seconds=0, checkpoint_steps=250, past_states=2,
)  # fmt: skip


@pytest.fixture
def at_once(monkeypatch):
    """Every safe point looks into the inbox, so that commands land where they are meant to."""
    from targetnet.rl_core.control import steering

    monkeypatch.setattr(steering, "POLL_SECONDS", 0.0)


COMMANDS = {
    100: ("snapshot",), 200: ("set", "tau", 0.5), 300: ("rewind",), 400: ("rewind", 2),
    500: ("set", "sync_period", 5), 600: ("rewind", 9), 700: ("checkpoint",), 800: ("rewind",),
}  # fmt: skip


def asked(run):
    commands = dict(COMMANDS)

    def on_tick(agent, tick):
        action, *value = commands.pop(tick.env_step, (None,))
        if action == "set":
            agent.hyperparameters[value[0]] = value[1]
        elif action:
            submit(ControlFiles(run), do_command(action, "cli", *value))

    return on_tick


@pytest.fixture(scope="module")
def outcome(tmp_path_factory, pool):
    """Look, do not touch."""
    run = tmp_path_factory.mktemp("past_states") / "run"
    with pytest.MonkeyPatch.context() as patch, pool.open():
        patch.setattr("targetnet.rl_core.control.steering.POLL_SECONDS", 0.0)
        return train(SHORT, run, on_tick=asked(run))


@pytest.mark.thorough
def test_every_change_has_a_snapshot_before_it_and_all_is_in_the_log(outcome):
    entries = {entry.name: entry for entry in read_log(ControlFiles(outcome.run).log)}
    assert entries.keys() >= {"snapshot", "tau", "rewind", "sync_period", "checkpoint"}
    rewinds = [e for e in read_log(ControlFiles(outcome.run).log) if e.name == "rewind"]
    assert [(e.value, e.taken) for e in rewinds] == [
        (None, True),
        (2, True),
        (9, False),
        (None, True),
    ]
    at = {name: entry.update for name, entry in entries.items()}
    # To the state before tau was set; then beyond the snapshot of that rewind, to the same.
    assert rewinds[0].new == at["tau"] and rewinds[1].new == at["tau"]
    assert rewinds[0].describe().startswith(f"rewind to the snapshot of update {at['tau']:,}, at")
    assert rewinds[2].reason == "cannot go back 9: there are 2 snapshots"
    assert rewinds[3].new == at["sync_period"]


def test_several_changes_at_one_time_step_share_a_snapshot(tmp_path):
    """One `targetnet set a=1 b=2` must not push two older states out of the ring."""
    seen = []

    def on_tick(agent, tick):
        if tick.env_step in (200, 300):
            agent.hyperparameters["tau"] = 0.5
            agent.hyperparameters["discount"] = 0.9
        seen.append(agent.state.snapshots)

    train(SHORT, tmp_path / "run", on_tick=on_tick)
    assert [len(snapshots) for snapshots in (seen[150], seen[-1])] == [0, 2]
    assert len(set(seen[-1])) == 2


def test_a_run_with_snapshots_and_rewinds_is_repeated_bit_for_bit(outcome):
    assert repeat(outcome.run).identical


def test_it_is_resumed_bit_for_bit_ring_and_all(outcome, tmp_path, at_once):
    run = tmp_path / "broken"
    commands = asked(run)
    with pytest.raises(Crash):
        train(SHORT, run, on_tick=crash_at(650, commands))
    assert resume(run, on_tick=commands).digest == outcome.digest


def test_do_checkpoint_writes_one(tmp_path, at_once):
    config = SHORT.model_copy(update={"checkpoint_steps": 0})
    run = train(config, tmp_path / "run", on_tick=asked(tmp_path / "run")).run
    entry = next(e for e in read_log(ControlFiles(run).log) if e.name == "checkpoint")
    assert entry.taken
    store = CheckpointStore(run / "checkpoints")
    assert [c.name for c in sorted((run / "checkpoints").glob("0*"))] == ["00000001", "00000002"]
    assert store.latest().host["loop"]["env_step"] == 900
    shutil.rmtree(run / "checkpoints" / "00000002")
    assert store.latest().host["loop"]["env_step"] == entry.env_step
