"""The calls into the graph that choose actions and store what came of them."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from targetnet.agents.dqn.live_feeds import OwnFeeds
from targetnet.agents.dqn.networks import Networks
from targetnet.agents.dqn.normalizer import Normalizer
from targetnet.agents.dqn.policy import Exploration, GreedyPolicy
from targetnet.agents.dqn.recurrent_state import RecurrentState
from targetnet.rl_core.graph.engine import Call, Engine
from targetnet.rl_core.graph.feeds import feed_check
from targetnet.rl_core.graph.members import MemberHandle
from targetnet.rl_core.networks import STATELESS, Conditions
from targetnet.rl_core.replay import ReplayMemory, Rows, newest_frame


class ActingCalls:
    """Builds the calls. Make it while the graph is being built.

    Args:
      engine, networks, memory: of the agent.
      exploration: chooses the actions.
      remembering: asks the network that acts.
      normalizer: takes in what is stored.
      own: feeds the user's own live values to the networks.
      legal: [M, A] bool placeholder of the greedy policies; None if the envs have no action masks.

    Attributes:
      greedy: the greedy policy.
      greedy_averaged: the same with the averaged weights; None if the config keeps none.
      acts_apart: whether there is a network that acts in a concurrent loop.
      greedy_apart: the same with the network that acts in a concurrent loop; not in others, nor if
        it remembers.
      step: stores a time step and chooses on it; check_shown: checks what it is fed first.
      store: stores many time steps, most_at_once at most; columns: in the order in which it is
        fed them.
      time_step: how many were stored.
      act: chooses by the network of a concurrent loop; follow: gives it the present weights.
      drawn: operations that store a time step and act on it, for a picture of the graph.
    """

    greedy_averaged: GreedyPolicy | None = None
    greedy_apart: GreedyPolicy
    act: Call
    follow: Call

    def __init__(
        self,
        engine: Engine,
        networks: Networks,
        memory: ReplayMemory,
        exploration: Exploration,
        remembering: RecurrentState,
        normalizer: Normalizer,
        own: OwnFeeds,
        legal: tf.Tensor | None,
    ) -> None:
        self._exploration, self._networks, self._own = exploration, networks, own
        self._remembering, self._normalizer = remembering, normalizer
        self._num_envs, self.most_at_once = memory.rows.num_envs, memory.rows.most_at_once
        self.acts_apart = bool(networks.behaviour)
        self._build_step(engine, memory)
        self._build_store(engine, memory, exploration.gives_priorities)
        if self.acts_apart:
            self._build_apart(engine)
        shown = networks.observations, legal, own, networks.branches
        state = networks.state
        self.greedy = GreedyPolicy(
            engine, networks.greedy, *shown, state=state, after=networks.after
        )
        if networks.greedy_ema is not None:
            self.greedy_averaged = GreedyPolicy(
                engine, networks.greedy_ema, *shown, state=state, after=networks.after_ema
            )

    def of_member(self, place: MemberHandle, own: OwnFeeds) -> ActingCalls:
        """The same for a member, with live values of its own."""
        policies = {n: of for n, of in vars(self).items() if isinstance(of, GreedyPolicy)}
        own_policies = {name: policy.of_member(place, own) for name, policy in policies.items()}
        return place.copy(self, **own_policies)

    def _build_step(self, engine: Engine, memory: ReplayMemory) -> None:
        """Builds the call that stores a time step and acts on it."""
        shown, stack = memory.placeholders([self._num_envs]), memory.rows.stack
        self._observation, self._legal = shown["observation"], shown.get("legal")
        if stack > 1:
            whole = self._networks.observations
            shape = [self._num_envs, *whole.shape.as_list()[1:]]
            self._observation = tf.placeholder(whole.dtype, shape, "observation")
            shown["observation"] = newest_frame(self._observation, stack)
        knobs, now = self._exploration.fed(), memory.rows.rows_written.read_value()
        chosen, kept = self._choice(shown["autoreset"], now, knobs)
        first = [self._observation, *(shown[n] for n in ("reward", "terminated", "autoreset"))]
        self.check_shown = feed_check(first)
        feeds = [*first, *knobs.values(), *self._more_feeds()]
        write = memory.write(shown | chosen, now)
        # After the network has acted: it is set anew.
        with tf.control_dependencies([*chosen.values(), *kept]):
            kept += self._normalizer.see(shown["observation"])
        self.step = engine.callable(chosen["action"], feeds, [write, *kept])
        self.drawn = [chosen["action"].op, write, *kept]

    def _build_store(self, engine: Engine, memory: ReplayMemory, priorities: bool) -> None:
        """Builds the call that stores many time steps that were acted on before."""
        lead = [None, self._num_envs]
        rows, priority = memory.placeholders(lead), {}
        if priorities:
            priority["priority"] = tf.placeholder(tf.float32, lead, "priority")
        write = memory.write_steps(rows, priority.get("priority"))
        seen = self._normalizer.see(rows["observation"])
        self.columns = (*rows, *priority)
        self.store = engine.callable(None, [*rows.values(), *priority.values()], [write, *seen])
        self.time_step = engine.callable(memory.rows.rows_written.read_value())

    def _build_apart(self, engine: Engine) -> None:
        """Builds the calls that act with a copy of the network."""
        knobs, now = self._exploration.fed(), tf.placeholder(tf.int64, [1], "time_step")
        feeds = [self._observation, *knobs.values(), *self._more_feeds(), now]
        begins: tf.Tensor | None = None
        if self._networks.recurrent is not None:
            begins = tf.placeholder(tf.bool, [self._num_envs], "autoreset")
            feeds.append(begins)
        chosen, kept = self._choice(begins, now, knobs, apart=True)
        columns = [chosen[name] for name in self._exploration.columns]
        self.act = engine.callable(columns, feeds, kept)
        if begins is None:
            plain = Conditions(live=self._own.tensors)
            (greedy, *_), _ = self._networks.acting(self._observation, STATELESS, plain, apart=True)
            self.greedy_apart = GreedyPolicy(
                engine, greedy, self._observation, None, self._own, self._networks.branches
            )
        self.follow = engine.callable(None, targets=[self._networks.behave_as_online()])

    def _choice(
        self,
        autoreset: tf.Tensor | None,
        now: tf.Tensor,
        knobs: Mapping[str, tf.Tensor],
        *,
        apart: bool = False,
    ) -> tuple[Rows, list[tf.Operation]]:
        """The columns that acting fills, and what remembers the time step."""
        exploration, conditions = self._exploration, Conditions(live=self._own.tensors)
        conditions = conditions._replace(draws=exploration.draws(now))
        values, more, kept = self._remembering.act(
            self._observation, autoreset, conditions, apart=apart
        )
        return exploration.of_fed(values, self._legal, now, knobs) | more, kept

    def _more_feeds(self) -> list[tf.Tensor]:
        masks = [] if self._legal is None else [self._legal]
        return [*self._own.tensors.values(), *masks]
