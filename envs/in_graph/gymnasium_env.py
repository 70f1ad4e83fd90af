"""Ordinary Gymnasium env made of an env in the graph: one copy, stepped from Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from targetnet.envs.in_graph.interface import InGraphEnv
from targetnet.envs.in_graph.table import make_rules
from targetnet.envs.minatar import CELL, PALETTE
from targetnet.rl_core.graph.engine import Engine
from targetnet.rl_core.random import Draws


class InGraphGymEnv(gym.Env[Any, Any]):
    """One copy of any InGraphEnv; an episode depends only on its reset's seed and its actions.

    This object keeps the state and feeds it to each step. Gymnasium's wrapper applies time limits.

    Args:
      rules: the rules, or an id in envs/in_graph/table.py.
      render_mode: "rgb_array" draws boards of bool cells, [16 H, 16 W, 3] uint8; other
        observations cannot be drawn.
      env_kwargs: arguments of the rules, if `rules` is an id.

    Raises:
      EnvError: there is no such id, or the rules do not take these arguments.
      ValueError: these rules do not support this render_mode.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(
        self, rules: InGraphEnv | str, render_mode: str | None = None, **env_kwargs: Any
    ) -> None:
        game = _game(rules, env_kwargs) if isinstance(rules, str) else _Game(rules)
        _require_render_mode(game.rules, render_mode)
        self.render_mode = render_mode
        self.action_space = gym.spaces.Discrete(game.rules.num_actions)
        self.observation_space = observation_space(game.rules)
        self._begin, self._step = game.begin, game.step
        self._state: tuple[np.ndarray, ...] = ()
        self._place = 0  # position in the random streams
        self._observation = np.zeros(0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(1 << 31))
        # 62 bits, so that adding the steps does not overflow. Two episodes share random numbers
        # only if their positions are closer than an episode's length.
        self._place = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> 2)
        observation, *state = self._begin(np.int64(self._place))
        self._state = tuple(state)
        self._observation = observation[0]
        return self._observation, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._place += 1
        observation, reward, terminated, *state = self._step(
            np.int64(self._place), np.array([action], np.int32), *self._state
        )
        self._state = tuple(state)
        self._observation = observation[0]
        return self._observation, float(reward[0]), bool(terminated[0]), False, {}

    def render(self) -> Any:
        if self.render_mode is None:
            return None
        planes = self._observation.reshape(*self._observation.shape[:2], -1)  # [H, W, C]
        # Of several objects in a cell the last channel is drawn.
        seen = np.max(planes * np.arange(1, planes.shape[-1] + 1), axis=-1)  # [H, W]
        return PALETTE[seen].repeat(CELL, axis=0).repeat(CELL, axis=1)


class _Game:
    """The rules as functions of NumPy values, which any number of copies may share.

    Attributes:
      rules: the same.
      begin: (place) -> (observation, *state)
      step: (place, action, *state) -> (observation, reward, terminated, *state)
    """

    def __init__(self, rules: InGraphEnv) -> None:
        self.rules, engine = rules, Engine()
        self.begin, self.step = _build(engine, rules)


# The latest games by their ids and arguments. To build and compile one takes as long as thousands
# of steps, and every evaluation makes its copies anew.
_GAMES: dict[str, _Game] = {}
_MOST_GAMES = 8


def _game(env_id: str, env_kwargs: Mapping[str, Any]) -> _Game:
    key = f"{env_id} {sorted(env_kwargs.items())!r}"
    if key not in _GAMES:
        game = _Game(make_rules(env_id, env_kwargs))
        while len(_GAMES) >= _MOST_GAMES:
            del _GAMES[next(iter(_GAMES))]
        _GAMES[key] = game
    return _GAMES[key]


def _build(engine: Engine, rules: InGraphEnv) -> tuple[Any, Any]:
    """Builds `_Game.begin` and `_Game.step`."""
    with engine.building():
        place = tf.placeholder(tf.int64, [], "place")
        action = tf.placeholder(tf.int32, [1], "action")
        state = rules.begin(Draws(0, "begin", place).uniform("env", [1, rules.begin_draws]))
        begun = (rules.observe(state), *state)
        fed = [tf.placeholder(t.dtype, t.shape, "state") for t in state]

        # Compiled as in training, and because a game has hundreds of small operations.
        @tf2.function(jit_compile=True, autograph=False)
        def step(place: tf.Tensor, action: tf.Tensor, *fed: tf.Tensor) -> Any:
            uniform = Draws(0, "step", place).uniform("env", [1, rules.step_draws])
            moved = rules.step(type(state)(*fed), action, uniform)
            return rules.observe(moved.state), moved.reward, moved.terminated, *moved.state

        stepped = tuple(step(place, action, *fed))
    engine.start()
    return engine.callable(begun, [place]), engine.callable(stepped, [place, action, *fed])


def observation_space(rules: InGraphEnv) -> gym.Space[Any]:
    """Returns the space of one observation of an env in the graph."""
    if rules.observation_dtype is np.bool_:
        return gym.spaces.Box(0, 1, rules.observation_shape, np.bool_)
    return gym.spaces.Box(-np.inf, np.inf, rules.observation_shape, np.float32)


def _require_render_mode(rules: InGraphEnv, render_mode: str | None) -> None:
    is_board = rules.observation_dtype is np.bool_ and len(rules.observation_shape) in (2, 3)
    modes = [None, "rgb_array"] if is_board else [None]
    if render_mode not in modes:
        raise ValueError(
            f"render_mode of {type(rules).__name__} must be "
            f"{' or '.join(map(repr, modes))}, got {render_mode!r}"
        )
