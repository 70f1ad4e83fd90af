"""What is proposed, what is kept, and which trials are stopped."""

import errno
import json
import math
import os
import re

import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.sweep.plan import SweepPlan, read_plan
from targetnet.agents.experiments.sweep.study import Study
from targetnet.rl_core.errors import ConfigError, RunDirError

pytest.importorskip("optuna")


def score(trial):
    return -abs(trial.params["sync_period"] - 100.0)


def test_the_file_has_all_that_was_told(plan, tmp_path):
    study = Study(tmp_path / "study.log", plan())
    study.ask(3, 0)
    study.tell(0, [1.0, 3.0], 2.0, {"seeds": [0]})
    study.tell(1, [1.0], None, {})
    study.tell(2, [], None, {"error": "it fell over"})
    again = Study(tmp_path / "study.log", plan())
    first, second, third = again.trials
    assert (first.state.name, first.value, first.intermediate_values) == (
        "COMPLETE", 2.0, {0: 1.0, 1: 3.0},
    )  # fmt: skip
    assert first.user_attrs == {"seeds": [0]} and first.params == study.trials[0].params
    assert (second.state.name, second.value) == ("PRUNED", 1.0)
    assert (third.state.name, third.user_attrs) == ("FAIL", {"error": "it fell over"})
    assert again.best().number == 0


def test_the_best_trial_has_the_highest_score_and_of_equal_ones_is_the_older(plan, tmp_path):
    study = Study(tmp_path / "study.log", plan())
    study.ask(5, 0)
    for number, value in enumerate([1.0, 3.0, None, -2.0, 3.0]):
        study.tell(number, [0.0], value, {})
    assert [trial.number for trial in study.ranking()] == [1, 4, 0, 3]


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_trial_depends_on_the_known_ones_alone(plan, tmp_path, sampler):
    """Told at once or later, with the study read again or not, and beside others or not."""

    def proposed(name, *, at_once):
        study = Study(tmp_path / name, plan(sampler=sampler))
        for number in range(24):
            known = max(0, number - 1)
            study.ask(1, known)
            if at_once:
                study.tell(number, [1.0], score(study.trials[number]), {})
            elif number:
                study.tell(number - 1, [1.0], score(study.trials[number - 1]), {})
            if not at_once and number % 5 == 0:
                study = Study(tmp_path / name, plan(sampler=sampler))
        return [trial.params for trial in study.trials]

    first = proposed("first", at_once=True)
    assert proposed("second", at_once=False) == first
    assert len({params["sync_period"] for params in first}) > 10
    other = Study(tmp_path / "other", plan(sampler=sampler, seed=1))
    other.ask(1, 0)
    assert other.trials[0].params != first[0]


@pytest.mark.thorough
def test_tpe_learns_from_the_known_scores(plan, tmp_path):
    def errors(name, knows):
        study = Study(tmp_path / name, plan("sync_period=10..1000:log"))
        for number in range(60):
            study.ask(1, knows(number))
            study.tell(number, [1.0], score(study.trials[number]), {})
        return [abs(math.log10(trial.params["sync_period"] / 100)) for trial in study.trials]

    assert sum(errors("all", lambda number: number)[20:]) < 10.0
    assert sum(errors("none", lambda number: 0)[20:]) > 12.0


def test_a_grid_has_every_combination_once(plan, tmp_path):
    grid = plan("batch_size=32,64", "double=true,false", "vectorization=sync,async", sampler="grid")
    assert grid.most_trials() == 8
    study = Study(tmp_path / "study.log", grid)
    for number in range(8):
        study.ask(1, max(0, number - 2))
        study.tell(number, [1.0], 1.0, {})
    assert len({tuple(trial.params.items()) for trial in study.trials}) == 8


def test_a_grid_of_a_range_is_refused(plan):
    with pytest.raises(ConfigError, match=r"--over sync_period: a grid wants a list of values"):
        plan(sampler="grid").require_usable()


def test_a_trial_is_worse_if_its_best_is_below_the_median_at_the_same_evaluation(plan, tmp_path):
    study = Study(tmp_path / "study.log", plan())
    study.ask(7, 0)
    for number, last in enumerate([10.0, 20.0, 30.0, 40.0, 50.0]):
        study.tell(number, [5.0, last], last, {})
    study.tell(5, [5.0, 1000.0], 1000.0, {})  # of the five that are known the median is 30
    assert not study.is_worse([5.0], 5)
    assert study.is_worse([5.0, 29.0], 5)
    assert not study.is_worse([5.0, 30.0], 5)
    assert not study.is_worse([35.0, 29.0], 5)  # it was good before
    assert not study.is_worse([5.0, 29.0], 4)  # too few are known
    assert study.is_worse([5.0, 30.0], 6)  # now it is 35


def test_a_line_that_was_cut_off_is_left_out_and_the_study_goes_on(plan, tmp_path):
    path = tmp_path / "study.log"
    study = Study(path, plan())
    study.ask(2, 0)
    whole = path.read_bytes()
    study.tell(0, [1.0], 1.0, {})
    path.write_bytes(whole + b'{"op_code": 6, "wor')
    study = Study(path, plan())
    assert [trial.state.name for trial in study.trials] == ["RUNNING", "RUNNING"]
    study.tell(0, [1.0], 1.0, {})
    assert Study(path, plan()).best().number == 0


DAMAGED = {
    "no JSON": b"hello\n",
    "another object": b'{"a": 1}\n',
    "no object": b"[1, 2]\n",
    "unknown operation": b'{"op_code": 999, "worker_id": "a"}\n',
    "deep": b"[" * 100_000 + b"\n",
    "zeros": b"\0" * 50 + b"\n",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_damaged_study_is_one_line(plan, tmp_path, data, at_the_end):
    path = tmp_path / "study.log"
    Study(path, plan()).ask(2, 0)
    path.write_bytes(path.read_bytes() + data if at_the_end else data)
    with pytest.raises(RunDirError, match=r"study\.log is damaged"):
        Study(path, plan()).best()


def test_a_digit_that_turned_and_a_line_that_is_missing_are_noticed(plan, tmp_path):
    path = tmp_path / "study.log"
    study = Study(path, plan())
    study.ask(2, 0)
    study.tell(0, [1.0], 140.25, {})
    whole = path.read_bytes()
    assert b'"values":[140.25]' in whole
    first, second, *others = whole.splitlines(keepends=True)
    for damaged in (
        whole.replace(b"[140.25]", b"[940.25]"),
        b"".join([first, *others]),
        b"".join([second, first, *others]),
        re.sub(rb', "seal": "[0-9a-f]{16}"\}\n$', b"}\n", whole),
    ):
        path.write_bytes(damaged)
        with pytest.raises(RunDirError, match=r"^\S*study\.log is damaged: line \d"):
            Study(path, plan())
    path.write_bytes(whole)
    assert Study(path, plan()).best().value == 140.25


def without_seals(lines, keys=rb'"targetnet": "[^"]*", |, "seal": "[0-9a-f]{16}"'):
    return re.sub(keys, b"", lines)


def test_a_study_without_its_seals_is_refused(plan, tmp_path):
    path = tmp_path / "study.log"
    study = Study(path, plan())
    study.ask(2, 0)
    study.tell(0, [1.0], 140.25, {})
    path.write_bytes(without_seals(path.read_bytes(), rb', "seal": "[0-9a-f]{16}"'))
    with pytest.raises(RunDirError, match=r"study\.log is damaged: line 1 is not what was"):
        Study(path, plan())


def test_a_study_that_was_begun_without_seals_goes_on(plan, tmp_path):
    path = tmp_path / "study.log"
    Study(path, plan()).ask(2, 0)
    path.write_bytes(without_seals(path.read_bytes()))
    Study(path, plan()).tell(0, [1.0], 140.25, {})
    assert Study(path, plan()).best().value == 140.25


def test_on_a_full_disk_the_study_has_whole_lines_and_goes_on_later(plan, tmp_path, monkeypatch):
    path = tmp_path / "study.log"
    study = Study(path, plan())
    study.ask(2, 0)
    whole = path.read_bytes()

    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(
            RunDirError, match=r"cannot write .*study\.log: No space left on device"
        ):
            study.tell(0, [1.0], 1.0, {})
    assert path.read_bytes() == whole
    again = Study(path, plan())
    again.tell(0, [1.0], 1.0, {})
    assert again.best().number == 0


def test_a_study_that_cannot_be_opened_any_more_keeps_what_it_has(plan, tmp_path, monkeypatch):
    path = tmp_path / "study.log"
    study = Study(path, plan())
    study.ask(2, 0)
    whole = path.read_bytes()

    def too_many(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as system:
        system.setattr("pathlib.Path.open", too_many)
        with pytest.raises(RunDirError, match="Too many open files"):
            study.tell(0, [1.0], 1.0, {})
    assert path.read_bytes() == whole


def test_a_study_of_other_keys_is_refused(plan, tmp_path):
    path = tmp_path / "study.log"
    Study(path, plan()).ask(1, 0)
    with pytest.raises(RunDirError, match="is damaged: it is not the study of"):
        Study(path, plan("sync_period=10..999:log", "batch_size=32,64,128"))


@pytest.mark.parametrize("kind", ["pipe", "link", "directory"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(plan, tmp_path, kind):
    path = tmp_path / "study.log"
    {
        "pipe": lambda: os.mkfifo(path),
        "link": lambda: path.symlink_to(tmp_path / "elsewhere"),
        "directory": path.mkdir,
    }[kind]()
    with pytest.raises(RunDirError, match=r"cannot use .*study\.log"):
        Study(path, plan())
    assert not (tmp_path / "elsewhere").exists()


def test_a_plan_is_read_back_and_its_damage_noticed(plan, tmp_path):
    path, made = tmp_path / "sweep.toml", plan()
    path.write_text(made.text())
    assert read_plan(path) == made
    path.write_text(made.text().replace("ahead = 2", "ahead = 3"))
    with pytest.raises(RunDirError, match="damaged"):
        read_plan(path)


def test_seeds_of_trials_are_below_those_that_tell_what_to_expect(plan):
    made = plan(seeds=3)
    assert [made.seeds_of(number) for number in (0, 1)] == [[0, 1, 2], [3, 4, 5]]
    assert made.seeds_of(333) == [999, 0, 1]


def test_the_journal_is_one_of_optuna(plan, tmp_path):
    """Each line is JSON: nothing is pickled."""
    path = tmp_path / "study.log"
    study = Study(path, plan("hidden=[64],[64, 64]"))
    study.ask(1, 0)
    assert all(isinstance(json.loads(line), dict) for line in path.read_text().splitlines())
    assert study.trials[0].params["hidden"] in ("[64]", "[64, 64]")


def test_a_plan_of_rollouts_is_read_whatever_the_defaults_were():
    def plan(**then):
        return SweepPlan(
            config=DqnConfig(rollout=32, num_envs=4).model_dump(mode="json", exclude_none=True)
            | then,
            over=["q_lambda=0.1,0.2"], sampler="grid", seed=0, seeds=1, score="final",
            prune=False, together=1, ahead=1,
        )  # fmt: skip

    now, older = plan(), plan(sync_period=500, tau=1.0, updates_per_learn=1)
    assert older.base == now.base and list(older.differences(now)) == []
