"""All state of an agent: weights, digest, snapshots, what it has learned; saves and restores it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.acting import Actor
from targetnet.agents.dqn.learner import Learner
from targetnet.agents.dqn.live_feeds import OwnFeeds
from targetnet.agents.dqn.network_scopes import Networks
from targetnet.rl_core.arguments import require_a, require_whole
from targetnet.rl_core.digest import Digest
from targetnet.rl_core.errors import RlCoreError, ScopeMismatch, UnknownName, did_you_mean, quoted
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.scopes import MemberPart, Root
from targetnet.rl_core.graph.snapshots import Snapshots
from targetnet.rl_core.graph.weights import ScopeWeights, VariableValues
from targetnet.rl_core.hyperparameters import Hyperparameters, plain
from targetnet.rl_core.random import Keys
from targetnet.rl_core.replay import ReplayContents, ReplayMemory, Rows


class LearnedState(MemberPart):
    """Reads and replaces what one agent has learned.

    Args:
      variables: all of the agent's.
      acting, learner: of the agent.
      names: of the variables that it learns, as `variables` has them.

    Attributes:
      renewals: how often first weights were drawn again; it counts on after a rewind.
    """

    per_member: ClassVar = {"renewals": int}

    def __init__(
        self, variables: VariableValues, acting: Actor, learner: Learner, names: Collection[str]
    ) -> None:
        self._variables, self._acting, self._learner = variables, acting, learner
        self._names = tuple(sorted(names))
        self.renewals = 0

    def read(self) -> dict[str, np.ndarray]:
        """Returns all of it, by name."""
        values = self._all()
        return {name: values[name] for name in self._names}

    def replace(self, learned: Mapping[str, np.ndarray]) -> None:
        """Makes it what `read` has returned of another agent of this form.

        Raises:
          ScopeMismatch: it is of another form; says what differs.
        """
        if learned.keys() != {*self._names}:
            other = sorted(learned.keys() ^ {*self._names})
            raise ScopeMismatch(f"this is not what such an agent learns: {', '.join(other)}")
        values = self._all()
        self.is_replaced()
        self._variables.load(values | dict(learned))

    def read_some(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Returns some of it, by name."""
        self.is_copied()
        return self._variables.read_some(names)

    def change(self, values: Mapping[str, np.ndarray]) -> None:
        """Sets some of it, by name."""
        self._learner.moments.to_slots()
        self._variables.set_some(values)

    def host(self) -> dict[str, int]:
        """Returns what Python knows of it; nothing without renewals, for the digests of before."""
        return {"renewals": self.renewals} if self.renewals else {}

    def is_replaced(self) -> None:
        """Takes note that the variables are about to be replaced."""
        self._learner.moments.to_slots()
        self._learner.clock.age_in_python = None

    def is_copied(self) -> None:
        """Makes the variables ready to be copied."""
        self._learner.moments.to_slots(changed=False)

    def _all(self) -> dict[str, np.ndarray]:
        self._acting.flush()
        self.is_copied()
        return self._variables.read()


_PAST = "past/"


class QValues(MemberPart):
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


class Owner(Protocol):
    """A part of an agent that has variables of its own."""

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for each of them."""


class SavedAgent(NamedTuple):
    """Everything that an agent's future depends on, beside the rows of its replay."""

    variables: dict[str, np.ndarray]
    host: dict[str, Any]  # what Python knows, as JSON has it


class AgentState(MemberPart):
    """Reads, restores and rewinds an agent. Make it last of all that the agent builds.

    A checkpoint has the variables under the agent's root: weights of all its networks, Adam's
    slots, counters, numbers of a sync rule, moments of observations, recurrent states, snapshots,
    envs in the graph; and the counters and priorities of the replay. It has nothing that can be
    made again, which run/checkpoints.py lists. Rows of the replay are saved apart, by `contents`.

    Args:
      engine, config, root, keys, networks, memory, acting, learner, hyperparameters: of the agent.
      running: what has variables that go with the envs.

    Attributes:
      snapshots: the updates at which those that are still there were taken.
      past: keeps them; None if the config keeps none.
      contents: reads the rows of the replay; call `flush` first.
      learned: reads and replaces what was learned.
      learned_variables: full names of its variables.
      replaced: how often the weights were replaced by others, and not learned.
    """

    per_member: ClassVar = {"snapshots": tuple, "replaced": int}

    def __init__(
        self,
        engine: Engine,
        config: DqnConfig,
        root: Root,
        keys: Keys,
        networks: Networks,
        memory: ReplayMemory,
        acting: Actor,
        learner: Learner,
        hyperparameters: Hyperparameters,
        running: Sequence[Owner],
    ) -> None:
        self._config, self._live = config, hyperparameters
        self._acting, self._learner = acting, learner
        self.snapshots: tuple[int, ...] = ()
        self.replaced = 0
        self._weights = ScopeWeights(engine, networks.online)
        self._averaged = ScopeWeights(engine, networks.ema) if networks.ema else None

        def variables_without(*owners: Any) -> dict[str, tf.Variable]:
            """All variables of the agent, but those that these own."""
            own = [v for v in tf.global_variables() if v.op.name.startswith(root.prefix)]
            left = [v for v in own if not any(owner.owns(v) for owner in owners)]
            return {root.relative(v.op.name): root.seen(v) for v in left}

        # Moments in the form of loops only repeat what the slots say, and keys follow from the
        # seed. A rewind leaves counters alone, and what goes with the envs.
        saved_apart = [memory, learner.moments, keys, root]
        learned = variables_without(*saved_apart, learner.update, *running)
        k = config.past_states
        # One more than can be gone back to: the state before a rewind.
        self.past = Snapshots(engine, learned, k=k + 1) if k else None
        self._contents = ReplayContents(engine, memory)
        # Sums over priorities are not saved but recomputed.
        rebuild = memory.sampler.rebuild()
        self._rebuild = engine.callable(None, targets=[rebuild]) if rebuild is not None else None
        counters = {root.relative(v.op.name): v for v in memory.saved_variables()}
        self._counters = tuple(counters)[:2]  # time steps written, rows that entered the queue
        self._variables = VariableValues(
            engine, variables_without(*saved_apart) | counters, "of this agent"
        )
        self.learned = LearnedState(self._variables, acting, learner, learned)
        self.learned_variables = frozenset(v.op.name for v in learned.values())

    @property
    def contents(self) -> ReplayContents:
        """Reads the replay's rows; asking for it stores the time steps that waited."""
        self._acting.flush()
        return self._contents

    # Weights.

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the online network's variables, keyed by the name after their scope."""
        return self._weights.read()

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Sets the online network's variables, syncs the target, and restarts the average.

        Raises:
          ScopeMismatch: names, shapes or dtypes differ; says which.
        """
        self.replaced += 1
        self._weights.load(weights)
        self._learner.copy_online_to_all()

    def averaged_weights(self) -> dict[str, np.ndarray] | None:
        """Returns averages of the online weights by the same names; None without `ema_decay`."""
        return self._averaged.read() if self._averaged else None

    # Saving and restoring.

    def read(self) -> SavedAgent:
        """Returns all of it but the replay's rows, which `contents` reads."""
        self._acting.flush()
        self._learner.moments.to_slots(changed=False)
        return SavedAgent(self._variables.read(), self._host())

    def restore(self, saved: SavedAgent, rows: Iterable[tuple[int, Rows]]) -> None:
        """Makes the agent the one that was saved.

        Args:
          rows: (first time step, rows) of everything that was in its replay.

        Raises:
          ScopeMismatch: another network was saved; says what differs.
        """
        self._acting.forget()
        self.replaced += 1
        self.learned.is_replaced()
        self._variables.load(saved.variables)
        written, tail = (int(saved.variables[name].item()) for name in self._counters)
        self._contents.put(rows, written, tail)
        if self._rebuild is not None:
            self._rebuild()
        self._learner.goes_on_from(saved.host["updates"], saved.host["freeze"])
        self.snapshots = tuple(saved.host["snapshots"])
        self.learned.renewals = saved.host.get("renewals", 0)
        for name, value in saved.host["overrides"].items():
            self._live.set(name, value)

    def digest(self, **counters: Any) -> str:
        """Hashes every variable, the replay's rows, the host's state and `counters`.

        Equal digests: the same past, and from here on the same future.
        """
        digest = Digest()
        for name, value in sorted(self.read().variables.items()):
            digest.array(name, value)
        for name, rows in self._contents.chunks():
            digest.array(f"replay/{name}", rows)
        digest.value("host", self._host() | counters)
        return digest.hexdigest()

    # Snapshots.

    def snapshot(self) -> None:
        """Keeps what was learned as it is now; the oldest snapshot makes room.

        That is every learned variable: all networks, Adam's slots and step counters, the target's
        age and the numbers of its rule.

        Raises:
          RlCoreError: the config's past_states is 0.
        """
        if self.past is None:
            raise RlCoreError("there are no snapshots: past_states is 0 in this run's config")
        self._learner.moments.to_slots(changed=False)
        self.past.take()
        self.snapshots = (*self.snapshots, self._learner.updates)[-self._config.past_states :]

    def rewind(self, back: int = 1) -> int:
        """Goes back to the `back`-th last snapshot and returns the update it was taken at.

        What was learned goes back, with the target's age. The counts of updates and env steps, the
        replay, the schedules, the envs and every live value stay as they are. The state now becomes
        the last snapshot, so rewinding by 1 undoes the rewind.

        Raises:
          RlCoreError: there are not so many snapshots.
        """
        require_whole("back", back, 1)
        if self.past is None or back > len(self.snapshots):
            raise RlCoreError(f"cannot go back {back}: there are {len(self.snapshots)} snapshots")
        update = self.snapshots[-back]
        self.snapshot()
        self.learned.is_replaced()
        self.past.restore(back + 1)
        self.replaced += 1
        return update

    def _host(self) -> dict[str, Any]:
        overrides = {name: plain(v) for name, v in self._live.overrides().items()}
        return self.learned.host() | {
            "updates": self._learner.updates,
            "snapshots": list(self.snapshots),
            "freeze": list(self._learner.freeze.position),
            "overrides": overrides,
        }
