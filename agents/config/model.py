"""The configuration of one DQN run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from agents.config.settings import LiveFloat, LiveInt, Settings, live
from rl_core.errors import did_you_mean, shown
from rl_core.schedules import Linear

Size = Annotated[int, Field(ge=1)]
# The networks of rl_core.networks, and the dense layers that their papers give them.
_HIDDEN = {"mlp": (256, 256), "minatar": (128,), "nature": (512,), "impala": (256,)}
NETWORKS = tuple(_HIDDEN)


class FreezeArm(Settings):
    """One arm of an alternating freeze: what is left alone, and for how many updates."""

    exempt: tuple[str, ...] = Field(strict=False)  # blocks
    updates: int = Field(ge=1)


class EnvKeys(Settings):
    """The env, how many of it, the seed, and the length of the run."""

    env_id: str = "CartPole-v1"
    env_kwargs: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it
    num_envs: int = Field(1, ge=1)
    vectorization: Literal["sync", "async", "vector_entry_point", "envpool"] = "sync"
    seed: int = Field(0, ge=0, lt=2**63)
    env_steps: int = Field(50_000, ge=1)  # length of the run


class RewardKeys(Settings):
    """How a reward is changed before it is learned from: scaled, then clipped."""

    reward_scale: float = Field(1.0, gt=0)
    reward_clip: float = Field(0.0, ge=0)  # to [-reward_clip, reward_clip]; 0: not clipped


class NetworkKeys(Settings):
    """The online network. Blocks that can be frozen: torso, and head or value and advantage."""

    network: str = "mlp"  # mlp, minatar, nature, impala, or your own "module:function"
    hidden: tuple[Size, ...] = Field((256, 256), strict=False)  # units per dense layer of the torso
    layer_norm: bool = False  # in the torso
    # uint8 observations are scaled to [0, 1] by the bounds of their Box, or divided by 255.
    byte_scale: Literal["bounds", "255"] = "bounds"
    dueling: bool = False  # Wang et al. (2016)
    head_hidden: tuple[Size, ...] = Field((), strict=False)  # units per layer of the head's streams
    noisy: bool = False  # noisy layers in the head, Fortunato et al. (2018)
    # What of a return is learned: its expectation; C51, Bellemare et al. (2017); QR-DQN, Dabney
    # et al. (2018); IQN, Dabney et al. (2018b).
    head: Literal["scalar", "categorical", "quantile", "implicit"] = "scalar"
    atoms: int = Field(51, ge=2)  # of a categorical head
    v_min: float = -10.0  # the first atom
    v_max: float = 10.0  # the last atom
    quantiles: int = Field(200, ge=1)  # of a quantile head
    tau_samples: int = Field(64, ge=1)  # fractions an implicit head draws in an update
    tau_samples_acting: int = Field(32, ge=1)  # fractions behind its choice of an action

    @model_validator(mode="before")
    @classmethod
    def _hidden_of_the_network(cls, values: Any) -> Any:
        if isinstance(values, dict) and "hidden" not in values:
            return values | {"hidden": _HIDDEN.get(values.get("network", "mlp"), (256, 256))}
        return values

    @field_validator("network")
    @classmethod
    def _a_network_there_is(cls, name: str) -> str:
        if name not in NETWORKS and not all(name.partition(":")):
            raise ValueError(
                f"there is no network {shown(name)} ({', '.join(NETWORKS)}, or your own as "
                f"'module:function'){did_you_mean(name, NETWORKS)}"
            )
        return name


class TargetKeys(Settings):
    """The target network and the value that is regressed on."""

    double: bool = False  # van Hasselt et al. (2016)
    averaged_targets: int = Field(1, ge=1)  # copies averaged, Anschel et al. (2017); 1: none
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
    discount: LiveFloat = live(
        0.99, ge=0, le=1, unit="1", meaning="factor of the next state's value"
    )
    munchausen: bool = False  # Vieillard et al. (2020)
    munchausen_alpha: LiveFloat = live(
        0.9, ge=0, le=1, unit="1", meaning="share of the log policy that is added to the reward"
    )
    munchausen_temperature: LiveFloat = live(
        0.03, gt=0, unit="reward", meaning="temperature of the target's softmax policy"
    )
    munchausen_clip: LiveFloat = live(
        -1.0, lt=0, unit="reward", meaning="least scaled log policy that is added"
    )


class ReplayKeys(Settings):
    """The replay memory and how batches are sampled from it."""

    replay_capacity: int = Field(100_000, ge=3)  # rows
    batch_size: int = Field(64, ge=1)  # transitions
    n_step: LiveInt = live(
        1, ge=1, unit="env steps", meaning="rewards that are added up before the next state's value"
    )
    prioritized: bool = False  # Schaul et al. (2016)
    priority_alpha: LiveFloat = live(
        0.6,
        ge=0,
        le=1,
        unit="1",
        meaning="how much priorities count when sampling; 0 is uniform",
        effect="next update, which recomputes all priorities",
    )
    priority_beta: LiveFloat = live(
        0.4,
        ge=0,
        le=1,
        unit="1",
        meaning="share of the sampling bias that importance weights remove",
    )


class LearningKeys(Settings):
    """The updates: when they are made, the optimizer, the loss, the frozen blocks."""

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
    adam_epsilon: float = Field(1e-8, ge=1e-30)  # less, and weights could leave float32
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
        meaning="decay of the averaged weights per update; 0 in the config keeps none",
        effect="next update",
    )
    freeze: tuple[FreezeArm, ...] = Field((), strict=False)  # arms in turn; empty: all trained

    @field_validator("freeze", mode="before")
    @classmethod
    def _arms_from_tables(cls, arms: Any) -> Any:
        if isinstance(arms, list | tuple):
            return tuple(
                a if isinstance(a, FreezeArm) else FreezeArm.model_validate(a) for a in arms
            )
        return arms


class ExplorationKeys(Settings):
    """Actions that are not greedy."""

    epsilon: LiveFloat = live(
        Linear(start=1.0, end=0.05, steps=10_000),
        ge=0,
        le=1,
        unit="probability",
        meaning="probability of a uniformly random action",
        effect="next action",
    )

    boltzmann: bool = False  # draw actions from softmax(q / temperature) instead of the best
    temperature: LiveFloat = live(
        1.0,
        gt=0,
        unit="reward",
        meaning="temperature of Boltzmann exploration; higher is more random",
        effect="next action",
    )


class EvaluationKeys(Settings):
    """Points of the curves and greedy evaluations."""

    log_period: int = Field(1_000, ge=1)  # env steps between points of a curve
    eval_period: int = Field(10_000, ge=1)  # env steps between greedy evaluations
    eval_episodes: int = Field(10, ge=1)
    eval_max_steps: int = Field(27_000, ge=1)  # env steps after which an evaluation cuts an episode
    final_eval_episodes: int = Field(100, ge=1)


class CheckpointKeys(Settings):
    """Checkpoints on disk and snapshots in memory."""

    checkpoint_seconds: float = Field(60.0, ge=0)  # from one to the next; 0: none by the clock
    checkpoint_steps: int = Field(0, ge=0)  # env steps from one to the next; 0: none by count
    checkpoint_keep: int = Field(2, ge=1)  # how many of the last

    past_states: int = Field(4, ge=0)  # snapshots in memory that a run can be taken back to


class LoopKeys(Settings):
    """The loop, agents/loops/choice.py."""

    loop: Literal["plain", "concurrent", "compiled"] = "plain"
    chunk: int = Field(500, ge=1)  # time steps in one call of the compiled loop


class MachineKeys(Settings):
    """Threads and compilers."""

    # Inside one operation; with 1, same seed means same bits.
    threads: int = Field(1, ge=1, le=1_024)
    xla: bool = True  # compile learning phases, those of one update only with one thread
    onednn: bool = False  # faster convolutions, slower small layers; other last bits


# Pydantic takes the fields of the last base first: env_id is the first key, onednn the last.
class DqnConfig(
    MachineKeys,
    LoopKeys,
    CheckpointKeys,
    EvaluationKeys,
    ExplorationKeys,
    LearningKeys,
    ReplayKeys,
    TargetKeys,
    NetworkKeys,
    RewardKeys,
    EnvKeys,
):
    """One DQN run. Every count says what it counts.

    Mnih et al. (2015), https://doi.org/10.1038/nature14236. An *env step* is one transition of
    one env; an *update* is one gradient step.
    """

    @model_validator(mode="after")
    def _parts_fit(self) -> DqnConfig:
        if self.v_min >= self.v_max:
            raise ValueError(f"v_min must be below v_max, got {self.v_min:g} and {self.v_max:g}")
        if self.head != "scalar" and self.loss != "huber":
            raise ValueError(
                f"loss = {self.loss!r} is for head = 'scalar'; a {self.head} head has its own"
            )
        if self.munchausen and self.head == "categorical":
            raise ValueError("munchausen needs head = 'scalar', 'quantile' or 'implicit'")
        if self.munchausen and self.double:
            raise ValueError("munchausen has no maximum for double = true to split; leave one out")
        if self.munchausen and self.n_step != 1:
            raise ValueError("munchausen needs n_step = 1: each reward has a bonus of its own")
        return self

    def without_effect(self) -> dict[str, str]:
        """Live values that do nothing in this run -> what they would need."""
        huber = self.loss == "huber" and self.head != "categorical"
        needs = {
            "ema_decay": (self.ema_decay != 0, "ema_decay > 0"),
            "huber_delta": (huber, "a Huber loss"),
            "n_step": (not self.munchausen, "munchausen = false"),
            "priority_alpha": (self.prioritized, "prioritized = true"),
            "priority_beta": (self.prioritized, "prioritized = true"),
            "temperature": (self.boltzmann, "boltzmann = true"),
            "munchausen_alpha": (self.munchausen, "munchausen = true"),
            "munchausen_temperature": (self.munchausen, "munchausen = true"),
            "munchausen_clip": (self.munchausen, "munchausen = true"),
        }
        return {name: wanted for name, (there, wanted) in needs.items() if not there}
