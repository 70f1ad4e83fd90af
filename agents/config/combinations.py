"""Checks that the keys of a config go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from targetnet.agents.config.network_keys import FRAMES
from targetnet.rl_core.hyperparameters import LARGEST_INT32

if TYPE_CHECKING:
    from targetnet.agents.config.model import DqnConfig


def without_replay_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a config's values; if it makes rollouts, without the keys of a replay and a target.

    They do nothing there, but what is stored has them, with what was their default then.
    """
    from targetnet.agents.config.model import DqnConfig

    without = _not_of_rollouts(DqnConfig) if values.get("rollout") else ()
    return {name: value for name, value in values.items() if name not in without}


def _not_of_rollouts(model: type[DqnConfig]) -> list[str]:
    """Returns the keys that need a replay or a target network, which rollouts do without."""
    return [name for name, facts in model.facts().items() if facts.of_replay or facts.switch]


def check_combinations(config: DqnConfig) -> None:
    """Checks that the keys of a config go together.

    Raises:
      ValueError: they do not; says which one to change.
    """
    _check_head(config)
    if config.compute != "float32":
        _check_compute(config)
    if config.is_built_with("sync_growth") and not isinstance(config.sync_period, int):
        raise ValueError(
            "sync_growth lengthens a sync_period that is a number; leave its schedule out, or "
            "sync_growth"
        )
    if config.munchausen:
        _check_munchausen(config)
    _check_data(config)
    if config.rollout:
        _check_rollout(config)
    elif config.epochs != 1:
        raise ValueError(f"epochs needs rollout > 0, got epochs = {config.epochs}")
    if config.loop == "remote":
        _check_actors(config)
    if config.env_wrapper_kwargs:
        _check_wrapper_arguments(config)
    if config.loop == "compiled":
        _check_in_graph(config)
    if config.value_rescaling:
        _check_rescaling(config)
    if config.is_recurrent:
        _check_recurrent(config)
    _check_chain(config)


def _check_wrapper_arguments(config: DqnConfig) -> None:
    names, given = config.env_wrapper, config.env_wrapper_kwargs
    if not names:
        raise ValueError("env_wrapper_kwargs needs env_wrapper")
    if isinstance(names, tuple) and not isinstance(given, tuple):
        raise ValueError(
            "env_wrapper is a list, and env_wrapper_kwargs is one table; write a list with a table "
            "for each wrapper, {} where it takes nothing"
        )
    wrappers = len(names) if isinstance(names, tuple) else 1
    if isinstance(given, tuple) and len(given) != wrappers:
        raise ValueError(
            f"env_wrapper_kwargs must be as many tables as env_wrapper has names, {wrappers}, got "
            f"{len(given)}; write {{}} where one takes nothing"
        )


def _check_compute(config: DqnConfig) -> None:
    asked = f"compute = {config.compute!r}"
    if config.network not in FRAMES:
        raise ValueError(
            f"{asked} is for the networks {' and '.join(FRAMES)}, got {config.network!r}; leave it "
            "out, or in a network of your own cast what goes into conv2d"
        )
    if config.loop == "compiled":
        raise ValueError(f"{asked} needs oneDNN's convolutions; take another loop than 'compiled'")
    if not config.onednn:
        raise ValueError(f"{asked} needs oneDNN's convolutions; set onednn = true")


def _check_head(config: DqnConfig) -> None:
    if config.v_min >= config.v_max:
        raise ValueError(f"v_min must be below v_max, got {config.v_min:g} and {config.v_max:g}")
    if config.loss == "hl_gauss" and config.head != "categorical":
        raise ValueError(
            f"loss = 'hl_gauss' needs head = 'categorical', got head = {config.head!r}"
        )
    if config.head != "scalar" and config.loss not in ("huber", "hl_gauss"):
        raise ValueError(
            f"loss = {config.loss!r} is for head = 'scalar'; a {config.head} head has its own: set "
            "loss = 'huber'"
        )


def _check_munchausen(config: DqnConfig) -> None:
    if config.head == "categorical" and config.loss != "hl_gauss":
        raise ValueError(
            "munchausen needs head = 'scalar', 'quantile' or 'implicit', or loss = 'hl_gauss', got "
            f"head = {config.head!r}"
        )
    if config.double:
        raise ValueError(
            "munchausen takes no maximum over actions, so double does not apply; leave one out"
        )
    if config.n_step != 1:
        raise ValueError("munchausen needs n_step = 1, because it adds a bonus to each reward")


def _check_in_graph(config: DqnConfig) -> None:
    named = config.action_masks if config.action_masks not in ("auto", "info", "off") else ""
    others = {
        "env_wrapper": config.env_wrapper, "observation_keys": config.observation_keys,
        "action_masks": named,
    }  # fmt: skip
    for name, given in others.items():
        if given:
            raise ValueError(f"loop = 'compiled' has its envs in the graph; leave {name} out")
    if config.vectorization not in ("sync", "async"):
        raise ValueError(
            "loop = 'compiled' has its envs in the graph, and evaluates on single ones; leave "
            f"vectorization out, got {config.vectorization!r}"
        )


def _check_rescaling(config: DqnConfig) -> None:
    if config.head != "scalar" and config.loss != "hl_gauss":
        raise ValueError(
            "value_rescaling is of expected returns, and needs head = 'scalar', or loss = "
            f"'hl_gauss', got head = {config.head!r}"
        )
    if config.munchausen or config.rollout:
        other = "munchausen" if config.munchausen else "rollout"
        raise ValueError(
            f"value_rescaling does not work with {other}; leave {other} out, or value_rescaling"
        )


def _check_data(config: DqnConfig) -> None:
    if config.begin_with:
        _check_begin_with(config)
    if config.offline:
        _check_offline(config)
    named = config.offline or config.begin_with
    if config.dataset_digest and not named:
        raise ValueError(
            "dataset_digest is of a dataset that is learned from; set offline or begin_with"
        )
    if config.demonstration_steps and not config.begin_with:
        raise ValueError(
            "demonstration_steps is of the dataset of begin_with; leave it out, got "
            f"{config.demonstration_steps:,}"
        )
    if config.is_built_with("margin_weight") and not named:
        raise ValueError("margin_weight is of demonstrations; set begin_with or offline")
    if config.demonstration_bonus != 0 and not (config.prioritized and config.begin_with):
        raise ValueError(
            "demonstration_bonus needs prioritized = true and begin_with; set both, or leave it out"
        )


def _check_begin_with(config: DqnConfig) -> None:
    if config.offline:
        raise ValueError(
            "offline learns from its dataset alone, and begin_with goes on with envs; leave one out"
        )
    if config.loop == "remote":
        raise ValueError(
            "begin_with does not work with loop = 'remote', whose actors store rows in another "
            "order; take another loop, such as loop = 'plain'"
        )
    if config.rollout:
        raise ValueError("begin_with fills a replay with demonstrations; leave rollout out")
    if config.is_recurrent:
        raise ValueError(
            "begin_with has no states in its rows, which a recurrent layer learns from; leave "
            "recurrent out"
        )


def _check_offline(config: DqnConfig) -> None:
    if config.loop != "plain":
        raise ValueError(
            f"offline has a loop of its own, without envs; leave loop out, got {config.loop!r}"
        )
    if config.rollout:
        raise ValueError("offline learns from a replay of the dataset; leave rollout out")
    if config.is_recurrent:
        raise ValueError(
            "offline has no states in its rows, which a recurrent layer learns from; leave "
            "recurrent out"
        )
    if config.num_envs != 1:
        raise ValueError(
            "offline learns from a dataset as if from one env; set num_envs = 1, got "
            f"{config.num_envs}"
        )


def _check_recurrent(config: DqnConfig) -> None:
    asked = f"recurrent = {config.recurrent!r}"
    if config.rollout:
        raise ValueError(f"{asked} learns from a replay of sequences; leave rollout out")
    if config.chain > 1 or config.chain_torso == "shared":
        raise ValueError(f"{asked} has one network; leave chain and chain_torso out")
    if config.loop == "remote":
        raise ValueError(
            f"{asked} acts with a state, and actors of loop = 'remote' keep none; take another loop"
        )
    least = config.burn_in + config.sequence_length + config.longest_step + config.frame_stack
    if config.replay_capacity // config.num_envs < least:
        raise ValueError(
            f"{asked} needs a replay_capacity of at least {least * config.num_envs:,} rows, for "
            f"burn_in = {config.burn_in}, sequence_length = {config.sequence_length} and n_step up "
            f"to {config.longest_step:,}, got {config.replay_capacity:,}"
        )


def _check_chain(config: DqnConfig) -> None:
    if config.chain == 1 and config.chain_torso == "own":
        return
    asked = f"chain = {config.chain}" if config.chain > 1 else "chain_torso = 'shared'"
    if config.averaged_targets > 1:
        raise ValueError(f"{asked} has one target; leave averaged_targets out")
    if config.chain > 1 and config.tau != 1:
        raise ValueError(f"{asked} moves whole networks at a sync; set tau = 1")
    # Networks that are unlike lie apart by that alone, also right after a shift.
    if config.chain > 1 and (
        config.is_built_with("sync_distance") or config.controller == "copy_when_far"
    ):
        raise ValueError(
            f"{asked} cannot sync by the distance of online and target; leave sync_distance and "
            "controller = 'copy_when_far' out"
        )
    if config.chain > 1 and config.ema_decay:
        raise ValueError(
            f"{asked} replaces each network by another one at a sync, and an average would mix "
            "them; leave ema_decay out"
        )
    if config.chain > 1 and config.loop == "remote":
        raise ValueError(
            f"{asked} acts by each of its networks in turn, and actors of loop = 'remote' get "
            "one; take another loop"
        )


def _check_rollout(config: DqnConfig) -> None:
    rows = config.rollout * config.num_envs
    if config.rollout < 2:
        raise ValueError(f"rollout must be 0, or at least 2 time steps, got {config.rollout}")
    for name in _not_of_rollouts(type(config)):
        if getattr(config, name) != type(config).model_fields[name].default:
            raise ValueError(
                "rollout > 0 learns without a replay and without a target network; leave "
                f"{name} out"
            )
    if config.loop not in ("plain", "compiled"):
        raise ValueError(f"rollout > 0 needs loop = 'plain' or 'compiled', got {config.loop!r}")
    if config.head != "scalar" and config.loss != "hl_gauss":
        raise ValueError(
            "rollout > 0 learns expected returns, and needs head = 'scalar', or loss = "
            f"'hl_gauss', got head = {config.head!r}"
        )
    if rows % config.batch_size:
        raise ValueError(
            f"rollout * num_envs = {rows:,} must be a multiple of batch_size, got "
            f"{config.batch_size:,}"
        )
    if config.updates_per_rollout > LARGEST_INT32:
        raise ValueError(
            f"a rollout has epochs * rollout * num_envs / batch_size updates, at most "
            f"{LARGEST_INT32:,}, got {config.updates_per_rollout:,}"
        )


def _check_actors(config: DqnConfig) -> None:
    if config.vectorization != "sync":
        raise ValueError(
            "loop = 'remote' brings the envs of a lost actor back, which needs vectorization = "
            f"'sync', got {config.vectorization!r}"
        )
    if config.boltzmann:
        raise ValueError("loop = 'remote' explores by epsilon alone; leave boltzmann out")
    if config.actor_priorities and not (config.prioritized and config.head == "scalar"):
        raise ValueError(
            "actor_priorities needs prioritized = true, and head = 'scalar', whose priority is "
            "a TD error"
        )
    if config.actor_priorities and config.munchausen:
        raise ValueError("actor_priorities are of Q-learning; leave munchausen out")
    rows = config.delivered_at_once * config.num_envs
    if config.replay_capacity < 3 * rows:
        raise ValueError(
            f"loop = 'remote' stores {rows:,} rows at once, and needs replay_capacity >= "
            f"{3 * rows:,}, got {config.replay_capacity:,}; lower actor_steps, actors or num_envs"
        )
