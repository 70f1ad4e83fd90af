"""Metric sinks: each gets everything, and one that fails costs neither the others nor the run."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util.tensor_util import make_ndarray

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.run.curves import Reporter
from targetnet.agents.run.train import resume, train
from targetnet.agents.sinks.interface import as_params
from targetnet.rl_core.board.events import EventWriter
from targetnet.rl_core.errors import ConfigError, RunDirError
from tests.agents.steady import STEADY

CONFIG = DqnConfig(
    **STEADY,
    env_steps=300, hidden=(8,), batch_size=8, replay_capacity=200, learn_start=50, xla=False,
    eval_period=150, eval_episodes=1, final_eval_episodes=1, log_period=50, checkpoint_seconds=0,
    checkpoint_steps=130,
)  # fmt: skip


class Recording:
    """A sink with every method: it keeps what it is given."""

    def __init__(self):
        self.start, self.points, self.histograms, self.texts, self.calls = None, [], [], [], []

    def begin(self, start):
        self.start = start

    def scalars(self, values, env_step):
        self.points += [(tag, env_step, np.float32(value)) for tag, value in values.items()]

    def histogram(self, tag, values, env_step):
        self.histograms.append((tag, env_step, np.size(values)))

    def text(self, tag, markdown, env_step):
        self.texts.append((tag, env_step, markdown))

    def result(self, values, env_step):
        self.calls.append("result")
        self.kept = values, env_step

    def flush(self):
        self.calls.append("flush")

    def flush_all(self):
        self.calls.append("flush_all")

    def close(self):
        self.calls.append("close")


class Broken:
    """A sink that cannot do anything."""

    def __getattr__(self, name):
        def fail(*_):
            raise ConnectionError(f"no server\nfor {name}")

        return fail


def steer(agent, tick):
    if tick.env_step == 100 and agent.hyperparameters["sync_period"] != 50:
        agent.hyperparameters["sync_period"] = 50


def in_event_files(run):
    """The same as `Recording` keeps, as TensorBoard reads it: points, histograms, texts."""
    points, histograms, texts = [], [], []
    for file in sorted(Path(run).glob("events.*")):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                plugin = value.metadata.plugin_data.plugin_name
                kinds = {"learn/td_error": "histograms", "control/changes": "texts"}
                kind = kinds.get(value.tag, "texts" if plugin == "text" else "scalars")
                array = make_ndarray(value.tensor)
                if value.tag.startswith(("_hparams", "custom_scalars", "__run_graph__")):
                    continue
                if kind == "histograms":
                    histograms.append((value.tag, event.step, int(array[:, 2].sum())))
                elif kind == "texts":
                    texts.append((value.tag, event.step, array.item().decode()))
                else:
                    points.append((value.tag, event.step, np.float32(array.item())))
    return points, histograms, texts


def test_a_sink_is_given_the_tags_and_values_that_are_in_the_event_file(tmp_path):
    sink = Recording()
    outcome = train(CONFIG, tmp_path / "run", on_tick=steer, sinks=[sink])
    points, histograms, texts = in_event_files(outcome.run)
    assert len(points) > 50 and sink.points == points
    assert len(histograms) >= 4 and sink.histograms == histograms
    assert [tag for tag, *_ in texts] == ["run/config", "control/changes"]
    assert sink.texts == texts
    assert {"episode/return", "evaluation/return", "live/sync_period"} <= {p[0] for p in points}
    assert sink.calls[-1] == "close" and sink.calls.count("close") == 1
    assert sink.calls.count("flush_all") >= 3  # one a checkpoint
    result, env_step = sink.kept
    assert env_step == 300 and result["mean"] == np.mean(outcome.returns)
    assert sink.calls.count("result") == 1
    assert (sink.start.run, sink.start.config, sink.start.is_new) == (outcome.run, CONFIG, True)


def test_after_a_resume_it_is_told_where_it_goes_on(tmp_path):
    train(CONFIG, tmp_path / "run")
    sink = Recording()
    resume(tmp_path / "run", CONFIG.model_copy(update={"env_steps": 350}), sinks=[sink])
    assert (sink.start.after, sink.start.is_new) == (300, False)
    assert sink.points and min(step for _, step, _ in sink.points) == 300
    assert "run/config" not in [tag for tag, *_ in sink.texts]


def test_one_that_fails_is_told_once_and_costs_neither_the_run_nor_the_others(tmp_path):
    first, third = Recording(), Recording()
    sinks = [first, Broken(), third]
    console = Console(record=True, width=300)
    outcome = train(CONFIG, tmp_path / "run", on_tick=steer, console=console, sinks=sinks)
    assert first.points == third.points == in_event_files(outcome.run)[0]
    assert first.calls == third.calls
    said = [line for line in console.export_text().splitlines() if "Broken" in line]
    assert said == [
        "Broken: ConnectionError: no server for begin; the run goes on and will try again"
    ]
    assert outcome.digest == train(CONFIG, tmp_path / "alone", on_tick=steer).digest


class Two:
    """A sink with the two methods that every sink has."""

    def __init__(self):
        self.points, self.closed = [], 0

    def scalars(self, values, env_step):
        self.points += [(tag, env_step, np.float32(value)) for tag, value in values.items()]

    def close(self):
        self.closed += 1


def test_two_methods_are_enough(tmp_path):
    sink, console = Two(), Console(record=True, width=300)
    outcome = train(CONFIG, tmp_path / "run", on_tick=steer, console=console, sinks=[sink])
    assert sink.points == in_event_files(outcome.run)[0] and sink.closed == 1
    assert "Two" not in console.export_text()


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ("mlflow", r"a name goes into the config: log_to = \['mlflow'\]"),
        (print, "has no scalars"),
        (Two, "is a class"),
    ],
)
def test_what_is_no_sink_is_refused_before_anything_is_written(tmp_path, sink, told):
    with pytest.raises(ConfigError, match=told):
        train(CONFIG, tmp_path / "run", sinks=[sink])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("name", "of_writer"), [("flush_all", "flush"), ("close", "close")])
def test_an_event_file_that_cannot_be_written_keeps_nothing_from_the_others(
    tmp_path, lab, monkeypatch, name, of_writer
):
    def full(*_):
        raise RunDirError("cannot write TensorBoard events: No space left on device")

    sink = Recording()
    reporter = Reporter(tmp_path / "run", lab.agent(), pytest.fail, sinks=[sink])
    monkeypatch.setattr(EventWriter, of_writer, full)
    with pytest.raises(RunDirError, match="No space left"):
        getattr(reporter, name)()
    assert sink.calls == [name]


def test_params_are_a_flat_table_with_ones_own_values_and_schedules_as_text():
    schedule = {"schedule": "linear", "start": 1.0, "end": 0.0, "steps": 10}
    live = {"a": {"default": 0.5}, "b": {"default": schedule}}
    params = as_params(DqnConfig.model_validate({"live": live, "hidden": (8,)}))
    assert params["live.a"] == 0.5 and params["hidden"] == [8]
    assert params["live.b"] == "linear from 1 to 0 over env steps 0 to 10"
    assert params["epsilon"].startswith("linear from 1 to 0.05") and "live" not in params
    assert "actions" not in params and "freeze" not in params  # empty


def test_a_sink_may_do_what_it_likes_with_its_points(tmp_path):
    class Greedy(Two):
        def scalars(self, values, env_step):
            values.clear()
            values["note"] = "x"

    greedy, other = Greedy(), Two()
    outcome = train(CONFIG, tmp_path / "run", on_tick=steer, console=None, sinks=[greedy, other])
    assert other.points == in_event_files(outcome.run)[0]
    assert (outcome.run / "result.json").exists()
