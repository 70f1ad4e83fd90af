"""Episodes that a policy plays, and those that a run's replay memory holds."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Iterable, Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from targetnet.agents.config.envs import envs_beside
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.metadata import DataError
from targetnet.agents.loops.evaluation import Greedy, TooLong, Watch, exploring, playing
from targetnet.agents.saved.host import read_host, split_newest
from targetnet.envs.recorder import RecordedSteps, Recorder
from targetnet.envs.spaces import Spaces, read_spaces
from targetnet.envs.stored_observations import given_back, wanted_space
from targetnet.rl_core.checkpoint.store import Checkpoint, CheckpointStore, chunk_end
from targetnet.rl_core.philox import NumpyStream

_AT_ONCE = 10  # envs; one call into the graph acts for all of them
Columns = dict[str, np.ndarray]


class EpisodeRequest(NamedTuple):
    """The episodes that are to be played.

    Attributes:
      episodes, env_steps: how many in all; one of both is None.
      epsilon: probability of a random action.
      seed: of the episodes and of the random actions.
    """

    episodes: int | None
    env_steps: int | None
    epsilon: float
    seed: int


def own_spaces(config: DqnConfig, env: gym.Env[Any, Any]) -> Spaces:
    """Returns the spaces of single frames of a run's env."""
    return read_spaces(
        config.env_id, env.observation_space, env.action_space, config.observation_keys,
        config.action_masks,
    )  # fmt: skip


def played(
    policy: Greedy,
    config: DqnConfig,
    wanted: EpisodeRequest,
    watch: Watch = lambda done, env_steps: None,
) -> Generator[RecordedSteps, None, None]:
    """Plays episodes and yields each as it ends.

    Several envs play at once, each a share that is fixed beforehand, so that short episodes are not
    over-represented. An episode of `config.eval_max_steps` env steps is cut off there.

    Args:
      policy: its greedy policy plays.
      config: names the env.
      wanted: how many, and how.
      watch: called after every step with the number of finished episodes and of env steps.
    """
    of_all = wanted.episodes or wanted.env_steps or 0
    num_envs = min(of_all, _AT_ONCE)
    recorders: list[Recorder] = []

    def around(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        share = len(range(len(recorders), of_all, num_envs))
        limit = {"episodes" if wanted.episodes else "env_steps": share}
        space = wanted_space(config.env_id, own_spaces(config, env))
        recorders.append(Recorder(env, space, **limit))
        return recorders[-1]

    with contextlib.closing(envs_beside(config, num_envs, seed=wanted.seed, around=around)) as envs:
        for recorder in recorders:
            recorder.masks = envs.spaces.masks
        stream = NumpyStream(wanted.seed, "record")
        act = exploring(playing(policy.greedy, num_envs), wanted.epsilon, envs, stream)
        step, too_long = envs.reset(), TooLong(envs, config.eval_max_steps)
        time_step = done = 0
        while not all(recorder.is_over for recorder in recorders):
            step = envs.step(act(step.observation, step.autoreset, step.legal))
            too_long.cut(step)
            time_step += 1
            for recorder in recorders:
                while recorder.ended:
                    done += 1
                    yield recorder.ended.pop(0)
            watch(done, time_step * num_envs)


def of_replay(
    config: DqnConfig, store: CheckpointStore, checkpoint: Checkpoint
) -> Iterator[RecordedSteps]:
    """Yields the episodes that the replay memory of a checkpoint holds.

    The oldest one of each env may begin in the middle, because its first rows are overwritten;
    the newest one is cut where the checkpoint was taken. Both are kept, but with a frame stack the
    first ones are left out: their first observations would lack frames. Demonstrations that the run
    began with are none of its own.

    Raises:
      CheckpointError: the checkpoint is damaged.
      DataError: it holds no rows of the env's own.
    """
    _require_rows(config, checkpoint)
    with contextlib.closing(envs_beside(config)) as envs:
        spaces = envs.spaces
    space = wanted_space(config.env_id, spaces)
    steps = config.replay_capacity // config.num_envs
    written = max([0, *(chunk_end(name) for name in checkpoint.chunks)]) + 1
    first = config.demonstration_steps
    oldest = max(first, written - steps)
    begun = np.full(config.num_envs, oldest == first or config.stored_stack == 1)
    for env, rows in _episodes(_pieces(store, checkpoint, oldest), config.num_envs):
        whole, begun[env] = begun[env], True
        length = len(rows["action"]) - 1  # the last row is where it ended
        if length < 1 or not whole:
            continue
        terminated = bool(rows["terminated"][length - 1])
        yield RecordedSteps(
            given_back(config.env_id, space, rows["observation"]),
            spaces.actions.to_env(rows["action"][:length].astype(np.int64)),
            rows["reward"][:length].astype(np.float64),
            terminated,
            not terminated,
            rows["legal"].astype(np.int8) if "legal" in rows else None,
        )


def _require_rows(config: DqnConfig, checkpoint: Checkpoint) -> None:
    problem = ""
    if config.rollout:
        problem = "it learns from rollouts (rollout > 0) and has none"
    elif config.loop == "remote":
        problem = "its actors (loop = 'remote') delivered it in pieces, not in whole episodes"
    elif not read_host(checkpoint).raw_rewards:
        problem = "version 0.1 stored rewards scaled and clipped, not as the env paid them"
    if problem:
        raise DataError(f"cannot record the replay memory of this run: {problem}")


def _pieces(store: CheckpointStore, checkpoint: Checkpoint, oldest: int) -> Iterator[Columns]:
    """Yields the rows of a checkpoint from time step `oldest` on, arrays [T, N, ...]."""
    for name, record in checkpoint.chunks.items():
        begin, _, columns = store.rows(name, record)
        skip = max(0, oldest - begin)
        yield {name: column[skip:] for name, column in columns.items()}
    _, newest = split_newest(checkpoint.variables)
    if newest:
        yield newest | {"autoreset": np.zeros_like(newest["autoreset"])}


def _episodes(pieces: Iterable[Columns], num_envs: int) -> Iterator[tuple[int, Columns]]:
    """Cuts rows into episodes: yields (env, rows [L, ...]), the true final observation last."""
    waiting: list[list[Columns]] = [[] for _ in range(num_envs)]
    for rows in pieces:
        for env, own in enumerate(waiting):
            # After such a row there was only a reset: it is the last one of its episode.
            ends = [*(np.flatnonzero(rows["autoreset"][:, env]) + 1)]
            for i, (begin, end) in enumerate(itertools.pairwise([0, *ends, len(rows["action"])])):
                own.append({name: column[begin:end, env] for name, column in rows.items()})
                if i < len(ends):
                    yield env, _joined(own)
                    own.clear()
    for env, own in enumerate(waiting):
        if own:  # what the env is in the middle of
            yield env, _joined(own)


def _joined(pieces: list[Columns]) -> Columns:
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
