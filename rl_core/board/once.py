"""Events that an event file holds once: hyperparameters, graph, charts that belong together."""

import math
import re
import time
from collections.abc import Mapping

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as layout_plugin
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.util.tensor_util import make_tensor_proto

from targetnet.rl_core.board.tags import tag_named

# Charts of the Custom Scalars tab: title, tags of its curves.
CHARTS = (
    ("return", ("episode/return", "evaluation/return")),
    ("loss", ("learn/loss",)),
    ("Q", ("learn/q_mean", "learn/q_max")),
    ("target age", ("target/age",)),
)


def hparams_event(values: Mapping[str, object]) -> event_pb2.Event:
    """Returns the event that lists a run in the HParams tab: `values` beside its latest metrics.

    TensorBoard itself makes the columns of the values of all runs, and puts those that differ
    first, as long as no run has said which columns there are.
    """
    # With an empty trial id the run gets its own row, named after it; otherwise TensorBoard
    # averages runs with equal values.
    summary = hparams_pb({name: _hparam(value) for name, value in values.items()}, trial_id="")
    return event_of(summary)


def charts_event() -> event_pb2.Event:
    """Returns the event that lays out CHARTS in the Custom Scalars tab."""
    charts = [
        layout_pb2.Chart(
            title=title,
            multiline=layout_pb2.MultilineChartContent(tag=[f"^{re.escape(t)}$" for t in tags]),
        )
        for title, tags in CHARTS
    ]
    layout = layout_pb2.Layout(category=[layout_pb2.Category(title="training", chart=charts)])
    metadata = layout_plugin.create_summary_metadata()
    summary = summary_pb2.Summary()
    tensor = make_tensor_proto(layout.SerializeToString())
    summary.value.add(tag=layout_plugin.CONFIG_SUMMARY_TAG, tensor=tensor, metadata=metadata)
    return event_of(summary)


def graph_event(graph: bytes) -> event_pb2.Event:
    """Returns the event of the Graphs tab, from a serialized GraphDef."""
    return event_pb2.Event(wall_time=time.time(), graph_def=graph)


def animation_event(tag: str, gif: bytes, width: int, height: int, step: int) -> event_pb2.Event:
    """Returns the event of an animated GIF, shown in the Images tab."""
    event = event_of(summary_pb2.Summary(), step)
    value = event.summary.value.add(tag=tag_named(tag, "image").name)
    value.image.encoded_image_string = gif
    value.image.width, value.image.height, value.image.colorspace = width, height, 3
    return event


def event_of(summary: summary_pb2.Summary, step: int = 0) -> event_pb2.Event:
    """Returns an event of now."""
    return event_pb2.Event(wall_time=time.time(), step=step, summary=summary)


def _hparam(value: object) -> bool | float | str:
    """Returns `value` for the HParams tab: a bool, string or finite number as it is, else text."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float) and math.isfinite(value):
        return value
    return str(value)
