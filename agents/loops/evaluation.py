"""Greedy evaluation on envs of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from agents.config.envs import envs_beside
from agents.config.model import DqnConfig
from agents.dqn.actor import Policy
from agents.dqn.agent import DqnAgent
from envs import Envs, Episode, Step
from rl_core.errors import EnvFault

Watch = Callable[[int, int], None]  # (episodes done, env steps)

_AT_ONCE = 10  # envs: one call into the graph serves them all
_SEED_OFFSET = 1_000_003  # evaluation episodes are never training episodes


class Returns(list[float]):
    """Undiscounted returns of some episodes.

    Attributes:
      cut: how many of them were cut off; they count with the return until then.
    """

    def __init__(self, episodes: Iterable[Episode] = ()) -> None:
        super().__init__()
        self.cut = 0
        self.add(episodes)

    def add(self, episodes: Iterable[Episode]) -> None:
        for episode in episodes:
            self.append(episode.episode_return)
            self.cut += episode.cut


def cut_note(cut: int, config: DqnConfig) -> str:
    """What stands beside a mean of returns if some are of episodes that were cut off."""
    return f"; {cut:,} cut after {config.eval_max_steps:,} env steps" if cut else ""


class TooLong:
    """Cuts the episodes of `envs` that have lasted `most` env steps."""

    def __init__(self, envs: Envs, most: int) -> None:
        self._envs, self._most = envs, most
        self._lengths = np.zeros(envs.num_envs, np.int64)

    def cut(self, step: Step) -> tuple[Episode, ...]:
        """Returns what it cut after `step`; to be called after every one."""
        lengths = self._lengths
        lengths += 1
        lengths[step.autoreset] = 0
        if lengths.max() < self._most:
            return ()
        too_long = (lengths >= self._most) & ~(step.terminated | step.truncated)
        lengths[too_long] = 0
        return self._envs.cut(too_long)


def evaluate(
    agent: DqnAgent,
    config: DqnConfig,
    episodes: int,
    *,
    seed: int | None = None,
    policy: Policy | None = None,
    stop: Callable[[], bool] = lambda: False,
    watch: Watch = lambda done, env_steps: None,
) -> Returns:
    """Undiscounted returns of `episodes` episodes of the greedy policy.

    The episodes are fixed before the first one ends (each env plays its share), so short ones
    are not over-represented. One that lasts `config.eval_max_steps` is cut off there. Nothing is
    stored and nothing is learned.

    Args:
      seed: of the episodes; by default derived from the run's seed.
      policy: what acts; by default the agent's greedy one.
      stop: asked before every step; once it says yes, the returns so far are given.
      watch: told after every step how many episodes are done, and of the env steps so far.
    """
    act = policy or agent.greedy
    num_envs = min(episodes, _AT_ONCE)
    quota = [len(range(env, episodes, num_envs)) for env in range(num_envs)]
    seed = config.seed + _SEED_OFFSET if seed is None else seed
    envs = envs_beside(config, num_envs, seed=seed)
    try:
        returns, env_steps = Returns(), 0
        step, too_long = envs.reset(), TooLong(envs, config.eval_max_steps)
        while len(returns) < episodes and not stop():
            step = envs.step(np.asarray(act(step.observation, step.legal)))
            ended = step.episodes + too_long.cut(step)
            returns.add(episode for episode in ended if episode.number < quota[episode.env])
            env_steps += num_envs
            watch(len(returns), env_steps)
        return returns
    except EnvFault as fault:
        fault.add(before="in an evaluation, ")
        raise
    finally:
        envs.close()
