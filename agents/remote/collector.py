"""An actor's work: steps its envs, explores around the best actions, and delivers rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from targetnet.agents.config.envs import byte_bounds
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.remote.deliveries import (
    ActorReady,
    Answer,
    Delivery,
    Request,
    Weights,
    fault_of,
    kind_of,
)
from targetnet.agents.remote.numpy_policy import NumpyPolicy, can_serve
from targetnet.agents.remote.priorities import td_errors
from targetnet.envs import Envs, Episode, Step, make_envs
from targetnet.rl_core.epsilon_greedy_numpy import LOWEST, EpsilonGreedy, best
from targetnet.rl_core.errors import RlCoreError
from targetnet.rl_core.philox import NumpyStream


class ValuePolicy(Protocol):
    """Computes action values by weights that change."""

    def load(self, weights: Weights) -> None:
        """Acts by these weights from now on."""

    def values(
        self, observation: np.ndarray, time_step: int, live: Mapping[str, float]
    ) -> np.ndarray:
        """[M, ...] observations -> [M, A]."""


class Collector:
    """One actor: M envs, a copy of the network, random numbers of its own.

    What it delivers depends on its number, the config, the requests so far and their weights, and
    on nothing else. So an actor that is lost can be made again.

    Raises:
      RlCoreError: the envs or the network cannot be made.
    """

    def __init__(self, config: DqnConfig, actor: int) -> None:
        M = config.num_envs
        self._config, self._actor, self._collected = config, actor, 0
        self._envs = make_envs(
            config.env_id, M, seed=config.seed, env_kwargs=config.env_kwargs,
            wrapper=config.env_wrapper, wrapper_kwargs=config.env_wrapper_kwargs,
            frame_stack=config.frame_stack, observation_keys=config.observation_keys,
            action_masks=config.action_masks, first=actor * M,
        )  # fmt: skip
        self.kind = kind_of(self._envs)
        self._policy = _policy(config, self._envs, actor)
        self._version: int | None = None  # of the weights that the policy has
        numbers = NumpyStream(config.seed, f"act/{actor}")
        branches = self._envs.branches
        self._explore = EpsilonGreedy(numbers, M, self._envs.num_actions, branches)
        self._step: Step | None = None  # the last one; None before the first

    def restore(self, delivered: int, lanes: list[dict[str, Any]]) -> list[str]:
        """Brings the envs to where they were after so many deliveries, by `Envs.state` of then.

        Returns:
          A message for each env that did not come back the same. It begins a new episode.
        """
        self._collected, self._step = delivered, None
        if not delivered:
            return []
        self._step, problems = self._envs.restore({"lanes": lanes})
        return problems

    def collect(self, request: Request, weights: Weights) -> Answer:
        """Makes the time steps of one delivery."""
        assert request.number == self._collected, (request.number, self._collected)
        rows = _Rows(self._envs, self._config.actor_steps)
        try:
            if request.weights != self._version:
                self._policy.load(weights)
                self._version = request.weights
            if self._step is None:
                self._step = self._envs.reset()
            self._make_steps(rows, request.live, self._step)
            if self._config.actor_priorities:
                rows.columns["priority"] = self._priorities(rows.columns, request.live)
        except RlCoreError as error:
            found = fault_of(error, self._actor, request.number, self._config.seed)
            return found._replace(env_steps=rows.transitions() + found.env_steps)
        self._collected += 1
        lanes = ({n: v for n, v in lane.items() if n != "actions"} for lane in self._lanes())
        return Delivery(
            self._actor, request.number, rows.columns, tuple(rows.episodes), tuple(lanes)
        )

    def close(self) -> None:
        """Closes the envs."""
        self._envs.close()

    def _make_steps(self, rows: _Rows, live: Mapping[str, float], step: Step) -> None:
        T = self._config.actor_steps
        first, epsilon, branches = self._collected * T, live["epsilon"], self._envs.branches
        for t in range(T):
            rows.show(t, step)
            shown, legal = step.observation, step.legal

            def greedy(
                observation: np.ndarray, now: int = first + t, legal: np.ndarray | None = legal
            ) -> np.ndarray:
                q = self._policy.values(observation, now, live)
                return best(q if legal is None else np.where(legal, q, LOWEST), branches)

            actions = self._explore(greedy, shown, epsilon, first + t, legal)
            rows.columns["action"][t] = actions
            self._step = step = self._envs.step(actions)
            rows.led_to(t, step)
        rows.show(T, step)

    def _priorities(
        self, columns: Mapping[str, np.ndarray], live: Mapping[str, float]
    ) -> np.ndarray:
        observation = columns["observation"]
        flat = observation.reshape(-1, *observation.shape[2:])
        q = self._policy.values(flat, self._collected * self._config.actor_steps, live)
        q = q.reshape(*observation.shape[:2], -1)  # [T + 1, M, A]
        legal = columns.get("legal")
        q = q if legal is None else np.where(legal, q, LOWEST)
        return td_errors(q, columns, live, value_rescaling=self._config.value_rescaling)

    def _lanes(self) -> list[dict[str, Any]]:
        lanes: list[dict[str, Any]] = self._envs.state()["lanes"]
        return lanes


def bring_back(
    collectors: dict[int, Collector],
    config: DqnConfig,
    actor: int,
    delivered: int,
    lanes: list[dict[str, Any]],
) -> ActorReady:
    """Makes an actor's collector where there is none yet, and restores it.

    A mistake that the user can mend comes again and again: it is an answer, and no loss.
    """
    try:
        if actor not in collectors:
            collectors[actor] = Collector(config, actor)
        problems = collectors[actor].restore(delivered, lanes)
        return ActorReady(actor, tuple(problems), collectors[actor].kind)
    except RlCoreError as error:
        return ActorReady(actor, fault=fault_of(error, actor, delivered, config.seed))


class _Rows:
    """The rows of one delivery in the making."""

    def __init__(self, envs: Envs, steps: int) -> None:
        lead = steps + 1, envs.num_envs
        self.columns: dict[str, np.ndarray] = {
            "observation": np.zeros((*lead, *envs.observation_shape), envs.observation_dtype),
            "action": np.zeros((*lead, *envs.spaces.actions.agent_shape), np.int32),
            "reward": np.zeros(lead, np.float32),
            "terminated": np.zeros(lead, np.bool_),
            "autoreset": np.zeros(lead, np.bool_),
        }
        # Nothing leads from the row that is stored before these ones to the first of them.
        self.columns["autoreset"][0] = True
        if envs.has_action_masks:
            self.columns["legal"] = np.zeros((*lead, envs.num_actions), np.bool_)
        self.episodes: list[tuple[int, Episode]] = []
        self._made = 0

    def show(self, t: int, step: Step) -> None:
        """Writes what the envs show in row t."""
        self.columns["observation"][t] = step.observation
        if step.legal is not None:
            self.columns["legal"][t] = step.legal

    def led_to(self, t: int, step: Step) -> None:
        """Writes what the actions of row t led to."""
        columns, self._made = self.columns, t + 1
        columns["reward"][t + 1] = step.reward
        columns["terminated"][t + 1] = step.terminated
        columns["autoreset"][t + 1] = step.autoreset
        self.episodes += [(t, episode) for episode in step.episodes]

    def transitions(self) -> int:
        """Returns the number of transitions so far."""
        made = self.columns["autoreset"][1 : self._made + 1]
        return int(made.size - np.count_nonzero(made))


def _policy(config: DqnConfig, envs: Envs, actor: int) -> ValuePolicy:
    if can_serve(config) and not envs.spaces.parts:
        return NumpyPolicy(config, envs.num_actions, byte_bounds(config, envs), envs.branches)
    # Imports TensorFlow.
    from targetnet.agents.remote.graph_policy import GraphPolicy

    return GraphPolicy(config, envs, actor)
