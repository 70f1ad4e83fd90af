"""Keys of the updates and of exploration."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from targetnet.agents.config.settings import LiveFloat, LiveInt, Settings, key, live
from targetnet.agents.config.weight_actions import WeightAction
from targetnet.rl_core.schedules import Linear


class FreezeArm(Settings):
    """One arm of an alternating freeze: its exempt blocks and its length."""

    exempt: tuple[str, ...] = Field(strict=False)  # names of the blocks that are not trained
    updates: int = Field(ge=1)  # length of the arm


class LearningKeys(Settings):
    """The updates: their schedule, the optimizer, the loss, the frozen blocks."""

    learn_start: int = key(
        1_000,
        "env steps before the first update",
        "env steps",
        ge=0,
        papers=("Mnih et al. 2015",),
        of_replay=True,
    )
    learn_period: LiveInt = live(
        4,
        ge=1,
        unit="env steps",
        meaning="env steps from one learning phase to the next",
        effect="next env step; if the last phase was this long ago, one is due at once",
        papers=("Mnih et al. 2015",),
        of_replay=True,
        needs=lambda config: config.rollout == 0 or "rollout = 0",
    )
    updates_per_learn: LiveInt = live(
        2,
        ge=1,
        le=1_000_000,
        unit="updates",
        meaning="updates in one learning phase",
        effect="next phase",
        of_replay=True,
        needs=lambda config: config.rollout == 0 or "rollout = 0",
    )
    learning_rate: LiveFloat = live(
        Linear(start=1e-3, end=1e-4, fraction=1.0),
        ge=0,
        unit="1",
        meaning="the optimizer's step size",
        papers=("Kingma & Ba 2015",),
    )
    optimizer: Literal["adam", "adamw", "rmsprop", "sgd"] = key(
        "adam",
        "optimizer of all blocks; adamw: with `weight_decay`; rmsprop: centered; sgd: with "
        "`momentum`",
        papers=(
            "Kingma & Ba 2015",
            "Loshchilov & Hutter 2019",
            "Mnih et al. 2015",
            "Rumelhart et al. 1986",
        ),
    )
    weight_decay: LiveFloat = live(
        0.01,
        ge=0,
        le=100,
        unit="1",
        meaning="part of each weight that an update takes off, times the learning rate",
        papers=("Loshchilov & Hutter 2019",),
        needs=lambda config: config.optimizer == "adamw" or 'optimizer = "adamw"',
    )
    momentum: LiveFloat = live(
        0.9,
        ge=0,
        lt=1,
        unit="1",
        meaning="part of the sum of gradients that is kept from one update to the next",
        papers=("Rumelhart et al. 1986",),
        needs=lambda config: config.optimizer == "sgd" or 'optimizer = "sgd"',
    )
    rmsprop_decay: float = key(
        0.95,
        "decay per update of both moments of rmsprop",
        "1",
        ge=0,
        lt=1,
        papers=("Mnih et al. 2015",),
        values="in [0, 1)",
    )
    rmsprop_epsilon: float = key(
        0.01,
        "number that is added to the variance of the gradient, below the root, in rmsprop",
        "1",
        ge=1e-30,
        papers=("Mnih et al. 2015",),
    )
    # A smaller one could push weights out of float32.
    adam_epsilon: float = key(
        1e-8,
        "number that is added to the divisor of a step of Adam, before the correction of the "
        "second moment, as in TensorFlow (epsilon hat of the paper)",
        "1",
        ge=1e-30,
        papers=("Kingma & Ba 2015",),
    )
    loss: Literal["huber", "squared", "hl_gauss"] = key(
        "squared",
        "loss of a scalar head, `huber` by default if `huber_delta` is set; hl_gauss: a "
        "categorical head learns means by cross-entropy with a histogram around the target",
        papers=("Huber 1964", "Imani & White 2018", "Farebrother et al. 2024"),
    )
    huber_delta: LiveFloat = live(
        1.0,
        gt=0,
        unit="reward",
        meaning="absolute TD error above which the Huber loss is linear",
        papers=("Huber 1964",),
        needs=lambda config: (
            (config.loss == "huber" and config.head != "categorical")
            or 'loss = "huber" and no categorical head'
        ),
    )
    hl_gauss_sigma: LiveFloat = live(
        0.75,
        ge=0.01,
        le=100,
        unit="bins",
        meaning="standard deviation of HL-Gauss's histogram; a bin is (v_max - v_min) / atoms wide",
        papers=("Imani & White 2018", "Farebrother et al. 2024"),
        needs=lambda config: config.loss == "hl_gauss" or 'loss = "hl_gauss"',
    )
    max_grad_norm: LiveFloat = live(
        10.0,
        ge=0,
        unit="1",
        meaning="largest global norm of the gradients; larger ones are scaled down; 0 turns "
        "clipping off",
        papers=("Pascanu et al. 2013",),
    )
    ema_decay: LiveFloat = live(
        0.0,
        ge=0,
        lt=1,
        unit="1",
        meaning="decay per update of the averaged weights; 0 in the config turns averaging off",
        effect="next update",
        papers=("Polyak & Juditsky 1992",),
        needs=lambda config: config.ema_decay != 0 or "ema_decay > 0",
    )
    freeze: tuple[FreezeArm, ...] = key(
        (),
        "arms that take turns; without arms all blocks are trained",
        strict=False,
        values="list of `{ exempt = [...], updates = N }`",
    )

    actions: tuple[WeightAction, ...] = key(
        (),
        "actions on the weights that are made again and again, see docs/guides/renewing_weights.md",
        strict=False,
        papers=("Nikishin et al. 2022", "Ash & Adams 2020", "Sokar et al. 2023"),
        values='list of `{ do = "reset", block = ..., every = N }`, `{ do = "perturb", factor = '
        'A, every = N }`, `{ do = "recycle", threshold = T, every = N }`',
    )

    @field_validator("actions", mode="before")
    @classmethod
    def _check_action_keys(cls, actions: Any) -> Any:
        for action in actions if isinstance(actions, list | tuple) else ():
            WeightAction.require_keys(action)
        return actions

    @field_validator("freeze", mode="before")
    @classmethod
    def _parse_arms(cls, arms: Any) -> Any:
        if isinstance(arms, list | tuple):
            return tuple(
                a if isinstance(a, FreezeArm) else FreezeArm.model_validate(a) for a in arms
            )
        return arms


class ExplorationKeys(Settings):
    """Exploration: random actions, and actions drawn by their values."""

    epsilon: LiveFloat = live(
        Linear(start=1.0, end=0.05, fraction=0.2),
        ge=0,
        le=1,
        unit="probability",
        meaning="probability of a uniformly random action",
        effect="next action",
        papers=("Mnih et al. 2015",),
        acts=True,
    )
    boltzmann: bool = key(
        False, "draws actions from softmax(q / temperature) instead of the greedy one"
    )
    temperature: LiveFloat = live(
        1.0,
        gt=0,
        unit="reward",
        meaning="temperature of Boltzmann exploration; higher is more random",
        effect="next action",
        acts=True,
        needs=lambda config: config.boltzmann or "boltzmann = true",
    )
