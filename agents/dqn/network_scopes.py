"""Online, target and averaged networks, each under its scope, and the operations that copy them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.live_feeds import OwnFeeds
from targetnet.agents.dqn.network import Chain, NetworkOutputs, is_learned, link_name, taken_whole
from targetnet.rl_core.graph.layers import layers_built
from targetnet.rl_core.graph.scopes import root_scope, stop_gradient_getter, variables_in
from targetnet.rl_core.graph.sync import copy_vars, paired_variables
from targetnet.rl_core.networks import (
    ONE_ARRAY,
    STATELESS,
    Conditions,
    ObservationForm,
    Recurrent,
    State,
    Values,
)
from targetnet.rl_core.networks.hidden import hidden_layers


class CopyOps:
    """Builds the ops that copy the online network to others, new ones at each call.

    Args:
      online: full name of the scope that is copied.
      targets: of the target and of its older copies, the newest first; empty if there is none.
      others: of all other networks.
      config: of the agent.
    """

    def __init__(
        self, online: str, targets: Sequence[str], others: Sequence[str], config: DqnConfig
    ) -> None:
        self._online, self._targets, self._others = online, targets, others
        self._config, self._links, self._whole = config, config.chain, taken_whole(config)
        # A link has nothing below it, and perhaps no torso; heads of a shared torso have none.
        self._partly = config.chain > 1 or config.chain_torso == "shared"

    def target_pairs(self) -> list[tuple[tf.Variable, tf.Variable]]:
        """Returns (online, target) pairs of what is learned, but not of a torso that both share."""
        pairs = paired_variables(self._online, self._targets[0], allow_missing=self._partly)
        root = f"{self._online}/"
        return [of for of in pairs if is_learned(self._config, of[0].op.name.removeprefix(root))]

    def sync(self, tau: tf.Tensor | None = None) -> tf.Operation:
        """Copies the online network to the target, and each target to the next older one.

        In a chain each network then becomes the one after it; the last stays. Vincent et al.
        (2024), https://arxiv.org/abs/2403.02107, whose window shift it is.
        """
        names = [self._online, *self._targets]
        done: list[tf.Operation] = []
        # The oldest first: what is overwritten has been passed on.
        for i in reversed(range(len(self._targets))):
            with tf.control_dependencies(done):
                done = [self._copy(names[i], names[i + 1], None if i else tau)]
        links = [_link(self._online, i) for i in range(self._links)]
        for to, of in itertools.pairwise(links):
            with tf.control_dependencies(done):
                done = [self._copy(of, to)]
        return done[0]

    def refresh(self) -> tf.Operation:
        """Copies each network of a chain, but the last, to what the next one learns from."""
        pairs = [
            (_link(self._online, i - 1), _link(self._targets[0], i)) for i in range(1, self._links)
        ]
        return tf.group(*[self._copy(of, to) for of, to in pairs])

    def copied_to(self, name: str) -> list[str]:
        """Returns the names of a target's weights that an online weight is copied to.

        In a chain these are the target's, of the first network, and those that the next network
        learns from.
        """
        links = [f"{link_name(i)}/" for i in range(1, self._links)]
        i = next((i for i, link in enumerate(links, 1) if name.startswith(link)), 0)
        of_network = name.removeprefix(links[i - 1]) if i else name
        return [of_network] * (not i) + [f"{link}{of_network}" for link in links[i : i + 1]]

    def all_as_online(self) -> tf.Operation:
        """Copies the online network to every other one."""
        return tf.group(*[self._copy(self._online, to) for to in (*self._targets, *self._others)])

    def _copy(self, of: str, to: str, tau: tf.Tensor | None = None) -> tf.Operation:
        return copy_vars(of, to, tau=tau, allow_missing=self._partly, whole=self._whole)


def _link(scope: str, i: int) -> str:
    return f"{scope}/{link_name(i)}" if i else scope


class Networks:
    """Builds every network once, on `observations`, and again wherever one is called.

    Args:
      config: one run.
      num_actions: A.
      observations: [M, ...] placeholder; also an attribute.
      own: feeds `greedy` the user's own live values.
      observed: the form of observations.
      branches: sizes of the branches of an action, [D]; (): it has none. Also an attribute.

    Attributes:
      online, target, ema, behaviour: full names of their scopes; the last two are None if there
        are none. So is `target` where rollouts do without.
      recurrent: its recurrent layer; None if it remembers nothing.
      state: what goes before `observations`: [M, S], and zeros if nothing is fed; (): no memory.
      after: the online network's state after `observations`; (): no memory.
      greedy: values of the online network for `observations`, without noise.
      greedy_target: the same of the target network, or None.
      greedy_ema: the same of the averaged weights, or None; after_ema: their state.
      built: calls them again.
      ops: builds the operations that copy the online network to others.
      hidden: layers of rectified units of the online network, as `greedy` has them.
    """

    def __init__(
        self,
        config: DqnConfig,
        num_actions: int,
        observations: tf.Tensor,
        own: OwnFeeds,
        observed: ObservationForm = ONE_ARRAY,
        branches: Sequence[int] = (),
    ) -> None:
        self._chain, self.branches = Chain(config, num_actions, observed, branches), branches
        self.built = NetworkOutputs(config, self._chain)
        self.observations, self._greedily = observations, Conditions(live=own.tensors)
        self._own_live = tuple(own.tensors)
        self.recurrent = self._chain.recurrent
        self.state = state_before(self.recurrent, observations)
        with tf.variable_scope("online") as online, layers_built() as built:
            (self.greedy, *_), self.after = self._chain.step(
                observations, self.state, self._greedily
            )
        self.hidden = hidden_layers(built)
        self.online = self.built.add(online)
        names = ["target", *(f"past_target/{i}" for i in range(config.averaged_targets - 1))]
        if config.rollout:
            names = []
        # From the newest to the oldest.
        copies = [self._copy_of_online(name, whole=not self.built.shared) for name in names]
        self.built.targets = [scope for scope, *_ in copies]
        self.target: str | None = None
        self.greedy_target: Values | None = None
        if copies:
            self.target, self.greedy_target, _ = copies[0]
        self.ema: str | None = None
        self.greedy_ema: Values | None = None
        self.after_ema: State = STATELESS
        if config.ema_decay:
            self.ema, self.greedy_ema, self.after_ema = self._copy_of_online("ema")
        self.behaviour: str | None = None
        if config.loop == "concurrent":
            self.behaviour, *_ = self._copy_of_online("behaviour")
        others = [*filter(None, (self.ema, self.behaviour))]
        self.ops = CopyOps(self.online, self.built.targets, others, config)

    def everywhere(self) -> Iterator[tuple[str, list[tf.Variable]]]:
        """Yields each online weight, by its name after the scope, and its copies.

        Without those of the network that acts in a concurrent loop.
        """
        targets = [variables_in(scope) for scope in self.built.targets]
        averaged = variables_in(self.ema) if self.ema else {}
        for name, online in variables_in(self.online).items():
            copies = [of[to] for of in targets for to in self.ops.copied_to(name) if to in of]
            yield name, [online, *copies, *([averaged[name]] if averaged else ())]

    def first_weights(self, seed: int) -> dict[str, np.ndarray]:
        """Returns first weights of the online network, drawn by another seed in a graph apart.

        Initializers of TensorFlow's own would go on with their random numbers in this graph.
        """
        shown = self.observations
        with tf.Graph().as_default(), root_scope("", seed):
            tf.set_random_seed(seed)
            live = {name: tf.placeholder(tf.float32, []) for name in self._own_live}
            with tf.variable_scope("online", use_resource=True) as online:
                observation = tf.placeholder(shown.dtype, shown.shape)
                state = state_before(self.recurrent, observation)
                self._chain.step(observation, state, Conditions(live=live))
            variables = variables_in(online.name)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                return {name: np.array(v) for name, v in session.run(variables).items()}

    def greedy_by(self, getter: Any = None) -> Values:
        """Builds `greedy` once more, with the online weights that a custom getter gives."""
        shown = self.observations, self.state
        return self.built.step(self.online, *shown, self._greedily, getter)[0][0]

    def acting(
        self, observation: tf.Tensor, state: State, conditions: Conditions, *, apart: bool = False
    ) -> tuple[list[Values], State]:
        """Returns the values of the network that acts, [K], and its state after `observation`.

        Args:
          state: before it; of a network that remembers nothing STATELESS.
          apart: whether the copy acts that a concurrent loop has; else the online network does.
        """
        name = self.behaviour if apart else self.online
        assert name is not None
        return self.built.step(name, observation, state, conditions)

    # Values of each network of a chain, [K]; without a chain there is one.

    def values(self, observation: tf.Tensor, conditions: Conditions) -> list[Values]:
        """Returns the values of the online network."""
        return self._at(self.online, observation, conditions)

    def frozen_values(self, observation: tf.Tensor, conditions: Conditions) -> list[Values]:
        """Returns the values of the online network, without gradient."""
        return self._at(self.online, observation, conditions, stop_gradient_getter)

    def each_target(self, observation: tf.Tensor, conditions: Conditions) -> list[list[Values]]:
        """Returns the values of the target network, then of its older copies, the newest first."""
        return [self._at(name, observation, conditions) for name in self.built.targets]

    def behave_as_online(self) -> tf.Operation:
        """Copies the online network to the one that acts in a concurrent loop."""
        assert self.behaviour is not None
        return copy_vars(self.online, self.behaviour)

    def _at(
        self, name: str, observation: tf.Tensor, conditions: Conditions, getter: Any = None
    ) -> list[Values]:
        return self.built.step(name, observation, STATELESS, conditions, getter)[0]

    def _copy_of_online(self, name: str, *, whole: bool = True) -> tuple[str, Values, State]:
        """Builds a copy; returns its scope's name, and its values and state of what is shown."""
        shown, state = self.observations, self.state
        features = None
        if not whole:
            features = self.built.torso_of(self.online, shown, self._greedily)
        prefix = "/".join(filter(None, (tf.get_variable_scope().name, name))) + "/"
        getter = _guarded_copy_getter(variables_in(self.online), prefix)
        with tf.variable_scope(name, custom_getter=getter) as scope:
            if features is not None:
                (values, *_), after = self._chain(shown, self._greedily, features), state
            else:
                (values, *_), after = self._chain.step(shown, state, self._greedily)
        return self.built.add(scope), values, after


def _guarded_copy_getter(
    originals: Mapping[str, tf.Variable], prefix: str
) -> Callable[..., tf.Tensor]:
    """A getter of a copy's variables: they begin as the originals do, and have no gradient.

    So no first weights are drawn for a copy, and none is copied at the start.
    """

    def getter(getter: Callable[..., tf.Variable], name: str, *args: Any, **how: Any) -> tf.Tensor:
        original = originals.get(name.removeprefix(prefix))
        if original is not None:
            how["initializer"] = lambda *_, **__: original.initial_value
        return stop_gradient_getter(getter, name, *args, **how)

    return getter


def state_before(recurrent: Recurrent | None, observations: tf.Tensor) -> State:
    """Returns a placeholder of the state before `observations` [M, ...]: [M, S].

    It is zeros, as an episode begins, unless something is fed. Without a memory it is STATELESS.
    """
    if recurrent is None:
        return STATELESS
    zeros = tf.zeros([tf.shape(observations)[0], recurrent.state_size])
    return tf.placeholder_with_default(zeros, [None, recurrent.state_size], "state")
