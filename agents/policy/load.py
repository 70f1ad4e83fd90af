"""A run's greedy policy in your own program: no replay memory, no optimizer, no envs.

policy = load_policy("runs/cartpole-1")
observation, _ = env.reset()
env.step(policy(observation))
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from targetnet.agents.config.envs import observed, unstepped_envs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.dqn.network import build_network, of_first, recurrent_of
from targetnet.agents.dqn.policy import GreedyPolicy
from targetnet.agents.policy.trained_policy import TrainedPolicy, trained
from targetnet.agents.saved.directory import RunDir
from targetnet.agents.saved.spaces import envs_of_policy
from targetnet.envs import Envs
from targetnet.envs.masks import MaskSource, write_legal
from targetnet.envs.nests import at
from targetnet.envs.observations import ADVICE, what_came
from targetnet.rl_core.arguments import path_of
from targetnet.rl_core.branches import by_branch
from targetnet.rl_core.errors import (
    BoundsError,
    EnvContractError,
    EnvNotFinite,
    FeedError,
    RlCoreError,
    ShapeError,
)
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.graph.weights import ScopeWeights
from targetnet.rl_core.losses import legal_only
from targetnet.rl_core.networks import STATELESS, Conditions, State, Values

SCOPE = "online"  # of the weights
INPUT = "observation"
STATE, NEXT_STATE = "state", "next_state"


class PolicyTensors(NamedTuple):
    """A greedy policy."""

    # By name, placeholders [M, ...] of the dtypes that the replay stores: `observation`, or of each
    # part `observation_PART`.
    observations: dict[str, tf.Tensor]
    legal: tf.Tensor | None  # [M, A] bool placeholder; None if the env has no action masks
    q: tf.Tensor  # [M, A] float32
    action: tf.Tensor  # [M, ...] int64, as the env takes them
    state: State = STATELESS  # [M, S] float32 placeholder of what it remembers; (): nothing
    next_state: State = STATELESS  # [M, S] after the observations


def build_policy(
    config: DqnConfig, envs: Envs, live: Mapping[str, float], *, packed: bool
) -> PolicyTensors:
    """Builds the policy of a config's network, its weights under `SCOPE`; it is float32's.

    Args:
      config: of the run.
      envs: of the config; they may be closed.
      live: the user's own live values, which become constants.
      packed: whether observations of several parts are fed as packed rows, or part by part.
    """
    shown: Any
    if packed or not envs.parts:
        shape = [None, *envs.observation_shape]
        shown = tf.placeholder(envs.observation_dtype, shape, INPUT)
        observations = {INPUT: shown}
    else:
        shown = {
            part.name: tf.placeholder(part.dtype, [None, *part.shape], _input_of(part.name))
            for part in envs.parts
        }
        observations = {_input_of(name): of for name, of in shown.items()}
    form = envs.spaces.actions
    # Other libraries have no convolutions in bfloat16, nor this one where oneDNN is off.
    exact = config.model_copy(update={"compute": "float32"})
    network = build_network(exact, form.outputs, observed(config, envs), form.branches)
    frozen = {name: tf.constant(value, tf.float32) for name, value in live.items()}
    state: State = STATELESS
    recurrent = recurrent_of(config)
    if recurrent is not None:
        state = tf.placeholder(tf.float32, [None, recurrent.state_size], STATE)
    with tf.variable_scope(SCOPE):
        values, after = network(shown, state, Conditions(live=frozen))
    q = tf.identity(values.q, "q")
    legal = None
    if envs.has_action_masks:
        legal = tf.placeholder(tf.bool, [None, form.outputs], "action_mask")
    choice = legal_only(q, legal)
    if form.branches:
        choice = by_branch(choice, form.branches)  # [M, D, n]
    best = tf.argmax(choice, axis=choice.shape.rank - 1, output_type=tf.int64)
    own = best + np.asarray(form.first, np.int64)
    action = tf.reshape(own, [-1, *form.shape], "action")
    if config.is_recurrent:
        after = tf.identity(after, NEXT_STATE)
    return PolicyTensors(observations, legal, q, action, state, after)


def _input_of(part: str) -> str:
    return f"{INPUT}_{re.sub(r'[^A-Za-z0-9_]', '_', part)}"


class LoadedPolicy:
    """A greedy policy in a graph and session of its own.

    It takes observations as the env gives them, one or a batch, and returns the env's own actions.
    It may be used as a context manager, which closes it.

    With a recurrent layer it remembers its calls: call it once for each time step, and `reset`
    where an episode begins. Where lost lives are ends (`info["life_lost"]`), also where a life
    begins; a frame stack begins anew there too.

    Args:
      config: of the run.
      learned: weights and own live values.
      envs: of the config, closed or not; None makes one, to read its spaces.

    Attributes:
      config: of the run.
      num_actions: A.
      branches: of a MultiDiscrete or MultiBinary space, the number of choices in each branch, with
        the sum A; () of a Discrete one.
      observation_shape: of one observation as the env gives it; () for a Discrete space. With a
        `frame_stack` of k, of its last k, oldest first: as Gymnasium's FrameStackObservation with
        padding_type="zero" gives them. Of observations of several parts, that of each, by its name.
      has_action_masks: True if every call needs `action_mask`.
      live: the user's own live values, frozen as they were.
      env_step: at which the weights were read; 0 if it is not known.

    Raises:
      EnvError: the config's env cannot be made.
      ScopeMismatch: the weights do not fit the config's network.
    """

    def __init__(self, config: DqnConfig, learned: TrainedPolicy, envs: Envs | None = None) -> None:
        envs = envs or unstepped_envs(config)
        self.config, self.live, self.env_step = config, learned.live, learned.env_step
        self._spaces, self.has_action_masks = envs.spaces, envs.has_action_masks
        self.num_actions, self.branches = envs.num_actions, envs.branches
        self.observation_shape: Any = envs.spaces.given_shape
        if envs.parts:
            shapes = zip(envs.parts, envs.spaces.given_shapes, strict=True)
            self.observation_shape = {part.name: shape for part, shape in shapes}
        self._closed, self._engine = False, Engine(threads=config.threads)
        with self._engine.building():
            tensors = build_policy(config, envs, learned.live, packed=True)
            weights = ScopeWeights(self._engine, SCOPE)
            (shown,) = tensors.observations.values()
            memory = [tensors.state] if config.is_recurrent else []
            self._q = self._engine.callable(tensors.q, [shown, *memory])
            self._greedy = GreedyPolicy(
                self._engine, Values(tensors.q), shown, tensors.legal, branches=self.branches,
                state=tensors.state, after=tensors.next_state,
            )  # fmt: skip
            self._remembers, self._state = config.is_recurrent, self._greedy.first_state(0)
        self._engine.start()
        weights.load(of_first(config, learned.weights))

    def __call__(self, observation: Any, action_mask: Any = None) -> int | np.ndarray:
        """Returns the greedy action of an observation, or of each one of a batch.

        Args:
          observation: of shape `observation_shape`, or [M, *observation_shape].
          action_mask: [A], or [M, A]: 1 or True where an action is legal. Only for envs with
            action masks, which need it, unless a part of the observation says it. With branches,
            also as the env gives it.

        Returns:
          One action as the env takes it: an int, or with branches an array; or [M, ...] of them.

        Raises:
          ShapeError: the observation or the mask has another shape.
          FeedError: the observation has a dtype that cannot be stored, or NaN or infinite numbers.
          BoundsError: a mask allows no action.
          RlCoreError: the policy is closed.
        """
        rows, single = self._rows(observation)
        if action_mask is None:
            action_mask = _mask_in(observation, self.config.env_id, self._spaces.masks)
        legal = self._legal(action_mask, rows, single)
        if self._remembers:
            best, self._state = self._greedy.step(rows, self._state_for(rows), legal)
        else:
            best = self._greedy(rows, legal)
        actions = self._spaces.actions.to_env(best.astype(np.int64))
        if not single:
            return actions
        return actions[0] if self.branches else int(actions[0])

    def reset(self, which: Any = None) -> None:
        """Forgets what was seen, if anything, as an episode begins.

        Args:
          which: [M] bool: rows of a batch; None: all, and the next batch may have another size.

        Raises:
          ShapeError: the last batch had another size.
        """
        if which is None or not len(self._state):
            self._state = self._greedy.first_state(0)
            return
        begins = np.asarray(which, np.bool_)
        if begins.shape != (len(self._state),):
            raise ShapeError(
                f"reset needs a flag for each of {len(self._state)} rows, got {begins.shape}"
            )
        self._state = np.where(begins[:, np.newaxis], np.float32(0), self._state)

    def q_values(self, observation: Any) -> np.ndarray:
        """Returns the action values of an observation, [A], or of each one of a batch, [M, A].

        Args:
          observation: as for a call; the values are float32, in the order of the env's actions.
            A recurrent layer remembers the calls before, and not this one.
            Those of branches are side by side: `np.split(q, np.cumsum(branches)[:-1], axis=-1)`.

        Raises:
          ShapeError, FeedError, RlCoreError: as for a call.
        """
        rows, single = self._rows(observation)
        memory = [self._state_for(rows)] if self._remembers else []
        q: np.ndarray = self._q(rows, *memory)
        return q[0] if single else q

    @property
    def greedy(self) -> GreedyPolicy:
        """[M, ...] observations as Envs give them, [M, A] masks -> [M] or [M, D] from 0 on.

        With a recurrent layer, `greedy.playing(M)` remembers.
        """
        return self._greedy

    def _state_for(self, rows: np.ndarray) -> np.ndarray:
        """Returns the state before these observations, [M, S]."""
        if not len(self._state):
            return self._greedy.first_state(len(rows))
        if len(self._state) != len(rows):
            raise ShapeError(
                f"the policy remembers {len(self._state)} episodes, got {len(rows)} observations; "
                "policy.reset() forgets them"
            )
        return self._state

    def close(self) -> None:
        """Closes the session; the policy cannot be called any more."""
        self._engine.close()
        self._closed = True

    def __enter__(self) -> LoadedPolicy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self, observation: Any) -> tuple[np.ndarray, bool]:
        """Returns [M, ...] as the graph takes them, and whether it was a single observation."""
        if self._closed:
            raise RlCoreError("this policy is closed: load it again")
        spaces = self._spaces
        path, one = spaces.paths[0], (spaces.given_shapes or (spaces.given_shape,))[0]
        try:
            given = np.shape(_part(observation, path))
        except ValueError:
            raise _no_array(self.config.env_id, one, observation) from None
        single = given == one
        if not single and given[1:] != one:
            several = f"({', '.join(map(str, ('M', *one)))}{'' if one else ','})"
            raise ShapeError(
                f"an observation of {self.config.env_id} has shape {one}, several have "
                f"{several}, got {given}"
            )
        count = 1 if single else given[0]
        rows = np.zeros((count, *spaces.observation_shape), spaces.observation_dtype)
        try:
            write = spaces.complete or spaces.writer
            write(rows[0] if single else rows)(observation)
        except (EnvContractError, EnvNotFinite) as error:
            raise FeedError(str(error).removesuffix(ADVICE)) from None
        return rows, single

    def _legal(self, mask: Any, rows: np.ndarray, single: bool) -> np.ndarray | None:
        if mask is None:
            return None
        if not self.has_action_masks:
            env_id = self.config.env_id
            raise RlCoreError(f"{env_id} has no action masks: leave action_mask out")
        wanted = (*([] if single else [len(rows)]), self.num_actions)
        if self.branches:
            legal = np.ones(wanted, np.bool_)
            try:
                write_legal(legal, mask, False, self._spaces.actions)
            except EnvContractError as error:
                raise BoundsError(str(error).removesuffix(ADVICE)) from None
            return legal.reshape(len(rows), self.num_actions)
        legal = np.asarray(mask)
        if legal.shape != wanted:
            raise ShapeError(f"action_mask must have shape {wanted}, got {legal.shape}")
        legal = legal.reshape(len(rows), self.num_actions).astype(np.bool_)
        if not legal.any(axis=1).all():
            raise BoundsError("action_mask must allow at least one action of every observation")
        return legal


def _mask_in(observation: Any, env_id: str, source: MaskSource | None) -> Any:
    """Returns the mask that an observation has; None if the env has no masks."""
    if source is None:
        return None
    if source.path is None:
        raise RlCoreError(f"{env_id} has action masks: pass action_mask={source.code}")
    return _part(observation, source.path)


def _part(observation: Any, path: tuple[Any, ...]) -> Any:
    try:
        return at(observation, path)
    except EnvContractError as error:
        raise FeedError(str(error).removesuffix(ADVICE)) from None


def _no_array(env_id: str, shape: tuple[int, ...], observation: Any) -> ShapeError:
    # Such as what `reset` returns: an observation and a dict.
    got = what_came(observation)
    return ShapeError(f"an observation of {env_id} is an array of shape {shape}, got {got}")


def load_policy(
    run: Path | str,
    *,
    best: bool = False,
    averaged: bool = False,
    checkpoint: int | None = None,
) -> LoadedPolicy:
    """Loads a run's greedy policy: by default of its end, or of its last checkpoint if it runs.

        policy = load_policy("runs/cartpole-1")
        action = policy(observation)
        values = policy.q_values(observation)

    Args:
      run: a run directory.
      best: load the checkpoint with the best evaluation.
      averaged: load the averaged weights (`ema_decay`).
      checkpoint: load the checkpoint with this number, as in runs/cartpole-1/checkpoints/.

    Raises:
      RlCoreError: both `best` and `checkpoint` are given.
      RunDirError: there is no such run, or it has no such weights.
      CheckpointError: there is no such checkpoint, or it is damaged.
      EnvError: the run is of a version before 1.0, and its env cannot be made here.
    """
    directory = RunDir.open(path_of("run", run))
    learned = trained(directory, best=best, averaged=averaged, checkpoint=checkpoint)
    config = directory.config()
    return LoadedPolicy(config, learned, envs_of_policy(directory, config))
