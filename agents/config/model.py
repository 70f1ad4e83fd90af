"""The configuration of one DQN run; its keys are declared by theme in the files beside this one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import (
    ModelWrapValidatorHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)

from targetnet.agents.config.combinations import check_combinations
from targetnet.agents.config.env_keys import EnvKeys, RewardKeys
from targetnet.agents.config.learning_keys import ExplorationKeys, LearningKeys
from targetnet.agents.config.network_keys import HIDDEN, NETWORKS, NetworkKeys, RecurrentKeys
from targetnet.agents.config.own_live import OwnLive, check_names
from targetnet.agents.config.replay_keys import DataKeys, ReplayKeys, RolloutKeys
from targetnet.agents.config.run_keys import (
    CONTROLLERS,
    ActorKeys,
    CheckpointKeys,
    ControllerKeys,
    EvaluationKeys,
    LoopKeys,
    MachineKeys,
    OwnKeys,
    SinkKeys,
)
from targetnet.agents.config.sync_keys import SyncKeys
from targetnet.agents.config.synonyms import near_key
from targetnet.agents.config.target_keys import TargetKeys

_SYNC_RULES = SyncKeys.switches("sync")
# Keys that are about copies of whole networks, and what each of them is where it is off.
_OF_FULL_COPIES: dict[str, Any] = {
    "sync_period": None, "averaged_targets": 1, "chain": 1, "on_sync": (),
    **dict.fromkeys(_SYNC_RULES, 0.0),
}  # fmt: skip
_FULL_COPIES = {"sync_period": 100, "tau": 1.0}


# Pydantic takes the fields of the last base first: env_id is the first key, live the last.
class DqnConfig(
    OwnKeys,
    MachineKeys,
    ActorKeys,
    LoopKeys,
    CheckpointKeys,
    SinkKeys,
    ControllerKeys,
    EvaluationKeys,
    ExplorationKeys,
    LearningKeys,
    DataKeys,
    RolloutKeys,
    ReplayKeys,
    TargetKeys,
    SyncKeys,
    RecurrentKeys,
    NetworkKeys,
    RewardKeys,
    EnvKeys,
):
    """All settings of one DQN run.

    Mnih et al. (2015), https://doi.org/10.1038/nature14236. An *env step* is one transition of
    one env, an *update* is one gradient step.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _fill_in(cls, values: Any, handler: ModelWrapValidatorHandler[DqnConfig]) -> DqnConfig:
        """Fills in defaults that depend on other keys, which do not count as given."""
        filled = _dependent_defaults(values) if isinstance(values, dict) else {}
        config = handler(values | filled if filled else values)
        config.__pydantic_fields_set__.difference_update(filled)
        return config

    @classmethod
    def near(cls, key: str, names: Iterable[str]) -> str:
        """Returns a hint at the key that was meant: of another library's name, else the nearest."""
        return near_key(key, names)

    @field_validator("live")
    @classmethod
    def _check_own_names(cls, live: dict[str, OwnLive], info: ValidationInfo) -> dict[str, OwnLive]:
        check_names(live, cls.model_fields)
        # Without a valid length the config is refused anyway.
        env_steps = info.data.get("env_steps", 1)
        return {name: own.over(env_steps) for name, own in live.items()}

    @model_validator(mode="after")
    def _check_combinations(self) -> DqnConfig:
        check_combinations(self)
        return self

    def with_shared_defaults(self, names: Iterable[str]) -> DqnConfig:
        """Returns the base of configs, such as members, that differ from it in these keys.

        A default that depends on one of the keys is then the same for all of them.
        """
        given, names = self.model_fields_set, set(names)
        changes: dict[str, Any] = {}
        about_copies = names & {*_OF_FULL_COPIES, "controller"}
        if about_copies and "tau" not in given | names and not self.rollout:
            changes |= _FULL_COPIES
        if names & {"head", "huber_delta"}:
            changes["loss"] = "huber"
        changes = {n: value for n, value in changes.items() if n not in given | names}
        return self.model_copy(update=changes) if changes else self

    @property
    def is_recurrent(self) -> bool:
        """Returns True if the network has a recurrent layer."""
        return self.recurrent != "none"

    @property
    def own_live_names(self) -> tuple[str, ...]:
        """Names of the user's own live values; a network of rl_core reads none of them."""
        return () if self.network in NETWORKS else tuple(self.live)

    @property
    def stored_stack(self) -> int:
        """Rows that an observation that is learned from is made of.

        Where actors deliver them, rows of one env do not lie one after the other, so each stores a
        whole observation.
        """
        return 1 if self.loop == "remote" else self.frame_stack

    @property
    def longest_step(self) -> int:
        """Env steps that a step of a sequence spans at most: the largest `n_step` of its schedule.

        Sequences are as long as this needs, so a live `n_step` cannot be more.
        """
        if isinstance(self.n_step, int):
            return self.n_step
        return math.ceil(self.n_step.extremes()[1])

    @property
    def updates_per_rollout(self) -> int:
        """Updates that are made of each rollout; 0 with a replay."""
        return self.epochs * self.rollout * self.num_envs // self.batch_size if self.rollout else 0

    @property
    def delivered_at_once(self) -> int:
        """Time steps of rows that the remote loop stores between two safe points."""
        # A delivery has one row more than its actor made steps: what they led to.
        return (self.actor_steps + 1) * (self.actors if self.actor_pace == "phases" else 1)

    @property
    def ends_of_support(self) -> tuple[float, float]:
        """Returns of the first and the last atom; HL-Gauss has them in the middle of its bins."""
        if self.loss != "hl_gauss":
            return self.v_min, self.v_max
        half = (self.v_max - self.v_min) / (2 * self.atoms)
        return self.v_min + half, self.v_max - half

    def without_effect(self) -> dict[str, str]:
        """Returns the live values that do nothing in this run, each with the setting it needs."""
        found = {}
        for name, facts in type(self).facts().items():
            effective = facts.needs(self) if facts.needs else True
            if facts.switch and not self.is_built_with(name):
                effective = f'{name} > 0, or prepared = ["{name}"]'
            if isinstance(effective, str):
                found[name] = effective
        return found


def _dependent_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the defaults that depend on what a config says; they are not checked here."""
    found: dict[str, Any] = {}
    network = values.get("network")
    if isinstance(network, str) and network in HIDDEN:
        found["hidden"] = HIDDEN[network]
    if values.get("head", "scalar") != "scalar" or "huber_delta" in values:
        found["loss"] = "huber"
    if "tau" not in values and not values.get("rollout") and _names_full_copies(values):
        found |= _FULL_COPIES
    return {name: value for name, value in found.items() if name not in values}


def _names_full_copies(values: Mapping[str, Any]) -> bool:
    prepared = values.get("prepared")
    return (
        any(
            values[name] not in (off, []) for name, off in _OF_FULL_COPIES.items() if name in values
        )
        or values.get("controller") in CONTROLLERS
        or (isinstance(prepared, list | tuple) and any(name in _SYNC_RULES for name in prepared))
    )
