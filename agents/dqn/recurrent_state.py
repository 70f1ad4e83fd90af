"""The memory of the network that acts, of the running episodes."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from targetnet.agents.dqn.networks import Networks
from targetnet.rl_core.networks import STATELESS, Conditions, State, Values
from targetnet.rl_core.replay import STATE, Rows


class RecurrentState:
    """The recurrent state of N envs, in a variable; of a network without memory nothing.

    Make it while the graph is being built.

    Args:
      networks: of the agent.
      num_envs: N.
    """

    def __init__(self, networks: Networks, num_envs: int) -> None:
        self._networks = networks
        self._state: tf.Variable | None = None
        if networks.recurrent is not None:
            with tf.variable_scope("acting"):
                self._state = tf.get_variable(
                    STATE, [num_envs, networks.recurrent.state_size], tf.float32,
                    tf.zeros_initializer(), trainable=False,
                )  # fmt: skip

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for the variable."""
        return variable is self._state

    def act(
        self,
        observation: tf.Tensor,
        autoreset: tf.Tensor | None,
        conditions: Conditions,
        *,
        apart: bool = False,
    ) -> tuple[list[Values], Rows, list[tf.Operation]]:
        """Asks the network that acts for its values, and remembers what it saw.

        Args:
          observation: [N, ...].
          autoreset: [N] bool: where an episode begins, with nothing to remember. None: no memory.
          apart: as for `Networks.acting`.

        Returns:
          Its values, the columns of the replay that belong to the time step, and what keeps the
          state for the next one.
        """
        before: State = STATELESS
        if self._state is not None:
            assert autoreset is not None
            before = tf.where_v2(autoreset[:, None], 0.0, self._state.read_value())
        values, after = self._networks.acting(observation, before, conditions, apart=apart)
        if self._state is None:
            return values, {}, []
        return values, {STATE: before}, [self._state.assign(after, read_value=False)]
