"""A run's policy apart from the run: whose weights, and a graph that has nothing else in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow.compat.v1 as tf

from agents.config.envs import byte_bounds, envs_beside
from agents.dqn.networks import build_network
from agents.run.directory import RunDir
from rl_core.checkpoint.store import CheckpointStore
from rl_core.errors import RunDirError
from rl_core.graph.scopes import variables_in
from rl_core.graph.weights import require_same_kinds
from rl_core.losses import legal_only
from rl_core.networks import ByteBounds, of_scaled_bytes


def policy_weights(
    directory: RunDir, *, averaged: bool = False, best: bool = False
) -> dict[str, np.ndarray]:
    """A run's weights by the name after their scope: of its end, or of its last checkpoint.

    Args:
      averaged: the averaged ones instead of the online network's.
      best: those of the checkpoint with the best evaluation.

    Raises:
      RunDirError: there are none of that kind.
      CheckpointError: they are damaged.
    """
    if not best and directory.has_weights(averaged=averaged):
        return directory.load_weights(averaged=averaged)
    store = CheckpointStore(directory.checkpoints)
    checkpoint = store.best() if best else store.latest()
    scope = "ema/" if averaged else "online/"
    variables = checkpoint.variables if checkpoint else {}
    found = {
        name.removeprefix(scope): value
        for name, value in variables.items()
        # Slots of the optimizer are named after their variable: online/torso/w/Adam.
        if name.startswith(scope) and name.rpartition("/")[0] not in variables
    }
    if found:
        return found
    if best and checkpoint is None:
        raise RunDirError(f"{directory.path} has no checkpoint of an evaluation yet")
    return directory.load_weights(averaged=averaged)  # says what is missing


@dataclass(frozen=True)
class Policy:
    """The greedy policy alone, in a graph and session of its own.

    Attributes:
      observation: [M, ...] placeholder of the stored dtype; bytes are scaled in the graph.
      legal: [M, A] bool placeholder, or None if the env has no action masks.
      action: [M] int64, as the env numbers its actions.
      q: [M, A] float32.
    """

    session: tf.Session
    observation: tf.Tensor
    legal: tf.Tensor | None
    action: tf.Tensor
    q: tf.Tensor

    def act(self, observations: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:
        """[M, ...] and, with action masks, [M, A] -> [M]."""
        feeds: dict[tf.Tensor, np.ndarray | None] = {self.observation: observations}
        if self.legal is not None:
            feeds[self.legal] = legal
        return self.session.run(self.action, feeds)


def build_policy(directory: RunDir, weights: dict[str, np.ndarray]) -> Policy:
    """Raises: ScopeMismatch if the weights are not of the run's network."""
    config = directory.config()
    envs = envs_beside(config)
    envs.close()
    graph = tf.Graph()
    with graph.as_default():
        shape = [None, *envs.observation_shape]
        observation = tf.placeholder(envs.observation_dtype, shape, "observation")
        with tf.variable_scope("online") as scope:
            bounds = byte_bounds(config, envs)
            network = of_scaled_bytes(
                build_network(config, envs.num_actions), bounds and ByteBounds(*bounds)
            )
            values = network(observation)
        q = tf.identity(values.q, "q")
        legal = None
        if envs.has_action_masks:
            legal = tf.placeholder(tf.bool, [None, envs.num_actions], "action_mask")
        best = tf.argmax(legal_only(q, legal), axis=1, output_type=tf.int64)
        action = tf.add(best, np.int64(envs.first_action), "action")
        variables = variables_in(scope.name)
        require_same_kinds(variables, weights, f"of {directory.path}")
        session = tf.Session(graph=graph)
        for name, variable in variables.items():
            initial = variable.initializer.inputs[1]
            session.run(variable.initializer, {initial: weights[name]})
    return Policy(session, observation, legal, action, q)
