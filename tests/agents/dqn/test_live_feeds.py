"""The live values that updates are fed, as they are when a phase is planned."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.rl_core.graph.xla import built_for_xla
from targetnet.rl_core.hyperparameters import Hyperparameters, Knob
from targetnet.rl_core.schedules import Linear

RATE, PERIOD = Knob("rate", "", "", ""), Knob("period", "updates", "", "", whole=True, at_least=1)


def feeds(rate=0.5, period=7):
    with tf.Graph().as_default():
        made = LiveFeeds([PERIOD, RATE])
    live = Hyperparameters([PERIOD, RATE], {"rate": rate, "period": period})
    made.start(live)
    return made, live


def as_lists(arrays):
    return [array.tolist() for array in arrays]


def test_a_name_is_its_value_whole_or_not(engine):
    with engine.building():
        made = LiveFeeds([PERIOD, RATE])
        both = made["rate"], made["period"]
    made.start(Hyperparameters([PERIOD, RATE], {"rate": 0.25, "period": 2**40 + 1}))
    engine.start()
    rate, period = engine.callable(both, made.tensors)(*made.values())
    assert (rate, period) == (0.25, 2**40 + 1) and period.dtype == np.int64
    assert "rate" in made and "none" not in made


def test_a_compiled_function_is_handed_the_two_arrays_and_no_scalar(engine):
    with engine.building():
        made = LiveFeeds([PERIOD, RATE])

        @tf2.function(jit_compile=True, autograph=False)
        def both():
            with built_for_xla():
                return made["rate"], made.reader("period")()

        results = tuple(both())
        handed = {tensor.name for tensor in results[0].op.inputs}
    made.start(Hyperparameters([PERIOD, RATE], {"rate": 0.25, "period": 7}))
    engine.start()
    assert handed == {tensor.name for tensor in made.tensors}
    assert engine.callable(results, made.tensors)(*made.values()) == (0.25, 7)


def test_a_change_is_in_the_next_values_and_not_in_those_given_before(engine):
    made, live = feeds()
    before = made.values()
    assert made.values() is before  # the same objects need no check when they are fed
    live["rate"] = 0.125
    assert as_lists(made.values()) == [[0.125], [7]]
    assert as_lists(before) == [[0.5], [7]]
    live["rate"] = "auto"
    assert as_lists(made.values()) == [[0.5], [7]]


def test_arrays_with_another_value_leave_those_that_they_came_from_as_they_were(engine):
    """Those are fed to the next updates too."""
    made, _ = feeds()
    values = made.values()
    assert as_lists(made.with_value(values, "rate", 0.125)) == [[0.125], [7]]
    assert as_lists(made.with_value(values, "period", 9)) == [[0.5], [9]]
    assert as_lists(values) == [[0.5], [7]] and made.values() is values
    assert made.among(values) == {"rate": 0.5, "period": 7}


def test_a_schedule_is_followed(engine):
    made, live = feeds(rate=Linear(start=1.0, end=0.0, steps=8))
    seen = []
    for live.env_step in (0, 2, 4):
        seen.append(made.values()[0].item())
    assert seen == [1.0, 0.75, 0.5]
    live["rate"] = 0.25
    live.env_step = 6
    assert made.values()[0].item() == 0.25


@pytest.mark.parametrize("changes", [0, 1, 3])
def test_the_revision_counts_what_was_set(changes):
    _, live = feeds()
    for _ in range(changes):
        live["period"] = 9
    assert live.revision == changes
