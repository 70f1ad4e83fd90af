"""Acting, storing, learning and stepping the envs in one call into the graph.

Everything the plain loop does from one time step to the next is one iteration of a loop that XLA
compiles (or a loop of plain operations, with xla = false); Python is back after many. The order
within an iteration is that of `agents.loops.plain.training_loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from agents.config.model import DqnConfig
from agents.dqn.actor import Acting
from agents.dqn.update import Update
from envs.in_graph.interface import InGraphEnv
from rl_core.errors import ConfigError
from rl_core.graph.engine import Engine
from rl_core.graph.xla import built_for_xla, why_not_compiled
from rl_core.networks import Values
from rl_core.optimizers.freeze import FreezeSchedule
from rl_core.optimizers.packed_adam import LoopAdam, Moments
from rl_core.random import Draws
from rl_core.replay import ReplayMemory


class Counts(NamedTuple):
    """Where a loop is between two time steps; int64 scalars."""

    env_step: Any
    new_steps: Any  # transitions of the last time step
    learn_age: Any  # as `agents.loops.plain.LearnClock.age`


class Chunk(NamedTuple):
    """What came of T time steps; what is after the last one that was made means nothing."""

    counts: Counts  # after it
    arm: Any  # [2] int64 position in the freeze schedule after it
    time_steps: Any  # how many were made
    updates: Any  # of the agent, when it ended
    env_steps: Any  # [T] after each time step
    lengths: Any  # [T, N] int32 of the episodes that ended with it, negative if truncated; else 0
    returns: Any  # [T, N] float64 of these
    finished: Any  # [N] int64, episodes of each env, when it ended
    stats: Any  # of the last update in the chunk
    signs: (
        Any  # of the last one that was tried; if not finite, it was not made, and ended the chunk
    )


class EnvState(NamedTuple):
    """Of N envs between two time steps: what `agent.step` would be given, and its bookkeeping."""

    rules: Any  # as the rules have it
    reward: Any  # [N] float32
    terminated: Any  # [N] bool
    autoreset: Any  # [N] bool
    ended: Any  # [N] bool; the next time step begins a new episode
    length: Any  # [N] int32
    episode_return: Any  # [N] float64
    finished: Any  # [N] int64, episodes


class _Carried(NamedTuple):
    """What updates leave behind, beside the variables."""

    moments: Moments
    last: Any  # outcome of the last one


class DeviceLoop:
    """T time steps of N envs in one call.

    Args:
      config: one run.
      rules: of the env.
      values: of the online network.
      acting, memory: of the agent.
      adam: of the updates.
      update: of the agent.
      like: what its outcome looks like.
      live: what updates are fed with.
      blocks: names of the network's blocks.
      freeze: the schedule, whose arms are followed.

    Attributes:
      longest: T.
      scope: of the envs' variables.
      feeds: of `run`.
    """

    def __init__(
        self,
        config: DqnConfig,
        rules: InGraphEnv,
        values: Callable[[tf.Tensor, Draws | None], Values],
        acting: Acting,
        memory: ReplayMemory,
        adam: LoopAdam,
        update: Update,
        like: Any,
        live: Sequence[tf.Tensor],
        blocks: Sequence[str],
        freeze: FreezeSchedule,
    ) -> None:
        self._config, self._rules, self._values = config, rules, values
        self._acting, self._memory = acting, memory
        self._adam, self._update, self._like = adam, update, like
        self._blocks, self._arms = blocks, freeze.arms
        # Rows are read between two chunks: none may be overwritten before anybody looks at it.
        self.longest = max(1, min(config.chunk, memory.steps * 3 // 4))
        with tf.variable_scope("envs") as scope:
            self.scope = scope.name
            self._state = self._variables(rules)
        feed = tf.placeholder
        self._counts = Counts(
            *(feed(tf.int64, [], name) for name in ("env_step", "new_steps", "learn_age"))
        )
        self._arm = feed(tf.int64, [2], "arm")
        self._time_steps = feed(tf.int64, [], "time_steps")
        self._trained = feed(tf.bool, [len(blocks)], "trained")
        self._follow_arms = feed(tf.bool, [], "follow_arms")
        self._lengths = feed(tf.int64, [len(self._arms)], "arm_lengths")
        self._epsilon, self._temperature = feed(tf.float32, []), feed(tf.float32, [])
        self._period, self._per_phase = feed(tf.int64, []), feed(tf.int64, [])
        self.feeds = [
            *self._counts, self._time_steps, self._arm, self._lengths, self._follow_arms,
            self._trained, self._epsilon, self._temperature, self._period, self._per_phase,
            *live,
        ]  # fmt: skip
        self.chunk = self._build()

    def start(self, engine: Engine) -> None:
        """Makes the call, once the engine has started.

        `run` raises ConfigError if XLA cannot compile it.
        """
        flat = tf2.nest.flatten(self.chunk)
        call = engine.callable(flat, self.feeds)

        def run(*feeds: Any) -> Chunk:
            try:
                values = call(*feeds)
            except tf.errors.InvalidArgumentError as error:
                if (reason := why_not_compiled(error)) is None:
                    raise
                raise ConfigError(
                    f"this network cannot be compiled: {reason}; set loop=plain, or xla=false"
                ) from error
            chunk: Chunk = tf2.nest.pack_sequence_as(self.chunk, values)
            return chunk

        self.run = run

    # The envs' variables.

    def _variables(self, rules: InGraphEnv) -> EnvState:
        N = self._config.num_envs
        first = rules.begin(self._draws(np.zeros(1, np.int64), rules.begin_draws))

        def kept(name: str, value: tf.Tensor) -> tf.Variable:
            return tf.get_variable(name, initializer=value, trainable=False)

        return EnvState(
            type(first)(*(kept(n, v) for n, v in first._asdict().items())),
            kept("reward", tf.zeros([N])),
            kept("terminated", tf.zeros([N], tf.bool)),
            kept("autoreset", tf.ones([N], tf.bool)),
            kept("ended", tf.zeros([N], tf.bool)),
            kept("length", tf.zeros([N], tf.int32)),
            kept("episode_return", tf.zeros([N], tf.float64)),
            kept("finished", tf.zeros([N], tf.int64)),
        )

    def _draws(self, counter: tf.Tensor, count: int) -> tf.Tensor:
        return Draws(self._config.seed, "envs", counter).uniform(
            "draws", [self._config.num_envs, count]
        )

    # The loop.

    def _build(self) -> Chunk:
        T, N = self.longest, self._config.num_envs

        @tf2.function(jit_compile=self._config.xla, autograph=False)
        def loop() -> Chunk:
            state: Any = tf2.nest.map_structure(lambda v: v.read_value(), self._state)
            like = self._like
            nothing = like._make(tf.zeros(t.shape, t.dtype) for t in like)
            seen = (
                tf.zeros([T], tf.int64), tf.zeros([T, N], tf.int32), tf.zeros([T, N], tf.float64),
            )  # fmt: skip
            # Whether every update was made, as a number that is packed with others.
            good = tf.ones([], tf.int64)
            small = tf.zeros([], tf.int64), state, self._counts, self._arm, good

            def goes_on(packed: Any, *_: Any) -> tf.Tensor:
                return self._goes_on(*unpacked(packed, small))

            def iteration(packed: Any, seen: Any, learned: _Carried) -> Any:
                i, state, counts, arm, _ = unpacked(packed, small)
                *now, seen, learned = self._iteration(i, state, counts, arm, seen, learned)
                return pack(now), seen, learned

            start = pack(small), seen, _Carried(self._adam.read(), nothing)
            with built_for_xla(self._config.xla):
                packed, seen, learned = tf.while_loop(
                    goes_on, iteration, start, parallel_iterations=1
                )
            i, state, counts, arm, _ = unpacked(packed, small)
            with tf.control_dependencies([i]):
                saved = tf2.nest.map_structure(
                    lambda variable, value: variable.assign(value, read_value=False),
                    self._state, state,
                )  # fmt: skip
                saved = [*tf2.nest.flatten(saved), self._adam.write(learned.moments)]
            with tf.control_dependencies(saved):
                updates = self._update.count.read_value()
                env_steps, lengths, returns = seen
                return Chunk(
                    counts, arm, i, updates, env_steps, lengths, returns, state.finished,
                    learned.last.stats(), learned.last.signs,
                )  # fmt: skip

        return loop()

    def _goes_on(
        self, i: tf.Tensor, state: EnvState, counts: Counts, arm: tf.Tensor, good: tf.Tensor
    ) -> tf.Tensor:
        left = counts.env_step < self._config.env_steps
        return tf.reduce_all([i < self._time_steps, left, good > 0])

    def _iteration(
        self,
        i: tf.Tensor,
        state: EnvState,
        counts: Counts,
        arm: tf.Tensor,
        seen: Any,
        learned: _Carried,
    ) -> Any:
        """One time step: act and store, learn, step the envs unless learning diverged."""
        config, now = self._config, self._memory.rows.rows_written.read_value()
        observation = self._rules.observe(state.rules)

        def uniform(name: str, shape: list[int]) -> tf.Tensor:
            return Draws(config.seed, name, now).uniform("act", shape)

        temperature = self._temperature if config.boltzmann else None
        action = self._acting.choose(
            self._values, observation, now, self._epsilon, temperature, None, uniform
        )
        write = self._memory.write(
            {
                "observation": observation,
                "action": action,
                "reward": state.reward,
                "terminated": state.terminated,
                "autoreset": state.autoreset,
            }
        )
        with tf.control_dependencies([write]):
            due, learn_age = self._due(counts)
        arm, learned, made = self._learn(due, arm, learned)
        with tf.control_dependencies([made]):
            stepped, length, episode_return = self._step(state, action, now + 1)
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
        counts = Counts(env_step, new_steps, learn_age)
        return i + good, state, counts, arm, good, seen, learned

    def _due(self, counts: Counts) -> tuple[tf.Tensor, tf.Tensor]:
        """How many updates, and the learn clock's age; as `LearnClock.phases_due`."""
        age = tf.minimum(counts.learn_age, self._period - 1) + counts.new_steps
        phases, age = age // self._period, age % self._period
        begun = tf.cast(counts.env_step >= self._config.learn_start, tf.int64)
        return begun * phases * self._per_phase, age

    def _learn(self, due: tf.Tensor, arm: tf.Tensor, learned: _Carried) -> Any:
        """The updates that are due; also whether all were made."""

        def body(j: tf.Tensor, arm: tf.Tensor, learned: _Carried) -> Any:
            turned, chosen = self._turn(arm)
            trained = dict(zip(self._blocks, tf.unstack(chosen), strict=True))
            new, moments, end, made = self._update.in_loop(self._adam, learned.moments, trained)
            with tf.control_dependencies([end]):
                after = _Carried(moments, learned.last._make(new))
                # One more than are due says what a tensor of its own would: each costs a copy.
                j, arm = tf.where_v2(made, j + 1, due + 1), tf.where_v2(made, turned, arm)
                return j, *tf2.nest.map_structure(tf.identity, (arm, after))

        start = (tf.zeros([], tf.int64), arm, learned)
        j, arm, learned = tf.while_loop(lambda j, *_: j < due, body, start, parallel_iterations=1)
        return arm, learned, j <= due

    def _turn(self, arm: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The schedule's position after one more update, and what this update trains."""
        if len(self._arms) == 1:
            return arm, self._trained
        trained = np.array([[block not in a.exempt for block in self._blocks] for a in self._arms])
        index, done = tf.unstack(arm)
        ended = done >= tf.gather(self._lengths, index)
        index = tf.where(ended, (index + 1) % len(self._arms), index)
        done = tf.where(ended, tf.zeros_like(done), done) + 1
        follow = self._follow_arms
        return (
            tf.where_v2(follow, tf.stack([index, done]), arm),
            tf.where_v2(follow, tf.gather(trained, index), self._trained),
        )

    def _step(
        self, state: EnvState, action: tf.Tensor, counter: tf.Tensor
    ) -> tuple[EnvState, tf.Tensor, tf.Tensor]:
        """One step, or the first row of an episode; with the lengths and returns of what ended."""
        rules, begins = self._rules, state.ended
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
        after = EnvState(
            tf2.nest.map_structure(lambda new, old: _where(begins, new, old), first, moved.state),
            self._learned_from(reward),
            terminated,
            begins,
            ended,
            length,
            total,
            state.finished + tf.cast(ended, tf.int64),
        )
        sign = tf.where(terminated, tf.ones_like(length), -tf.ones_like(length))
        return after, tf.where(ended, length * sign, tf.zeros_like(length)), total

    def _learned_from(self, reward: tf.Tensor) -> tf.Tensor:
        """As envs.rewards does it."""
        scale, clip = self._config.reward_scale, self._config.reward_clip
        scaled = tf.cast(reward, tf.float64) * scale
        if clip:
            scaled = tf.clip_by_value(scaled, -clip, clip)
        return tf.cast(scaled, tf.float32)


def pack(values: Any) -> list[tf.Tensor]:
    """The tensors of a nest, with those of the same dtype and shape stacked if that is small.

    What a compiled loop carries is one kernel and one copy for each tensor.
    """
    return [
        flat[0] if len(flat) == 1 else tf.stack(flat)
        for flat in ([tensor for _, tensor in group] for group in _groups(values))
    ]


def unpacked(packed: Sequence[tf.Tensor], like: Any) -> Any:
    """What `pack` made of a nest like `like`."""
    flat: list[Any] = [None] * len(tf2.nest.flatten(like))
    for group, tensor in zip(_groups(like), packed, strict=True):
        parts = [tensor] if len(group) == 1 else tf.unstack(tensor)
        for (place, _), part in zip(group, parts, strict=True):
            flat[place] = part
    return tf2.nest.pack_sequence_as(like, flat)


def _groups(values: Any) -> list[list[tuple[int, tf.Tensor]]]:
    """(place, tensor) of a nest's tensors, by what can be stacked."""
    groups: dict[Any, list[tuple[int, tf.Tensor]]] = {}
    for place, tensor in enumerate(map(tf.convert_to_tensor, tf2.nest.flatten(values))):
        small = tensor.shape.rank is not None and tensor.shape.rank <= 1
        key = (tensor.dtype, tuple(tensor.shape.as_list())) if small else place
        groups.setdefault(key, []).append((place, tensor))
    return list(groups.values())


def _where(condition: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """[N] bool, [N, ...], [N, ...]: by envs."""
    shape = [-1, *[1] * (a.shape.rank - 1)]
    return tf.where_v2(tf.reshape(condition, shape), a, b)


def _put(array: tf.Tensor, i: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
    return tf.tensor_scatter_nd_update(array, [[i]], row[tf.newaxis])
