"""P agents of one form in one graph: each with its own seed and live values, exact as alone.

    population = Population(configs, envs.observation_shape, envs.observation_dtype, 2)
    actions = population.members[3].step(observation, reward, terminated, autoreset)

A member is a `DqnAgent`. They take turns on the variables of one graph (`rl_core.graph.members`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.config.members import require_one_form
from agents.config.model import DqnConfig
from agents.dqn.agent import DqnAgent


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
        self.members = [built.member(i, config) for i, config in enumerate(configs)]
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

    def close(self) -> None:
        """Closes the session of all."""
        self._built.close()
