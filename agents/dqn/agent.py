"""The DQN agent: one graph in which acting, storing, learning and syncing happen.

    step   writes what the envs showed into the replay and returns the actions (agents.dqn.actor)
    learn  makes K updates: sample, TD loss, gradients of the trained blocks, sync by target age
           (agents.dqn.learner)

Every number that may change is a feed; everything with state is a variable. Each part is built by
a module of its own, and here they are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from agents.config.live_values import live_knobs, live_values
from agents.config.model import DqnConfig
from agents.dqn.actor import Acting
from agents.dqn.choosing import KNOBS, Exploration
from agents.dqn.chunk_runner import ChunkRunner
from agents.dqn.in_graph_loop import InGraphLoop
from agents.dqn.learner import Inspection, Learner
from agents.dqn.live_feeds import LiveFeeds, OwnFeeds
from agents.dqn.memory import build_memory
from agents.dqn.needs import require_memory
from agents.dqn.networks import Networks
from agents.dqn.q_values import QValues
from agents.dqn.state import AgentState
from agents.dqn.update import LearnStats
from envs.in_graph.interface import InGraphEnv
from rl_core.errors import RlCoreError
from rl_core.graph.engine import Engine
from rl_core.graph.scopes import Root, root_scope
from rl_core.networks import ByteBounds
from rl_core.random import Keys
from rl_core.replay import Rows

# Live values of the loop, the curves and the choice of an action; updates are fed all others.
_NOT_OF_UPDATES = (*KNOBS, "learn_period", "updates_per_learn", "histograms")


class DqnAgent:
    """Deep Q-learning, Mnih et al. (2015), https://doi.org/10.1038/nature14236, and its family.

        agent = DqnAgent(config, envs.observation_shape, envs.observation_dtype, envs.num_actions)
        actions = agent.step(observation, reward, terminated, autoreset)
        stats = agent.learn(4)

    Several agents may share one engine, each under a scope. Each then has the bits that it would
    have alone, as far as its layers are rl_core's.

    Args:
      config: one run.
      observation_shape, observation_dtype, num_actions: of one env.
      action_masks: whether the envs say which actions are legal.
      rules: of the env in the graph, for the compiled loop.
      byte_bounds: of uint8 observations, as `Envs.byte_bounds`, which scale them to [0, 1].
      engine: one that has not started; whoever made it starts it. None makes and starts one.
      scope: variable scope of everything that is the agent's own; empty opens none.

    Attributes:
      hyperparameters: the live values; read and set them by name.
      state: weights, snapshots, digest; reads and restores all of it.
      q_values: action values of one input now, by the target, and at earlier snapshots.
      engine: graph and session, for looking inside.
      replay: the replay memory.
      networks, acting, learner: the parts, with everything that the methods here leave out.
      chunks: makes many time steps in one call; None without `rules`.

    Raises:
      ConfigError: the config's own network cannot be used.
      ShapeError: the network does not fit the observations.
      MemoryLimitError: it would need more memory than there is.
    """

    def __init__(
        self,
        config: DqnConfig,
        observation_shape: Sequence[int],
        observation_dtype: Any,
        num_actions: int,
        *,
        action_masks: bool = False,
        rules: InGraphEnv | None = None,
        byte_bounds: tuple[np.ndarray, np.ndarray] | None = None,
        engine: Engine | None = None,
        scope: str = "",
    ) -> None:
        require_memory(config, observation_shape, observation_dtype, num_actions)
        self.config, self.num_actions, self._can_learn = config, num_actions, False
        self.engine = engine or Engine(threads=config.threads, onednn=config.onednn)
        with self.engine.building(), root_scope(scope, config.seed) as root:
            # For layers of the user's own that draw their weights by TensorFlow's op seeds.
            tf.set_random_seed(config.seed)
            shape, dtype = [None, *observation_shape], tf.as_dtype(observation_dtype)
            observations = tf.placeholder(dtype, shape, "observations")
            legal = None
            if action_masks:
                legal = tf.placeholder(tf.bool, [None, num_actions], "legal_actions")
            bounds = None if byte_bounds is None else ByteBounds(*byte_bounds)
            self._build(root, observations, legal, bounds, rules)
        self.engine.at_start(self._begin)
        if engine is None:
            self.engine.start()

    def _build(
        self,
        root: Root,
        observations: tf.Tensor,
        legal: tf.Tensor | None,
        bounds: ByteBounds | None,
        rules: InGraphEnv | None,
    ) -> None:
        config, engine = self.config, self.engine
        self._keys = keys = Keys(config.seed)
        self._live = live = LiveFeeds(k for k in live_knobs(config) if _is_of_updates(k.name))
        self.replay = memory = build_memory(config, live, observations, legal)
        own = OwnFeeds(config)
        self.networks = networks = Networks(config, self.num_actions, observations, own, bounds)
        self.learner = learner = Learner(engine, config, keys, live, networks, memory)
        self.hyperparameters = live_values(config, learner.freeze, learner.ops)
        live.start(self.hyperparameters)
        own.start(self.hyperparameters)
        exploration = Exploration(config, keys, self.num_actions)
        self.acting = acting = Acting(
            engine, config, networks, memory, exploration, self.hyperparameters, own, legal
        )
        self.chunks: ChunkRunner | None = None
        if rules is not None:
            loop = InGraphLoop(config, keys, live, networks, exploration, memory, learner, rules)
            self.chunks = ChunkRunner(engine, loop, learner, live, self.hyperparameters)
        self._rows = engine.callable(memory.rows.count())
        self.state = AgentState(
            engine, config, root, keys, networks, memory, acting, learner, self.hyperparameters,
            None if self.chunks is None else self.chunks.envs,
        )  # fmt: skip
        self.q_values = QValues(engine, networks, own, self.state)

    def _begin(self) -> None:
        """Gives the variables their first values, as far as initializers could not."""
        self.engine.callable(None, [self._keys.fed], self._keys.assign)(self._keys.values())
        if self.chunks is not None:
            self.engine.callable(None, targets=[self.chunks.envs.begin])()
        # Without a first copy the first updates would chase an unrelated initialisation.
        self.learner.begin()

    # What the envs call.

    def step(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        autoreset: np.ndarray,
        epsilon: float | None = None,
        legal: np.ndarray | None = None,
    ) -> np.ndarray:
        """Stores one time step of all envs and returns their actions, in one call.

        Args:
          observation: [N, ...] what the envs show now.
          reward: [N] float32, terminated: [N] bool, autoreset: [N] bool: of the step that led
            here. `autoreset` is true where that step was no transition but the reset after an
            episode's end, and for the very first observations.
          epsilon: probability of a random action; by default the live value.
          legal: [N, A] bool: which actions may be taken now; needed with action masks.

        Returns:
          [N] int32 actions.
        """
        return self.acting.step(observation, reward, terminated, autoreset, epsilon, legal)

    def act(self, observation: np.ndarray, time_step: int, legal: np.ndarray | None = None) -> Rows:
        """Chooses by the network as it was when `follow` was last called; stores nothing.

        May run in one thread while updates are made in another. Only with loop = "concurrent".

        Args:
          observation: [N, ...]; legal: [N, A] bool, needed with action masks.
          time_step: of all envs, counted from 0; it picks the random numbers.

        Returns:
          The columns that acting fills: `action`, [N] int32.
        """
        return self.acting.act(observation, time_step, legal)

    def follow(self) -> None:
        """Gives `act` the present weights."""
        self.acting.follow()

    def store(self, rows: Rows) -> None:
        """Appends several time steps, arrays [P, N, ...], each as `step` would have stored it."""
        self.acting.store(rows)

    def greedy(self, observation: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:
        """[M, ...] observations, [M, A] masks -> [M] int32 greedy actions; nothing is stored."""
        return self.acting.greedy(observation, legal)

    # What the loop calls.

    def learn(self, updates: int = 1, *, stats: bool = False) -> LearnStats | None:
        """Makes `updates` gradient steps, and syncs the target whenever it is old enough.

        The phase is cut where a freeze arm ends. Returns the last update's statistics if asked.

        Raises:
          Diverged: the loss or the gradient norm of an update is not finite. That update and those
            after it were not made: everything is as after the update before.
        """
        return self.plan(updates, stats=stats)()

    def plan(self, updates: int = 1, *, stats: bool = False) -> Callable[[], LearnStats | None]:
        """Reads what is live now, and returns the `learn` that goes by it, for any thread."""
        self.acting.flush()
        if not self._can_learn:
            if self.rows() == 0:
                raise RlCoreError("nothing to learn from: no transition is in the replay yet")
            self._can_learn = True  # a ring of three time steps or more never runs empty again
        return self.learner.plan(self.hyperparameters, updates, stats=stats)

    def sync(self) -> None:
        """Copies online to target at once; the target's age is 0 then."""
        self.learner.sync(self.hyperparameters.env_step)

    def inspect(self) -> Inspection:
        """Reads what the graph knows and the loop does not need."""
        return self.learner.inspect()

    @property
    def updates(self) -> int:
        """Gradient steps made so far."""
        return self.learner.updates

    def rows(self) -> int:
        """Returns the number of transitions that may be sampled."""
        self.acting.flush()
        return int(self._rows())

    def close(self) -> None:
        """Closes the engine and with it the session."""
        self.engine.close()


def _is_of_updates(name: str) -> bool:
    return name not in _NOT_OF_UPDATES
