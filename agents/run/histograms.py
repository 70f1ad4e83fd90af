"""Histograms of weights and gradients, while the live value `histograms` is not 0."""

from __future__ import annotations

from targetnet.agents.dqn.agent import DqnAgent
from targetnet.agents.run.points import SinkGroup
from targetnet.rl_core.board.tags import Tag, gradients_tag, weights_tag


class Histograms:
    """Reports histograms of one agent's weights and gradients.

    It reads both and changes nothing: the gradients are of the batch that the next update draws,
    and numbers that are drawn for an update do not depend on how often they are.

    Args:
      agent: whose weights and gradients these are.
      points: take them.
    """

    def __init__(self, agent: DqnAgent, points: SinkGroup) -> None:
        self._agent, self._points = agent, points

    def write_if_due(self, before: int, due: int, env_step: int) -> None:
        """Reports them if their period ends between two points of the curves.

        Args:
          before, due: env steps at which the point before and this one were due.
          env_step: env step now.
        """
        period = self._agent.hyperparameters["histograms"]
        # Periods are counted from env step 0, so a resumed run needs to know nothing else.
        if period and due // period > before // period:
            self._write(env_step)

    def _write(self, env_step: int) -> None:
        agent = self._agent
        for name, weights in agent.state.weights().items():
            self._points.histogram(weights_tag(name).name, weights, env_step)
        if agent.updates:
            agent.acting.flush()  # the next update's batch may have rows that still wait
            for name, gradient in agent.learner.gradients.read().items():
                self._points.histogram(gradients_tag(name).name, gradient, env_step)


def histogram_tags(agent: DqnAgent) -> tuple[Tag, ...]:
    """Returns the tags of all histograms of weights and gradients."""
    names = agent.learner.gradients.names
    return (*map(weights_tag, names), *map(gradients_tag, names))
