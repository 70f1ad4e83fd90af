"""envpool's envs, which envpool steps in its own threads, as a gymnasium vector env.

    Weng et al. (2022), https://arxiv.org/abs/2206.10558

envpool has its own ids, such as "Breakout-v5" for gymnasium's ALE/Breakout-v5. Its autoreset is
gymnasium's NEXT_STEP: final observations are true, and the step after an episode's end ignores the
action and pays 0. One difference: if an episode terminates on the last step of its time limit,
envpool reports only the truncation.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np

from targetnet.envs.outcomes import LIFE_LOST
from targetnet.envs.registry import quiet_gymnasium
from targetnet.rl_core.errors import EnvError, did_you_mean, in_one_line, nearest, quoted

# Arguments not allowed in env_kwargs: the driver sets them, or they would change its rows.
_FIXED = {"num_envs", "batch_size", "seed", "env_seed", "gym_reset_return_info", "max_num_players"}


class PoolEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """A pool of `num_envs` envs, made by envpool.

    Args:
      env_id: an id of envpool.
      num_envs: number of envs.
      env_kwargs: arguments of envpool: those of the env, `max_episode_steps` and `num_threads`.

    Raises:
      EnvError: envpool is not installed, has no such env, or cannot make it with `env_kwargs`.
    """

    def __init__(self, env_id: str, num_envs: int, env_kwargs: Mapping[str, Any]) -> None:
        self._pool: Any = None  # first: older Gymnasiums close what could not be made
        self._envpool = _envpool()
        _require_id(self._envpool, env_id)
        self.num_envs = num_envs
        self._env_id = env_id
        self._env_kwargs = dict(env_kwargs)
        self._first: Any = None  # seed and result of the last reset, until the first step
        self._require_known_arguments()
        with quiet_gymnasium():
            spec = self._made(self._envpool.make_spec)
            self.single_observation_space = spec.gymnasium_observation_space
            self.single_action_space = spec.gymnasium_action_space
        self.metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Makes a new pool and resets it, because a pool cannot be seeded again."""
        # A second reset with the same seed reuses the pool: make_envs resets once to check a row,
        # and 64 Atari games take seconds to make.
        if self._first is None or self._first[0] != seed:
            self.close()
            make = self._envpool.make_gymnasium
            with quiet_gymnasium():
                self._pool = self._made(make, num_envs=self.num_envs, seed=seed)
                self._first = seed, self._pool.reset()
        return self._first[1]

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._first = None
        observation, reward, terminated, truncated, info = self._pool.step(actions)
        if self._env_kwargs.get("episodic_life"):
            info[LIFE_LOST] = terminated & ~info["terminated"].astype(np.bool_)
        return observation, reward, terminated, truncated, info

    def render(self) -> Any:
        return self._pool.render()

    def close(self, **_: Any) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = self._first = None

    def _made(self, make: Any, **ours: Any) -> Any:
        try:
            return make(self._env_id, **self._env_kwargs, **ours)
        except Exception as error:
            given = in_one_line(self._env_kwargs)
            raise EnvError(
                f"envpool's {self._env_id!r} cannot be made with env_kwargs {given} "
                f"({type(error).__name__}: {in_one_line(error)}); correct env_kwargs"
            ) from error

    def _require_known_arguments(self) -> None:
        names = self._envpool.make_spec(self._env_id)._config_keys
        taken = sorted({*names, "render_mode"} - _FIXED)
        for name in self._env_kwargs:
            if name not in taken:
                raise EnvError(
                    f"envpool's {self._env_id!r} takes no argument {quoted(name)} (env_kwargs)"
                    f"{did_you_mean(name, taken)}; it takes {', '.join(taken)}"
                )


def _envpool() -> ModuleType:
    try:
        import envpool
    except ImportError as error:
        raise EnvError(
            "vectorization 'envpool' needs a package that is not installed "
            f"({in_one_line(error)}); run: pip install 'targetnet[envpool]'"
        ) from error
    return envpool


def _require_id(envpool: ModuleType, env_id: str) -> None:
    known = envpool.list_all_envs()
    if env_id not in known:
        near = nearest(env_id.rpartition("/")[2], known)
        raise EnvError(
            f"envpool has no env {quoted(env_id)}"
            + (f"; did you mean {near!r}?" if near else "; see envpool.list_all_envs()")
        )
