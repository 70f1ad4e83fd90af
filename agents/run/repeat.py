"""Runs a recorded run again, change by change, and says if it is the same."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from targetnet.agents.config.envs import why_not_repeated
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.remote.run_actors import recorded_order
from targetnet.agents.run.agent_factory import load_initial
from targetnet.agents.run.display import ConsoleChoice
from targetnet.agents.run.outcome import RunOutcome
from targetnet.agents.run.train import train
from targetnet.agents.saved.copies import require_copies
from targetnet.agents.saved.directory import RunDir
from targetnet.rl_core.arguments import path_of
from targetnet.rl_core.control.files import is_alive
from targetnet.rl_core.control.log import read_log
from targetnet.rl_core.control.records import read_trace, require_trace
from targetnet.rl_core.control.state import require_answers
from targetnet.rl_core.errors import RunDirError


@dataclass(frozen=True)
class Verdict:
    """The comparison of a repeat with its original.

    Attributes:
      identical: every time step and the digest at the end were the same.
      digest: of the repeat when it ended.
      first_difference: env step after which something differed; None if every time step that was
        recorded was the same.
      complete: the original has a digest. It has none if it was killed; then only its trace is
        compared.
      interrupted: by Ctrl-C; then the rest is unknown.
      env_steps: that the repeat made.
      traced: every time step was compared. Of an offline run, which has none, the end alone is.
      cause: a line about its env, if that is the cause of a difference; "" if it is not known.
    """

    identical: bool
    digest: str
    first_difference: int | None
    complete: bool
    interrupted: bool
    env_steps: int
    traced: bool = True
    cause: str = ""

    def with_cause(self, config: DqnConfig) -> Verdict:
        """Looks for the cause of a difference in the env of this config."""
        if self.identical or self.interrupted:
            return self
        return replace(self, cause=why_not_repeated(config))


class NothingRecorded(RunDirError):
    """A run that has recorded no time step."""


class Recording:
    """A finished run's changes and trace, for `train(repeat=...)`.

    Raises:
      NothingRecorded: there is nothing to compare with.
      RunDirError: the run is alive, its files are damaged, or there is nothing to compare with.
    """

    def __init__(self, run: RunDir) -> None:
        if is_alive(run.control):
            raise RunDirError(f"{run.path} is still running: stop it before it is replayed")
        self.directory, self.note = run, f"repeats {run.path}"
        require_answers(run.control)
        self.script = read_log(run.control.log)
        end = run.load_digest() if run.has_digest() else None
        self.failed = end is not None and not end.whole
        # A run that was killed or failed has no digest to compare with, only its trace.
        if self.failed:
            end = None
        self._trace = read_trace(run.control.trace)
        self.traced = not run.config().offline
        if end is not None and self.traced:
            require_trace(run.control.trace, max(0, end.tick - 1), end.trace_crc)
        self.digest = end.digest if end else None
        # The outcome of a time step is traced with the one after it.
        self.end_tick = end.tick if end else len(self._trace) + 1
        if end is None and not self.traced:
            raise NothingRecorded(
                f"{run.path} learns from a dataset, and such a run is compared at the end of its "
                "training, which it has not reached; resume it first"
            )
        if end is None and not len(self._trace):
            raise NothingRecorded(f"{run.path} recorded no step, so there is nothing to replay")
        self.arrivals = recorded_order(run.config(), run.control, self.end_tick)
        self.first_difference: int | None = None
        self._compared = 0  # time steps

    def compare(self, first: int, checksums: np.ndarray, env_steps: np.ndarray) -> None:
        """Looks for the first time step that differs from the recording."""
        self._compared = max(self._compared, first + len(checksums))
        recorded = self._trace[first : first + len(checksums)]
        (different,) = np.nonzero(checksums[: len(recorded)] != recorded)
        if len(different) and self.first_difference is None:
            self.first_difference = int(env_steps[different[0]])

    @property
    def is_over(self) -> bool:
        return self.first_difference is not None

    def verdict(self, outcome: RunOutcome) -> Verdict:
        """Returns the comparison, once the repeat has ended."""
        # It may also have been stopped by a command, or have failed earlier than the run.
        short = self.traced and self._compared < min(len(self._trace), self.end_tick - 1)
        unknown = (outcome.interrupted or short) and self.first_difference is None
        same = self.digest in (None, outcome.digest) and self.first_difference is None
        return Verdict(
            identical=same and not unknown,
            digest=outcome.digest,
            first_difference=self.first_difference,
            complete=self.digest is not None,
            interrupted=unknown,
            env_steps=outcome.env_steps,
            traced=self.traced,
        )


def repeat(
    run: Path | str, to: Path | str | None = None, *, console: ConsoleChoice = "auto"
) -> Verdict:
    """Trains again with a run's config, and applies each logged change at its time step.

    Args:
      run: a run that has ended.
      to: a directory for the repeat; None keeps nothing of it.
      console: shows progress, as for `train`.

    Raises:
      RunDirError: the run is alive or recorded nothing, or `to` already holds a run.
    """
    original = RunDir.open(path_of("run", run))
    recording = Recording(original)
    require_copies(original, recording.script)
    with tempfile.TemporaryDirectory(prefix="targetnet-replay-") as temporary:
        outcome = train(
            # A repetition is compared, and not reported.
            original.config().model_copy(update={"log_to": ()}),
            Path(temporary) / "run" if to is None else to,
            console=console,
            repeat=recording,
            initial=lambda _: load_initial(original),
        )
    return recording.verdict(outcome).with_cause(original.config())
