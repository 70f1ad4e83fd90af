"""A resume that changes its members and is killed: the next one goes on with all as if it was not.

What is compared are the files as they are when training would begin, so nothing is trained here
but the populations to begin with.
"""

import itertools
import os
import shutil

import pytest

from targetnet.agents.population import train as training
from targetnet.agents.population.directory import PopulationChange
from targetnet.agents.population.runner import PopulationRunner
from targetnet.agents.population.train import resume_population, train_population
from targetnet.agents.run.resume import ResumePlan
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.inbox import Inbox
from targetnet.rl_core.control.population import CHANGE, POPULATION
from targetnet.rl_core.errors import RunDirError
from tests.agents.population.test_exchanges import NAMES, PBT, Killed, digests, members

CHANGES = {"env_steps": 200, "eval_episodes": 3, "log_to": [], "sync_period": 5, "tau": 0.5}
CALLS = ("fsync", "replace", "unlink", "ftruncate")


class Begins(BaseException):
    """Training would begin."""


@pytest.fixture(scope="module", params=[PBT | {"period": 40}, ()], ids=["pbt", "each for itself"])
def finished(request, tmp_path_factory):
    """A population that has come to its end; read only."""
    run = tmp_path_factory.mktemp("finished") / "run"
    short = {"env_steps": 50, "eval_period": 40, "final_eval_episodes": 1}
    train_population(members(request.param, **short), run)
    return run


@pytest.fixture
def untrained(monkeypatch):
    """Nothing is built, and nothing is trained: a resume ends where training would begin."""

    def begins(self, how, exchanging=None):
        raise Begins

    class Agents:
        def __init__(self, configs):
            self.members = [None] * len(configs)

    monkeypatch.setattr(training, "envs_of", lambda configs, last: dict.fromkeys(configs))
    monkeypatch.setattr(training, "population_of", lambda configs, *_: Agents(configs))
    monkeypatch.setattr(ResumePlan, "bring_back", lambda *_: None)
    monkeypatch.setattr(PopulationRunner, "all", begins)


def resumed(run, changes=CHANGES):
    """What the files say once training would begin, of those that a resume changes."""
    with pytest.raises(Begins):
        resume_population(run, changes=changes)
    return files(run)


def files(run):
    of_members = {name: of_member(RunDir.open(run / name)) for name in NAMES}
    beside = sorted(of.name for of in run.iterdir() if of.name not in (*NAMES, "exchanges"))
    return (run / POPULATION).read_bytes(), beside, of_members


def of_member(run):
    command_files = [
        (of.id, of.command.name, of.command.value)
        for of in Inbox(run.control, list).command_files()
    ]
    # A command that was sent a second time has its id, and counts once.
    sent = [what for _, *what in dict.fromkeys(command_files)]
    sizes = {file.name: file.stat().st_size for file in run.event_files()}
    return run.config(), run.has_result(), run.has_digest(), sent, sizes


def killed_at(run, call, changes=CHANGES):
    """Kills a resume before one of its system calls; returns True if it came so far."""
    left, make = call, PopulationChange.make

    def dying(real):
        def called(*arguments, **how):
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return real(*arguments, **how)

        return called

    with pytest.MonkeyPatch.context() as patch:

        def makes(self, *of):
            for name in CALLS:
                patch.setattr(os, name, dying(getattr(os, name)))
            make(self, *of)

        patch.setattr(PopulationChange, "make", makes)
        with pytest.raises((Killed, Begins)) as ended:
            resume_population(run, changes=changes)
    return ended.type is Killed


# Every member has the same calls, about twelve of them, so each seventh is another one of these.
@pytest.mark.slow
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_all_members_have_a_change_or_none_has_whenever_the_kill_comes(
    finished, tmp_path, untrained, step
):
    straight = shutil.copytree(finished, tmp_path / "straight")
    wanted, calls = resumed(straight), 0
    for name, (config, has_result, _, sent, _) in wanted[2].items():
        assert config.env_steps == 200 and config.eval_episodes == 3 and not has_result, name
        assert sent == [["sync_period", 5], ["tau", 0.5]]
    for call in itertools.count(1, step):
        run = shutil.copytree(finished, tmp_path / f"run-{call}")
        if not killed_at(run, call):
            break
        calls += 1
        if (run / CHANGE).exists() or files(run)[0] == wanted[0]:  # else nothing was changed
            assert resumed(run, ()) == wanted, call
        else:
            before = files(finished)
            assert files(run)[::2] == before[::2]
        shutil.rmtree(run)
    assert calls * step > 4 * 10


@pytest.mark.cases(0, 1)
def test_a_change_that_was_cut_off_is_made_before_the_next_one(finished, tmp_path, untrained):
    run = shutil.copytree(finished, tmp_path / "run")
    assert killed_at(run, 20)
    assert killed_at(run, 20, {"env_steps": 300, "tau": 0.25})
    for config, _, _, sent, _ in resumed(run, {"env_steps": 400})[2].values():
        assert config.env_steps == 400 and config.eval_episodes == 3
        assert sent == [["sync_period", 5], ["tau", 0.5], ["tau", 0.25]]
    assert not (run / CHANGE).exists()


@pytest.mark.slow
def test_one_that_has_gone_on_alone_since_keeps_its_own_change(finished, tmp_path, untrained):
    run = shutil.copytree(finished, tmp_path / "run")
    assert killed_at(run, 20)
    last = RunDir.open(run / "m03")
    assert last.config().env_steps == 50  # the kill came before it
    last.change_config(last.config().model_copy(update={"env_steps": 60}))
    configs = {name: config for name, (config, *_) in resumed(run, ())[2].items()}
    assert [of.env_steps for of in configs.values()] == [200, 200, 200, 60]


@pytest.mark.cases(1)
def test_texts_change_a_config_that_is_given_for_good(finished, tmp_path, untrained):
    """A directory that is lost later is made as the others are."""
    run = shutil.copytree(finished, tmp_path / "run")
    given = training.PopulationDir.open(run).members().with_changes({"env_steps": 100})
    with pytest.raises(Begins):
        resume_population(run, given, changes={"eval_episodes": 7})
    base = training.PopulationDir.open(run).members().base
    assert (base.env_steps, base.eval_episodes) == (100, 7)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"", "it is damaged: no JSON"),
        (b'{"keys": {"hidden": [9]}, "members": {}}', "hidden cannot change on resume"),
        (b'{"keys": {}, "members": {"../x": {}}}', "members"),
        (b'{"keys": {}, "members": {}, "seal": "0"}', "not what was written"),
    ],
)
def test_a_change_that_is_damaged_is_told_in_a_line(finished, tmp_path, untrained, text, wanted):
    run = shutil.copytree(finished, tmp_path / "run")
    (run / CHANGE).write_bytes(text)
    with pytest.raises(RunDirError, match=wanted) as raised:
        resume_population(run, changes=CHANGES)
    assert "\n" not in str(raised.value) and "change.json" in str(raised.value)
    assert files(run)[::2] == files(finished)[::2]


@pytest.mark.slow  # trains three times
@pytest.mark.parametrize("call", [1, 12, 25, 40])
def test_the_bits_are_those_of_a_population_that_nobody_killed(finished, tmp_path, call):
    run = shutil.copytree(finished, tmp_path / "run")
    straight = shutil.copytree(finished, tmp_path / "straight")
    assert killed_at(run, call)
    resume_population(run, changes={} if (run / CHANGE).exists() else CHANGES)
    resume_population(straight, changes=CHANGES)
    assert digests(run) == digests(straight)
