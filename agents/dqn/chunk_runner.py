"""The calls that make a chunk of time steps in the graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.chunks import Chunk, ChunkFeeds, LoopCounts
from targetnet.agents.dqn.divergence import DivergedInChunk
from targetnet.agents.dqn.in_graph_loop import InGraphLoop
from targetnet.agents.dqn.learner import Learner
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.rl_core.errors import ConfigError
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.members import MemberHandle
from targetnet.rl_core.graph.xla import why_not_compiled
from targetnet.rl_core.hyperparameters import Hyperparameters


class ChunkRunner:
    """Runs the loop in the graph with what is live now.

    Args:
      engine, loop, learner, live, hyperparameters: of the agent.

    Attributes:
      longest: time steps of a chunk, at most.
      envs: the envs in the graph.
      begin: begins their first episodes.
    """

    def __init__(
        self,
        engine: Engine,
        loop: InGraphLoop,
        learner: Learner,
        live: LiveFeeds,
        hyperparameters: Hyperparameters,
    ) -> None:
        self._config, self._learner, self._knobs = loop.config, learner, loop.knobs
        self._live, self._hyperparameters = live, hyperparameters
        self.longest, self.envs, self._like = loop.longest, loop.envs, loop.chunk
        self._call = engine.callable(loop.chunk.flat(), [*loop.fed.flat(), *live.tensors])
        self.begin = engine.callable(None, targets=[self.envs.begin])

    def of_member(
        self,
        place: MemberHandle,
        config: DqnConfig,
        learner: Learner,
        live: LiveFeeds,
        hyperparameters: Hyperparameters,
    ) -> ChunkRunner:
        """The same for a member."""
        return place.copy(
            self, _config=config, _learner=learner, _live=live, _hyperparameters=hyperparameters
        )

    def run(self, counts: LoopCounts, time_steps: int) -> Chunk:
        """Makes time steps and updates as `training_loop` would, in one call.

        Args:
          counts: where the loop is.
          time_steps: how many to make, unless the last env step comes before.

        Raises:
          DivergedInChunk: an update was not made, and nothing after it; see `Learner.plan`. The
            error has the chunk up to there.
          ConfigError: XLA cannot compile the loop.
        """
        live, fed, learner = self._hyperparameters, self._live.values(), self._learner
        config = self._config
        follow = live.source("exempt") != "override"
        exempt = learner.freeze.exempt if follow else live["exempt"]
        learner.set_arms(live)
        learner.moments.to_loops()
        feeds = ChunkFeeds(
            counts=counts,
            time_steps=np.int64(time_steps),
            env_steps=np.int64(config.env_steps),
            arm=np.array(learner.freeze.position, np.int64),
            arm_lengths=np.array([arm.updates for arm in learner.freeze.arms], np.int64),
            follow_arms=np.bool_(follow),
            trained=np.array([name not in exempt for name in learner.blocks]),
            knobs=np.array([live[name] for name in self._knobs], np.float32),
            learn_period=np.int64(config.rollout or live["learn_period"]),
            updates_per_learn=np.int64(config.updates_per_rollout or live["updates_per_learn"]),
        )
        updates, period = learner.updates, live.get("sync_period")
        age = None if learner.clock.rule else learner.target_age
        chunk = self._made(feeds, fed)
        learner.goes_on_from(int(chunk.updates), chunk.arm.tolist())
        learner.clock.now = age
        learner.clock.pass_by(learner.updates - updates, period)
        learner.clock.note(int(chunk.counts.env_step))
        if not np.isfinite(chunk.signs).all():
            raise DivergedInChunk(str(learner.diverged(chunk.signs, fed)), chunk)
        return chunk

    def _made(self, feeds: ChunkFeeds, live: Sequence[np.ndarray]) -> Chunk:
        try:
            return self._like.filled(self._call(*feeds.flat(), *live))
        except tf.errors.InvalidArgumentError as error:
            if (reason := why_not_compiled(error)) is None:
                raise
            raise ConfigError(
                f"this network cannot be compiled: {reason}; set loop=plain, or xla=false"
            ) from error
