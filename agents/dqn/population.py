"""P agents of one form in one graph, each with its own seed and live values.

Each has the bits of a run alone, for these reasons. (1) A call of one member is that of one agent:
it first loads the member's variables (`MemberHandle`). (2) First weights and random numbers are
functions of a seed, a name and a counter, and seeds are data in the graph; weights that
initializers of TensorFlow's own draw are those of an agent that is built alone. (3) Live values are
feeds, and what Python keeps is each member's own (`MemberPart.per_member`). (4) Members take turns
in one thread, between two calls. (5) Three calls load nobody and work on rows of all members: the
greedy policy, storing, and one update of each (`update_batching`). They are other programs, and are
used only where `update_batching.can_batch` says so and `_is_exact` finds the same bytes.

    population = Population(configs, envs.observation_shape, envs.observation_dtype, 2)
    actions = population.members[3].step(observation, reward, terminated, autoreset)

A member is a `DqnAgent`. They take turns on the variables of one graph
(`targetnet.rl_core.graph.members`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.members import require_one_form
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.dqn.update_batching import BatchedUpdates
from targetnet.rl_core.errors import Diverged

# To try whether batched calls are exact: time steps of random rows, every other one acted on
# greedily, and updates. The target is copied several times, so that its older copies differ.
_TRIED_STEPS, _TRIED_UPDATES = 40, 10


class Population:
    """Builds the graph once, and all members on it.

    Args:
      configs: of the members; they differ in the seed and in live values alone.
      args, how: as for `DqnAgent`, after the config.

    Attributes:
      members: the agents.

    Raises:
      ConfigError: there is no config, or two differ in what the graph is built from.
      MemoryLimitError: all members together need more memory than there is.
    """

    def __init__(self, configs: Sequence[DqnConfig], *args: Any, **how: Any) -> None:
        require_one_form({f"member {number}": config for number, config in enumerate(configs)})
        # A phase of one update needs no loop: whoever makes more of them needs it.
        with_loop = [config for config in configs if config.updates_per_learn != 1]
        built = DqnAgent([*with_loop, *configs][0], *args, members=len(configs), **how)
        batched = built.batched if built.batched and _is_exact(built, configs[0]) else None
        self.members: list[DqnAgent] = [
            MemberAgent(built, i, config, batched) for i, config in enumerate(configs)
        ]
        if any("seed2" in of.node_def.attr for of in built.engine.graph.get_operations()):
            self._begin_as_alone(configs, *args, **how)
        self._built = built

    def _begin_as_alone(self, configs: Sequence[DqnConfig], *args: Any, **how: Any) -> None:
        """Gives members first weights that initializers of TensorFlow's own have drawn.

        They draw by the seed of the graph that they are in, and members share one.
        """
        for member, config in zip(self.members, configs, strict=True):
            alone = DqnAgent(config, *args, **how | {"engine": None})
            member.state.load_weights(alone.state.weights())
            alone.close()

    def copy(self, giver: DqnAgent, taker: DqnAgent) -> None:
        """Gives one member all that another one has learned, by a copy in the graph.

        That is what a rewind brings back; the replay, the counters and the envs stay its own.
        """
        giver.state.learned.is_copied()
        taker.state.learned.is_replaced()
        assert self._built.copy_learned is not None
        self._built.copy_learned(self.members.index(giver), self.members.index(taker))

    def close(self) -> None:
        """Closes the session of all."""
        self._built.close()


class MemberAgent(DqnAgent):
    """A member that begins.

    Args:
      built: the agent whose graph it is on.
      number: from 0 to the number of members that `built` was built for.
      config: with the member's own seed and live values.
      batched: of `built`, to make single updates with those of other members; None: singly.
    """

    takes_turns = True

    def __init__(
        self, built: DqnAgent, number: int, config: DqnConfig, batched: BatchedUpdates | None
    ) -> None:
        self._use(built._graph, built._graph.parts_of(number, config, batched), config)
        self.batched = batched


def _is_exact(built: DqnAgent, config: DqnConfig) -> bool:
    """Says whether batched calls have the bits of those made one at a time, by making some.

    XLA makes kernels of what it finds around an operation, and another kernel may round otherwise.
    So it depends on the config, on the user's own network and on the processor.
    """
    batched = built.batched
    assert batched is not None
    unbatched = MemberAgent(built, 0, config, None)
    try:
        _try(unbatched)
        wanted = batched.read(0)
        _try(MemberAgent(built, 0, config, batched))
    except (Diverged, tf.errors.InvalidArgumentError):
        return False  # on random data, or XLA cannot compile it: the members will see
    return unbatched.learner.not_compiled is None and all(map(_same_bits, batched.read(0), wanted))


def _try(member: MemberAgent) -> None:
    shown, N = member.networks.observations, member.config.num_envs
    shape, dtype, rng = [N, *shown.shape.as_list()[1:]], shown.dtype, np.random.default_rng(0)
    member.hyperparameters["sync_period"] = 3
    for t in range(_TRIED_STEPS):
        seen = rng.normal(size=shape) if dtype.is_floating else rng.integers(0, 2, shape)
        reward, ended = rng.normal(size=N).astype(np.float32), rng.random(N) < 0.1
        row = seen.astype(dtype.as_numpy_dtype), reward, ended, np.full(N, not t)
        # A config's own epsilon may be 1 here, and random actions skip the network.
        member.step(*row, epsilon=float(t % 2))
    for _ in range(_TRIED_UPDATES):
        member.learn(1)


def _same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(one.tobytes() == other.tobytes())
