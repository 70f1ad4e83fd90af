"""A run's weights, and its greedy policy in a separate graph."""

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
    """Returns the weights of a run, keyed by the variable's name inside its scope.

    They are the final weights; a run that has not ended gives the weights of its last checkpoint.

    Args:
      directory: the run.
      averaged: return the averaged weights instead of the online network's.
      best: return the weights of the checkpoint with the best evaluation.

    Raises:
      RunDirError: the run has no such weights.
      CheckpointError: the weights are damaged.
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
        # Leave out the optimizer's slots, named after their variable: online/torso/w/Adam.
        if name.startswith(scope) and name.rpartition("/")[0] not in variables
    }
    if found:
        return found
    if best and checkpoint is None:
        raise RunDirError(f"{directory.path} has no checkpoint of an evaluation yet")
    return directory.load_weights(averaged=averaged)  # raises the error that names the missing file


@dataclass(frozen=True)
class LoadedPolicy:
    """Greedy policy in a separate graph and session.

    Attributes:
      session: holds the weights; the caller closes it.
      observation: [M, ...] placeholder of the dtype that the replay stores; the graph scales bytes.
      legal: [M, A] bool placeholder, or None if the env has no action masks.
      action: [M] int64, in the env's numbering of actions.
      q: [M, A] float32.
    """

    session: tf.Session
    observation: tf.Tensor
    legal: tf.Tensor | None
    action: tf.Tensor
    q: tf.Tensor

    def act(self, observations: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:
        """Returns greedy actions [M] for observations [M, ...] and action masks [M, A], if any."""
        feeds: dict[tf.Tensor, np.ndarray | None] = {self.observation: observations}
        if self.legal is not None:
            feeds[self.legal] = legal
        return self.session.run(self.action, feeds)


def build_policy(directory: RunDir, weights: dict[str, np.ndarray]) -> LoadedPolicy:
    """Builds the greedy policy of a run's network with the given weights.

    Raises:
      ScopeMismatch: the weights do not fit the run's network.
    """
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
            values, _ = network(observation)
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
    return LoadedPolicy(session, observation, legal, action, q)
