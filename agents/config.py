"""The configuration of one DQN run.

Imports: agents.settings, rl_core.hyperparameters. Never tensorflow.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from agents.settings import LiveFloat, LiveInt, Settings, live
from rl_core.schedules import Linear

Size = Annotated[int, Field(ge=1)]


class FreezeArm(Settings):
    """One arm of an alternating freeze: what is left alone, and for how many updates."""

    exempt: tuple[str, ...] = Field(strict=False)  # blocks
    updates: int = Field(ge=1)


class DqnConfig(Settings):
    """One DQN run. Every count says what it counts.

    Mnih et al. (2015), https://doi.org/10.1038/nature14236. An *env step* is one transition of
    one env; an *update* is one gradient step.
    """

    # The env.
    env_id: str = "CartPole-v1"
    env_kwargs: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it
    num_envs: int = Field(1, ge=1)
    vectorization: Literal["sync", "vector_entry_point"] = "sync"
    seed: int = Field(0, ge=0, lt=2**63)
    env_steps: int = Field(50_000, ge=1)  # length of the run

    # The network. Blocks that can be frozen: torso, and head or value and advantage.
    hidden: tuple[Size, ...] = Field((256, 256), strict=False)  # units per layer
    layer_norm: bool = False
    dueling: bool = False  # Wang et al. (2016)

    # The target.
    double: bool = False  # van Hasselt et al. (2016)
    sync_period: LiveInt = live(
        500,
        ge=1,
        unit="updates",
        meaning="age at which the target network is copied",
        effect="next update; a target that is this old already is copied by it",
    )
    tau: LiveFloat = live(
        1.0,
        gt=0,
        le=1,
        unit="1",
        meaning="share of the online network in a copy; 1 is hard",
        effect="next sync",
    )
    discount: LiveFloat = live(0.99, ge=0, le=1, unit="1", meaning="of the next state's value")

    # Replay.
    replay_capacity: int = Field(100_000, ge=3)  # rows
    batch_size: int = Field(64, ge=1)  # transitions

    # Learning.
    learn_start: int = Field(1_000, ge=0)  # env steps before the first update
    learn_period: LiveInt = live(
        4,
        ge=1,
        unit="env steps",
        meaning="env steps from one learning phase to the next",
        effect="next env step; one phase is due at once if the last was this long ago",
    )
    updates_per_learn: LiveInt = live(
        1, ge=1, unit="updates", meaning="updates in one learning phase", effect="next phase"
    )
    learning_rate: LiveFloat = live(1e-3, gt=0, unit="1", meaning="Adam's step size")
    adam_epsilon: float = Field(1e-8, gt=0)
    loss: Literal["huber", "squared"] = "huber"
    huber_delta: LiveFloat = live(
        1.0, gt=0, unit="reward", meaning="TD error at which the Huber loss turns linear"
    )
    max_grad_norm: LiveFloat = live(
        10.0, gt=0, unit="1", meaning="gradients are scaled down to this global norm"
    )
    ema_decay: LiveFloat = live(
        0.0,
        ge=0,
        lt=1,
        unit="1",
        meaning="of the averaged weights, per update; 0 in the config: none are kept",
        effect="next update",
    )
    freeze: tuple[FreezeArm, ...] = Field((), strict=False)  # arms in turn; empty: all trained

    # Exploration.
    epsilon: LiveFloat = live(
        Linear(start=1.0, end=0.05, steps=10_000),
        ge=0,
        le=1,
        unit="probability",
        meaning="of a uniformly random action",
        effect="next action",
    )

    # Watching.
    log_period: int = Field(1_000, ge=1)  # env steps between points of a curve
    eval_period: int = Field(10_000, ge=1)  # env steps between greedy evaluations
    eval_episodes: int = Field(10, ge=1)
    final_eval_episodes: int = Field(100, ge=1)

    # Checkpoints.
    checkpoint_seconds: float = Field(60.0, ge=0)  # from one to the next; 0: none by the clock
    checkpoint_steps: int = Field(0, ge=0)  # env steps from one to the next; 0: none by count
    checkpoint_keep: int = Field(2, ge=1)  # how many of the last

    past_states: int = Field(4, ge=0)  # snapshots in memory that a run can be taken back to

    # The machine.
    threads: int = Field(1, ge=1)  # inside one operation; with 1, same seed means same bits
    xla: bool = True  # compile learning phases of more than one update

    @field_validator("freeze", mode="before")
    @classmethod
    def _arms_from_tables(cls, arms: Any) -> Any:
        if isinstance(arms, list | tuple):
            return tuple(
                a if isinstance(a, FreezeArm) else FreezeArm.model_validate(a) for a in arms
            )
        return arms
