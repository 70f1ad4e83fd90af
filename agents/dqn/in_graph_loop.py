"""Acting, storing, learning and stepping the envs in one call into the graph.

Everything the plain loop does from one time step to the next is one iteration of a loop that XLA
compiles (or a loop of plain operations, with xla = false); Python is back after many. The order
within an iteration is that of `targetnet.agents.loops.plain.training_loop`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.chunks import Chunk, LoopCounts, chunk_placeholders
from targetnet.agents.dqn.in_graph_envs import EnvsInGraph, EnvState
from targetnet.agents.dqn.learner import Learner
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.normalizer import Normalizer
from targetnet.agents.dqn.policy import Exploration
from targetnet.agents.dqn.recurrent_state import RecurrentState
from targetnet.agents.dqn.update import UpdateOutputs
from targetnet.envs.in_graph.interface import InGraphEnv
from targetnet.rl_core.graph.packing import pack, unpacked
from targetnet.rl_core.graph.xla import built_for_xla
from targetnet.rl_core.networks import Conditions
from targetnet.rl_core.optimizers.packed_adam import LoopAdam, Moments
from targetnet.rl_core.random import Draws, Keys
from targetnet.rl_core.replay import ReplayMemory, newest_frame


class _UpdateCarry(NamedTuple):
    """Results of the updates so far that are not in variables."""

    moments: Moments
    last: Any  # outcome of the last one


class InGraphLoop:
    """T time steps of N envs in one call.

    Args:
      config, keys, remembering, normalizer, exploration, memory, learner: of the agent.
      live: what updates are fed; networks read the user's own values there.
      rules: of the env.

    Attributes:
      config: the same.
      longest: T.
      envs: the envs.
      knobs: names of the live values that acting reads.
      fed: placeholders, beside those of the updates.
      chunk: what came of the time steps.
    """

    def __init__(
        self,
        config: DqnConfig,
        keys: Keys,
        live: LiveFeeds,
        remembering: RecurrentState,
        normalizer: Normalizer,
        exploration: Exploration,
        memory: ReplayMemory,
        learner: Learner,
        rules: InGraphEnv,
    ) -> None:
        self.config = config
        self._keys, self._live = keys, live
        self._remembering, self._normalizer = remembering, normalizer
        self._exploration, self._memory = exploration, memory
        self._update, self._like = learner.update, learner.learned
        self._blocks, self._arms = learner.blocks, learner.freeze.arms
        self._adam = LoopAdam(learner.moments, learner.blocks)
        # Rows are read between two chunks: none may be overwritten before anybody looks at it.
        self.longest = max(1, min(config.chunk, memory.steps * 3 // 4))
        self.envs = EnvsInGraph(config, keys, rules)
        self.knobs = exploration.knobs
        self.fed = chunk_placeholders(len(self._blocks), len(self._arms), len(self.knobs))
        self.chunk = self._build()

    def _build(self) -> Chunk:
        T, N = self.longest, self.config.num_envs

        @tf2.function(jit_compile=self.config.xla, autograph=False)
        def loop() -> Chunk:
            state = self.envs.read()
            nothing = UpdateOutputs(*(tf.zeros(of.shape, of.dtype) for of in self._like))
            seen = (
                tf.zeros([T], tf.int64), tf.zeros([T, N], tf.int32), tf.zeros([T, N], tf.float64),
            )  # fmt: skip
            # Whether every update was made, as a number that is packed with others.
            good = tf.ones([], tf.int64)
            small = tf.zeros([], tf.int64), state, self.fed.counts, self.fed.arm, good

            def goes_on(packed: Any, *_: Any) -> tf.Tensor:
                return self._goes_on(*unpacked(packed, small))

            def iteration(packed: Any, seen: Any, learned: _UpdateCarry) -> Any:
                i, state, counts, arm, _ = unpacked(packed, small)
                *now, seen, learned = self._iteration(i, state, counts, arm, seen, learned)
                return pack(now), seen, learned

            start = pack(small), seen, _UpdateCarry(self._adam.read(), nothing)
            with built_for_xla(self.config.xla):
                packed, seen, learned = tf.while_loop(
                    goes_on, iteration, start, parallel_iterations=1
                )
            i, state, counts, arm, _ = unpacked(packed, small)
            with tf.control_dependencies([i]):
                saved = [*self.envs.write(state), self._adam.write(learned.moments)]
            with tf.control_dependencies(saved):
                updates = self._update.count.read_value()
                env_steps, lengths, returns = seen
                return Chunk(
                    counts, arm, i, updates, env_steps, lengths, returns, state.finished,
                    learned.last.stats(), learned.last.signs,
                )  # fmt: skip

        return loop()

    def _goes_on(
        self, i: tf.Tensor, state: EnvState, counts: LoopCounts, arm: tf.Tensor, good: tf.Tensor
    ) -> tf.Tensor:
        left = counts.env_step < self.fed.env_steps
        return tf.reduce_all([i < self.fed.time_steps, left, good > 0])

    def _iteration(
        self,
        i: tf.Tensor,
        state: EnvState,
        counts: LoopCounts,
        arm: tf.Tensor,
        seen: Any,
        learned: _UpdateCarry,
    ) -> Any:
        """Makes one time step: act and store, learn, step the envs unless learning diverged."""
        config, now = self.config, self._memory.rows.rows_written.read_value()
        observation = self.envs.observe(state)

        def uniform(name: str, shape: list[int]) -> tf.Tensor:
            return Draws(self._keys, name, now).uniform("act", shape)

        conditions = Conditions(self._exploration.draws(now), self._live)
        values, remembered, kept = self._remembering.act(observation, state.autoreset, conditions)
        live = dict(zip(self.knobs, tf.unstack(self.fed.knobs), strict=True))
        chosen = self._exploration.choose(values, live, None, uniform)
        shown = {
            "observation": newest_frame(observation, self._memory.rows.stack),
            "reward": state.reward,
            "terminated": state.terminated,
            "autoreset": state.autoreset,
        }
        write = self._memory.write(shown | remembered | chosen)
        with tf.control_dependencies([*chosen.values(), *kept]):
            kept += self._normalizer.see(shown["observation"])
        with tf.control_dependencies([write, *kept]):
            due, learn_age = self._due(counts, now)
        arm, learned, made = self._learn(due, arm, learned)
        with tf.control_dependencies([made]):
            stepped, length, episode_return = self.envs.step(state, chosen["action"], now + 1)
            state = tf2.nest.map_structure(lambda a, b: tf.where_v2(made, a, b), stepped, state)
            length = tf.where_v2(made, length, 0)
            new_steps = config.num_envs - tf.math.count_nonzero(stepped.autoreset)
            new_steps = tf.where_v2(made, new_steps, counts.new_steps)
            good = tf.cast(made, tf.int64)
            env_step = counts.env_step + good * new_steps
        seen = tuple(
            _put(array, i, value)
            for array, value in zip(seen, (env_step, length, episode_return), strict=True)
        )
        counts = LoopCounts(env_step, new_steps, learn_age)
        return i + good, state, counts, arm, good, seen, learned

    def _due(self, counts: LoopCounts, now: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns how many updates are due, and the new learn age; as `LoopState.updates_due`.

        Args:
          now: [1] time steps before this one.
        """
        period, new_steps = self.fed.learn_period, counts.new_steps
        if self.config.rollout:
            new_steps = tf.minimum(now[0], 1)
        age = tf.minimum(counts.learn_age, period - 1) + new_steps
        phases, age = age // period, age % period
        if self.config.rollout:
            return phases * self.fed.updates_per_learn, age
        begun = tf.cast(counts.env_step >= self.config.learn_start, tf.int64)
        return begun * phases * self.fed.updates_per_learn, age

    def _learn(self, due: tf.Tensor, arm: tf.Tensor, learned: _UpdateCarry) -> Any:
        """Makes the updates that are due; also returns whether all were made."""

        def body(j: tf.Tensor, arm: tf.Tensor, learned: _UpdateCarry) -> Any:
            turned, chosen = self._turn(arm)
            trained = dict(zip(self._blocks, tf.unstack(chosen), strict=True))
            new, moments, end, made = self._update.in_loop(self._adam, learned.moments, trained)
            with tf.control_dependencies([end]):
                after = _UpdateCarry(moments, learned.last._make(new))
                # j = due + 1 marks an update that was not made: a flag would cost a copy.
                j, arm = tf.where_v2(made, j + 1, due + 1), tf.where_v2(made, turned, arm)
                return j, *tf2.nest.map_structure(tf.identity, (arm, after))

        start = (tf.zeros([], tf.int64), arm, learned)
        j, arm, learned = tf.while_loop(lambda j, *_: j < due, body, start, parallel_iterations=1)
        return arm, learned, j <= due

    def _turn(self, arm: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the schedule's position after one more update, and what this update trains."""
        if len(self._arms) == 1:
            return arm, self.fed.trained
        trained = np.array([[block not in a.exempt for block in self._blocks] for a in self._arms])
        index, done = tf.unstack(arm)
        ended = done >= tf.gather(self.fed.arm_lengths, index)
        index = tf.where(ended, (index + 1) % len(self._arms), index)
        done = tf.where(ended, tf.zeros_like(done), done) + 1
        follow = self.fed.follow_arms
        return (
            tf.where_v2(follow, tf.stack([index, done]), arm),
            tf.where_v2(follow, tf.gather(trained, index), self.fed.trained),
        )


def _put(array: tf.Tensor, i: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
    return tf.tensor_scatter_nd_update(array, [[i]], row[tf.newaxis])
