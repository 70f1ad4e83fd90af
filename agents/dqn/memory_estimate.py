"""The memory that an agent of a config needs, computed before the agent is built.

Each figure is a lower bound: what is refused would not have fitted, and what is a little too
large may still be found out later. A network of the user's own counts from its features on, as
one feature.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.network_keys import NETWORKS
from targetnet.agents.dqn.heads import head_of
from targetnet.agents.dqn.network import recurrent_of
from targetnet.rl_core.arguments import require_a, require_whole
from targetnet.rl_core.errors import ArgumentError, quoted
from targetnet.rl_core.machine import Need, check_needs
from targetnet.rl_core.networks import COSINES, IMPALA, MINATAR, NATURE, RECURRENT

_FLOAT = 4  # bytes


class NetworkSize(NamedTuple):
    """Size of one network, or of a part of one."""

    weights: int
    units: int  # floats that one observation makes on the way


def require_memory(
    config: DqnConfig,
    observation_shape: Sequence[int],
    observation_dtype: np.dtype,
    num_actions: int,
    members: int | None = None,
    *,
    packed: bool = False,
    branches: Sequence[int] = (),
) -> None:
    """Checks that an agent, or as many as there are members, can be built.

    Args:
      packed: whether observations are packed rows. Then the network counts from its dense layers
        on, as if of one feature.
      branches: sizes of the branches of an action, with the sum `num_actions`; (): it has none.

    Raises:
      ArgumentError: an argument is of the wrong type, or the branches have another sum.
      BoundsError: there is no action, or none in a branch.
      MemoryLimitError: it cannot fit into memory; has the numbers.
    """
    require_a(DqnConfig, "config", config, "a DqnConfig (load_config loads one by its name)")
    if not isinstance(observation_shape, Sequence) or any(n < 0 for n in observation_shape):
        raise ArgumentError(
            f"observation_shape must be sizes such as (4,), got {quoted(observation_shape)}"
        )
    if not _is_number_type(observation_dtype):
        raise ArgumentError(
            f"observation_dtype must be float32, uint8 or bool, got {quoted(observation_dtype)}"
        )
    require_whole("num_actions", num_actions, 1)
    require_a(Sequence, "branches", branches, "sizes such as (3, 2), or ()")
    for size in branches:
        require_whole("each of branches", size, 1)
    if branches and sum(branches) != num_actions:
        raise ArgumentError(
            f"branches must have the sum num_actions = {num_actions:,}, got {quoted(branches)}"
        )
    dtype = np.dtype(observation_dtype)
    found = needs(
        config, observation_shape, dtype, num_actions, members or 1, packed=packed,
        branches=branches,
    )  # fmt: skip
    check_needs(found)


def _is_number_type(dtype: Any) -> bool:
    try:
        return np.dtype(dtype).kind in "fiub"
    except TypeError:
        return False


def needs(
    config: DqnConfig,
    observation_shape: Sequence[int],
    dtype: np.dtype,
    num_actions: int,
    members: int = 1,
    *,
    packed: bool = False,
    branches: Sequence[int] = (),
) -> list[Need]:
    """Returns lower bounds for the replay, the networks and a batch."""
    each = f" for each of {members:,} members" if members > 1 else ""
    n = math.prod(observation_shape)
    row = _row_bytes(observation_shape, dtype, len(branches), config.stored_stack)
    row += _FLOAT * _state_size(config)
    size = chain_size(config, (1,) if packed else observation_shape, num_actions, branches)
    copies, batch = weight_copies(config), config.batch_size
    # Branches are filled up to the largest one.
    apart = len(branches) * max(branches, default=0)
    transition = 2 * n * dtype.itemsize + _FLOAT * (2 * size.units + _pairs(config) + apart)
    weights = f"{size.weights:,}" if size.weights < 10**18 else f"{min(size.weights, 10**99):.3g}"
    actors = [
        on_the_way(config, observation_shape, dtype, num_actions, packed=packed, branches=branches)
    ]
    rows, kept = config.replay_capacity, "replay_capacity"
    if config.rollout:
        # The network looks at all rows of a rollout at once.
        rows, kept = (config.rollout + config.stored_stack) * config.num_envs, "rollout"
        batch = max(batch, rows)
    if config.is_recurrent:
        # The steps before and after those that are learned from are observed only.
        beside = (config.burn_in + config.longest_step) * n * dtype.itemsize
        transition = transition * config.sequence_length + beside
    return [
        Need(
            f"networks of {weights} weights in {copies:,} copies{each}",
            members * copies * size.weights * _FLOAT,
            _largest_of_networks(config),
        ),
        Need(
            f"a {'rollout' if config.rollout else 'replay'} of {rows:,} rows{each}",
            members * rows * row,
            kept,
        ),
        Need(
            f"batches of {batch:,}",
            batch * transition,
            "rollout" if config.rollout else _largest_of_batches(config),
        ),
        *(actors if config.loop == "remote" else []),
    ]


def on_the_way(
    config: DqnConfig,
    observation_shape: Sequence[int],
    dtype: np.dtype,
    num_actions: int,
    *,
    packed: bool = False,
    branches: Sequence[int] = (),
) -> Need:
    """Returns what the deliveries of a remote loop's actors need while they wait to be stored.

    Each is asked for with weights; free running, all of them may be of different ones.
    """
    free = config.actor_pace == "free"
    deliveries = config.actors * (config.actor_ahead if free else 1)
    rows = deliveries * (config.actor_steps + 1) * config.num_envs
    seen = (1,) if packed else observation_shape
    weights = network_size(config, seen, num_actions, branches).weights * _FLOAT
    row = _row_bytes(observation_shape, dtype, len(branches))
    return Need(
        f"{deliveries:,} deliveries of {config.actors:,} actors",
        rows * row + weights * (deliveries if free else 1),
        "actor_ahead" if free and config.actor_ahead > config.actors else "actors",
    )


def _row_bytes(
    observation_shape: Sequence[int], dtype: np.dtype, branches: int, stack: int = 1
) -> int:
    # A frame, an action, a reward, two flags.
    return math.prod(observation_shape) // stack * dtype.itemsize + 4 * max(1, branches) + 4 + 2


def weight_copies(config: DqnConfig) -> int:
    """Returns the number of arrays of one network's size that exist during an update."""
    # The heads of a target on the online torso are left out: a lower bound.
    whole = not config.rollout and config.chain_torso == "own"
    targets = config.averaged_targets if whole else 0
    networks = 1 + targets + bool(config.ema_decay) + (config.loop == "concurrent")
    kept = networks + 2  # Adam's moments
    snapshots = config.past_states + 1 if config.past_states else 0
    return kept * (1 + snapshots) + 1  # the gradients


def network_size(
    config: DqnConfig,
    observation_shape: Sequence[int],
    num_actions: int,
    branches: Sequence[int] = (),
) -> NetworkSize:
    """Weights of one network, and what one observation makes in it."""
    torso, features = _torso_size(config, observation_shape)
    weights, units = torso
    if config.is_recurrent:
        gates = RECURRENT[config.recurrent].gates * config.recurrent_units
        weights += _dense(features, gates) + _dense(config.recurrent_units, gates)
        units, features = units + gates, config.recurrent_units
    head = _head(config, features, num_actions, branches)
    return NetworkSize(weights + head.weights, units + head.units)


def chain_size(
    config: DqnConfig,
    observation_shape: Sequence[int],
    num_actions: int,
    branches: Sequence[int] = (),
) -> NetworkSize:
    """The same of all networks of a chain together; without a chain, of the one that there is."""
    one, more = network_size(config, observation_shape, num_actions, branches), config.chain - 1
    each = one
    if config.chain_torso == "shared":
        features = _torso_size(config, observation_shape)[1]
        each = _head(config, features, num_actions, branches)
    return NetworkSize(one.weights + more * each.weights, one.units + more * each.units)


def _state_size(config: DqnConfig) -> int:
    recurrent = recurrent_of(config)
    return recurrent.state_size if recurrent is not None else 0


def _torso_size(config: DqnConfig, observation_shape: Sequence[int]) -> tuple[NetworkSize, int]:
    """Size of the torso with its dense layers, and its features."""
    weights, units, features = _torso(config, tuple(observation_shape))
    if config.compute == "bfloat16":
        units //= 2  # two fit into a float
    if config.network in NETWORKS:
        for width in config.hidden:
            weights += _dense(features, width) + 2 * width * config.layer_norm
            units += width
            features = width
    return NetworkSize(weights, units), features


def _torso(config: DqnConfig, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Weights and units of the part before the dense layers, and its features."""
    if config.network == "mlp":
        return 0, 0, math.prod(shape)
    layers = _CONVOLUTIONS.get(config.network)
    if layers is None or len(shape) != 3:  # the user's own; or it does not fit, which is told later
        return 0, 0, 1
    weights = units = 0
    height, width, channels = shape
    for filters, kernel, stride, same in layers:
        weights += kernel * kernel * channels * filters + filters
        weights += 2 * filters * config.layer_norm * (not same)
        lost = 0 if same else kernel - stride
        height, width = (max(1, -(-(side - lost) // stride)) for side in (height, width))
        units += height * width * filters
        channels = filters
    return weights, units, height * width * channels


def _impala_layers() -> Iterator[tuple[int, int, int, bool]]:
    for filters in IMPALA:
        yield filters, 3, 2, True  # with the pooling after it
        yield from [(filters, 3, 1, True)] * 4


_CONVOLUTIONS = {
    "minatar": [(*MINATAR, False)],
    "nature": [(*layer, False) for layer in NATURE],
    "impala": list(_impala_layers()),
}


def _head(
    config: DqnConfig, features: int, num_actions: int, branches: Sequence[int]
) -> NetworkSize:
    """One stream, or two, of dense layers."""
    by_fraction = "embedding" in head_of(config).blocks
    numbers = 1 if by_fraction else _numbers_of_the_head(config)[1] or 1
    weights = units = 0
    # Hidden layers are of each branch.
    streams = [*(branches if config.head_hidden else ())] or [num_actions]
    for actions in [1, *streams] if config.dueling else streams:
        inputs = features
        for width in (*config.head_hidden, actions * numbers):
            weights += _dense(inputs, width) * (1 + config.noisy)
            units += width
            inputs = width
    if not by_fraction:
        return NetworkSize(weights, units)
    # All of the head is made once for each fraction, of features that are the fraction's own.
    fractions = config.tau_samples + config.tau_samples_acting
    if config.head == "fqf":  # the edges between the fractions are looked at too
        fractions = 2 * config.fractions - 1
        weights += _dense(features, config.fractions)
    return NetworkSize(weights + _dense(COSINES, features), fractions * (units + 2 * features))


def _pairs(config: DqnConfig) -> int:
    """Floats that a loss makes for one transition: each atom or quantile with each other."""
    # A histogram is made of its mean, atom by atom.
    return 0 if config.loss == "hl_gauss" else _numbers_of_the_head(config)[1] ** 2


def _numbers_of_the_head(config: DqnConfig) -> tuple[str, int]:
    """Returns the key of the config that sets the numbers per action, and how many they are."""
    name = head_of(config).size_key
    return name, getattr(config, name) if name else 0


def _dense(inputs: int, units: int) -> int:
    return inputs * units + units


# What to lower.


def _largest_of_networks(config: DqnConfig) -> str:
    name, numbers = _numbers_of_the_head(config)
    sizes = {
        "hidden": max(config.hidden, default=0),
        "head_hidden": max(config.head_hidden, default=0),
        "past_states": config.past_states,
        "chain": config.chain,
        "averaged_targets": config.averaged_targets,
        "recurrent_units": config.recurrent_units * config.is_recurrent,
        name or "hidden": max(numbers, *config.hidden, 0),
    }
    return max(sizes, key=lambda name: sizes[name])


def _largest_of_batches(config: DqnConfig) -> str:
    name, numbers = _numbers_of_the_head(config)
    many = max(numbers, config.tau_samples_acting * (config.head == "implicit"))
    if many <= config.batch_size:
        return "batch_size"
    return name if many == numbers else "tau_samples_acting"
