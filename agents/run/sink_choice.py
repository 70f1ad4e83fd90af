"""The sinks that a run reports to: event files, and those of MORE_SINKS.

A new sink is a class with the methods of MetricSink, in a file of its own, and one line in
MORE_SINKS.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.run.event_files import EventFiles
from agents.run.sinks import Guarded, MetricSink, SinkStart, failures_of
from rl_core.control.retry import Retried

# Each makes a sink, or None where the run shall not have it: say, if an environment variable that
# names a server is not set. A failure of one of these is shown and costs the run nothing.
MORE_SINKS: tuple[Callable[[SinkStart], MetricSink | None], ...] = ()


def open_sinks(start: SinkStart) -> tuple[MetricSink, ...]:
    """Makes the sinks of one run.

    Raises:
      RunDirError: the event file cannot be made.
    """
    sinks: list[MetricSink] = [EventFiles(start)]
    for make in MORE_SINKS:
        with Retried(start.warn).attempt(), failures_of(make.__name__):
            sink = make(start)
            if sink is not None:
                sinks.append(Guarded(sink, make.__name__, start.warn))
    return tuple(sinks)
