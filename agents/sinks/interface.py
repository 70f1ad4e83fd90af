"""The interface of a metric sink: a place to which a run reports its curves and texts.

Tags are those of rl_core/board/tags.py and one `live/NAME` for each live value; the x axis is the
env step. agents/sinks/choice.py says which sinks a run has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.board.tags import Tag
from targetnet.rl_core.errors import RunDirError, in_one_line
from targetnet.rl_core.files import RetryLater


@dataclass(frozen=True)
class SinkStart:
    """Everything that a sink may need to begin.

    Attributes:
      run: the run directory. A sink that has to find its place again after a resume may keep a
        file of its own there.
      config: of the run.
      tags: that may be used beside those of rl_core/board/tags.py.
      after: env step from which the run goes on; -1 if it is new. A session that crashed may have
        reported later points already: they come again.
      warn: shows one line on the terminal.
      graph: draws the agent's graph, a serialized GraphDef; empty if there is none.
    """

    run: Path
    config: DqnConfig
    tags: tuple[Tag, ...]
    after: int
    warn: Callable[[str], None]
    graph: Callable[[], bytes] = bytes

    @property
    def is_new(self) -> bool:
        return self.after < 0


def as_params(config: DqnConfig) -> dict[str, Any]:
    """Returns the keys of a config for a table: a schedule is its text; empty ones are left out.

    A live value of the user's own, `[live.NAME]`, is its default under `live.NAME`.
    """
    values = config.model_dump(mode="json", exclude={"live"})
    own = {f"live.{name}": value.default for name, value in config.live.items()}
    both = [*config, *own.items()]
    values |= own | {n: str(value) for n, value in both if hasattr(value, "value_at")}
    return {name: value for name, value in values.items() if value not in ([], {}, "", None)}


class OwnSink(Protocol):
    """The two methods that a sink of one's own must have: `train(config, sinks=[mine])`.

    It may have any other method of MetricSink, and `begin(start: SinkStart)`, which is called
    first. After a resume from a checkpoint, points after it come again.
    """

    def scalars(self, values: Mapping[str, float], env_step: int) -> None:
        """Takes one point for each of several curves, by tag. NaN and infinities are points."""

    def close(self) -> None:
        """Ends; the last call."""


class MetricSink(Protocol):
    """A place that takes metrics.

    All calls come from the thread of the training loop, which waits for them: a sink with a slow
    connection hands what it is given to a thread of its own. Arguments must not be changed.
    """

    def scalars(self, values: Mapping[str, float], env_step: int) -> None:
        """Takes one point for each of several curves, by tag. NaN and infinities are points."""

    def histogram(self, tag: str, values: np.ndarray, env_step: int) -> None:
        """Takes the values (any shape) of which a histogram is to be drawn."""

    def text(self, tag: str, markdown: str, env_step: int) -> None:
        """Takes a text."""

    def result(self, values: Mapping[str, float], env_step: int) -> None:
        """Takes the result of a run that came to its end."""

    def flush(self) -> None:
        """Shows everything taken so far, because nothing may follow for a while."""

    def flush_all(self) -> None:
        """Flushes before a checkpoint is taken; a resumed run reports on from there.

        Raises:
          Exception: something is not kept, and a resumed run would lack it.
        """

    def close(self) -> None:
        """Flushes and ends; the last call."""


class GuardedSink:
    """A sink whose failures are shown once, until it works again, and never end the run.

    A method that the sink does not have is left out.
    """

    def __init__(self, sink: OwnSink, name: str, warn: Callable[[str], None]) -> None:
        self._sink, self._name = sink, name
        self._calling = RetryLater(warn)

    def begin(self, start: SinkStart) -> None:
        """Tells a sink of a program's own where it begins."""
        self._call("begin", start)

    def scalars(self, values: Mapping[str, float], env_step: int) -> None:
        self._call("scalars", values, env_step)

    def histogram(self, tag: str, values: np.ndarray, env_step: int) -> None:
        self._call("histogram", tag, values, env_step)

    def text(self, tag: str, markdown: str, env_step: int) -> None:
        self._call("text", tag, markdown, env_step)

    def result(self, values: Mapping[str, float], env_step: int) -> None:
        self._call("result", values, env_step)

    def flush(self) -> None:
        self._call("flush")

    def flush_all(self) -> None:
        self._call("flush_all")

    def close(self) -> None:
        self._call("close")

    def _call(self, method: str, *arguments: Any) -> None:
        with self._calling.attempt(), failures_of(self._name):
            call = getattr(self._sink, method, None)
            if call is not None:
                call(*arguments)


@contextlib.contextmanager
def failures_of(name: str) -> Iterator[None]:
    """Turns whatever a sink raises within into a RunDirError of one line that names the sink."""
    try:
        yield
    except Exception as error:
        raise RunDirError(f"{name}: {type(error).__name__}: {in_one_line(error)}") from error
