"""What is read from a finished run and from its event files."""

import json

import pytest

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.experiments.results.table import Row
from targetnet.agents.experiments.store import read_run
from targetnet.rl_core.board.events import EventWriter
from targetnet.rl_core.board.read_events import read_curves
from targetnet.rl_core.errors import RunDirError

RESULT = {
    "env_steps": 300,
    "updates": 70,
    "episodes": 2,
    "mean": 5.0,
    "std": 1.0,
    "min": 4.0,
    "max": 6.0,
}


@pytest.fixture
def run(tmp_path):
    """Evaluated at env steps 100 and 200 by two processes; 150 training episodes: 0, 1, 2 ..."""
    with EventWriter(tmp_path / "0") as events:
        events.scalar("evaluation/return", 1.5, 100)
        for number in range(75):
            events.scalars({"episode/return": number, "episode/length": 9}, number)
    with EventWriter(tmp_path / "0", after=100) as events:
        events.scalar("evaluation/return", 2.5, 200)
        for number in range(75, 150):
            events.scalar("episode/return", number, number)
    (tmp_path / "0" / "result.json").write_text(json.dumps(RESULT))
    return tmp_path / "0"


def test_curves_go_on_from_file_to_file(run):
    curves = read_curves(run, ["evaluation/return", "episode/length", "learn/loss"])
    assert curves["evaluation/return"] == [(100, 1.5), (200, 2.5)]
    assert curves["episode/length"] == [(number, 9.0) for number in range(75)]
    assert curves["learn/loss"] == []


def test_a_file_is_read_up_to_an_event_that_was_cut_off(run):
    last = max(run.glob("events.*"))
    last.write_bytes(last.read_bytes()[:-3])
    assert read_curves(run, ["episode/return"])["episode/return"][-1] == (148, 148.0)


def test_a_damaged_event_is_said_so(run):
    path = min(run.glob("events.*"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(RunDirError, match=f"{path.name} is damaged"):
        read_curves(run, ["episode/return"])


def test_the_final_evaluation_is_the_curves_last_point(run):
    seed = read_run(run, "cartpole", DqnConfig())
    assert seed.curve == [(100, 1.5), (200, 2.5), (300, 5.0)]
    assert (seed.mean, seed.std, seed.low, seed.high, seed.updates) == (5.0, 1.0, 4.0, 6.0, 70)
    assert seed.seconds is None and seed.returns is None


def test_the_training_return_is_the_mean_of_the_last_hundred_episodes(run):
    assert read_run(run, "cartpole", DqnConfig()).training == 99.5  # of 50 .. 149


def test_the_training_curve_has_the_episodes_between_two_evaluations(run):
    # Episodes 0 to 100 ended up to env step 100, those up to 149 by the next evaluation.
    assert read_run(run, "cartpole", DqnConfig()).training_curve == [(100, 50.0), (200, 125.0)]


def test_training_curves_of_seeds_are_put_together_if_all_have_one(row):
    seeds = row(means=(100.0, 200.0)).seeds
    curves = {500: 1.0, 1_000: 2.0}, {505: 3.0, 700: 9.0, 1_000: 4.0}
    both = [
        of.model_copy(update={"training_curve": [*c.items()]})
        for of, c in zip(seeds, curves, strict=True)
    ]
    assert Row("CartPole-v1", "x", both).training_curves == {500: [1.0, 3.0], 1_000: [2.0, 4.0]}
    assert Row("CartPole-v1", "x", [both[0], seeds[1]]).training_curves == {}


def test_returns_and_seconds_are_taken_where_they_are_written_down(run):
    more = {"returns": [4.0, 6.0], "seconds": 12.5, "something": "else"}
    (run / "result.json").write_text(json.dumps(RESULT | more))
    seed = read_run(run, "cartpole", DqnConfig())
    assert (seed.returns, seed.seconds) == ([4.0, 6.0], 12.5)


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '{"env_steps": "many"}'])
def test_a_damaged_result_is_said_so(run, text):
    (run / "result.json").write_text(text)
    with pytest.raises(RunDirError, match=r"result\.json is damaged"):
        read_run(run, "cartpole", DqnConfig())


def test_curves_are_compared_at_the_env_steps_that_all_seeds_have(row):
    made = row(means=[2.0, 4.0])
    del made.seeds[1].curve[0]
    assert made.curves == {1_000: [2.0, 4.0]}


def test_evaluations_a_little_apart_are_one_point(row):
    """A chunk or a phase ends where it ends; an evaluation somebody asked for is no seed's twin."""
    made = row(means=[2.0, 4.0])
    for seed, curve in zip(
        made.seeds,
        ({503: 1.0, 1_012: 2.0, 10_000: 3.0}, {510: 5.0, 600: 9.0, 1_300: 8.0, 10_000: 7.0}),
        strict=True,
    ):
        seed.curve = [*curve.items()]
    # 2 % of the run is 200 env steps: 1,012 has no twin.
    assert made.curves == {503: [1.0, 5.0], 10_000: [3.0, 7.0]}
