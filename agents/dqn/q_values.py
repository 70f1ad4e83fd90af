"""Action values of one input by several networks: the online one, the target, earlier ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from targetnet.agents.dqn.live_feeds import OwnFeeds
from targetnet.agents.dqn.networks import Networks
from targetnet.agents.dqn.state import AgentState
from targetnet.rl_core.arguments import require_a
from targetnet.rl_core.errors import RlCoreError, UnknownName, did_you_mean, quoted
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.members import MemberHandle

_PAST = "past/"


class QValues:
    """Compares networks of one agent. Make it while the graph is being built.

        agent.state.snapshot()
        agent.learn(100)
        moved = agent.q_values(observation) - agent.q_values(observation, of="past/1")

    Args:
      engine, networks, own, state: of the agent.
    """

    def __init__(
        self, engine: Engine, networks: Networks, own: OwnFeeds, state: AgentState
    ) -> None:
        self._own, self._state = own, state
        self._rank = int(networks.observations.shape.rank)
        self._dtype = networks.observations.dtype.as_numpy_dtype
        feeds = [networks.observations, *own.tensors.values()]
        values = {"online": networks.greedy}
        if networks.greedy_target is not None:
            values["target"] = networks.greedy_target
        if networks.greedy_ema is not None:
            values["averaged"] = networks.greedy_ema
        self._calls: dict[str, Callable[..., np.ndarray]] = {
            name: engine.callable(of.q, feeds) for name, of in values.items()
        }
        self._past: Callable[..., np.ndarray] | None = None
        if state.past is not None:
            before = networks.greedy_by(state.past.getter)
            self._past = engine.callable(before.q, [*feeds, state.past.back])

    def of_member(self, place: MemberHandle, own: OwnFeeds, state: AgentState) -> QValues:
        """The same for a member."""
        return place.copy(self, _own=own, _state=state)

    def __call__(self, observation: np.ndarray, of: str = "online") -> np.ndarray:
        """Returns action values by the network as it is now, or as it was.

        Args:
          observation: [M, ...] as the envs show them, or a single one; lists may be given too.
          of: "online", "target" (with a replay), "averaged" (with `ema_decay`), or "past/K": the
            online network at the K-th last snapshot, which `rewind K` would go back to.

        Returns:
          [M, A] float32, or [A] of a single observation; noisy layers show their mean.

        Raises:
          UnknownName: there is no such network.
          RlCoreError: there are not so many snapshots.
        """
        require_a(str, "of", of, "the name of a network, such as 'online' or 'past/1'")
        rows = np.asarray(observation)
        if self._dtype == np.float32 and rows.dtype.kind in "fiu":
            rows = rows.astype(np.float32)
        single = rows.ndim == self._rank - 1
        inputs = [rows[np.newaxis] if single else rows, *self._own.values()]
        if of in self._calls:
            q = self._calls[of](*inputs)
        else:
            back = self._back(of, len(self._state.snapshots))
            assert self._past is not None  # there are snapshots
            q = self._past(*inputs, np.int64(back))
        return q[0] if single else q

    def _back(self, of: str, there: int) -> int:
        number = of.removeprefix(_PAST)
        if not of.startswith(_PAST) or not number.isascii() or not number.isdecimal():
            known = [*self._calls, f"{_PAST}1"]
            raise UnknownName(
                f"no network {quoted(of)} ({', '.join(known)}, ...){did_you_mean(of, known)}"
            )
        back = int(number[:9])
        if not 1 <= back <= there:
            raise RlCoreError(
                f"no network {quoted(of)}: there are {there} snapshots; agent.state.snapshot() "
                "takes one"
            )
        return back
