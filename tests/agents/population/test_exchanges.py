"""Population-based training: members copy one another, and it can be resumed and repeated."""

import json
import math
import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from targetnet.agents.cli.main import main
from targetnet.agents.config.members import as_members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.population import Population
from targetnet.agents.population.exchanges import PopulationExchanges
from targetnet.agents.population.repeat import repeat_population
from targetnet.agents.population.scheduler import ExchangeBarrier, MemberExchanges
from targetnet.agents.population.train import resume_population, train_population
from targetnet.agents.run.repeat import repeat
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.copies import load_copy
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.board.read_events import read_scalars
from targetnet.rl_core.control import steering
from targetnet.rl_core.control.commands import do_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.population import ExchangeRecord
from targetnet.rl_core.control.state import read_state
from targetnet.rl_core.control.steering import Due
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.seal import sealed_line

ENV = "PullTheLever-v0"
SHORT = {
    "env_id": ENV, "env_steps": 260, "hidden": (8,), "batch_size": 8, "replay_capacity": 100,
    "learn_start": 20, "updates_per_learn": 1, "xla": False, "eval_period": 60, "eval_episodes": 2,
    "final_eval_episodes": 1, "checkpoint_steps": 35, "checkpoint_seconds": 0, "log_period": 50,
    "past_states": 2, "sync_period": 7, "epsilon": 0.2, "learning_rate": 0.01,
}  # fmt: skip
PBT = {"period": 60, "perturb": ["learning_rate", "sync_period"]}
NAMES = ["m00", "m01", "m02", "m03"]


class PullTheLever(gym.Env):
    """Pays for the right one of two actions, in episodes of ten steps."""

    observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def step(self, action):
        reward, self.t = float(action == (self.shown[0] > 0)), self.t + 1
        return self._seen(), reward, False, self.t == 10, {}

    def _seen(self):
        self.shown = self.np_random.normal(size=2).astype(np.float32)
        return self.shown


if ENV not in gym.registry:
    gym.register(ENV, PullTheLever)


def members(pbt=PBT, **more):
    return as_members(DqnConfig(**(SHORT | more)), (), 4, pbt)


def steer(agent, tick):
    """A live value is set between two exchanges; on resume at the same time step again."""
    if tick.env_step == 90 and agent.config.seed == 2:
        agent.hyperparameters["sync_period"] = 4


def digests(run):
    return {name: RunDir.open(run / name).load_digest().digest for name in NAMES}


def changes(run, name):
    """What the log of a member says of exchanges: env step, name, value."""
    log = read_log(ControlFiles(run / name).log)
    return [(of.env_step, of.name, of.value) for of in log if of.who == "pbt"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A population, and what was copied in it: (giver's before, taker's after); read only."""
    run, seen = tmp_path_factory.mktemp("pbt") / "run", []
    copy = Population.copy

    def watched(self, giver, taker):
        before = giver.state.learned.read()
        copy(self, giver, taker)
        seen.append((before, taker.state.learned.read()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Population, "copy", watched)
        train_population(members(), run, on_tick=steer)
    return run, seen


@pytest.mark.thorough
def test_the_worst_member_copies_the_best_at_every_period(trained):
    run, seen = trained
    record = ExchangeRecord(run).all
    assert [of.number for of in record] == [1, 2, 3, 4]
    made = [(of.number, *copy) for of in record for copy in of.copies()]
    assert len(made) == len(seen) >= 2
    for number, taker, copied in made:
        parts = record[number - 1].members
        scores = {name: part.score for name, part in parts.items()}
        assert scores[taker] == min(scores.values()) < max(scores.values())
        assert scores[copied.member] == max(scores.values())
        assert all(60 * number <= part.env_step < 60 * number + 2 for part in parts.values())
        assert parts[copied.member].update == copied.update
        assert parts[copied.member].lent.members == [taker]
        value = {"exchange": number, **copied.model_dump()}
        assert (parts[taker].env_step, "copy", value) in changes(run, taker)
    for given, taken in seen:
        assert all(np.array_equal(given[name], taken[name]) for name in given)


def test_the_file_of_a_copy_has_what_was_copied(trained):
    run, seen = trained
    made = [(taker, copied) for of in ExchangeRecord(run).all for taker, copied in of.copies()]
    for (taker, copied), (given, _) in zip(made, seen, strict=True):
        kept = load_copy(RunDir.open(run / taker), copied)
        assert kept.keys() == given.keys()
        assert all(np.array_equal(kept[name], given[name]) for name in given)


def test_each_exchange_has_the_score_of_the_evaluation_before_it(trained):
    run, _ = trained
    record = ExchangeRecord(run).all
    for name in NAMES:
        (file,) = RunDir.open(run / name).event_files()
        points = [
            (row.env_step, row.values["evaluation/return"])
            for row in read_scalars(file)
            if "evaluation/return" in row.values
        ]
        for exchange in record:
            part = exchange.members[name]
            latest = [value for step, value in points if step <= part.env_step][-1]
            assert latest == pytest.approx(part.score)


def test_live_values_are_the_givers_times_a_factor_and_each_change_is_logged(trained):
    run, _ = trained
    rates = {name: of.learning_rate for name, of in members().configs.items()}
    for exchange in ExchangeRecord(run).all:
        for taker, copied in exchange.copies():
            values = exchange.members[taker].values
            rate = values.get("learning_rate", rates[taker])
            assert rate == pytest.approx(rates[copied.member] * 0.8) or rate == pytest.approx(
                rates[copied.member] * 1.25
            )
            rates[taker] = rate
            logged = changes(run, taker)
            for name, value in values.items():
                assert (exchange.members[taker].env_step, name, value) in logged
    state, _ = read_state(ControlFiles(run / "m00"))
    assert {of.name: of.value for of in state.values}["learning_rate"] == rates["m00"]


@pytest.mark.slow
def test_all_members_together_are_repeated_bit_for_bit(trained, tmp_path, monkeypatch):
    run, seen = trained
    copies, copy = [], Population.copy
    monkeypatch.setattr(Population, "copy", lambda *of: copies.append(copy(*of)))
    again = repeat_population(run, tmp_path / "again")
    assert {name: of.digest for name, of in again.items()} == digests(run)
    assert all(of.identical and of.complete for of in again.values())
    assert len(copies) == len(seen)  # in the graph, not from files
    # The repeat that was kept is a population like the first one.
    assert ExchangeRecord(tmp_path / "again").all == ExchangeRecord(run).all
    name, copied = taker_of(tmp_path / "again")
    assert load_copy(RunDir(tmp_path / "again" / name), copied)


@pytest.mark.slow
def test_a_member_alone_is_repeated_bit_for_bit_with_what_it_copied(trained):
    run, _ = trained
    for name in (taker_of(run)[0], taker_of(run)[1].member):
        verdict = repeat(run / name)
        assert verdict.identical and verdict.digest == digests(run)[name]


@pytest.mark.slow  # the default run repeats two of them
def test_so_is_each_member_and_a_repeat_that_was_kept(trained, tmp_path):
    run, _ = trained
    assert all(repeat(run / name).identical for name in NAMES)
    repeat_population(run, tmp_path / "again")
    assert all(of.identical for of in repeat_population(tmp_path / "again").values())


@pytest.mark.slow
def test_a_repeat_that_differs_says_so(trained, tmp_path, capsys):
    """As where a live value was another one after an exchange."""
    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    (of, *_) = [taker for exchange in ExchangeRecord(run).all for taker, _ in exchange.copies()]
    log = ControlFiles(run / of).log
    lines = b""
    for entry in map(json.loads, log.read_text().splitlines()):
        del entry["seal"], entry["targetnet"]
        if entry["name"] == "learning_rate":
            entry["value"] = 0.9000000001
        lines += sealed_line(json.dumps(entry).encode(), position=len(lines))
    log.write_bytes(lines)
    assert main(["replay", str(run)]) == 1
    said = capsys.readouterr().out
    assert f"{of}: different: the first difference is at env step" in said
    # Who copied it later differs too.
    assert 1 <= said.count(": identical ") == 4 - said.count(": different: ")


class Killed(BaseException):
    """The process was killed."""


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize(
    "moment",
    [
        "written",
        "copied",
        *(pytest.param(of, marks=pytest.mark.slow) for of in ("decided", "logged")),
    ],
)
def test_an_exchange_that_was_cut_off_is_made_once(trained, tmp_path, moment):
    run, begun = tmp_path / "run", []

    def dies(real, before):
        def call(*arguments, **how):
            begun.append(1)
            if len(begun) == 2 and before:
                raise Killed
            result = real(*arguments, **how)
            if len(begun) == 2:
                raise Killed
            return result

        return call

    where, name, before = {
        "decided": (ExchangeRecord, "append", True),  # files are there, the decision is not
        "written": (ExchangeRecord, "append", False),  # nobody knows of it
        "copied": (Population, "copy", False),  # one member has copied, and its log lacks it
        "logged": (steering.Steering, "exchange", False),
    }[moment]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, name, dies(getattr(where, name), before))
        # In the second exchange that comes so far.
        with pytest.raises(Killed):
            train_population(members(), run, on_tick=steer)
    resume_population(run, on_tick=steer)
    assert digests(run) == digests(trained[0])
    for of in NAMES:
        assert changes(run, of) == changes(trained[0], of)


@pytest.mark.slow
def test_members_go_on_from_checkpoints_before_and_after_an_exchange(trained, tmp_path):
    """One has lost its later checkpoints, and takes what it had copied from its file."""
    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    takers = {taker for of in ExchangeRecord(run).all for taker, _ in of.copies()}
    for name in takers:
        shutil.rmtree(run / name / "checkpoints")
    resume_population(run, on_tick=steer)
    assert digests(run) == digests(trained[0])


@pytest.mark.slow  # a population of its own
def test_on_a_full_disk_all_wait_and_the_exchange_is_the_same(trained, tmp_path, monkeypatch):
    append, tried, said = ExchangeRecord.append, [], []

    def full(self, exchange):
        tried.append(exchange.number)
        if len(tried) in (2, 3):
            raise RunDirError("cannot write it: No space left on device")
        append(self, exchange)

    monkeypatch.setattr(ExchangeRecord, "append", full)
    monkeypatch.setattr(
        "targetnet.agents.run.display.Screen.line", lambda self, text: said.append(text)
    )
    train_population(members(), tmp_path / "run", on_tick=steer)
    assert tried == [1, 2, 2, 2, 3, 4]
    assert sum("No space left on device; the run goes on" in text for text in said) == 1
    assert digests(tmp_path / "run") == digests(trained[0])


@pytest.mark.slow  # a population of its own
def test_a_population_that_is_made_longer_goes_on_with_exchanges(trained, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    resume_population(run, changes={"env_steps": 400})
    assert len(ExchangeRecord(run).all) == 6
    train_population(members(env_steps=400), tmp_path / "longer", on_tick=steer)
    assert digests(run) == digests(tmp_path / "longer")


@pytest.mark.slow  # five populations
def test_what_is_changed_right_after_an_exchange_is_repeated_after_it(tmp_path, monkeypatch):
    """At the same time step: the members that are copied end there, go on, and are synced first."""
    run, carry_out = tmp_path / "run", PopulationExchanges._carry_out

    def ends(self, exchange, runs):
        carry_out(self, exchange, runs)
        if [*exchange.copies()]:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(PopulationExchanges, "_carry_out", ends)
        assert train_population(members(), run).signal == signal.SIGINT
    ended = repeat_population(run)
    assert {name: of.digest for name, of in ended.items()} == digests(run)
    _, copied = taker_of(run)
    # The taker has the target as it was before that.
    submit(ControlFiles(run / copied.member), do_command("sync", "api"))
    with monkeypatch.context() as patch:
        patch.setattr(PopulationExchanges, "_carry_out", ends)
        resume_population(run)
    log = [(of.tick, of.name) for of in read_log(ControlFiles(run / copied.member).log)]
    (tick,) = [tick for tick, what in log if what == "sync"]
    assert log.index((tick, "lend")) < log.index((tick, "sync"))
    again = repeat_population(run)
    assert {name: of.digest for name, of in again.items()} == digests(run)


@pytest.mark.thorough
def test_an_exchange_waits_for_a_member_that_is_paused(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(steering, "POLL_SECONDS", 0.0)
    first, said, notes, tell = ControlFiles(tmp_path / "run/m00"), [], [], ExchangeBarrier.tell
    monkeypatch.setattr(
        "targetnet.agents.run.display.Screen.line", lambda self, text: said.append(text)
    )

    def told(self, number):
        paused = tell(self, number)
        if paused and len(self.waiting) == 3 and not notes:
            notes.append(read_state(first)[0].status)
            submit(first, do_command("resume", "api"))
        return paused

    monkeypatch.setattr(ExchangeBarrier, "tell", told)

    def pause(agent, tick):
        steer(agent, tick)
        if tick.env_step == 33 and agent.config.seed == 0:
            submit(first, do_command("pause", "api"))

    train_population(members(), tmp_path / "run", on_tick=pause)
    assert notes == ["paused"]
    assert "exchange 1 waits for m00, which is paused" in said
    assert digests(tmp_path / "run") == digests(trained[0])


@pytest.mark.slow  # a population of its own
def test_a_member_that_was_stopped_is_left_out_and_goes_on_later(tmp_path, monkeypatch):
    monkeypatch.setattr(steering, "POLL_SECONDS", 0.0)
    run = tmp_path / "run"

    def stop(agent, tick):
        if tick.env_step == 80 and agent.config.seed == 3:
            submit(ControlFiles(run / "m03"), do_command("stop", "api"))

    pbt = PBT | {"share": 0.34}  # of three: one
    train_population(members(pbt), run, on_tick=stop)
    record = ExchangeRecord(run).all
    assert [sorted(of.members) for of in record] == [NAMES, NAMES[:3], NAMES[:3], NAMES[:3]]
    resume_population(run)
    assert len(ExchangeRecord(run).all) == 4
    assert all(of.identical for of in repeat_population(run).values())


@pytest.mark.slow  # envs of its own
def test_where_nobody_is_better_all_have_the_bits_that_they_have_alone(tmp_path):
    # Nobody has a score: no episode has ended.
    longer = {"env_kwargs": {"max_episode_steps": 1_000}, "env_id": "CartPole-v1"}
    of = members(PBT | {"score": "training", "period": 5, "share": 0.25}, env_steps=8, **longer)
    train_population(of, tmp_path / "run")
    record = ExchangeRecord(tmp_path / "run").all
    assert len(record) == 1 and not [*record[0].copies()]
    assert all(part.score is None for part in record[0].members.values())
    name, config = next(iter(of.configs.items()))
    assert train(config, tmp_path / "alone").digest == digests(tmp_path / "run")[name]


@pytest.mark.slow  # graphs of their own
@pytest.mark.parametrize(
    "more",
    [
        {"loop": "concurrent", "learn_period": 8},
        {"loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 20},
        {"loop": "compiled", "env_id": "InGraph/CartPole-v1", "chunk": 90},  # beyond the period
        {"num_envs": 2, "prioritized": True, "learn_period": 7},
        {"xla": True, "learn_period": 1},  # members learn jointly
        {"ema_decay": 0.9, "averaged_targets": 2, "updates_per_learn": 3},
    ],
)
def test_so_it_is_in_every_loop(tmp_path, more):
    pbt = PBT | {"score": "training", "period": 50, "share": 0.5}
    of, run = members(pbt, **more), tmp_path / "run"

    def end(agent, tick):
        if tick.env_step >= 130 and agent.config.seed == 2:
            raise Killed

    with pytest.raises(Killed):
        train_population(of, run, on_tick=end)
    resume_population(run)
    train_population(of, tmp_path / "straight")
    assert any([*exchange.copies()] for exchange in ExchangeRecord(run).all)
    assert digests(run) == digests(tmp_path / "straight")
    assert all(of.identical for of in repeat_population(run).values())
    assert repeat(run / taker_of(run)[0]).identical


def test_a_member_cannot_go_on_without_the_others(trained, monkeypatch):
    run, _ = trained
    with pytest.raises(RunDirError, match="exchanges weights with the other members, so it cannot"):
        resume(run / "m00", changes={"env_steps": 500})
    monkeypatch.chdir(run / "m00")
    with pytest.raises(RunDirError, match=r"targetnet resume .*run$"):
        resume(Path(), changes={"env_steps": 500})


def taker_of(run):
    return next(of for exchange in ExchangeRecord(run).all for of in exchange.copies())


def lose_a_copy(run):
    name, copied = taker_of(run)
    shutil.rmtree(run / name / "checkpoints")  # so that it has to copy again
    (run / name / "copies" / f"{copied.file}.safetensors").unlink()


def damage_a_copy(run):
    name, copied = taker_of(run)
    shutil.rmtree(run / name / "checkpoints")
    path = run / name / "copies" / f"{copied.file}.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    ("spoil", "wanted", "replays"),
    [
        (lose_a_copy, r"is missing: what m\d\d copied from m\d\d in exchange \d", True),
        (damage_a_copy, "it is damaged: not what was written", True),
        (lambda run: (run / "exchanges/0002.json").unlink(), "0002.json is missing", False),
        (lambda run: (run / "exchanges/0004.json").unlink(), "took part in exchange 4, and", False),
        (
            lambda run: shutil.copy(run / "exchanges/0001.json", run / "exchanges/0003.json"),
            r"0003\.json: it is exchange 1",
            False,
        ),
        (
            lambda run: (run / "exchanges/0003.json").write_text('{"number": 3}'),
            r"0003\.json is damaged: time is missing",
            False,
        ),
    ],
    ids=["copy lost", "copy damaged", "gap", "last one lost", "another's", "no exchange"],
)
def test_damage_is_told_in_a_line_before_anything_changes(
    trained, tmp_path, capsys, spoil, wanted, replays
):
    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    spoil(run)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    with pytest.raises(RunDirError, match=wanted):
        resume_population(run, changes={"env_steps": 400})
    if replays:
        with pytest.raises(RunDirError, match=wanted):
            repeat(run / taker_of(run)[0])
        assert main(["replay", str(run)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    after = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    changed = [p.name for p in after if before.get(p) != after[p]]
    assert {*changed} <= {"lock", "token"}


def test_settings_cannot_change_on_resume_nor_a_record_be_taken_over(trained, tmp_path):
    run, _ = trained
    with pytest.raises(Exception, match="it cannot change on resume"):
        resume_population(run, members(PBT | {"period": 70}))
    shutil.copytree(run / "exchanges", tmp_path / "new/exchanges")
    with pytest.raises(RunDirError, match="already holds exchanges"):
        train_population(members(), tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["exchanges"]


def test_what_was_copied_is_shown(trained, capsys):
    run, _ = trained
    name, copied = taker_of(run)
    assert main(["log", str(run / name)]) == 0
    assert f"pbt       copy of {copied.member} (its update" in capsys.readouterr().out
    assert main(["log", str(run / copied.member)]) == 0
    assert f"pbt       copied by {name} at update" in capsys.readouterr().out
    assert main(["status", str(run)]) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    assert [lines[0][-2:], *(line[0] for line in lines[1:])] == [["copied", "last"], *NAMES]
    last = {name: of for exchange in ExchangeRecord(run).all for name, of in exchange.copies()}
    for line in lines[1:]:
        assert line[-3:-1] == [last[line[0]].member, "at"] if line[0] in last else line[-1] == "-"
    (file,) = RunDir.open(run / name).event_files()
    marks = [row.values.get("population/copied") for row in read_scalars(file)]
    assert float(copied.member[1:]) in marks


def test_a_member_makes_one_exchange_at_a_time_step_however_many_are_due():
    """A phase or chunk may be longer than several periods."""
    control = SimpleNamespace(position=(8, 64, 0))
    of_all = SimpleNamespace(
        barrier=ExchangeBarrier(None, ["m00"]), due=lambda name: Due(math.inf, 16, math.inf)
    )
    side = MemberExchanges(of_all, "m00", False)
    side.begin(SimpleNamespace(control=control))
    assert side.arrive() and not side.arrive()
    control.position = (9, 72, 0)
    assert side.arrive()
