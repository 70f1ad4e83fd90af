"""All that an agent has learned, as arrays: members of a population copy it from one another.

That is what a rewind brings back: the online network and its copies, the averaged weights, the
optimizer with its step counters, and the target's age.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from targetnet.agents.dqn.actor import Actor
from targetnet.agents.dqn.learner import Learner
from targetnet.rl_core.errors import ScopeMismatch
from targetnet.rl_core.graph.weights import VariableValues


class LearnedState:
    """Reads and replaces what one agent has learned.

    Args:
      variables: all of the agent's.
      acting, learner: of the agent.
      names: of the variables that it learns, as `variables` has them.

    Attributes:
      renewals: how often first weights were drawn again; it counts on after a rewind.
    """

    def __init__(
        self, variables: VariableValues, acting: Actor, learner: Learner, names: Collection[str]
    ) -> None:
        self._variables, self._acting, self._learner = variables, acting, learner
        self._names = tuple(sorted(names))
        self.renewals = 0

    def of_member(self, variables: VariableValues, acting: Actor, learner: Learner) -> LearnedState:
        """The same for a member that begins."""
        return LearnedState(variables, acting, learner, self._names)

    def read(self) -> dict[str, np.ndarray]:
        """Returns all of it, by name."""
        values = self._all()
        return {name: values[name] for name in self._names}

    def replace(self, learned: Mapping[str, np.ndarray]) -> None:
        """Makes it what `read` has returned of another agent of this form.

        Raises:
          ScopeMismatch: it is of another form; says what differs.
        """
        if learned.keys() != {*self._names}:
            other = sorted(learned.keys() ^ {*self._names})
            raise ScopeMismatch(f"this is not what such an agent learns: {', '.join(other)}")
        values = self._all()
        self.is_replaced()
        self._variables.load(values | dict(learned))

    def read_some(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Returns some of it, by name."""
        self.is_copied()
        return self._variables.read_some(names)

    def change(self, values: Mapping[str, np.ndarray]) -> None:
        """Sets some of it, by name."""
        self._learner.moments.to_slots()
        self._variables.set_some(values)

    def host(self) -> dict[str, int]:
        """Returns what Python knows of it; nothing without renewals, for the digests of before."""
        return {"renewals": self.renewals} if self.renewals else {}

    def is_replaced(self) -> None:
        """Takes note that the variables are about to be replaced."""
        self._learner.moments.to_slots()
        self._learner.clock.now = None

    def is_copied(self) -> None:
        """Makes the variables ready to be copied."""
        self._learner.moments.to_slots(changed=False)

    def _all(self) -> dict[str, np.ndarray]:
        self._acting.flush()
        self.is_copied()
        return self._variables.read()
