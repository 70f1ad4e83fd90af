"""Records a run as a dataset: episodes of its policy, or its replay memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from targetnet.agents.config.envs import envs_beside
from targetnet.agents.config.files import dump_config
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.episodes import EpisodeRequest, of_replay, played
from targetnet.agents.data.metadata import DataError
from targetnet.agents.data.minari_files import (
    DatasetSize,
    Form,
    id_of,
    require_minari,
    write,
)
from targetnet.agents.loops.evaluation import Watch
from targetnet.agents.policy.load import LoadedPolicy
from targetnet.agents.policy.trained_policy import TrainedPolicy, trained
from targetnet.agents.saved.directory import RunDir, new_directory, require_new
from targetnet.envs.recorder import RecordedSteps
from targetnet.envs.stored_observations import wanted_space
from targetnet.rl_core.arguments import path_of, require_whole
from targetnet.rl_core.checkpoint.store import Checkpoint, CheckpointStore
from targetnet.rl_core.digest import Digest
from targetnet.rl_core.errors import BoundsError, quoted

EPISODES = 100  # by default
_SEED_OFFSET = 3_000_017  # keeps the seeds apart from training, evaluation and play
_SINGLE = ("sync", "async")  # vectorizations of single envs


class RecordedRun(NamedTuple):
    """A dataset that was recorded.

    Attributes:
      path: its directory.
      dataset_id: under which Minari finds it, if MINARI_DATASETS_PATH is the directory above.
      episodes, env_steps: its size.
      mean_return: of its episodes.
    """

    path: Path
    dataset_id: str
    episodes: int
    env_steps: int
    mean_return: float


def record(
    run: Path | str,
    out: Path | str,
    *,
    episodes: int | None = None,
    env_steps: int | None = None,
    epsilon: float = 0.0,
    seed: int | None = None,
    averaged: bool = False,
    best: bool = False,
    replay: bool = False,
    watch: Watch = lambda done, env_steps: None,
) -> RecordedRun:
    """Writes episodes of a run's policy, or its replay memory, as a Minari dataset.

        record("runs/cartpole-1", "data/cartpole-v0", env_steps=100_000, epsilon=0.1)
        minari.load_dataset("cartpole-v0")  # with MINARI_DATASETS_PATH=data

    Observations, actions and rewards are the env's own, the last observation of an episode is the
    true final one, and pictures are stored without loss. Action masks are in the infos, and there
    alone if a part of the observations says what is legal. Of a replay memory, rewards and the
    numbers of observations are those that it holds, in float32.

    Args:
      run: a run directory.
      out: a new directory, named as Minari names datasets: NAME-v0.
      episodes: number of episodes; 100 if `env_steps` is not given either.
      env_steps: number of env steps; the last episode of each env is cut where they are reached.
      epsilon: probability of a uniformly random action.
      seed: of the episodes and of the random actions; by default derived from the run's seed.
      averaged, best: choose the weights, as for `load_policy`.
      replay: write the replay memory of the run's last checkpoint instead of new episodes.
      watch: called after every step, as in `evaluate`.

    Raises:
      DataError: Minari is not installed, `out` cannot be a dataset, or the run cannot be recorded.
      RunDirError, CheckpointError: there is no such run, or it has nothing to record.
      EnvError: the run's env cannot be made here.
    """
    require_minari()
    directory, out = RunDir.open(path_of("run", run)), path_of("out", out)
    dataset_id, config = id_of(out), directory.config()
    require_new(out, DataError)
    if replay:
        if {episodes, env_steps, seed} != {None} or epsilon or best or averaged:
            raise DataError(
                "a replay memory is recorded as it is: leave episodes, env_steps, epsilon, seed, "
                "best and averaged out"
            )
        store = CheckpointStore(directory.checkpoints)
        checkpoint = _last(store, directory)
        learned = trained(directory, checkpoint=checkpoint.number)
        found: Iterable[RecordedSteps] = of_replay(config, store, checkpoint)
        about: dict[str, Any] = {"kind": "replay"}
        return _written(out, dataset_id, config, learned, found, about)
    if config.vectorization not in _SINGLE:
        raise DataError(
            f"episodes are recorded from single envs, and vectorization = "
            f"{config.vectorization!r} has none; record the replay memory of this run"
        )
    wanted = _wanted(config, episodes, env_steps, epsilon, seed)
    learned = trained(directory, averaged=averaged, best=best)
    with LoadedPolicy(config, learned) as policy:
        about = {"kind": "policy", "epsilon": epsilon, "seed": wanted.seed}
        found = played(policy, config, wanted, watch)
        with contextlib.closing(found):
            return _written(out, dataset_id, config, learned, found, about)


def _wanted(
    config: DqnConfig,
    episodes: int | None,
    env_steps: int | None,
    epsilon: float,
    seed: int | None,
) -> EpisodeRequest:
    if episodes is not None and env_steps is not None:
        raise DataError("episodes and env_steps are two ways to say how much; leave one out")
    if not 0 <= epsilon <= 1:
        raise BoundsError(f"epsilon must be in [0, 1], got {quoted(epsilon)}")
    if env_steps is not None:
        require_whole("env_steps", env_steps, 1)
    else:
        episodes = EPISODES if episodes is None else episodes
        require_whole("episodes", episodes, 1)
    if seed is None:
        seed = (config.seed + _SEED_OFFSET) % 2**63
    require_whole("seed", seed, 0)
    return EpisodeRequest(episodes, env_steps, float(epsilon), seed)


def _last(store: CheckpointStore, directory: RunDir) -> Checkpoint:
    checkpoint = store.latest()
    if checkpoint is None:
        raise DataError(f"{directory.path} has no checkpoint yet, which holds its replay memory")
    return checkpoint


def _written(
    out: Path,
    dataset_id: str,
    config: DqnConfig,
    learned: TrainedPolicy,
    episodes: Iterable[RecordedSteps],
    about: dict[str, Any],
) -> RecordedRun:
    head = config.loss if config.loss == "hl_gauss" else config.head
    more = {
        "algorithm_name": f"targetnet DQN ({head})",
        "description": f"recorded from a run of targetnet ({about['kind']}) on {config.env_id}",
        "targetnet": {
            "version": version("targetnet"),
            "config": dump_config(config),
            "weights": _digest_of(learned),
            "env_step": learned.env_step,
            **about,
        },
    }
    with new_directory(out, DataError) as making:
        counted: DatasetSize = write(making, dataset_id, _form(config), episodes, more)
    return RecordedRun(out, dataset_id, *counted)


def _form(config: DqnConfig) -> Form:
    """Reads the env's spaces and its spec, which single envs alone have."""
    specs = []

    def note(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        specs.append(env.spec)
        return env

    single = config.vectorization in _SINGLE
    with contextlib.closing(envs_beside(config, around=note if single else None)) as envs:
        spaces = envs.spaces
    assert spaces.own is not None
    space = wanted_space(config.env_id, spaces)
    return Form(space, spaces.own[1], specs[0] if specs else None)


def _digest_of(learned: TrainedPolicy) -> str:
    digest = Digest()
    for name, weights in sorted(learned.weights.items()):
        digest.array(name, np.asarray(weights))
    return digest.hexdigest()
