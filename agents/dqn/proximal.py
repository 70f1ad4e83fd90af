"""The pull of the online weights towards the target's, as in DQN Pro."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.networks import Networks
from targetnet.rl_core.optimizers.adam import Pull


def proximal_pull(config: DqnConfig, live: LiveFeeds, networks: Networks) -> Pull | None:
    """Returns what builds the part of a step that draws a weight to the target's.

        weight <- weight - step of Adam - learning_rate * proximal_weight * (weight - target's)

    Asadi et al. (2021), https://arxiv.org/abs/2112.05848, whose 1 / c is the weight, and whose step
    is one of gradient descent. Only the blocks that an update trains are drawn.

    Returns:
      None if the config holds no target still in this way.
    """
    if not config.is_built_with("proximal_weight"):
        return None
    of_target = {of.op.name: to for of, to in networks.ops.target_pairs()}

    def pull(variable: tf.Variable, value: tf.Tensor) -> tf.Tensor:
        if variable.op.name not in of_target:  # of the torso that the target shares
            return tf.zeros_like(value)
        share = live["learning_rate"] * live["proximal_weight"]
        return share * (value - of_target[variable.op.name].read_value())

    return pull
