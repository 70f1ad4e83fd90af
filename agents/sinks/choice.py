"""The sinks that a run reports to: event files, the packages of `log_to`, and a program's own.

A new package is a Store (agents/sinks/outbox.py) in a file of its own, a line in PACKAGES here, its
name in LOG_TO of agents/config/model.py, and an extra of that name in pyproject.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from targetnet.agents.saved.directory import RunDir
from targetnet.agents.sinks.event_files import EventFiles
from targetnet.agents.sinks.interface import GuardedSink, MetricSink, OwnSink, SinkStart
from targetnet.agents.sinks.outbox import Outbox, OutboxCloser, Store
from targetnet.rl_core.errors import ConfigError, RunDirError, quoted


class Package(NamedTuple):
    """A package that takes metrics: the modules that its extra installs, and its store."""

    modules: tuple[str, ...]
    open: Callable[[SinkStart, str], Store]


def _mlflow(start: SinkStart, sink_id: str) -> Store:
    from targetnet.agents.sinks.mlflow_store import MlflowStore

    return MlflowStore(start, sink_id)


def _wandb(start: SinkStart, sink_id: str) -> Store:
    from targetnet.agents.sinks.wandb_store import WandbStore

    return WandbStore(start, sink_id)


def _trackio(start: SinkStart, sink_id: str) -> Store:
    from targetnet.agents.sinks.trackio_store import TrackioStore

    return TrackioStore(start, sink_id)


PACKAGES: Mapping[str, Package] = {
    # Without the last two mlflow-skinny cannot write its default, a database of one file.
    "mlflow": Package(("mlflow", "sqlalchemy", "alembic"), _mlflow),
    "wandb": Package(("wandb",), _wandb),
    "trackio": Package(("trackio",), _trackio),
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
