"""The remote loop: actors step the envs, perhaps on other machines; the learner is here.

In phases. In phase p every actor makes one delivery with the weights from the beginning of the
phase, while the learner makes the updates that were due at the end of phase p - 1. Then the
deliveries are stored, in the order of the actors. Neither side sees the other's work during a
phase, so the same seed gives the same bits, whatever the network does.

Free running, after Horgan et al. (2018), https://arxiv.org/abs/1803.00933. Each actor has up to
`actor_ahead` requests. Whenever a delivery arrives, it is stored, the updates that are due then are
made, and its actor is asked again with the present weights. All of that follows from the order of
the arrivals, which is recorded: `agents/remote/actor_pool.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.agent import DqnAgent, LearnStats
from targetnet.agents.loops.plain import NO_ACTIONS, LoopState, Tick, telling_env_step, updates_of
from targetnet.agents.remote.actor_pool import ActorPool, StoppedWaiting
from targetnet.agents.remote.deliveries import Delivery, delivered, sent_beside_epsilon
from targetnet.agents.remote.remote_envs import RemoteEnvs
from targetnet.envs import Envs, Episode
from targetnet.rl_core.arguments import require_a


def remote_loop(agent: DqnAgent, envs: Envs, state: LoopState | None = None) -> Iterator[Tick]:
    """Trains like `training_loop`, but yields one tick per phase, or free running per delivery.

    A live value that is set at a safe point holds for the updates and the requests after it.

    Raises:
      ArgumentError: `envs` is no `RemoteEnvs`.
      StoppedWaiting: the run was asked to stop while a phase waited for an actor that was lost. The
        phase's updates are made and its rows are not stored, so it cannot end here as a whole.
    """
    require_a(RemoteEnvs, "envs", envs, "the envs of actors, a RemoteEnvs")
    assert isinstance(envs, RemoteEnvs)
    state = LoopState.of_run(agent.config, state)
    agent.hyperparameters.env_step = state.env_step
    way = _in_phases if agent.config.actor_pace == "phases" else _freely
    with telling_env_step(state):
        yield from way(agent, envs, state)


def _in_phases(agent: DqnAgent, envs: RemoteEnvs, state: LoopState) -> Iterator[Tick]:
    config, pool, ask = agent.config, envs.pool, _Requester(agent, envs.pool, state)
    while state.env_step < config.env_steps:
        for actor in pool.actors:
            ask(actor)
        stats = state.learn(agent, state.due_updates)
        state.due_updates = 0
        answers = [pool.take(actor)[0] for actor in pool.actors]
        stored = _StoredDeliveries(agent, state)
        for answer in answers:
            stored.add(delivered(answer))
        state.due_updates = stored.updates_due()
        yield stored.tick(stats)


def _freely(agent: DqnAgent, envs: RemoteEnvs, state: LoopState) -> Iterator[Tick]:
    config, pool, ask = agent.config, envs.pool, _Requester(agent, envs.pool, state)
    assert envs.order is not None
    for actor in pool.actors:
        while pool.pending(actor) < config.actor_ahead:
            ask(actor)
    while state.env_step < config.env_steps:
        try:
            delivery = envs.order.take(pool)
        except StoppedWaiting:
            return  # here is a safe point: all that was taken is stored
        stored = _StoredDeliveries(agent, state)
        stored.add(delivery)
        stats = state.learn(agent, stored.updates_due())
        ask(delivery.actor)
        yield stored.tick(stats)


class _Requester:
    """Asks actors for one more delivery, with the present weights and live values."""

    def __init__(self, agent: DqnAgent, pool: ActorPool, state: LoopState) -> None:
        self._agent, self._pool, self._state = agent, pool, state
        self._sent = sent_beside_epsilon(agent.config)
        # Which weights the actors were given last.
        self._published: tuple[int, int, int] | None = None

    def __call__(self, actor: int) -> None:
        agent, live = self._agent, self._agent.hyperparameters
        # Rows that are stored change the mean and the variance that observations are seen by.
        seen = self._state.tick if agent.config.normalize_observations else 0
        now = agent.updates, agent.state.replaced, seen
        if now != self._published:
            self._pool.publish(agent.state.weights())
            self._published = now
        epsilon = epsilon_of(actor, live["epsilon"], agent.config)
        sent = {name: float(live[name]) for name in self._sent}
        self._pool.ask(actor, agent.updates, {"epsilon": epsilon} | sent)


class _StoredDeliveries:
    """Deliveries that are stored between two safe points."""

    def __init__(self, agent: DqnAgent, state: LoopState) -> None:
        self._agent, self._state, self._begin = agent, state, state.env_step
        self._episodes: list[Episode] = []
        self._ended_at: list[int] = []

    def add(self, delivery: Delivery) -> None:
        """Stores one, and counts its env steps."""
        state, made = self._state, delivery.transitions
        after = (state.env_step + np.cumsum(made)).tolist()  # [T]
        self._agent.store(delivery.rows)
        state.tick += len(made) + 1
        state.env_step = after[-1]
        self._agent.hyperparameters.env_step = state.env_step
        self._episodes += [episode for _, episode in delivery.episodes]
        self._ended_at += [after[t] for t, _ in delivery.episodes]

    def updates_due(self) -> int:
        """Asks the learn clock; call it once, after all were added."""
        state, live = self._state, self._agent.hyperparameters
        phases = state.clock.phases_due(state.env_step - self._begin, live["learn_period"])
        return updates_of(phases, state.env_step, self._agent.config, live)

    def tick(self, stats: LearnStats | None) -> Tick:
        """Returns the tick of the safe point after them."""
        episodes, ended_at = tuple(self._episodes), tuple(self._ended_at)
        return Tick(self._state.env_step, episodes, ended_at, stats, NO_ACTIONS, None)


def epsilon_of(actor: int, epsilon: float, config: DqnConfig) -> float:
    """Returns the probability with which an actor explores, the value of a float32.

        epsilon ** (1 + actor_alpha * actor / (actors - 1))

    Horgan et al. (2018), https://arxiv.org/abs/1803.00933, section 4.1.
    """
    share = actor / (config.actors - 1) if config.actors > 1 else 0.0
    return float(np.float32(epsilon ** (1 + config.actor_alpha * share)))
