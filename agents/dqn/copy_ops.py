"""The operations that copy the online network to others, and shift the networks of a chain."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.network_parts import is_learned, link_name, taken_whole
from targetnet.rl_core.graph.sync import copy_vars, paired_variables


class CopyOps:
    """Builds them, each as often as it is asked for.

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
