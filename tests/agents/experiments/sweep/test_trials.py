"""Trials: in which order they begin, when they are stopped, what is told of them."""

import json
import random
from pathlib import Path

import pytest

from targetnet.agents.config.files import load_config
from targetnet.agents.config.members import load_members
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.sweep.study import Study
from targetnet.agents.experiments.sweep.trial import TrialGroup
from targetnet.agents.experiments.sweep.trials import Trials
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.control.files import RunLock
from targetnet.rl_core.errors import RlCoreError
from tests.agents.experiments.sweep.conftest import add_evaluations, train_group

pytest.importorskip("optuna")


class Sweep:
    """A sweep without processes: jobs end when they are told to, in any order."""

    def __init__(self, plan, directory, wanted):
        self.plan, self.directory, self.wanted = plan, directory, wanted
        self.begin()

    def begin(self):
        """As the same command does: all that was in memory is lost."""
        self.study = Study(self.directory / "study.log", self.plan)
        self.trials = Trials(self.plan, self.study, self.wanted, self.directory / "trials",
                             self.directory / "logs")  # fmt: skip
        self.jobs, self.running, self.is_over = self.trials.jobs(), [], False

    def fill(self):
        """Begins what may begin."""
        while len(self.running) < self.plan.ahead and not self.is_over:
            job = next(self.jobs, "over")
            self.is_over = job == "over"
            if job is None or self.is_over:
                return
            self.running.append(job)

    def end(self, job, **how):
        self.running.remove(job)
        train_group(job, **how)
        return job.finish()

    def all(self, order=None):
        """Trains everything; returns what each trial came to."""
        order = order or random.Random(0)
        self.fill()
        while self.running:
            self.end(order.choice(self.running))
            self.fill()
        return self.came_to()

    def came_to(self):
        return [
            (t.params, t.state.name, t.value, t.intermediate_values, t.user_attrs)
            for t in self.study.trials
        ]


@pytest.fixture
def sweep(plan, tmp_path):
    def sweep(*over, wanted=9, name="sweep", **more):
        directory = tmp_path / name
        directory.mkdir()
        return Sweep(plan(*over, **more), directory, wanted)

    return sweep


LIVE = "sync_period=10..1000:log", "learning_rate=1e-4..1e-2:log"


@pytest.mark.cases(0)
@pytest.mark.parametrize(
    ("over", "more"),
    [((), {"ahead": 3}), (LIVE, {"ahead": 2, "together": 3, "seeds": 2}), ((), {"ahead": 1})],
)
def test_the_order_in_which_processes_end_changes_nothing(sweep, over, more):
    """Nor when the whole sweep is killed and begun again, wherever that is."""
    wanted = 12
    first = sweep(*over, wanted=wanted, prune=True, **more).all()
    assert len(first) == wanted
    assert {"COMPLETE", "PRUNED"} == {state for _, state, *_ in first}
    for seed in range(4):
        other = sweep(*over, wanted=wanted, prune=True, name=f"order {seed}", **more)
        order = random.Random(seed)
        other.fill()
        while other.running:
            job = order.choice(other.running)
            match order.randrange(4):
                case 0:  # killed before it made anything
                    other.begin()
                case 1:  # killed in the middle of its training
                    train_group(job, evaluations=4, whole=False)
                    other.begin()
                case 2:  # killed after it ended, before that was told
                    train_group(job)
                    other.begin()
                case 3:
                    other.end(job)
            other.fill()
        assert other.came_to() == first


def test_a_result_counts_as_soon_as_it_is_there_even_if_its_process_is_still_closing(sweep):
    first = sweep(wanted=16, ahead=2).all()  # the first ten are drawn at random
    other = sweep(wanted=16, ahead=2, name="late")
    other.fill()
    while other.running:
        older, *younger = other.running
        train_group(older)
        for job in younger:
            other.end(job)
            other.fill()  # what is proposed here follows the older one
        other.running.remove(older)
        older.finish()
        other.fill()
    assert other.came_to() == first


def test_more_trials_are_those_of_a_longer_sweep(sweep):
    long = sweep(wanted=9, ahead=3).all()
    short = sweep(wanted=4, ahead=3, name="short")
    assert short.all() == long[:4]
    short.wanted = 9
    short.begin()
    assert short.all() == long


def test_a_trial_begins_once_those_it_is_proposed_from_are_over(sweep):
    made = sweep(ahead=3)
    made.fill()
    assert [job.name for job in made.running] == ["trial 0", "trial 1", "trial 2"]
    made.end(made.running[1])
    assert next(made.jobs) is None  # trial 3 is proposed from trial 0
    made.end(made.running[0])
    assert next(made.jobs).name == "trial 3"


def test_score_and_digest_and_seed_are_told(sweep):
    made = sweep("sync_period=100,1000", wanted=2, sampler="grid", ahead=1)
    made.fill()
    # Evaluations of 1/5 ... 4/5 of 500, and 500 at the end.
    assert made.end(made.running[0]) in ("trial 0: 300.0", "trial 0: 240.0")
    made.all()
    by_period = {params["sync_period"]: (value, points, about) for params, _, value, points, about
                 in made.came_to()}  # fmt: skip
    value, points, about = by_period[100]
    assert value == pytest.approx(300 + about["seeds"][0] * 0.6)
    assert len(points) == 5 and list(points.values())[-1] == 500 + about["seeds"][0]
    assert about["digests"] == [f"{about['seeds'][0]}-100"] and about["seconds"] == 2.0
    assert made.study.best().params == {"sync_period": 100}


def test_the_final_score_is_the_last_evaluation(sweep):
    made = sweep("sync_period=100,1000", wanted=1, sampler="grid", score="final")
    ((params, _, value, *_),) = made.all()
    assert value == {100: 500.0, 1000: 400.0}[params["sync_period"]]


def test_a_trial_that_stays_below_the_median_is_stopped(sweep):
    made = sweep("sync_period=10..1000:log", wanted=30, sampler="random", prune=True, ahead=1)
    came_to = made.all()
    stopped = [points for _, state, _, points, _ in came_to if state == "PRUNED"]
    # All evaluations were there when it was looked at: those after the stop are left out.
    assert {len(points) for points in stopped} == {1}
    whole = [value for _, state, value, *_ in came_to if state == "COMPLETE"]
    assert len(stopped) > 5 and [state for _, state, *_ in came_to[:5]] == ["COMPLETE"] * 5
    assert min(whole[5:]) > min(whole[:5])
    unpruned = sweep("sync_period=10..1000:log", wanted=30, sampler="random", name="all", ahead=1)
    assert {state for _, state, *_ in unpruned.all()} == {"COMPLETE"}


def test_a_process_is_ended_once_its_trial_is_stopped(sweep):
    made = sweep("sync_period=10..1000:log", wanted=30, sampler="random", prune=True, ahead=1)
    enough = set()
    made.fill()
    while made.running:
        (job,) = made.running
        assert not job.enough()  # nothing is there yet
        train_group(job, evaluations=1, whole=False)
        enough.add(job.enough())
        # It went on meanwhile: what came after the stop is not looked at.
        add_evaluations(Path(job.command[-2]), load_config(job.command[-4]), [2, 3, 4])
        made.end(job)
        made.fill()
    assert enough == {False, True}
    assert {len(points) for _, state, _, points, _ in made.came_to() if state == "PRUNED"} == {1}


def test_trials_of_one_process_are_stopped_one_by_one(sweep, monkeypatch):
    asked = []
    monkeypatch.setattr(TrialGroup, "stop", lambda self, trial: asked.append(trial.number))
    made = sweep(*LIVE, wanted=20, prune=True, together=4, ahead=1)
    came_to = made.all()
    stopped = [n for n, (_, state, *_) in enumerate(came_to) if state == "PRUNED"]
    assert asked == stopped != []


def test_a_stopped_trial_that_a_resumed_sweep_began_again_is_stopped_again(sweep, monkeypatch):
    made = sweep(*LIVE, wanted=3, together=3, ahead=1, prune=True)
    made.fill()
    made.study.tell(2, [1.0], None, {})
    made.begin()
    stopped = []
    monkeypatch.setattr(TrialGroup, "stop", lambda group, trial: stopped.append(trial.number))
    made.fill()
    (job,) = made.running
    assert not job.enough() and not stopped  # nothing runs
    control = RunDir.create(made.directory / "trials/000/m02", "x", DqnConfig()).control
    control.directory.mkdir()
    held = RunLock(control)
    assert not job.enough() and stopped == [2]
    held.release()
    assert not job.enough() and stopped == [2]


def test_a_population_has_the_trials_live_values_and_seeds(sweep):
    made = sweep(*LIVE, wanted=6, together=3, seeds=2)
    made.fill()
    members = load_members(Path(made.running[1].command[-4]))
    assert made.running[1].name == "trials 3 to 5"
    for number, config in enumerate(members.configs.values()):
        params = made.study.trials[3 + number // 2].params
        assert (config.sync_period, config.seed) == (params["sync_period"], 6 + number)
        assert config.learning_rate == params["learning_rate"]


def test_seeds_of_a_static_value_share_a_process(sweep):
    made = sweep("batch_size=32,64", wanted=2, seeds=3)
    made.fill()
    members = load_members(Path(made.running[0].command[-4]))
    assert [config.seed for config in members.configs.values()] == [0, 1, 2]
    assert members.base.batch_size == made.study.trials[0].params["batch_size"]
    assert members.own == {"m00": {"seed": 0}, "m01": {"seed": 1}, "m02": {"seed": 2}}


def test_a_trial_of_several_seeds_has_the_mean_of_their_curves(sweep):
    made = sweep("sync_period=100,1000", wanted=1, sampler="grid", seeds=3)
    ((params, _, value, points, _),) = made.all()
    end = {100: 501.0, 1000: 401.0}[params["sync_period"]]  # seeds 0, 1, 2
    assert points[4] == end and value == pytest.approx(0.6 * end)


def test_a_failed_trial_is_told_and_the_sweep_goes_on(sweep):
    made = sweep(wanted=4, ahead=1)
    made.fill()
    made.end(made.running[0])
    made.fill()
    (job,) = made.running
    made.running.clear()
    assert job.fail("trial 1 failed (exit code 1): it diverged") is False
    came_to = made.all()
    assert [state for _, state, *_ in came_to] == ["COMPLETE", "FAIL", "COMPLETE", "COMPLETE"]
    assert came_to[1][-1] == {"error": "trial 1 failed (exit code 1): it diverged"}


def test_a_killed_sweep_waits_until_its_processes_have_saved(sweep, monkeypatch):
    """They hold their runs for a while, and a run that is held cannot be gone on with."""
    made = sweep()
    made.fill()
    path = made.directory / "trials/000"
    control = RunDir.create(path, "000", DqnConfig()).control
    control.directory.mkdir()
    held = RunLock(control)
    made.begin()
    looks = []

    def look(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            held.release()

    monkeypatch.setattr("targetnet.agents.experiments.sweep.trial.time.sleep", look)
    made.fill()
    assert len(looks) == 3


def test_a_sweep_ends_if_its_first_trials_all_fail(sweep):
    made = sweep(wanted=9, ahead=1)
    for _ in range(2):
        made.fill()
        made.running.pop().fail("no box2d")
    made.fill()
    with pytest.raises(RlCoreError, match="the first 3 trials failed; the last one: no box2d"):
        made.running.pop().fail("no box2d")


def test_a_trial_of_values_that_no_config_has_is_told_and_trains_nothing(sweep):
    made = sweep("v_min=0.0,50.0", "v_max=40.0,100.0", wanted=4, sampler="grid", ahead=1)
    bad = [(params, about["error"]) for params, state, _, _, about in made.all() if state == "FAIL"]
    ((params, error),) = bad
    assert params == {"v_min": 50.0, "v_max": 40.0} and "v_min" in error
    assert sum(state == "COMPLETE" for _, state, *_ in made.came_to()) == 3


def test_what_was_told_needs_no_files(sweep):
    import shutil

    made = sweep(wanted=4)
    first = made.all()
    shutil.rmtree(made.directory / "trials")
    made.wanted = 6
    made.begin()
    assert made.all()[:4] == first


def test_the_bar_tells_the_best_score(sweep):
    made = sweep("sync_period=100,1000", wanted=2, sampler="grid", score="final", ahead=1)
    assert made.trials.title() == "trials"
    made.all()
    assert made.trials.title().startswith("best 500.0 (trial ") or made.trials.title().startswith(
        "best 501.0 (trial "
    )


def test_progress_is_that_of_all_runs(sweep):
    made = sweep(*LIVE, wanted=2, together=2, seeds=1)
    made.fill()
    (job,) = made.running
    assert job.progress() is None
    for name, done in (("m00", 100), ("m01", 300)):
        control = made.directory / "trials" / "000" / name / "control"
        control.mkdir(parents=True)
        state = {"status": "running", "pid": 1, "host": "a", "started": 1, "time": 1,
                 "env_id": "a", "tick": 1, "env_step": done, "env_steps": 1_000, "update": 1,
                 "env_steps_per_second": 1.0, "eta_seconds": None, "episodes": 1,
                 "mean_return": None, "target_age": None, "recent": {}, "values": [],
                 "actions": []}  # fmt: skip
        (control / "state.json").write_text(json.dumps(state))
    assert job.progress() == (400, 2_000)
