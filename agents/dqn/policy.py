"""The choice of actions in the graph: greedy policies, and exploration around them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.live_values import live_knobs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.live_feeds import OwnFeeds
from targetnet.rl_core.branches import by_branch
from targetnet.rl_core.epsilon_greedy_numpy import EpsilonGreedy
from targetnet.rl_core.exploration import boltzmann, branching_epsilon_greedy, epsilon_greedy
from targetnet.rl_core.graph.engine import Call, Engine
from targetnet.rl_core.graph.scopes import MemberPart
from targetnet.rl_core.losses import legal_only
from targetnet.rl_core.networks import STATELESS, State, Values
from targetnet.rl_core.random import Draws, Keys, Stream
from targetnet.rl_core.replay import STATE, Rows

# Live values that a choice of actions reads, and columns of the replay that it fills. Outside the
# graph only a choice is made that reads epsilon alone and fills `action` alone.
KNOBS = tuple(name for name, facts in DqnConfig.facts().items() if facts.acts)
COLUMNS = ("action",)

# (what for, shape) -> float32 in [0, 1) of this shape.
Uniform = Callable[[str, list[int]], tf.Tensor]


class Policy(Protocol):
    """Observations [M, ...] and, with action masks, masks [M, A] -> actions [M] or [M, D]."""

    def __call__(self, observation: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray: ...


# (observations [M, ...], autoreset [M] bool, masks [M, A] or None) -> actions [M] or [M, D], of
# the same M envs time step by time step: `autoreset` is true where an episode begins.
Playing = Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray]


class GreedyPolicy(MemberPart):
    """The policy of the largest values.

    Make it while the graph is being built. A network that remembers acts here as if each
    observation were the first of an episode; `playing` remembers.

    Args:
      engine: of the agent.
      values: of `observations`, a placeholder [M, ...], and of the placeholders of `own`.
      legal: [M, A] bool placeholder, with action masks.
      own: feeds the user's own live values; None: there are none to feed.
      branches: sizes of the branches of an action, [D]; (): it has none.
      member: int64 scalar placeholder, where `values` are those of one of several members.
      state, after: of a network that remembers, before and after the observations, [M, S].
    """

    def __init__(
        self,
        engine: Engine,
        values: Values,
        observations: tf.Tensor,
        legal: tf.Tensor | None,
        own: OwnFeeds | None = None,
        branches: Sequence[int] = (),
        member: tf.Tensor | None = None,
        state: State = STATELESS,
        after: State = STATELESS,
    ) -> None:
        action = best(legal_only(values.q, legal), branches)  # [M] or [M, D]
        masks, last = ([] if of is None else [of] for of in (legal, member))
        self._masks, self._own = bool(masks), own
        self._last: tuple[np.int64, ...] = ()
        live = own.tensors.values() if own is not None else ()
        feeds = [observations, *masks, *live, *last]
        self._step: Call | None = None
        self._state_size = 0
        if after is STATELESS:
            self._call = engine.callable(action, feeds)
        else:
            self._step = engine.callable([action, after], [state, *feeds])
            self._state_size = int(after.shape[1])

    def by_row(self, member: int, before: Callable[[], None], own: OwnFeeds) -> GreedyPolicy:
        """The same for a member that is fed, which need not be loaded for it.

        Args:
          before: is called first each time.
        """
        other = copy.copy(self)
        other._own, other._last = own, (np.int64(member),)
        other._call = self._call.after(before)
        return other

    def __call__(self, observation: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:
        if self._step is not None:
            return self.step(observation, self.first_state(len(observation)), legal)[0]
        return self._call(observation, *self._more(legal))

    def playing(self, num_envs: int) -> Playing:
        """Returns the policy for `num_envs` envs, which sees each of their time steps."""
        if self._step is None:
            return lambda observation, autoreset, legal: self(observation, legal)
        state = self.first_state(num_envs)

        def act(
            observation: np.ndarray, autoreset: np.ndarray, legal: np.ndarray | None
        ) -> np.ndarray:
            nonlocal state
            state = np.where(autoreset[:, np.newaxis], np.float32(0), state)
            action, state = self.step(observation, state, legal)
            return action

        return act

    def step(
        self, observation: np.ndarray, state: np.ndarray, legal: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Actions [M] or [M, D] of observations [M, ...] and the state before; and that after."""
        assert self._step is not None  # it remembers
        action, after = self._step(state, observation, *self._more(legal))
        return action, after

    def first_state(self, num_envs: int) -> np.ndarray:
        """Returns the state with which episodes begin, [M, S]; S is 0 without a memory."""
        return np.zeros([num_envs, self._state_size], np.float32)

    def _more(self, legal: np.ndarray | None) -> list[Any]:
        masks = [legal] if self._masks else []
        live = self._own.values() if self._own is not None else []
        return [*masks, *live, *self._last]


class Exploration:
    """Chooses actions of N envs: the best ones, or by chance.

    Args:
      config, keys: of the agent.
      num_actions: A.
      branches: sizes of the branches of an action, [D]; (): it has none.

    Attributes:
      knobs: names of the live values that it reads, in the order in which they are fed.
      gives_priorities: whether actors give the rows priorities to begin with.
      columns: of the replay, that acting fills.
    """

    def __init__(
        self, config: DqnConfig, keys: Keys, num_actions: int, branches: Sequence[int] = ()
    ) -> None:
        self.gives_priorities = config.loop == "remote" and config.actor_priorities
        self._branches = branches
        self._config, self._keys, self._num_actions = config, keys, num_actions
        self.knobs = tuple(k.name for k in live_knobs(config) if k.name in KNOBS)
        self.columns = (*COLUMNS, *((STATE,) if config.is_recurrent else ()))

    def in_numpy(self, masks: bool, seed: int) -> EpsilonGreedy | None:
        """Returns the same choice without the graph, bit for bit; None where there is none.

        Args:
          seed: of the agent.
          masks: whether the envs say which actions are legal.
        """
        if masks or self._config.noisy or self._config.chain > 1 or self._config.is_recurrent:
            return None
        if self.knobs != ("epsilon",) or COLUMNS != ("action",):
            return None
        stream = Stream(seed, "act")
        return EpsilonGreedy(stream, self._config.num_envs, self._num_actions, self._branches)

    def fed(self) -> dict[str, tf.Tensor]:
        """Returns float32 scalar placeholders of the values of `knobs`."""
        return {name: tf.placeholder(tf.float32, [], name) for name in self.knobs}

    def draws(self, now: tf.Tensor) -> Draws | None:
        """Returns random numbers for a noisy network at time step `now`, or None."""
        return Draws(self._keys, "act", now) if self._config.noisy else None

    def of_fed(
        self,
        values: Sequence[Values],
        legal: tf.Tensor | None,
        now: tf.Tensor,
        live: Mapping[str, tf.Tensor],
    ) -> Rows:
        """Chooses in a call of its own; arguments and result as for `choose`."""

        def uniform(name: str, shape: list[int]) -> tf.Tensor:
            return Stream(self._keys, name).uniform(now, shape)

        return self.choose(values, live, legal, uniform)

    def choose(
        self,
        values: Sequence[Values],
        live: Mapping[str, tf.Tensor],
        legal: tf.Tensor | None,
        uniform: Uniform,
    ) -> Rows:
        """Chooses actions for N observations.

        Args:
          values: of the network that acts, for N observations; or of each one of a chain.
          live: float32 scalars, the values of `knobs` by name.
          legal: [N, A] bool, with masks.
          uniform: (name, shape) -> float32 in [0, 1), new at each time step.

        Returns:
          COLUMNS: `action`, [N] or [N, D] int32.
        """
        config, N, A = self._config, self._config.num_envs, self._num_actions
        q, *others = (of.q for of in values)  # [N, A]
        if others:
            q = of_drawn_network([q, *others], uniform("chain", [N]))
        if config.boltzmann:
            choice = boltzmann(q, live["temperature"], uniform("boltzmann", [N, A]), legal)  # [N]
        else:
            choice = best(legal_only(q, legal), self._branches)  # [N] or [N, D]
        if sizes := self._branches:
            coin, *dice = tf.unstack(uniform("act", [1 + len(sizes), N]))  # [N]
            apart = tf.stack(dice, axis=1)  # [N, D]
            epsilon = live["epsilon"]
            return {"action": branching_epsilon_greedy(choice, epsilon, coin, apart, sizes, legal)}
        coin, die = tf.unstack(uniform("act", [2, N]))  # [N]
        return {"action": epsilon_greedy(choice, live["epsilon"], coin, die, A, legal)}  # [N]


def of_drawn_network(values: list[tf.Tensor], die: tf.Tensor) -> tf.Tensor:
    """Returns each env's row of one network, each as likely: K of [N, A], [N] -> [N, A].

    Args:
      die: float32 in [0, 1).
    """
    chosen = tf.cast(die * np.float32(len(values)), tf.int32)  # [N]
    q = values[0]
    for i, other in enumerate(values[1:], 1):
        q = tf.where_v2(tf.equal(chosen, i)[:, tf.newaxis], other, q)
    return q


def best(q: tf.Tensor, branches: Sequence[int]) -> tf.Tensor:
    """Returns the best actions: [M, A] values -> [M] int32, or [M, D] with branches."""
    if branches:
        return tf.argmax(by_branch(q, branches), axis=2, output_type=tf.int32)
    return tf.argmax(q, axis=1, output_type=tf.int32)
