"""The config's torso, of one array or of the parts of an observation; its recurrent layer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.errors import ConfigError, did_you_mean, quoted
from targetnet.rl_core.networks import (
    RECURRENT,
    ObservationForm,
    Recurrent,
    impala_torso,
    minatar_torso,
    mlp_torso,
    nature_torso,
)
from targetnet.rl_core.networks.network import Torso
from targetnet.rl_core.observation_parts import Part

TORSOS: dict[str, Callable[..., Torso]] = {
    "mlp": mlp_torso,
    "minatar": minatar_torso,
    "nature": nature_torso,
    "impala": impala_torso,
}


def torso_of(config: DqnConfig, observed: ObservationForm) -> Callable[[Any], tf.Tensor]:
    """Returns the torso; it is called in a scope of its own.

    Of several parts, each picture [H, W, C] goes through the convolutions of its network, below a
    scope with the part's name, and everything else is flattened. Side by side they are the input
    of the dense layers.
    """
    whole = TORSOS[config.network](config.hidden, normalise=config.layer_norm)
    if not observed.parts:
        return whole
    dense = mlp_torso(config.hidden, normalise=config.layer_norm)
    flat = mlp_torso(())

    def torso(parts: Mapping[str, tf.Tensor]) -> tf.Tensor:
        features = []
        for part in observed.parts:
            name = network_of(config, part)
            own = flat if name == "mlp" else TORSOS[name]((), normalise=config.layer_norm)
            with tf.variable_scope(part_scope(part.name)):
                features.append(own(parts[part.name]))
        return dense(tf.concat(features, axis=1))

    return torso


def network_of(config: DqnConfig, part: Part) -> str:
    """Returns the name of the network that looks at a part of an observation; mlp flattens it."""
    usual = config.network if _is_picture(part) else "mlp"
    return config.part_networks.get(part.name) or usual


def recurrent_of(config: DqnConfig) -> Recurrent | None:
    """Returns the recurrent layer, which has no variables yet; None without one."""
    return RECURRENT[config.recurrent](config.recurrent_units) if config.is_recurrent else None


def _is_picture(part: Part) -> bool:
    return len(part.shape) == 3  # [H, W, C]


def part_scope(part: str) -> str:
    """Returns the name of a part as that of a variable scope."""
    return re.sub(r"[^\w.-]", "_", part, flags=re.ASCII)


def require_parts(config: DqnConfig, observed: ObservationForm) -> None:
    """Checks that `part_networks` names parts, and that convolutions have pictures to look at.

    Raises:
      ConfigError: it does not, or they have none; or the network is the user's own.
    """
    if config.part_networks and config.network not in TORSOS:
        raise ConfigError(
            f"part_networks needs a network of ours, got network = {quoted(config.network)}, which "
            "gets all parts itself; leave part_networks out"
        )
    parts = {part.name: part for part in observed.parts}
    for name, network in config.part_networks.items():
        if name not in parts:
            has = f"the parts {', '.join(parts)}" if parts else "one part alone"
            raise ConfigError(
                f"part_networks names {quoted(name)}, but the observations have {has}"
                f"{did_you_mean(name, parts)}"
            )
        if network != "mlp" and not _is_picture(parts[name]):
            raise ConfigError(
                f"part_networks: {network} needs a picture [H, W, C], got {quoted(name)} of shape "
                f"{list(parts[name].shape)}"
            )
    convolves = config.network in TORSOS and config.network != "mlp"
    if convolves and parts and not any(map(_is_picture, observed.parts)):
        shapes = ", ".join(f"{name} {list(part.shape)}" for name, part in parts.items())
        raise ConfigError(
            f"network = {quoted(config.network)} needs a part that is a picture [H, W, C], got "
            f'{shapes}; set network = "mlp"'
        )
