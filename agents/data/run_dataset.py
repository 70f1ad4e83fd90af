"""Everything that a run takes from the dataset that it learns from: rows, and keys of its config.

An offline run learns from nothing else (`offline`); another one begins with it (`begin_with`).
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from targetnet.agents.config.envs import unstepped_envs
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.metadata import DataError
from targetnet.agents.data.minari_files import Dataset, directory_of
from targetnet.agents.data.rows import DatasetContent, DatasetRows
from targetnet.envs.registry import find_spec
from targetnet.rl_core.errors import EnvError, in_one_line, quoted

if TYPE_CHECKING:  # it imports TensorFlow
    from targetnet.agents.dqn.agent import DqnAgent

_AT_ONCE, _BYTES_AT_ONCE = 4096, 1 << 24  # rows that are stored by one call


def with_dataset(config: DqnConfig) -> DqnConfig:
    """Returns the config of a run with what follows from the dataset that it learns from.

    The dataset's whole path and its digest are kept, so that the run is repeated with the same one.
    A config without a dataset is returned as it is.

    - offline: the replay has room for exactly its rows, and the env is that of the dataset if the
      config names none.
    - begin_with: the time steps that its rows take in the replay are kept.

    Raises:
      DataError: there is no such dataset, it is damaged or empty, it does not fit the env or the
        replay, or it is not the one whose digest the config has.
      EnvError: the env cannot be made.
    """
    if not _named(config):
        return config
    dataset = Dataset(directory_of(_named(config)))
    if config.offline:
        config = _with_env(config, dataset)
    with contextlib.closing(unstepped_envs(config)) as envs:
        found = DatasetRows(dataset, config, envs).look_through()
    if config.dataset_digest not in ("", found.digest):
        raise DataError(
            f"the dataset {dataset.path} is not the one that this run learns from: wanted the "
            f"digest {config.dataset_digest}, got {found.digest}"
        )
    kept: dict[str, Any] = {"dataset_digest": found.digest}
    if config.offline:
        # With a stack, the oldest rows of a full ring have lost frames. None of these is to be old.
        rows = max(3, found.time_steps) + config.stored_stack - 1
        kept |= {"offline": str(dataset.path), "replay_capacity": rows}
    else:
        _require_room(config, dataset, found)
        kept |= {"begin_with": str(dataset.path), "demonstration_steps": found.time_steps}
    return config.model_copy(update=kept)


def as_kept(before: DqnConfig, config: DqnConfig) -> DqnConfig:
    """Returns the config of a run that goes on with what the run has kept of its dataset.

    Demonstrations are in the run's checkpoints, so their dataset need not be there any more; if it
    is, it is compared.

    Args:
      before: the config that the run began with.
      config: with which it is asked to go on.

    Raises:
      DataError, EnvError: as for `with_dataset`.
    """
    if config.dataset_digest and config.dataset_digest == before.dataset_digest:
        return config
    if before.begin_with and config.begin_with and not config.offline:
        try:
            directory_of(config.begin_with)
        except DataError:
            names = "begin_with", "dataset_digest", "demonstration_steps"
            return config.model_copy(update={name: getattr(before, name) for name in names})
    return with_dataset(config)


def fill(agent: DqnAgent) -> None:
    """Stores the dataset's rows in the replay of an agent that begins; does nothing without one.

    Args:
      agent: its config comes from `with_dataset`.

    Raises:
      DataError: the dataset was damaged or changed meanwhile.
    """
    config, replay = agent.config, agent.replay
    if not _named(config):
        return
    with contextlib.closing(unstepped_envs(config)) as envs:
        rows = DatasetRows(Dataset(directory_of(_named(config))), config, envs)
    fitting = max(1, _BYTES_AT_ONCE * replay.steps // replay.nbytes)
    for piece in rows.pieces(min(_AT_ONCE, fitting, replay.rows.most_at_once)):
        agent.store(piece)
    if config.normalize_observations:
        # The target is to begin with what the rows have told, not with moments of nothing.
        agent.state.load_weights(agent.state.weights())


def _named(config: DqnConfig) -> str:
    """Returns the dataset that a run learns from; empty if it learns from its own envs alone."""
    return config.offline or config.begin_with


def _require_room(config: DqnConfig, dataset: Dataset, found: DatasetContent) -> None:
    """Checks that demonstrations, and a few time steps more, fit into the replay."""
    steps, num_envs = found.time_steps, config.num_envs
    if found.episodes < num_envs:
        raise DataError(
            f"the dataset {dataset.path} has {found.episodes:,} episodes with steps, and "
            f"begin_with deals at least one to each of num_envs = {num_envs:,} envs"
        )
    if config.demonstration_steps not in (0, steps):
        raise DataError(
            f"demonstration_steps is {steps:,} with the dataset {dataset.path} and num_envs = "
            f"{num_envs:,}, got {config.demonstration_steps:,}; leave it out"
        )
    # As many as a replay needs anyway, so that there is always one of the run's own.
    least = (steps + 3 + config.stored_stack - 1) * num_envs
    if config.replay_capacity < least:
        raise DataError(
            f"the demonstrations of {dataset.path} are {steps * num_envs:,} rows of the replay, "
            f"which needs replay_capacity >= {least:,}, got {config.replay_capacity:,}"
        )


def _with_env(config: DqnConfig, dataset: Dataset) -> DqnConfig:
    """Returns the config with the dataset's env, if it names none of its own."""
    if "env_id" in config.model_fields_set:
        return config
    form, spec = dataset.form, dataset.form.spec
    if spec is None:
        raise DataError(
            f"neither the dataset {dataset.path} nor the config names an env: --set env_id=...; "
            f"the dataset has observations {in_one_line(form.observations)} and actions "
            f"{in_one_line(form.actions)}"
        )
    if spec.additional_wrappers and not config.env_wrapper:
        wrappers = ", ".join(wrapper.name for wrapper in spec.additional_wrappers)
        raise DataError(
            f"the dataset {dataset.path} was recorded from {spec.id} with the wrappers "
            f"{in_one_line(wrappers)}; name the env in the config, with env_id and env_wrapper"
        )
    # Without its module: a dataset may come from anybody, and names no code that is imported.
    module, _, env_id = spec.id.rpartition(":")
    try:
        usual = find_spec(env_id)
    except EnvError as error:
        named = (
            f"a dataset may not name a module, and without it there is no env {env_id!r}: "
            f"name both in the config, --set env_id=MODULE:{env_id}"
        )
        raise DataError(
            f"the dataset {dataset.path} was recorded from {spec.id}; {named if module else error}"
        ) from None
    update: dict[str, Any] = {"env_id": env_id}
    if "env_kwargs" not in config.model_fields_set:
        kwargs = {k: v for k, v in spec.kwargs.items() if usual.kwargs.get(k) != v}
        kwargs.pop("render_mode", None)  # nobody looks at these envs
        for name, value in kwargs.items():
            if not _is_plain({name: value}):
                raise DataError(
                    f"the dataset {dataset.path} was recorded from {env_id} with {quoted(name)} = "
                    f"{quoted(value)}, which could name a module or a file; name the env in the "
                    "config, with env_id and env_kwargs"
                )
        if spec.max_episode_steps not in (None, usual.max_episode_steps):
            kwargs["max_episode_steps"] = spec.max_episode_steps
        update["env_kwargs"] = kwargs
    return config.model_copy(update=update)


def _is_plain(value: Any, depth: int = 6) -> bool:
    """Returns whether a dataset may give an env such an argument: numbers and plain words."""
    if isinstance(value, str):
        return re.fullmatch(r"[\w -]*", value) is not None
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(of, depth - 1) for of in value)
    return value is None or isinstance(value, bool | int | float)
