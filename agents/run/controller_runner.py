"""The controller of a run: called at safe points, it answers with changes."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.controllers.choice import controller_of
from targetnet.agents.controllers.run_view import Fit, RunView
from targetnet.agents.dqn.sync_rule import RuleNumbers
from targetnet.agents.saved.host import ControllerPart
from targetnet.rl_core.control.commands import do_command, set_command
from targetnet.rl_core.control.timetable import Decision
from targetnet.rl_core.errors import ControllerFault, RlCoreError, in_one_line, quoted
from targetnet.rl_core.hyperparameters import plain
from targetnet.rl_core.own_function import MORE, failure
from targetnet.rl_core.schedules import next_multiple

if TYPE_CHECKING:
    from targetnet.agents.run.run import RunParts

_DO = "do"
# Curves that tell of the machine, and those whose points depend on when somebody looked.
_OF_THE_MOMENT = ("speed/", "target/age")
_CHECKPOINT = "checkpoint"


@dataclass
class ControllerRunner:
    """Calls one run's controller.

    Attributes:
      due: env step of the next call; infinity without a controller.
      memory: of the controller.
    """

    due: float
    memory: dict[str, Any]
    _config: DqnConfig
    _function: Callable[..., Any] | None
    _parts: RunParts

    @classmethod
    def of(
        cls,
        parts: RunParts,
        part: ControllerPart | None,
        *,
        repeats: bool,
    ) -> ControllerRunner:
        """Makes it.

        Args:
          parts: of the run.
          part: of the checkpoint; None if the run begins.
          repeats: the run repeats another one, whose log has all changes: nothing is called.
        """
        config = parts.agent.config
        function = None if repeats else controller_of(config)
        due = part.due if part else config.controller_period
        memory = dict(part.memory) if part else {}
        return cls(due if function else math.inf, memory, config, function, parts)

    def part(self) -> ControllerPart | None:
        """Its part of a checkpoint."""
        if self._function is None:
            return None
        return ControllerPart(due=int(self.due), memory=self.memory)

    def decide(self) -> list[Decision]:
        """Calls the controller; returns the changes that it wants.

        Raises:
          ControllerFault: it failed, or its answer or its memory is of another kind.
        """
        period = self._config.controller_period
        env_step = self._parts.state.env_step
        assert self._function is not None
        memory = copy.deepcopy(self.memory)
        try:
            answer = self._function(self._seen(), memory, **self._config.controller_args)
        except (Exception, SystemExit) as error:
            name = self._config.controller
            raise ControllerFault(failure("controller", name, "failed", error) + MORE) from error
        decisions = self._decisions(answer)
        # Only now: a call that failed is made again after a resume.
        self.memory, self.due = self._kept(memory), next_multiple(env_step, period)
        return decisions

    def _seen(self) -> RunView:
        run = self._parts
        agent, state, reporter, display = run.agent, run.state, run.reporter, run.display
        fit = None
        if agent.learner.watch:
            reading = agent.learner.watch.read()
            measured = agent.config.is_built_with("sync_fit")
            numbers = reading.numbers if measured else RuleNumbers(None, None, None)
            fit = Fit(numbers.error, numbers.error_after, reading.distance)
        return RunView(
            env_step=state.env_step,
            env_steps=agent.config.env_steps,
            update=agent.updates,
            target_age=agent.learner.target_age,
            live=dict(agent.hyperparameters),
            episodes=reporter.episodes,
            returns=tuple(display.recent_returns),
            curves={n: at for n, at in reporter.recent.items() if not n.startswith(_OF_THE_MOMENT)},
            fit=fit,
        )

    def _decisions(self, answer: Any) -> list[Decision]:
        if answer is None:
            return []
        if not isinstance(answer, Mapping):
            raise self._fault(f"must return live values by name, or None, got {quoted(answer)}")
        found = []
        for name, value in answer.items():
            if name != _DO:
                found.append(self._set(name, value))
                continue
            several = value if isinstance(value, list | tuple) else [value]
            found += [self._action(words) for words in several]
        # Last, so that it has all that was decided: what comes after it would be lost by a kill.
        return sorted(found, key=lambda of: (of.kind, of.name) == ("do", _CHECKPOINT))

    def _set(self, name: Any, value: Any) -> Decision:
        try:
            number = value.item() if hasattr(value, "item") else value
            command = set_command(name, plain(number), "api")
        except (RlCoreError, ValueError) as error:
            raise self._fault(f"cannot set {quoted(name)}: {in_one_line(error)}") from None
        return Decision("set", command.name, command.value)

    def _action(self, words: Any) -> Decision:
        action, *rest = (words.split(maxsplit=1) if isinstance(words, str) else ()) or ("",)
        value: Any = rest[0] if rest else None
        if action == "rewind" and value is not None and value.isascii() and value.isdigit():
            value = int(value)
        try:
            command = do_command(action, "api", value)
        except RlCoreError as error:
            raise self._fault(f"cannot do {quoted(words)}: {in_one_line(error)}") from None
        return Decision("do", command.do, command.value)

    def _kept(self, memory: dict[str, Any]) -> dict[str, Any]:
        """The memory as a checkpoint brings it back, so that it is the same with and without."""
        try:
            kept: dict[str, Any] = json.loads(json.dumps(memory, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise self._fault(f"keeps in its memory what is no JSON: {error}") from None
        return kept

    def _fault(self, what: str) -> ControllerFault:
        return ControllerFault(f"controller {self._config.controller!r} {what}")
