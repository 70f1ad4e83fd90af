"""Whole runs: what they leave, the same seed twice, and their curves."""

import json
import os
import signal
import sys
import types

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata as hparams_plugin
from tensorboard.util.tensor_util import make_ndarray

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.evaluation import evaluate
from targetnet.agents.policy.load import LoadedPolicy
from targetnet.agents.policy.trained_policy import trained
from targetnet.agents.run.outcome import summary
from targetnet.agents.run.process import stop_on_interrupt
from targetnet.agents.run.train import train
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.board.tags import TAGS
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.errors import (
    EnvError,
    MemoryLimitError,
    RlCoreError,
    RunDirError,
    ScopeMismatch,
)
from tests.agents.steady import STEADY

SHORT = DqnConfig(
    **STEADY | {"updates_per_learn": 2, "sync_period": 7},
    env_steps=300,
    hidden=(8,),
    batch_size=8,
    replay_capacity=500,
    learn_start=50,
    learn_period=10,
    log_period=50,
    eval_period=100,
    eval_episodes=2,
    final_eval_episodes=3,
    ema_decay=0.9,
    xla=False,
    seed=3,
)


def changed(**settings):
    return DqnConfig.model_validate(SHORT.model_dump() | settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def outcome(folder, pool):
    """One short run that every test here may look at."""
    with pool.open():
        return train(SHORT, folder / "first")


@pytest.fixture(scope="module")
def curves(outcome):
    """Its events."""
    return events(outcome.run)


def events(run):
    """Reads them as TensorBoard does without TensorFlow."""
    notf = "tensorboard.compat.notf"
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, notf, types.ModuleType(notf))
        guidance = {"scalars": 0, "tensors": 0}
        return EventAccumulator(str(run), size_guidance=guidance).Reload()


# What a run leaves.


@pytest.mark.thorough
def test_a_run_leaves_config_events_weights_and_result(outcome):
    names = sorted(path.name for path in outcome.run.iterdir())
    assert [name.split(".")[0] for name in names] == [
        "checkpoints", "config", "control", "digest", "events", "result", "spaces",
        "weights", "weights_ema",
    ]  # fmt: skip


def test_a_run_goes_exactly_as_far_as_it_was_told(outcome):
    assert outcome.env_steps == 300
    assert outcome.updates == 2 * 25  # at 50, 60, ... 290: the phases with rows to learn from
    assert not outcome.interrupted


def test_the_config_in_the_run_is_the_one_it_was_started_with(outcome):
    assert RunDir.open(outcome.run).config() == SHORT


def test_the_result_sums_up_the_final_evaluation(outcome):
    result = json.loads((outcome.run / "result.json").read_text())
    assert len(outcome.returns) == result["episodes"] == 3
    assert result["mean"] == pytest.approx(np.mean(outcome.returns))
    assert (result["env_steps"], result["updates"]) == (300, outcome.updates)


def test_the_summary_of_returns_by_hand():
    assert summary([1.0, 2.0, 6.0]) == {
        "episodes": 3,
        "mean": 3.0,
        "std": pytest.approx(np.sqrt(14 / 3)),  # (4 + 1 + 9) / 3
        "min": 1.0,
        "max": 6.0,
        "cut": 0,
    }


def test_the_saved_weights_play_as_the_trained_agent_did(outcome):
    assert evaluate(outcome.policy, SHORT, 3) == outcome.returns
    assert evaluate(outcome.policy, SHORT, 3, seed=77) != outcome.returns


def test_weights_do_not_fit_the_config_of_another_network(outcome):
    learned = trained(RunDir.open(outcome.run))
    with pytest.raises(ScopeMismatch, match="torso"):
        LoadedPolicy(changed(hidden=(9,)), learned)


def test_the_same_seed_twice_gives_the_same_weights_byte_for_byte(outcome, folder):
    again = train(SHORT, folder / "second")
    files = [run / "weights.safetensors" for run in (outcome.run, again.run)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert again.returns == outcome.returns


@pytest.mark.slow
def test_another_seed_gives_other_weights(outcome, folder):
    other = train(changed(seed=4), folder / "other seed")
    first, second = (RunDir.open(run).load_weights() for run in (outcome.run, other.run))
    assert first.keys() == second.keys()
    assert not any(np.array_equal(first[name], second[name]) for name in first)


def test_evaluating_and_logging_more_often_does_not_change_the_weights(outcome, folder):
    often = train(changed(eval_period=30, log_period=10), folder / "often")
    files = [run / "weights.safetensors" for run in (outcome.run, often.run)]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.thorough
def test_a_run_of_many_envs_counts_the_env_steps_of_all(folder):
    outcome = train(changed(num_envs=8, learn_period=4, env_steps=400), folder / "many envs")
    assert 400 <= outcome.env_steps < 408
    # Once 50 steps are there, two phases of two updates per time step of eight steps, or a
    # little less: at the end of an episode an env has a time step without an env step.
    phases = (outcome.env_steps - 50) // 4
    assert phases - 4 <= outcome.updates / 2 <= phases


# Curves.


OF_OTHER_RUNS = "control/changes", "play/episode", "population/copied"
OF_RULES = "target/period", "target/fit"


def test_every_tag_of_the_table_is_written(curves):
    tags = curves.Tags()
    written = {"scalar": set(tags["scalars"]), "histogram": set(), "text": set()}
    for tag in TAGS:
        # Nobody changed, played or copied anything.
        if tag.name in (*OF_OTHER_RUNS, *OF_RULES):
            assert tag.name not in tags["tensors"]
        elif tag.kind == "scalar":
            assert tag.name in written["scalar"] | set(tags["tensors"]), tag.name
        else:
            assert tag.name in tags["tensors"], tag.name


def points(curves, tag):
    return {point.step: point.value for point in curves.Scalars(tag)}


@pytest.mark.slow
def test_a_rule_for_copies_has_curves_of_its_own(folder):
    def fits_later(agent, tick):
        if tick.env_step == 265:
            agent.hyperparameters["sync_fit"] = 1.0

    ruled = changed(sync_period=5, sync_growth=0.5, sync_fit=0.01, sync_fit_updates=2)
    curves = events(train(ruled, folder / "ruled", on_tick=fits_later).run)
    ages = [point.value for point in curves.Scalars("target/age")]
    # Updates 41 and 42 are made at env step 260. Periods of 5, 7.5, 11.25 and 16.875 updates:
    assert ages[:4] == [5, 8, 11, 17]
    # Then 25.3125, but for the fit.
    assert len(ages) > 4 and all(age < 25 for age in ages[4:])
    periods = points(curves, "target/period")
    assert list(periods) == [50, 100, 150, 200, 250, 300]
    assert periods[250] == 5 * 1.5**3 and periods[300] == 5 * 1.5 ** len(ages)
    fits = points(curves, "target/fit")
    assert fits and all(fit > 0 for fit in fits.values())


def test_state_is_written_once_every_log_period(curves):
    for tag in ("live/epsilon", "learn/updates", "target/distance", "speed/env_steps_per_second"):
        assert list(points(curves, tag)) == [50, 100, 150, 200, 250, 300]


def test_evaluations_are_written_at_their_env_steps_and_at_the_end(curves, outcome):
    got = points(curves, "evaluation/return")
    assert list(got) == [100, 200, 300]
    assert got[300] == pytest.approx(np.mean(outcome.returns))
    # CartPole pays 1 per env step, so the mean length of these episodes is their mean return.
    assert points(curves, "evaluation/length") == got


def test_episodes_are_written_at_the_env_step_on_which_they_end(curves):
    lengths = points(curves, "episode/length")
    ends = np.cumsum(list(lengths.values()))
    assert list(lengths) == ends.tolist()  # resets are no env steps
    assert points(curves, "episode/return") == lengths  # CartPole pays 1 per step


def test_live_values_are_written_as_they_are_in_force(curves):
    assert set(points(curves, "live/sync_period").values()) == {7}
    # 1 - 0.95 * step / 10_000
    epsilon = {step: 1 - 0.95 * step / 10_000 for step in range(50, 301, 50)}
    assert points(curves, "live/epsilon") == pytest.approx(epsilon)


def test_the_ages_at_which_the_target_was_copied_are_those_of_the_period(curves):
    ages, updates = points(curves, "target/age"), points(curves, "learn/updates")
    assert set(ages.values()) == {7} and len(ages) == updates[300] // 7


def test_updates_per_second_and_env_steps_per_second_are_of_the_same_time(curves):
    per_env_step = {50: 0.0} | dict.fromkeys(range(100, 301, 50), 2 / 10)  # two every ten env steps
    steps, updates = (points(curves, f"speed/{of}_per_second") for of in ("env_steps", "updates"))
    assert {at: updates[at] / steps[at] for at in steps} == pytest.approx(per_env_step)


def test_the_config_is_written_as_text_and_as_hyperparameters(curves):
    (event,) = curves.Tensors("run/config")
    assert b"sync_period = 7" in make_ndarray(event.tensor_proto).item()
    content = b"".join(curves.PluginTagToContent("hparams").values())
    session = hparams_plugin.parse_session_start_info_plugin_data(content)
    empty = {name for name, value in SHORT if value in ((), {}, "", None)}
    assert "actions" in empty
    assert session.hparams.keys() == DqnConfig.model_fields.keys() - empty
    assert session.hparams["sync_period"].number_value == 7
    assert session.hparams["epsilon"].string_value == str(SHORT.epsilon)
    assert "1 to 0.05" in str(SHORT.epsilon)  # a schedule is a text that fits a column


# What stops a run before it leaves anything.


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"env_id": "CartPol-v1"}, EnvError),
        ({"env_id": "Pendulum-v1"}, EnvError),
        ({"env_kwargs": {"gravity": 3}}, EnvError),
        ({"replay_capacity": 10**13}, MemoryLimitError),
        ({"num_envs": 200}, RlCoreError),  # 500 rows are 2 time steps of 200 envs
        ({"freeze": [{"exempt": ["tors"], "updates": 3}]}, RlCoreError),
    ],
    ids=lambda case: str(case) if isinstance(case, dict) else "",
)
def test_what_cannot_be_trained_leaves_nothing(tmp_path, settings, error):
    with pytest.raises(error):
        train(changed(**settings), tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_directory_that_holds_a_run_is_refused_before_anything_is_made(outcome):
    before = {path: path.stat().st_mtime_ns for path in outcome.run.iterdir()}
    with pytest.raises(RunDirError, match="already holds a run"):
        train(changed(env_id="nothing like an env"), outcome.run)
    assert {path: path.stat().st_mtime_ns for path in outcome.run.iterdir()} == before


@pytest.mark.thorough
def test_an_env_that_fails_during_the_run_does_not_lose_what_was_learned(tmp_path):
    import gymnasium as gym

    class Fails(gym.Env):
        observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)
        steps = 0

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.steps += 1
            if self.steps == 120:
                raise RuntimeError("the simulator is gone")
            return np.zeros(1, np.float32), 1.0, False, False, {}

    gym.register("test/Fails-v0", Fails)
    try:
        with pytest.raises(RuntimeError, match="the simulator is gone"):
            train(changed(env_id="test/Fails-v0", eval_period=1000), tmp_path / "run")
    finally:
        del gym.registry["test/Fails-v0"]
    assert RunDir.open(tmp_path / "run").load_weights()


def test_what_is_set_between_two_looks_at_the_inbox_is_logged_where_it_was_set(tmp_path):
    """Also where the run itself has nothing to do: without an episode's end, a curve's point."""
    set_at = []

    def on_tick(agent, tick):
        if not tick.episodes and 60 <= tick.env_step < 70:
            agent.hyperparameters["sync_period"] = 100 + tick.env_step
            set_at.append((tick.env_step, agent.updates))

    outcome = train(changed(env_steps=80), tmp_path / "run", on_tick=on_tick)
    entries = [e for e in read_log(outcome.run / "control/log.jsonl") if e.kind == "set"]
    assert len(set_at) > 5 and [(e.env_step, e.update) for e in entries if e.who == "api"] == set_at


# Ctrl-C.


def test_the_first_interrupt_is_a_request_and_the_second_an_exception():
    handler = signal.getsignal(signal.SIGINT)
    with stop_on_interrupt() as stop:
        assert not stop
        os.kill(os.getpid(), signal.SIGINT)
        assert stop
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.thorough
def test_a_request_stops_the_run_at_its_next_safe_point_and_keeps_the_weights(tmp_path):
    import gymnasium as gym

    class Presses(gym.Env):
        """Ctrl-C during step 100."""

        observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)
        steps = 0

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.steps += 1
            if self.steps == 100:
                os.kill(os.getpid(), signal.SIGINT)
            return np.zeros(1, np.float32), 1.0, False, False, {}

    gym.register("test/Presses-v0", Presses)
    try:
        config = changed(env_id="test/Presses-v0", eval_period=1000, check_env=False)
        outcome = train(config, tmp_path / "run")
    finally:
        del gym.registry["test/Presses-v0"]
    assert outcome.interrupted and outcome.returns == []
    assert outcome.env_steps == 100
    assert RunDir.open(outcome.run).load_weights()
    assert not (outcome.run / "result.json").exists()
