"""The concurrent loop: one thread steps the envs while another makes the updates.

Concurrent training, Daley & Amato (2021), https://arxiv.org/abs/2111.01264, section 3. In phase p

    this thread   acts with the weights from the beginning of phase p, and buffers the rows
    the learner   makes the updates that were due at the end of phase p - 1

When both are done, the rows are stored in the replay. During a phase neither thread sees the
other's work, so timing changes nothing: the same seed gives the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from targetnet.agents.dqn.acting import RowBuffer
from targetnet.agents.dqn.agent import DqnAgent, LearnStats
from targetnet.agents.loops.plain import LoopState, Tick, telling_env_step, updates_of
from targetnet.envs import Envs, Episode, Step
from targetnet.rl_core.replay import newest_frame


def concurrent_loop(agent: DqnAgent, envs: Envs, state: LoopState | None = None) -> Iterator[Tick]:
    """Trains like `training_loop`, but yields one tick per phase of `learn_period` env steps.

    Safe points lie between phases. A live value that is set there holds for a whole phase; the
    schedules of epsilon and temperature, which only acting uses, advance inside a phase too.
    """
    config, live = agent.config, agent.hyperparameters
    state = LoopState.of_run(config, state)
    live.env_step = state.env_step
    longest = longest_phase(agent)
    with telling_env_step(state), ThreadPoolExecutor(1, "learner") as learner:
        step = state.step or envs.reset()
        while state.env_step < config.env_steps:
            agent.follow()
            learned, begun = None, threading.Event()
            if state.due_updates:
                wanted = state.takes_stats(config.log_period)
                learn = agent.plan(state.due_updates, stats=wanted)
                learned = learner.submit(_telling(begun, learn))
            phase = _Phase(agent, envs)
            try:
                if learned:
                    # A thread that acts gives up the interpreter mostly for calls that are over
                    # before another wakes up: the learner would wait, for 5 ms at worst.
                    begun.wait()
                step, actions = phase.collect(step, state, longest)
            finally:
                # Even after a failure the replay must hold every env step that was counted.
                rows = phase.shown.rows() if phase.shown.count else None
                try:
                    stats = learned.result() if learned else None
                finally:
                    if rows:
                        agent.store(rows)
            state.due_updates = updates_of(phase.phases_due, state.env_step, config, live)
            yield Tick(
                state.env_step, tuple(phase.episodes), tuple(phase.ended_at), stats, actions, step
            )


def _telling(
    begun: threading.Event, learn: Callable[[], LearnStats | None]
) -> Callable[[], LearnStats | None]:
    """The same updates, which say that they have begun."""

    def make() -> LearnStats | None:
        begun.set()
        return learn()

    return make


def longest_phase(agent: DqnAgent) -> int:
    """Returns the largest number of time steps of a phase, even if no learning is due."""
    return min(max(1, agent.replay.steps // 2), agent.replay.rows.most_at_once)


class _Phase:
    """Steps the envs for one phase and buffers the rows."""

    def __init__(self, agent: DqnAgent, envs: Envs) -> None:
        self._agent, self._envs = agent, envs
        self.shown = RowBuffer()
        self.episodes: list[Episode] = []
        self.ended_at: list[int] = []
        self.phases_due = 0

    def collect(self, step: Step, state: LoopState, longest: int) -> tuple[Step, np.ndarray]:
        """Steps the envs until learning is due; returns their last step and the last actions."""
        agent, envs, live = self._agent, self._envs, self._agent.hyperparameters
        period, env_steps = live["learn_period"], agent.config.env_steps
        stack = agent.replay.rows.stack
        while True:
            chosen = agent.act(step.observation, state.tick, step.legal, step.autoreset)
            actions = chosen.pop("action")
            self.shown.put(
                newest_frame(step.observation, stack), actions, step.reward, step.terminated,
                step.autoreset, step.legal, chosen,
            )  # fmt: skip
            self.phases_due = state.clock.phases_due(state.new_steps, period)
            step = envs.step(actions)
            state.count(envs.num_envs - int(np.count_nonzero(step.autoreset)))
            live.env_step = state.env_step
            if step.episodes:
                self.episodes += step.episodes
                self.ended_at += [state.env_step] * len(step.episodes)
            over = self.phases_due or self.shown.count == longest or state.env_step >= env_steps
            if over:
                return step, actions
