"""Acting, storing, learning and stepping the envs in one call into the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.acting import RecurrentState
from targetnet.agents.dqn.learner import Learner
from targetnet.agents.dqn.live_feeds import LiveFeeds
from targetnet.agents.dqn.normalizer import Normalizer
from targetnet.agents.dqn.policy import Exploration
from targetnet.agents.dqn.update import UpdateOutputs
from targetnet.envs.in_graph.interface import InGraphEnv
from targetnet.envs.stacks import frame_shape
from targetnet.rl_core.errors import ConfigError, Diverged
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.packing import pack, unpacked
from targetnet.rl_core.graph.scopes import MemberPart
from targetnet.rl_core.graph.xla import built_for_xla, why_not_compiled
from targetnet.rl_core.hyperparameters import Hyperparameters
from targetnet.rl_core.networks import Conditions
from targetnet.rl_core.optimizers.packed_adam import LoopAdam, Moments
from targetnet.rl_core.random import Draws, Keys
from targetnet.rl_core.replay import ReplayMemory, RowChecksum, Rows, newest_frame


class EnvState(NamedTuple):
    """N envs between two time steps: what `agent.step` would be given, and the bookkeeping."""

    rules: Any  # as the rules have it
    earlier: Any  # [N, ..., (k - 1) * C] the k - 1 frames before the present one; (): no stack
    reward: Any  # [N] float32
    terminated: Any  # [N] bool
    autoreset: Any  # [N] bool
    ended: Any  # [N] bool; the next time step begins a new episode
    length: Any  # [N] int32
    episode_return: Any  # [N] float64
    finished: Any  # [N] int64, episodes


class EnvsInGraph:
    """N envs of one kind, kept in variables between two calls.

    Args:
      config: one run.
      keys: of the agent.
      rules: of the env; also an attribute.

    Attributes:
      variables: the state of the envs.
      begin: the operation that begins the first episode of each.
    """

    def __init__(self, config: DqnConfig, keys: Keys, rules: InGraphEnv) -> None:
        self._config, self._keys, self.rules = config, keys, rules
        N, more = config.num_envs, config.frame_stack - 1
        self._frame = frame_shape(rules.observation_shape)
        earlier = [N, *self._frame[:-1], more * self._frame[-1]]
        with tf.variable_scope("envs"):
            # Before the session is open there are no keys to draw the first states by.
            first = rules.begin(self._draws(np.zeros(1, np.int64), rules.begin_draws))
            states = {name: tf.zeros(of.shape, of.dtype) for name, of in first._asdict().items()}
            self.variables = EnvState(
                type(first)(*(_kept(name, nothing) for name, nothing in states.items())),
                _kept("earlier", tf.zeros(earlier, rules.observation_dtype)) if more else (),
                _kept("reward", tf.zeros([N])),
                _kept("terminated", tf.zeros([N], tf.bool)),
                _kept("autoreset", tf.ones([N], tf.bool)),
                _kept("ended", tf.zeros([N], tf.bool)),
                _kept("length", tf.zeros([N], tf.int32)),
                _kept("episode_return", tf.zeros([N], tf.float64)),
                _kept("finished", tf.zeros([N], tf.int64)),
            )
            pairs = zip(self.variables.rules, first, strict=True)
            self.begin = tf.group(*[v.assign(value, read_value=False) for v, value in pairs])

    def owns(self, variable: tf.Variable) -> bool:
        """Returns True for a variable of the envs' state."""
        return any(variable is own for own in tf2.nest.flatten(self.variables))

    def read(self) -> EnvState:
        """Returns the state as it is kept."""
        return tf2.nest.map_structure(lambda variable: variable.read_value(), self.variables)

    def write(self, state: EnvState) -> list[tf.Operation]:
        """Keeps `state`."""
        saved = tf2.nest.map_structure(
            lambda variable, value: variable.assign(value, read_value=False),
            self.variables, state,
        )  # fmt: skip
        return tf2.nest.flatten(saved)

    def observe(self, state: EnvState) -> tf.Tensor:
        """Returns what the agent sees, [N, ...]; with a stack, of all frames."""
        now = self.rules.observe(state.rules)
        if self._config.frame_stack < 2:
            return now
        return tf.concat([state.earlier, tf.reshape(now, [-1, *self._frame])], axis=-1)

    def step(
        self, state: EnvState, action: tf.Tensor, counter: tf.Tensor
    ) -> tuple[EnvState, tf.Tensor, tf.Tensor]:
        """Makes one step of every env, or begins its next episode where the last one has ended.

        Args:
          counter: int64 scalar, another one at each time step.

        Returns:
          The state after it; [N] int32 lengths of the episodes that ended with it, negative if
          truncated, else 0; [N] float64 returns so far.
        """
        rules, begins = self.rules, state.ended
        draws = self._draws(counter, max(rules.begin_draws, rules.step_draws))
        moved = rules.step(state.rules, action, draws[:, : rules.step_draws])
        first = rules.begin(draws[:, : rules.begin_draws])
        reward = tf.where(begins, tf.zeros_like(moved.reward), moved.reward)
        terminated = tf.logical_and(moved.terminated, tf.logical_not(begins))
        length = tf.where(begins, tf.zeros_like(state.length), state.length + 1)
        total = tf.where(begins, tf.zeros_like(state.episode_return), state.episode_return)
        total = total + tf.cast(reward, tf.float64)
        ended = terminated
        if rules.max_episode_steps is not None:
            ended = tf.logical_or(ended, length >= rules.max_episode_steps)
        earlier: Any = ()
        if self._config.frame_stack > 1:
            later = self.observe(state)[..., self._frame[-1] :]
            earlier = _where(begins, tf.zeros_like(later), later)
        after = EnvState(
            tf2.nest.map_structure(lambda new, old: _where(begins, new, old), first, moved.state),
            earlier,
            reward,
            terminated,
            begins,
            ended,
            length,
            total,
            state.finished + tf.cast(ended, tf.int64),
        )
        sign = tf.where(terminated, tf.ones_like(length), -tf.ones_like(length))
        return after, tf.where(ended, length * sign, tf.zeros_like(length)), total

    def _draws(self, counter: tf.Tensor, count: int) -> tf.Tensor:
        return Draws(self._keys, "envs", counter).uniform("draws", [self._config.num_envs, count])


def _kept(name: str, value: tf.Tensor) -> tf.Variable:
    return tf.get_variable(name, initializer=value, trainable=False)


def _where(condition: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """[N] bool, [N, ...], [N, ...]: by envs."""
    shape = [-1, *[1] * (a.shape.rank - 1)]
    return tf.where_v2(tf.reshape(condition, shape), a, b)


class LoopCounts(NamedTuple):
    """Counts of a loop between two time steps; int64 scalars."""

    env_step: Any
    new_steps: Any  # transitions of the last time step
    learn_age: Any  # as `targetnet.agents.loops.plain.LearnClock.age`


class Chunk(NamedTuple):
    """The outcome of T time steps; rows after the last one that was made mean nothing."""

    counts: LoopCounts  # after it
    arm: Any  # [2] int64 position in the freeze schedule after it
    time_steps: Any  # how many were made
    updates: Any  # of the agent, when it ended
    env_steps: Any  # [T] after each time step
    lengths: Any  # [T, N] int32 of the episodes that ended with it, negative if truncated; else 0
    returns: Any  # [T, N] float64 of these
    finished: Any  # [N] int64, episodes of each env, when it ended
    checksums: Any  # [T, 2] uint32 parts: what the row shows; the outcome of the row before it
    stats: Any  # of the last update in the chunk
    numerics: Any  # of the last one tried; if not finite, it was not made, and ended the chunk

    # By hand: TensorFlow's functions for any nest take longer than a short chunk.
    def flat(self) -> list[Any]:
        """Returns all values in one list."""
        *before, stats, numerics = self[1:]
        return [*self.counts, *before, *stats, numerics]

    def filled(self, values: Sequence[Any]) -> Chunk:
        """Returns a chunk of the same form with other values, listed as by `flat`."""
        first, last = len(self.counts), len(values) - 1 - len(self.stats)
        stats = self.stats._make(values[last:-1])
        counts = LoopCounts._make(values[:first])
        return Chunk._make([counts, *values[first:last], stats, values[-1]])


class ChunkFeeds(NamedTuple):
    """Everything that a chunk is fed, beside the live values that updates read."""

    counts: LoopCounts
    time_steps: Any  # [] int64: how many to make, at most T
    env_steps: Any  # [] int64: of the whole run
    arm: Any  # [2] int64 position in the freeze schedule
    arm_lengths: Any  # [arms] int64, in updates
    follow_arms: Any  # [] bool: whether the schedule says what is trained
    trained: Any  # [blocks] bool: what is trained if it does not
    knobs: Any  # [n] float32, as `Exploration.knobs` has them
    learn_period: Any  # [] int64, in env steps; of rollouts in time steps
    updates_per_learn: Any  # [] int64

    def flat(self) -> list[Any]:
        """Returns all values in one list."""
        return [*self.counts, *self[1:]]


def chunk_placeholders(blocks: int, arms: int, knobs: int) -> ChunkFeeds:
    """Returns placeholders of all that a chunk is fed."""
    feed = tf.placeholder
    return ChunkFeeds(
        counts=LoopCounts(*(feed(tf.int64, [], name) for name in LoopCounts._fields)),
        time_steps=feed(tf.int64, [], "time_steps"),
        env_steps=feed(tf.int64, [], "env_steps"),
        arm=feed(tf.int64, [2], "arm"),
        arm_lengths=feed(tf.int64, [arms], "arm_lengths"),
        follow_arms=feed(tf.bool, [], "follow_arms"),
        trained=feed(tf.bool, [blocks], "trained"),
        knobs=feed(tf.float32, [knobs], "knobs"),
        learn_period=feed(tf.int64, [], "learn_period"),
        updates_per_learn=feed(tf.int64, [], "updates_per_learn"),
    )


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
        self.longest, self._checksum = config.chunk, RowChecksum(memory.rows.ring)
        if config.rollout:  # so that each one is learned from by values that are read for it
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
                tf.zeros([T, 2], tf.uint32),
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
                env_steps, lengths, returns, checksums = seen
                return Chunk(
                    counts, arm, i, updates, env_steps, lengths, returns, state.finished,
                    checksums, learned.last.stats(), learned.last.numerics,
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
        row = shown | remembered | chosen
        write = self._memory.write(row)
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
        now_seen = env_step, length, episode_return, self._parts(row)
        seen = tuple(_put(array, i, value) for array, value in zip(seen, now_seen, strict=True))
        counts = LoopCounts(env_step, new_steps, learn_age)
        return i + good, state, counts, arm, good, seen, learned

    def _parts(self, row: Rows) -> tf.Tensor:
        """Returns what a time step adds to checksums, [2] uint32, as `Chunk.checksums` has it."""
        of_outcome = self._memory.rows.ring.of_outcome
        shown = {name: column for name, column in row.items() if name not in of_outcome}
        outcome = {name: column for name, column in row.items() if name in of_outcome}
        return tf.stack([self._checksum.part(shown), self._checksum.part(outcome)])

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


class DivergedInChunk(Diverged):
    """Learning diverged in a chunk of the compiled loop.

    Attributes:
      chunk: what was made before.
    """

    def __init__(self, text: str, chunk: Chunk) -> None:
        super().__init__(text)
        self.chunk = chunk


class ChunkRunner(MemberPart):
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
        learner.clock.age_in_python = age
        learner.clock.count_many(learner.updates - updates, period)
        learner.clock.keep_sync(int(chunk.counts.env_step))
        if not np.isfinite(chunk.numerics).all():
            raise DivergedInChunk(str(learner.diverged(chunk.numerics, fed)), chunk)
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
