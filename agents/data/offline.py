"""Everything that an offline run takes from its dataset: rows, and keys of its config."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from agents.config.envs import training_envs
from agents.config.model import DqnConfig
from agents.data.minari_files import DataError, Dataset, directory_of
from agents.data.rows import DatasetRows
from envs import Envs
from envs.registry import find_spec
from rl_core.errors import in_one_line

if TYPE_CHECKING:  # it imports TensorFlow
    from agents.dqn.agent import DqnAgent

_AT_ONCE, _BYTES_AT_ONCE = 4096, 1 << 24  # rows that are stored by one call


def with_dataset(config: DqnConfig) -> DqnConfig:
    """Returns the config of an offline run with what follows from its dataset.

    The dataset's whole path and its digest are kept, so that the run goes on and is repeated with
    the same one; the replay has room for exactly its rows. The env is that of the dataset if the
    config names none. A config that is not of an offline run is returned as it is.

    Raises:
      DataError: there is no such dataset, it is damaged or empty, it does not fit the env, or it is
        not the one whose digest the config has.
      EnvError: the env cannot be made.
    """
    if not config.offline:
        return config
    dataset = Dataset(directory_of(config.offline))
    config = _with_env(config, dataset)
    with contextlib.closing(training_envs(config)) as envs:
        found = DatasetRows(dataset, config, envs).look_through()
    if config.dataset_digest not in ("", found.digest):
        raise DataError(
            f"the dataset {dataset.path} is not the one that this run learns from: wanted the "
            f"digest {config.dataset_digest}, got {found.digest}"
        )
    # With a stack, the oldest rows of a full ring have lost frames. None of these is to be old.
    rows = max(3, found.rows) + config.stored_stack - 1
    return config.model_copy(
        update={
            "offline": str(dataset.path),
            "dataset_digest": found.digest,
            "replay_capacity": rows,
        }
    )


def fill(agent: DqnAgent, envs: Envs) -> None:
    """Stores the dataset's rows in the replay of an agent that begins; does nothing without one.

    Args:
      agent: its config comes from `with_dataset`.
      envs: of the run.

    Raises:
      DataError: the dataset was damaged meanwhile.
    """
    config = agent.config
    if not config.offline:
        return
    rows, replay = DatasetRows(Dataset(directory_of(config.offline)), config, envs), agent.replay
    fitting = max(1, _BYTES_AT_ONCE * replay.steps // replay.nbytes)
    for piece in rows.pieces(min(_AT_ONCE, fitting, replay.steps - config.stored_stack)):
        agent.store(piece)


def _with_env(config: DqnConfig, dataset: Dataset) -> DqnConfig:
    """Returns the config with the dataset's env, if it names none of its own."""
    spec = dataset.form.spec
    if "env_id" in config.model_fields_set or spec is None:
        return config
    if spec.additional_wrappers and not config.env_wrapper:
        wrappers = ", ".join(wrapper.name for wrapper in spec.additional_wrappers)
        raise DataError(
            f"the dataset {dataset.path} was recorded from {spec.id} with the wrappers "
            f"{in_one_line(wrappers)}; name the env in the config, with env_id and env_wrapper"
        )
    update: dict[str, Any] = {"env_id": spec.id}
    if "env_kwargs" not in config.model_fields_set:
        usual = find_spec(spec.id)
        kwargs = {k: v for k, v in spec.kwargs.items() if usual.kwargs.get(k) != v}
        if spec.max_episode_steps not in (None, usual.max_episode_steps):
            kwargs["max_episode_steps"] = spec.max_episode_steps
        update["env_kwargs"] = kwargs
    return config.model_copy(update=update)
