"""The directory of a population that a kill cut off while it was made."""

import itertools
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from targetnet.agents.config.members import as_members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.population import directory
from targetnet.agents.population.directory import PopulationChange, PopulationDir
from targetnet.agents.run.agent_factory import load_initial, save_initial
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.population import (
    CHANGE,
    POPULATION,
    Exchange,
    ExchangeRecord,
    MemberRecord,
)
from targetnet.rl_core.errors import ConfigError, RunDirError
from targetnet.rl_core.seal import sealed_json
from tests.agents.kills import count_down, finish, in_a_fork

MEMBERS = as_members(DqnConfig(), (), 3)
WEIGHTS = {name: {"w": np.full(2, i, np.float32)} for i, name in enumerate(MEMBERS.configs)}


def killed_at(call, run, weights):
    """Kills a process that makes the directory; returns False if it came to its end before."""

    def work():
        count_down(call)
        PopulationDir.create(run, "run", MEMBERS, weights)
        return 0

    return finish(in_a_fork(work), allowed=(0, -signal.SIGKILL)) != 0


@pytest.mark.slow
@pytest.mark.parametrize("weights", [{}, WEIGHTS], ids=["random", "given"])
def test_whenever_the_kill_comes_all_members_are_made_later_with_their_weights(tmp_path, weights):
    cut_off = 0
    for call in itertools.count(1):
        run = tmp_path / f"run-{call}"
        killed = killed_at(call, run, weights)
        if (run / POPULATION).exists():
            cut_off += killed
        elif killed:  # there is none yet, so it is made as if nothing had been
            PopulationDir.create(run, "run", MEMBERS, weights)
        population = PopulationDir.open(run)
        for name, config in MEMBERS.configs.items():
            made = population.member(name, MEMBERS)
            assert made.config() == config
            first = load_initial(made)
            assert first.keys() == weights.get(name, {}).keys()
            assert all((first[of] == weights[name][of]).all() for of in first)
        if not killed:
            break
    assert cut_off > 6


def test_weights_of_one_that_was_never_a_run_are_not_those_of_the_next(tmp_path):
    """As after a kill before the first config, and then without --init-from."""
    for name in MEMBERS.configs:
        (tmp_path / name).mkdir()
        save_initial(RunDir(tmp_path / name), WEIGHTS[name])
    population = PopulationDir.create(tmp_path, "run", MEMBERS, {})
    assert not any(load_initial(population.member(name, MEMBERS)) for name in MEMBERS.configs)


def test_weights_that_somebody_removed_are_missed(tmp_path):
    population = PopulationDir.create(tmp_path, "run", MEMBERS, WEIGHTS)
    shutil.rmtree(tmp_path / "m01")
    with pytest.raises(RunDirError, match="m01 was not made, and the weights it began with are"):
        population.member("m01", MEMBERS)


def test_a_member_that_may_not_be_read_is_told_in_a_line(tmp_path, monkeypatch):
    run = tmp_path / "run"
    PopulationDir.create(run, "run", MEMBERS, {})
    exists = Path.exists

    def denied(path):
        if path.parent.name == "m01":
            raise PermissionError(13, "Permission denied")
        return exists(path)

    monkeypatch.setattr(Path, "exists", denied)  # as before Python 3.14
    with pytest.raises(RunDirError, match=r"cannot read .*m01/config.toml: Permission denied"):
        PopulationDir.open(run).member("m01", MEMBERS)


def test_what_cannot_be_written_leaves_no_directory(tmp_path, monkeypatch):
    def full(*_):
        raise RunDirError("cannot write: No space left on device")

    monkeypatch.setattr(directory, "write_file", full)
    with pytest.raises(RunDirError, match="No space left"):
        PopulationDir.create(tmp_path / "new/a/b", "run", MEMBERS, {})
    assert list(tmp_path.iterdir()) == []


FILES = {
    POPULATION: lambda made: made.members(),
    "change.json": PopulationChange.left_in,
    "exchanges/0001.json": lambda made: ExchangeRecord(made.path).all,
}


def turned(data):
    """The last digit before the seal became another one."""
    (*_, digit) = re.finditer(rb"\d", data.partition(b'"seal"')[0])
    return data[: digit.start()] + b"%d" % ((int(digit[0]) + 1) % 10) + data[digit.end() :]


def unsealed(data):
    return re.sub(rb'^# sha256.*\n|,\s*"seal": "\w+"', b"", data)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", [turned, unsealed])
def test_a_file_with_another_digit_or_without_its_seal_is_refused(tmp_path, name, change):
    made = PopulationDir.create(tmp_path / "run", "run", MEMBERS, {})
    part = MemberRecord(tick=50, env_step=50, update=10, score=None)
    ExchangeRecord(made.path).append(Exchange(number=1, time=1.5, members={"m00": part}))
    left = PopulationChange(keys={"eval_period": 100})
    (made.path / CHANGE).write_bytes(sealed_json(left.model_dump()))
    read, path = FILES[name], made.path / name
    assert read(made) and change(path.read_bytes()) != path.read_bytes()
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(
        (ConfigError, RunDirError), match=rf"{name}: it.* (damaged|missing)"
    ) as told:
        read(made)
    assert "\n" not in str(told.value)
