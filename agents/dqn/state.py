"""What an agent is made of, apart from how it learns: read out, brought back, gone back to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from agents.config.model import DqnConfig
from agents.dqn.actor import Acting
from agents.dqn.in_graph_loop import DeviceLoop
from agents.dqn.target_clock import TargetClock
from agents.dqn.update import Update
from rl_core.digest import Digest
from rl_core.errors import RlCoreError
from rl_core.graph.engine import Engine
from rl_core.graph.snapshots import Snapshots
from rl_core.graph.weights import ScopeWeights, VariableValues
from rl_core.hyperparameters import Hyperparameters, plain
from rl_core.optimizers.freeze import FreezeSchedule
from rl_core.optimizers.packed_adam import LoopMoments
from rl_core.replay import ReplayContents, ReplayMemory, Rows


class AgentState(NamedTuple):
    """What an agent is made of, beside the rows of its replay."""

    variables: dict[str, np.ndarray]
    host: dict[str, Any]


class KeptState:
    """The half of an agent that keeps state; the other half builds the graph and learns.

    The other half sets the attributes below, and calls `_build_kept` last of all it builds.
    """

    config: DqnConfig
    engine: Engine
    replay: ReplayMemory
    hyperparameters: Hyperparameters
    freeze: FreezeSchedule
    updates: int
    snapshots: tuple[int, ...]
    device_loop: DeviceLoop | None
    _acting: Acting
    _clock: TargetClock
    _update: Update
    _moments: LoopMoments
    _weights: ScopeWeights
    _averaged: ScopeWeights | None

    def _begin_with_online(self) -> None:
        """Makes the other networks what the online one is."""
        raise NotImplementedError

    @property
    def contents(self) -> ReplayContents:
        """Reads the replay's rows; asking for it stores those that waited."""
        self._acting.flush()
        return self._contents

    @property
    def waiting_at_most(self) -> int:
        """Time steps that may wait to be stored."""
        return self._acting.waiting_at_most

    def weights(self) -> dict[str, np.ndarray]:
        """The online network's variables, keyed by the name after their scope."""
        return self._weights.read()

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Sets the online network's variables, syncs the target, and begins the average anew.

        Raises:
          ScopeMismatch: names, shapes or dtypes differ; says which.
        """
        self._weights.load(weights)
        self._begin_with_online()

    def averaged_weights(self) -> dict[str, np.ndarray] | None:
        """Averages of the online weights, by the same names; None if the config keeps none."""
        return self._averaged.read() if self._averaged else None

    def digest(self, **counters: Any) -> str:
        """One hash over every variable, the replay's rows, the host's state and `counters`.

        Equal digests: the same past, and from here on the same future.
        """
        digest = Digest()
        for name, value in sorted(self.state().variables.items()):
            digest.array(name, value)
        for name, rows in self._contents.chunks():
            digest.array(f"replay/{name}", rows)
        digest.value("host", self._host() | counters)
        return digest.hexdigest()

    def prepare_state(self) -> None:
        """Makes the calls that read it now and not in the middle of a run."""
        self._moments.prepare()
        self.state()
        self._contents.prepare()

    def state(self) -> AgentState:
        """All of it but the replay's rows, which `contents` reads."""
        self._acting.flush()
        self._moments.to_slots(changed=False)
        return AgentState(self._variables.read(), self._host())

    def restore(self, state: AgentState, rows: Iterable[tuple[int, Rows]]) -> None:
        """Becomes what `state` was taken of; `rows` are all rows that were in its replay.

        Raises:
          ScopeMismatch: it was of another network; says what differs.
        """
        self._acting.forget()
        self._moments.to_slots()
        self._variables.load(state.variables)
        written, tail = (
            int(state.variables[v.op.name].item())
            for v in (self.replay.rows.rows_written, self.replay.rows.queue_tail)
        )
        self._contents.put(rows, written, tail)
        if self._after_rows is not None:
            self.engine.callable(None, targets=[self._after_rows])()
        self.updates, self._clock.now = state.host["updates"], None
        self.snapshots = tuple(state.host["snapshots"])
        self.freeze.position = tuple(state.host["freeze"])
        for name, value in state.host["overrides"].items():
            self.hyperparameters.set(name, value)

    def _host(self) -> dict[str, Any]:
        """What Python knows, as JSON has it."""
        overrides = {name: plain(v) for name, v in self.hyperparameters.overrides().items()}
        return {
            "updates": self.updates,
            "snapshots": list(self.snapshots),
            "freeze": list(self.freeze.position),
            "overrides": overrides,
        }

    def snapshot(self) -> None:
        """Keeps what was learned as it is now; the oldest snapshot makes room.

        That is both networks, the optimizer with its step counters, and the target's age.

        Raises:
          RlCoreError: the config's past_states is 0.
        """
        if self._past is None:
            raise RlCoreError("there are no snapshots: past_states is 0 in this run's config")
        self._moments.to_slots(changed=False)
        self._past.take()
        self.snapshots = (*self.snapshots, self.updates)[-self.config.past_states :]

    def rewind(self, back: int = 1) -> int:
        """Goes back to the `back`-th last snapshot and returns the update it was taken at.

        What was learned goes back. Time does not: update and env step counters, the replay, the
        schedules and every live value stay. The state now becomes the last snapshot, so that
        rewinding by 1 undoes it.

        Raises:
          RlCoreError: there are not so many snapshots.
        """
        if self._past is None or back > len(self.snapshots):
            raise RlCoreError(f"cannot go back {back}: there are {len(self.snapshots)} snapshots")
        update = self.snapshots[-back]
        self.snapshot()
        self._moments.to_slots()
        self._past.restore(back + 1)
        self._clock.now = None
        return update

    def _is_of_time(self, variable: tf.Variable) -> bool:
        """Whether it counts time or is of the envs, and so does not go back."""
        envs = self.device_loop.scope + "/" if self.device_loop else None
        return variable is self._update.count or bool(envs and variable.op.name.startswith(envs))

    def _build_kept(self) -> None:
        """The ring of snapshots, and what reads and sets every variable."""
        learned = self._own_variables()
        # One more than can be gone back to: the state before a rewind.
        named = {v.op.name: v for v in learned if not self._is_of_time(v)}
        k = self.config.past_states
        self._past = Snapshots(self.engine, named, k=k + 1) if k else None
        self._contents = ReplayContents(self.engine, self.replay)
        # What follows from the rows and the priorities is not kept but made anew.
        self._after_rows = self.replay.sampler.rebuild()
        kept = [*self._own_variables(), *self.replay.counters()]
        self._variables = VariableValues(self.engine, {v.op.name: v for v in kept}, "of this agent")

    def _own_variables(self) -> list[tf.Variable]:
        """Neither the replay's, nor what only repeats what others say."""
        others = self.replay, self._moments
        return [v for v in tf.global_variables() if not any(o.owns(v) for o in others)]
