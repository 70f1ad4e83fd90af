"""Keys of the env and of its rewards."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import field_validator

from targetnet.agents.config.settings import (
    LiveFloat,
    Settings,
    key,
    known_or_own,
    live,
    require_toml,
)
from targetnet.rl_core.errors import quoted

WRAPPERS = ("atari", "elements", "seed_globals")  # of envs/env_recipe.py


class EnvKeys(Settings):
    """The env, the number of its copies, the seed, and the length of the run."""

    env_id: str = key(
        "CartPole-v1",
        'id of a registered Gymnasium env, or "module:id"',
        values="text",
    )
    env_kwargs: dict[str, Any] = key(
        {},
        "arguments of the env; `max_episode_steps` changes its time limit",
        values="table",
    )
    env_wrapper: str | tuple[str, ...] = key(
        "",
        'put around each env: atari, elements, seed_globals, or your own as "module:function"; or '
        "a list of these, the innermost first, see docs/guides/own_env.md",
        values="text, or list of texts",
    )
    env_wrapper_kwargs: dict[str, Any] | tuple[dict[str, Any], ...] = key(
        {},
        "arguments of the wrapper; for a list of wrappers, one table for each",
        values="table, or list of tables",
    )
    check_env: bool = key(
        True,
        "repeats some steps of an env from the same seed before the run, and says if they differ",
    )
    num_envs: int = key(
        1, "envs that step together; with loop = 'remote', of each actor", "envs", ge=1
    )
    observation_keys: tuple[str, ...] = key(
        (),
        "which entries of a dict or tuple observation to use; none named: all",
        strict=False,
        values="list of texts",
    )
    action_masks: str = key(
        "auto",
        'where the env says which actions are legal: `auto` takes `info["action_mask"]`, a part '
        "`action_mask` of its observations, or its method `action_masks()`, whichever is there "
        "first; `info` the first of these alone, `off` none; or the name of another part",
        values="`auto`, `info`, `off`, or the name of a part",
    )
    frame_stack: int = key(
        1,
        "latest frames that make up one observation; frames before an episode's start are zeros; "
        "the replay stores each frame once",
        "frames",
        ge=1,
    )
    vectorization: Literal["sync", "async", "vector_entry_point", "envpool"] = key(
        "sync", "kind of vector env, see docs/explanation/loops.md"
    )
    seed: int = key(0, "seed of the envs, the weights and every random draw", ge=0, lt=2**63)
    env_steps: int = key(50_000, "length of the run, over all copies of the env", "env steps", ge=1)

    @field_validator("env_kwargs")
    @classmethod
    def _check_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return require_toml(arguments)

    @field_validator("env_wrapper_kwargs", mode="before")
    @classmethod
    def _check_wrapper_arguments(cls, given: Any) -> Any:
        each = given if isinstance(given, list | tuple) else [given]
        if not all(isinstance(one, dict) for one in each):
            raise ValueError(f"must be a table, or a list of tables, got {quoted(given)}")
        checked = tuple(map(require_toml, each))
        return checked if isinstance(given, list | tuple) else checked[0]

    @field_validator("observation_keys")
    @classmethod
    def _check_keys(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{quoted(name)} is named twice")
        return names

    @field_validator("env_wrapper", mode="before")
    @classmethod
    def _check_wrapper(cls, given: Any) -> Any:
        names = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"must be a wrapper's name, or a list of names, got {quoted(given)}")
        for name in names:
            if name or names != ("",):
                known_or_own("env_wrapper", name, WRAPPERS)
        return names if isinstance(given, list | tuple) else given


class RewardKeys(Settings):
    """Changes to the rewards of a batch: scaling, then clipping.

    The replay stores the env's own rewards, and returns are reported in them.
    """

    reward_scale: LiveFloat = live(
        1.0, gt=0, unit="1", meaning="factor of every reward that is learned from"
    )
    reward_clip: LiveFloat = live(
        0.0,
        ge=0,
        unit="reward",
        meaning="largest size of a scaled reward; 0 turns clipping off",
        papers=("Mnih et al. 2015",),
    )
