"""Evaluation on separate envs, greedy by default."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from targetnet.agents.config.envs import envs_beside
from targetnet.agents.config.files import as_config
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.policy import Playing, Policy
from targetnet.envs import Envs, Episode, Step
from targetnet.rl_core.arguments import require_a, require_function, require_whole
from targetnet.rl_core.epsilon_greedy_numpy import EpsilonGreedy
from targetnet.rl_core.errors import EnvFault
from targetnet.rl_core.hyperparameters import Knob
from targetnet.rl_core.philox import NumpyStream

Watch = Callable[[int, int], None]  # (episodes done, env steps)

_EPSILON = Knob("epsilon", "1", "probability of a random action", at_least=0, at_most=1)
_AT_ONCE = 10  # envs; one call into the graph acts for all of them
_SEED_OFFSET = 1_000_003  # keeps the seeds of evaluation apart from the seeds of training


class Returns(list[float]):
    """Undiscounted returns of some episodes.

    Attributes:
      cut: number of episodes that were cut off; each counts with its return until the cut.
      lengths: env steps of each episode.
    """

    def __init__(self, episodes: Iterable[Episode] = ()) -> None:
        super().__init__()
        self.cut = 0
        self.lengths: list[int] = []
        self.add(episodes)

    def add(self, episodes: Iterable[Episode]) -> None:
        for episode in episodes:
            self.append(episode.episode_return)
            self.lengths.append(episode.length)
            self.cut += episode.cut

    def counted(self, of: str = "mean") -> str:
        """Returns what their mean is of: "1 episode", or "mean of 5 episodes, 9.0 to 10.0"."""
        if len(self) == 1:
            return "1 episode"
        return f"{of} of {len(self):,} episodes, {min(self):,.1f} to {max(self):,.1f}"


def cut_note(cut: int, config: DqnConfig) -> str:
    """Returns a note for a mean return; "" if no episode was cut off."""
    return f"; {cut:,} cut after {config.eval_max_steps:,} env steps" if cut else ""


class TooLong:
    """Cuts the episodes of `envs` that have lasted `most` env steps."""

    def __init__(self, envs: Envs, most: int) -> None:
        self._envs, self._most = envs, most
        self._lengths = np.zeros(envs.num_envs, np.int64)

    def cut(self, step: Step) -> tuple[Episode, ...]:
        """Cuts off episodes that are too long and returns them; call it after every step."""
        lengths = self._lengths
        lengths += ~step.autoreset
        lengths[[episode.env for episode in step.episodes]] = 0
        if lengths.max() < self._most:
            return ()
        too_long = lengths >= self._most
        lengths[too_long] = 0
        return self._envs.cut(too_long)


@runtime_checkable
class StatefulPolicy(Protocol):
    """A policy that may depend on what it saw before."""

    def playing(self, num_envs: int) -> Playing: ...


@runtime_checkable
class Greedy(Protocol):
    """A DqnAgent, or a policy that was loaded."""

    @property
    def greedy(self) -> Policy: ...


def playing(policy: Policy, num_envs: int) -> Playing:
    """Returns a policy for `num_envs` envs, of which it sees each time step."""
    if isinstance(policy, StatefulPolicy):
        return policy.playing(num_envs)
    return lambda observation, autoreset, legal: policy(observation, legal)


def exploring(act: Playing, epsilon: float, envs: Envs, stream: NumpyStream) -> Playing:
    """Returns a policy that takes uniformly random legal actions too, with probability epsilon."""
    choose = EpsilonGreedy(stream, envs.num_envs, envs.num_actions, envs.branches)
    time_steps, epsilon = itertools.count(), float(np.float32(epsilon))

    def play(
        observation: np.ndarray, autoreset: np.ndarray, legal: np.ndarray | None
    ) -> np.ndarray:
        # Asked at each time step, because the policy may remember them.
        best = np.asarray(act(observation, autoreset, legal))
        return choose(lambda _: best, observation, epsilon, next(time_steps), legal)

    return play


def evaluate(
    agent: Greedy,
    config: DqnConfig | Path | str,
    episodes: int,
    *,
    seed: int | None = None,
    policy: Policy | None = None,
    epsilon: float = 0.0,
    stop: Callable[[], bool] = lambda: False,
    watch: Watch = lambda done, env_steps: None,
) -> Returns:
    """Plays `episodes` episodes, greedy ones by default, and returns their undiscounted returns.

    Each env plays a share of the episodes that is fixed beforehand, so short episodes are not
    over-represented. An episode of `config.eval_max_steps` env steps is cut off. Nothing is stored
    and nothing is learned.

    Args:
      agent: its greedy policy plays: a DqnAgent, or what `load_policy` returns.
      config: names the env; a config, a shipped config's name, or the path of a TOML file.
      episodes: number of episodes.
      seed: seed of the episodes; by default derived from the run's seed.
      policy: plays instead of the agent's greedy policy: a function of observations and masks, or
        one with a method `playing`, as `GreedyPolicy` has.
      epsilon: probability of a uniformly random legal action instead.
      stop: called before every step; when it returns True, evaluation ends with the returns so far.
      watch: called after every step with the number of finished episodes and of env steps.
    """
    require_a(Greedy, "agent", agent, "a DqnAgent, or what load_policy(run) returns")
    config = as_config(config)
    require_whole("episodes", episodes, 1)
    if seed is not None:
        require_whole("seed", seed, 0)
    require_function("policy", policy, "observations", "legal")
    epsilon = _EPSILON.check(epsilon)
    with contextlib.closing(EvaluationEnvs(config, seed)) as envs:
        return play_episodes(policy or agent.greedy, envs, episodes, stop, watch, epsilon)


class EvaluationEnvs:
    """Envs for the evaluations of one run, made at the first one and kept until `close`.

    Envs that draw on the one display of pygame fail once another one is closed: so those of
    training, while the run goes on.

    Args:
      config: of the run.
      seed: of their episodes; None derives it from the run's.

    Attributes:
      config: the same.
      seed: of their episodes.
    """

    def __init__(self, config: DqnConfig, seed: int | None = None) -> None:
        self.config = config
        self.seed = config.seed + _SEED_OFFSET if seed is None else seed
        self._made: dict[int, Envs] = {}

    def of(self, episodes: int) -> Envs:
        """Returns the envs for so many episodes; `reset` begins the same ones each time.

        Raises:
          EnvError: they cannot be made.
        """
        num_envs = min(episodes, _AT_ONCE)
        if num_envs not in self._made:
            self._made[num_envs] = envs_beside(self.config, num_envs, seed=self.seed)
        return self._made[num_envs]

    def close(self) -> None:
        """Closes all of them, even if one of them raises."""
        with contextlib.ExitStack() as last:
            for envs in self._made.values():
                last.callback(envs.close)
            self._made = {}


def play_episodes(
    policy: Policy,
    kept: EvaluationEnvs,
    episodes: int,
    stop: Callable[[], bool],
    watch: Watch,
    epsilon: float = 0.0,
) -> Returns:
    """Plays as `evaluate` does, on envs that are kept."""
    envs = kept.of(episodes)
    num_envs = envs.num_envs
    quota = [len(range(env, episodes, num_envs)) for env in range(num_envs)]
    act = playing(policy, num_envs)
    if epsilon:
        act = exploring(act, epsilon, envs, NumpyStream(kept.seed, "evaluation"))
    try:
        returns, env_steps = Returns(), 0
        step, too_long = envs.reset(), TooLong(envs, kept.config.eval_max_steps)
        while len(returns) < episodes and not stop():
            step = envs.step(np.asarray(act(step.observation, step.autoreset, step.legal)))
            ended = step.episodes + too_long.cut(step)
            returns.add(episode for episode in ended if episode.number < quota[episode.env])
            env_steps += num_envs
            watch(len(returns), env_steps)
        return returns
    except EnvFault as fault:
        fault.add(before="in an evaluation, ")
        raise
