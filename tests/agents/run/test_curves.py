"""Curves of a run: what each shows, and that each is a line."""

import time
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.compat.proto import graph_pb2
from tensorboard.util.tensor_util import make_ndarray

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.loops.plain import Tick
from targetnet.agents.run.curves import Reporter
from targetnet.agents.run.train import resume, train
from targetnet.agents.saved.directory import RunDir
from targetnet.agents.sinks.event_files import EventFiles
from targetnet.agents.sinks.interface import SinkStart
from targetnet.rl_core.control.commands import do_command
from targetnet.rl_core.control.files import ControlFiles, submit
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.steering import POLL_SECONDS
from tests.agents.steady import STEADY

TAU = {"schedule": "linear", "start": 1.0, "end": 0.5, "steps": 150}
CONFIG = DqnConfig(
    env_steps=300, hidden=(8,), batch_size=8, replay_capacity=500, learn_start=50, learn_period=10,
    updates_per_learn=2, sync_period=7, log_period=50, eval_period=100, eval_episodes=1,
    final_eval_episodes=1, checkpoint_seconds=0, xla=False, tau=TAU, epsilon=STEADY["epsilon"],
)  # fmt: skip


def changed(**settings):
    return DqnConfig.model_validate(CONFIG.model_dump() | settings)


def scalars(run):
    """Tag -> [(env step, value)] of every scalar, in the order of writing."""
    found = defaultdict(list)
    for file in sorted(run.glob("events.*")):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    found[value.tag]  # the first value alone has the metadata
                if value.tag in found:
                    point = event.step, make_ndarray(value.tensor).item()
                    found[value.tag].append(point)
    return found


def steer(agent, tick):
    if tick.env_step in (120, 170, 171) and not tick.episodes:
        agent.hyperparameters["sync_period"] = 1_000 - tick.env_step
    if tick.env_step == 130:
        agent.hyperparameters["epsilon"] = 0.5


@pytest.fixture(scope="module")
def curves(tmp_path_factory, pool):
    """Of one run with schedules, of which two values were set."""
    with pool.open():
        return scalars(train(CONFIG, tmp_path_factory.mktemp("runs") / "run", on_tick=steer).run)


# No lone dots.


@pytest.mark.thorough
def test_every_curve_is_a_line_that_goes_forward(curves):
    """TensorBoard's quick reader drops the points at and after the step of the next one."""
    assert len(curves) > 15
    for tag, points in curves.items():
        steps = [step for step, _ in points]
        assert len(steps) > 1, tag
        assert steps == sorted(set(steps)), tag


@pytest.mark.thorough
def test_a_value_that_is_set_keeps_the_old_one_to_the_step_before(curves):
    period = [(50, 7), (100, 7), (119, 7), (120, 880), (150, 880), (169, 880), (170, 830)]
    period += [(171, 829), (200, 829), (250, 829), (300, 829)]
    assert curves["live/sync_period"] == period
    _, _, *epsilon = curves["live/epsilon"]  # its schedule has moved it until then
    assert epsilon[0] == (129, pytest.approx(1 - 0.95 * 0.013))
    assert epsilon[1:] == [(step, 0.5) for step in (130, 150, 200, 250, 300)]


def test_a_schedule_is_a_curve_of_its_own_and_its_corners_are_no_steps(curves):
    tau = [1.0 - 0.5 * min(step, 150) / 150 for step in range(50, 301, 50)]
    assert [value for _, value in curves["live/tau"]] == pytest.approx(tau)
    assert "live/discount" not in curves


# The graph.


def graphs(run):
    files = sorted(run.glob("events.*"))
    return [e.graph_def for f in files for e in EventFileLoader(str(f)).Load() if e.graph_def]


def test_without_a_graph_none_is_written(tmp_path):
    EventFiles(SinkStart(tmp_path, CONFIG, (), -1, pytest.fail)).close()
    (file,) = tmp_path.iterdir()
    kinds = [event.WhichOneof("what") for event in EventFileLoader(str(file)).Load()]
    assert "graph_def" not in kinds and kinds.count("summary") == 2  # hyperparameters, charts


@pytest.mark.thorough
def test_the_graph_is_written_once_and_has_few_scopes(tmp_path):
    outcome = train(changed(double=True), tmp_path / "run")
    (first,) = graphs(outcome.run)
    graph = graph_pb2.GraphDef.FromString(first)
    names = [node.name for node in graph.node]
    assert len(set(names)) == len(names)
    assert {name.partition("/")[0] for name in names} == {
        "inputs", "replay", "sample", "online", "target", "double_q_learning", "gradients",
        "gradient_norm", "apply_torso", "apply_head", "copy_vars", "epsilon_greedy", "write",
        "counters", "other",
    }  # fmt: skip
    # Acts on one observation, learns from two.
    for call in ("online/torso/", "online/call_1/torso/", "online/call_2/torso/"):
        assert any(name.startswith(call) for name in names), call
    assert len(first) < 50_000 and not graph.library.function
    resume(outcome.run, changed(double=True, env_steps=350))
    assert graphs(outcome.run) == [first]


# Copies of the target.


def test_each_copy_of_the_target_is_a_point_at_its_age(tmp_path):
    # Two updates at env steps 50, 60, ... 290: the 7th and the 8th at 80, the 14th at 110.
    run = train(changed(env_steps=120), tmp_path / "run").run
    assert scalars(run)["target/age"] == [(80, 7), (110, 7)]


def test_a_copy_that_was_asked_for_is_a_point_also_if_a_checkpoint_follows_at_once(tmp_path):
    run = tmp_path / "run"

    def ask(agent, tick):
        if tick.env_step == 95:
            for action in ("sync", "checkpoint"):
                submit(ControlFiles(run), do_command(action, "cli"))
            time.sleep(POLL_SECONDS)  # they are taken at the next time step
        if tick.env_step == 98:
            raise RuntimeError("a crash")

    with pytest.raises(RuntimeError, match="a crash"):
        train(changed(env_steps=120), run, on_tick=ask)
    (asked,) = [e for e in read_log(run / "control/log.jsonl") if e.name == "sync"]
    resume(run)
    # Updates 9 and 10 at 90; the 14th update is the 4th after the command.
    assert scalars(run)["target/age"] == [(80, 7), (asked.env_step, 3)]
    assert asked.env_step in (96, 97)


@pytest.mark.thorough
def test_of_many_copies_ten_are_drawn_for_each_point_of_the_other_curves(tmp_path):
    often = changed(sync_period=1, learn_period=1, learn_start=10, log_period=100, env_steps=150)
    drawn = scalars(train(often, tmp_path / "run").run)["target/age"]
    first = drawn[0][0]
    assert drawn == [(step, 1) for step in range(first, 150, 10)] and first < 15


# Histograms of weights and gradients.


def histograms(run):
    """(tag, env step) -> buckets, of all but the TD errors; each is there once."""
    found = {}
    for file in sorted(run.glob("events.*")):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                if value.tag.startswith(("weights/", "gradients/")):
                    key = value.tag, event.step
                    assert key not in found
                    found[key] = make_ndarray(value.tensor).tolist()
    return found


OFTEN = {"histograms": 100, "checkpoint_steps": 120}


@pytest.fixture(scope="module")
def watched(tmp_path_factory, pool):
    """A run with histograms, in which rows wait to be stored."""
    with pool.open():
        return train(changed(**OFTEN), tmp_path_factory.mktemp("runs") / "run")


def test_there_are_no_histograms_until_somebody_asks_for_them(tmp_path):
    def ask(agent, tick):
        if tick.env_step == 120 and not tick.episodes:
            agent.hyperparameters["histograms"] = 1
        if tick.env_step == 220 and not tick.episodes:
            agent.hyperparameters["histograms"] = "auto"

    found = histograms(train(CONFIG, tmp_path / "run", on_tick=ask).run)
    # Asked for at each env step, they are made with each point of the curves.
    assert {step for _, step in found} == {150, 200}
    variables = ("torso/dense_0/w", "torso/dense_0/b", "head/q/w", "head/q/b")
    assert {tag for tag, _ in found} == {
        f"{of}/{name}" for of in ("weights", "gradients") for name in variables
    }
    assert sum(count for *_, count in found["weights/torso/dense_0/w", 150]) == 4 * 8


def test_histograms_stand_at_multiples_of_their_period_and_after_a_kill_each_is_there_once(
    watched, tmp_path
):
    found = histograms(watched.run)
    assert {step for _, step in found} == {100, 200, 300}

    def crash(agent, tick):
        if tick.env_step == 230:
            raise RuntimeError("a crash")

    with pytest.raises(RuntimeError, match="a crash"):
        train(changed(**OFTEN), tmp_path / "run", on_tick=crash)
    assert {step for _, step in histograms(tmp_path / "run")} == {100, 200}
    resume(tmp_path / "run")
    assert histograms(tmp_path / "run") == found


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"prioritized": True}], ids=["uniform", "prioritized"])
def test_a_run_with_histograms_has_the_bits_of_one_without(watched, tmp_path, more):
    with_them = train(changed(**OFTEN, **more), tmp_path / "with") if more else watched
    without = train(changed(**(OFTEN | {"histograms": 0} | more)), tmp_path / "run")
    assert without.digest == with_them.digest and not histograms(without.run)
    states = [RunDir.open(run.run).load_digest() for run in (with_them, without)]
    assert states[0] == states[1]


def test_before_the_first_update_there_are_weights_and_no_gradients(tmp_path):
    early = changed(histograms=50, env_steps=60, learn_start=55)
    found = histograms(train(early, tmp_path / "run").run)
    assert {tag.partition("/")[0] for tag, _ in found} == {"weights"}


def test_the_speed_is_that_of_now_and_not_of_the_point_before(lab, tmp_path):
    """As where learning began after the last point, and made everything slower."""
    clock = SimpleNamespace(seconds=0.0)
    reporter = Reporter(tmp_path / "run", lab.agent(log_period=100), pytest.fail, clock=clock)

    def until(env_step, seconds):
        clock.seconds = seconds
        reporter.tick(Tick(env_step, (), (), None, np.zeros(1), None))
        return reporter.speed(env_step)

    assert until(1, seconds=1.0) == 0.0  # nothing is known yet
    assert until(60, seconds=6.0) == 10.0
    assert until(100, seconds=10.0) == 10.0  # a point
    assert until(101, seconds=14.9) == 10.0  # too short a time since then
    assert until(103, seconds=16.0) == 0.5  # 3 env steps in 6 seconds
    assert reporter.recent["speed/env_steps_per_second"] == (100, 10.0)
    reporter.close()


def test_histograms_come_at_their_period_also_where_a_tick_is_longer_than_that_of_curves(
    lab, tmp_path
):
    agent = lab.agent(log_period=10)
    agent.hyperparameters["histograms"] = 100
    reporter, written = Reporter(tmp_path / "run", agent, pytest.fail), []
    reporter._histograms._write = written.append
    for env_step in range(80, 401, 80):  # as chunks have them
        reporter.tick(Tick(env_step, (), (), None, np.zeros(1), None))
    assert written == [160, 240, 320, 400]  # 100 lies before 160, 200 before 240, ...
    reporter.close()


@pytest.mark.slow
def test_a_live_value_of_ones_own_may_be_called_copy(tmp_path):
    """As the action of population-based training, whose value names a member."""

    def on_tick(agent, tick):
        if tick.env_step == 60:
            agent.hyperparameters["copy"] = 0.5

    own = {"network": f"{__name__}:scaled", "live": {"copy": {"default": 1.0}}}
    outcome = train(changed(env_steps=100, **own), tmp_path / "run", on_tick=on_tick)
    found = scalars(outcome.run)
    assert (60, 0.5) in found["live/copy"] and "population/copied" not in found


def scaled(observation, live):
    import tensorflow.compat.v1 as tf

    from targetnet.rl_core.graph.layers import dense

    return tf.nn.relu(dense(observation * live["copy"], 8, "layer"))
