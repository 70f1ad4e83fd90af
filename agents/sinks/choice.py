"""The sinks that a run reports to: event files, the packages of `log_to`, and a program's own.

A new package is a Store (agents/sinks/outbox.py) in a file of its own, a line in LOG_TO of
agents/config/run_keys.py, and an extra of that name in pyproject.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from targetnet.agents.config.run_keys import LOG_TO
from targetnet.agents.saved.directory import RunDir
from targetnet.agents.sinks.event_files import EventFiles
from targetnet.agents.sinks.interface import GuardedSink, MetricSink, OwnSink, SinkStart
from targetnet.agents.sinks.outbox import Outbox, OutboxCloser, Store
from targetnet.rl_core.errors import ConfigError, RunDirError, quoted


class Package(NamedTuple):
    """A package that takes metrics: the modules that its extra installs, and its store."""

    modules: tuple[str, ...]
    open: Callable[[SinkStart, str], Store]


def _open(place: str, start: SinkStart, sink_id: str) -> Store:
    module, _, name = place.partition(":")
    store: Store = getattr(import_module(f"targetnet.agents.sinks.{module}"), name)(start, sink_id)
    return store


PACKAGES: Mapping[str, Package] = {
    name: Package(modules, partial(_open, place)) for name, (place, modules) in LOG_TO.items()
}


def require_sinks(log_to: Sequence[str], own: Sequence[OwnSink] = ()) -> None:
    """Checks the sinks of a run before anything is written.

    Raises:
      ConfigError: a package is not installed, or an object is no sink.
    """
    for name in log_to:
        missing = [module for module in PACKAGES[name].modules if find_spec(module) is None]
        if missing:
            raise ConfigError(
                f"log_to = {name!r} needs {missing[0]}: pip install 'targetnet[{name}]'"
            )
    if isinstance(own, str) or not isinstance(own, Sequence):
        raise ConfigError(f"sinks is a list of objects, got {quoted(own)}")
    for sink in own:
        _require_methods(sink)


def open_sinks(start: SinkStart, own: Sequence[OwnSink] = ()) -> tuple[MetricSink, ...]:
    """Makes the sinks of one run.

    Raises:
      RunDirError: the event file cannot be made.
    """
    directory = RunDir(start.run)
    earlier = {path: path.stat().st_size for path in directory.event_files()}
    sinks: list[MetricSink] = [EventFiles(start)]
    closing = OutboxCloser()
    for name in start.config.log_to:
        try:
            sinks.append(_outbox(name, start, directory.sink_id(), earlier, closing))
        except RunDirError as error:
            anew = "delete that file to begin anew there"
            start.warn(f"{name}: {error}; the run goes on without {name} ({anew})")
    for sink in own:
        guarded = GuardedSink(sink, type(sink).__name__, start.warn)
        guarded.begin(start)
        sinks.append(guarded)
    return tuple(sinks)


def _outbox(
    name: str, start: SinkStart, sink_id: str, earlier: Mapping[Path, int], closing: OutboxCloser
) -> MetricSink:
    package = PACKAGES[name]
    outbox = Outbox(name, lambda: package.open(start, sink_id), earlier, start.warn, closing)
    return GuardedSink(outbox, name, start.warn)


def _require_methods(sink: Any) -> None:
    if isinstance(sink, str):
        raise ConfigError(f"sinks takes objects; a name goes into the config: log_to = [{sink!r}]")
    if isinstance(sink, type):
        raise ConfigError(f"sinks takes objects, and {sink.__name__} is a class: {sink.__name__}()")
    for method in ("scalars", "close"):
        if not callable(getattr(sink, method, None)):
            wanted = "scalars(values, env_step) and close()"
            raise ConfigError(f"a sink has the methods {wanted}; {quoted(sink)} has no {method}")
